//! Features beside the heart: what the service does besides telling what gas costs.
//!
//! Each one owns its routes, its section of the configuration and its state. `tests/integration/arrows.rs` shows which
//! room uses which.

pub mod backtest;
pub(crate) mod chart;
pub mod compat;
pub mod delegation;
pub mod demo;
pub(crate) mod pages;
pub mod replicas;
pub mod rpc;
pub mod score;
pub mod trend;
pub mod verification;
