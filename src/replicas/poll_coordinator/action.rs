//! Actions of the coordinator and outcomes of polls.

use super::super::shared_fee_history::SharedFeeHistory;
use crate::fees::FeeHistory;

/// Next action of a poller.
#[derive(Debug)]
pub enum Action {
    /// Poll, then call [`finish_poll`](super::PollCoordinator::finish_poll).
    Poll(PollGrant),
    /// Adopt the result of another replica, then call [`record_merge`](super::PollCoordinator::record_merge).
    Adopt(SharedFeeHistory),
    /// Another replica has polled in vain: there is nothing to do.
    Skip,
}

/// Reason for a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollGrant {
    /// A claim.
    Claimed(u64),
    /// Redis is unavailable, or other replicas publish nothing.
    Standalone,
}

/// Outcome of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollOutcome {
    /// An answer that could be believed.
    Accepted,
    /// None, but one whose newest block may yet be.
    Unconfirmed,
    /// None.
    Failed,
}

/// Result of a poll that was published here.
#[derive(Debug)]
pub struct PublishedPoll {
    /// Reply of the node.
    pub history: FeeHistory,
    /// True if the head went back, or leapt, which was believed only when it was confirmed.
    pub was_confirmed: bool,
}

/// When a replica goes for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimPriority {
    /// As soon as the slot begins: it had the last one.
    Holder,
    /// A moment later.
    Normal,
    /// After those: its last poll has failed.
    Backoff,
}
