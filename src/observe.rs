//! What operators see: logs, metrics, traces, without secrets. And the memory that clients may hold.

pub(crate) mod log_on_change;
pub mod logging;
pub mod memory_budget;
pub mod metrics;
pub(crate) mod redaction;
pub mod traces;
