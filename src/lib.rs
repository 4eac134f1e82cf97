//! Gas price suggestions for EVM networks.
//!
//! A number travels one way:
//!
//! ```text
//! config ─▶ rpc ─▶ poller ─▶ fees ─▶ book ─▶ api
//!           IO     time      pure    state   HTTP
//!            └─────────────▶ reads ──────────┘
//! ```
//!
//! [`config`] says which chains there are. Each has a [`poller`] that asks its nodes through
//! [`upstream`] for the recent fee history, lets [`fees`] price it by the network's rules, and publishes
//! the result in the [`store`], which is all that [`api`] ever reads for them. [`reads`] passes clients'
//! reads of chain state on to the same nodes, [`delegation`] reads a contract through it or asks an API
//! through a [`proxy`], as contract verification does. [`server`] puts them together, [`demo`] provides recorded
//! chains to run against, [`backtest`] replays recorded ones through [`fees`], [`cli`] is the command line.

mod address;
pub mod api;
pub mod backtest;
mod chart;
pub mod cli;
mod client_limits;
pub mod config;
pub mod delegation;
mod delegation_registry;
pub mod demo;
mod etag;
pub mod fees;
mod gauges;
pub mod head_tracker;
mod http_client;
mod jitter;
mod json;
mod listener;
mod log_on_change;
pub mod logging;
mod memory_budget;
pub mod metrics;
pub mod poll_schedule;
pub mod poller;
pub mod proxy;
pub mod reads;
mod redaction;
pub mod replicas;
pub mod server;
pub mod store;
pub mod traces;
pub mod upstream;
mod wire;
