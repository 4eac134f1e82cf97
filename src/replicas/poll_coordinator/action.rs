//! What there is to do, and what came of it.

use super::super::shared_fee_history::SharedFeeHistory;
use crate::fees::FeeHistory;

/// What there is to do.
#[derive(Debug)]
pub enum Action {
    /// To poll, and to [`conclude`](super::Turns::conclude) that.
    Poll(PollGrant),
    /// To take what another replica has polled, and to say [what came of it](super::Turns::took).
    Adopt(SharedFeeHistory),
    /// Another replica has polled in vain: there is nothing to do.
    Skip,
}

/// What a poll is by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollGrant {
    /// A claim.
    Claimed(u64),
    /// Nobody else can be asked.
    Standalone,
}

/// What came of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollOutcome {
    /// An answer that could be believed.
    Accepted,
    /// None, but one whose newest block may yet be.
    Unconfirmed,
    /// None.
    Failed,
}

/// What a poll has published here.
#[derive(Debug)]
pub struct PublishedPoll {
    /// What a node said.
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
