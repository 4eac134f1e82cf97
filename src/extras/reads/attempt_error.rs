//! Errors of a read at one node.

use std::time::Duration;

use crate::nodes::{Error, Exhausted, ReadError};

/// Reason why one node has not answered a read.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    #[error(transparent)]
    Node(#[from] Error),
    /// The reads of clients, or of this one, have used up their budget of this node. No call was sent.
    #[error("the read budget of the node is exhausted")]
    BudgetExhausted(Exhausted),
    /// The node's chain could not be verified, or this read waited for another one that could not. The call was not sent.
    #[error("the chain of the node could not be verified")]
    ChainUnverified,
}

impl AttemptError {
    /// Label of an exhausted budget.
    pub(super) const BUDGET_EXHAUSTED: &str = "budget_exhausted";

    /// Label of the error, from a closed list.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Node(error) => error.reason(),
            Self::BudgetExhausted(_) => Self::BUDGET_EXHAUSTED,
            Self::ChainUnverified => "unverified_chain",
        }
    }

    /// Returns true if the next node may succeed after this error.
    pub(super) fn allows_failover(&self, is_retryable: bool) -> bool {
        match self {
            Self::Node(Error::TooLarge(_) | Error::NoMemory(_)) => false,
            // The node did not process the call.
            Self::BudgetExhausted(_)
            | Self::ChainUnverified
            | Self::Node(
                Error::Unreachable(_)
                | Error::RateLimited(_)
                | Error::Unsupported
                | Error::WrongChain { .. },
            ) => true,
            Self::Node(_) => is_retryable,
        }
    }
}

impl From<&AttemptError> for ReadError {
    fn from(error: &AttemptError) -> Self {
        /// Time to wait if the node names none.
        const USUAL_WAIT: Duration = Duration::from_secs(1);
        match error {
            AttemptError::Node(Error::RateLimited(wait)) => {
                Self::RateLimited(wait.unwrap_or(USUAL_WAIT))
            }
            AttemptError::Node(Error::TooLarge(_)) => Self::TooLarge,
            AttemptError::Node(Error::Unsupported) => Self::Unsupported,
            AttemptError::BudgetExhausted(exhausted) => Self::BudgetExhausted(*exhausted),
            AttemptError::Node(Error::NoMemory(_)) => Self::NoMemory,
            AttemptError::Node(_) | AttemptError::ChainUnverified => Self::Unavailable,
        }
    }
}
