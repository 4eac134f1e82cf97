//! From the socket to a handler: connections, limits, memory, bodies, the access log and problems.

pub(crate) mod access_log;
pub(crate) mod app;
pub(crate) mod chunked_body;
pub(crate) mod client_limits;
mod compression;
pub(crate) mod conditional;
pub(crate) mod cors;
pub(crate) mod headers;
pub(crate) mod listener;
pub(crate) mod memory_limit;
pub(crate) mod problem;
pub(crate) mod query;
pub(crate) mod request_body;
pub(crate) mod request_checks;
pub(crate) mod request_id;
pub(crate) mod response_body;
pub(crate) mod serving_threads;
pub(crate) mod static_body;
pub(crate) mod vary;
