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
    /// Another replica's poll failed; nothing to do.
    Skip,
}

/// Reason for a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollGrant {
    /// This replica claimed the slot.
    Claimed(u64),
    /// Redis is unavailable, or other replicas publish nothing.
    Standalone,
}

/// Outcome of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollOutcome {
    /// An accepted reply.
    Accepted,
    /// No accepted reply, but one whose head may still be confirmed.
    Unconfirmed,
    /// No usable reply.
    Failed,
}

/// Result of a poll that was published here.
#[derive(Debug)]
pub struct PublishedPoll {
    /// Reply of the node.
    pub history: FeeHistory,
    /// True if the head regressed or jumped and was confirmed.
    pub was_confirmed: bool,
}

/// Priority of a replica's next claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimPriority {
    /// At the start of the slot, because it held the last one.
    Holder,
    /// A moment later.
    Normal,
    /// After the others, because its last poll failed.
    Backoff,
}
