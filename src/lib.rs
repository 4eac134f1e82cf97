//! Gas price suggestions for EVM networks.
//!
//! Data flows in one direction:
//!
//! ```text
//! nodes ─▶ poll ──────────────────────▶ store ─▶ api ◀─ http ◀─ clients
//! JSON-RPC one task per chain           state    routes  connections
//!          calls fees
//! ```
//!
//! [`config`] defines the chains. Each chain has a poller in [`poll`] that fetches the recent fee history from its
//! [`nodes`], prices it with [`fees`], and publishes the result in the [`store`], the only source of [`api`] for fees.
//! [`http`] has all between a socket and a handler, [`observe`] what operators see. [`extras`] are the features beside
//! this heart, which [`assembly`] lets join. [`server`] builds and runs all of them, [`cli`] is the command line.
//!
//! Which room uses which is a rule, and a test holds it: docs/architecture.md.

pub mod api;
pub mod assembly;
pub mod cli;
pub mod config;
pub mod extras;
pub mod fees;
pub mod http;
pub mod nodes;
pub mod observe;
pub mod poll;
pub mod server;
pub mod store;
