//! Calls beside the polls: of the service itself, and of others who use the nodes. Reads make them.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

/// Makes calls of the service itself to the nodes of one chain. No poll waits for one.
#[async_trait]
pub trait ServiceReads: fmt::Debug + Send + Sync {
    /// Calls `method`. `params` is a JSON array. Returns the `result`, or `None` for a node's own error. Ends within
    /// `timeout`.
    async fn read_for_service(
        &self,
        method: &str,
        params: String,
        timeout: Duration,
    ) -> Result<Option<Bytes>, ReadError>;
}

/// Reason why no node answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No response before the deadline.
    #[error("no upstream responded in time")]
    TimedOut,
    /// All available nodes limit the rate. A retry can succeed after this time.
    #[error("the upstreams are rate limiting; retry later")]
    RateLimited(Duration),
    /// The reads, or those of this client, have used up their budget of every available node.
    #[error("{0}")]
    BudgetExhausted(Exhausted),
    /// The response exceeds the size limit.
    #[error("the response is too large; request less")]
    TooLarge,
    /// The memory budget is exhausted.
    #[error("too many large responses in flight; retry later")]
    NoMemory,
    /// No node has the method.
    #[error("the upstreams do not support the method")]
    Unsupported,
    /// No node is available, or none returned a usable response.
    #[error("no upstream returned a usable response")]
    Unavailable,
}

/// Error: a budget is used up. Displays as the message for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted {
    /// Time until a call may be sent.
    pub wait: Duration,
    /// True if only this client has to wait.
    pub is_share: bool,
}

impl Exhausted {
    /// Returns the wait in whole seconds, at least one.
    pub(crate) fn retry_after(self) -> u64 {
        self.wait.as_secs().saturating_add(1)
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = if self.is_share {
            "this client has used its share of the reads per minute"
        } else {
            "the upstreams are rate limiting"
        };
        write!(out, "{reason}; retry in {} s", self.retry_after())
    }
}
