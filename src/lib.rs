//! Gas price suggestions for EVM networks.
//!
//! Data flows in one direction:
//!
//! ```text
//! nodes ─▶ upstream ─▶ poller ─────────────────▶ store ─▶ api ◀─ listener ◀─ clients
//!          JSON-RPC    one loop per chain        state    HTTP   connections
//!             │        calls fees, head_tracker,           ▲
//!             │        poll_schedule, replicas             │
//!             └──────────────▶ reads ──────────────────────┘
//! ```
//!
//! [`config`] defines the chains. Each chain has a [`poller`] that fetches the recent fee history from its nodes
//! through [`upstream`], prices it with [`fees`], and publishes the result in the [`store`], the only source of [`api`]
//! for fees. [`reads`] forwards clients' reads of chain state to the same nodes. [`delegation`] reads a contract
//! through [`reads`] or queries an API through a [`proxy`]. Contract verification uses a [`proxy`] too. [`server`]
//! builds and runs all of them, [`demo`] provides recorded chains, [`backtest`] replays recordings through [`fees`],
//! [`cli`] is the command line.

mod address;
pub mod api;
pub mod backtest;
mod chain_parameters;
mod chart;
mod circuit_breaker;
pub mod cli;
mod client_limits;
pub mod compat;
pub mod config;
pub mod delegation;
mod delegation_registry;
pub mod demo;
mod etag;
pub mod fee_trend;
pub mod fees;
mod freshness_log;
mod gauges;
mod history_file;
mod history_refill;
mod http_client;
mod jitter;
mod json;
mod listener;
mod log_on_change;
pub mod logging;
pub mod memory_budget;
mod memory_limit;
pub mod metrics;
mod nearest;
pub mod poll_schedule;
pub mod poller;
pub mod proxy;
pub mod reads;
mod redaction;
pub mod replicas;
pub mod score;
pub mod server;
mod serving_threads;
mod start_summary;
pub mod statistics;
pub mod store;
pub mod traces;
pub mod upstream;
mod wire;
