//! Metrics, log lines, traces and redaction, for operators. The memory that clients may hold. The clock of ages.

pub(crate) mod clock;
pub(crate) mod http_client;
pub(crate) mod log_on_change;
pub mod logging;
pub mod memory_budget;
pub mod metrics;
pub(crate) mod redaction;
pub mod traces;
