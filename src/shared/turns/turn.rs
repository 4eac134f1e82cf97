//! What there is to do, and what came of it.

use super::super::publication::Publication;
use crate::fees::FeeHistory;

/// What there is to do.
#[derive(Debug)]
pub enum Turn {
    /// To poll, and to [`conclude`](super::Turns::conclude) that.
    Poll(Permit),
    /// To take what another replica has polled, and to say [what came of it](super::Turns::took).
    Adopt(Publication),
    /// Another replica has polled in vain: there is nothing to do.
    Failed,
}

/// What a poll is by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// A claim.
    Slot(u64),
    /// Nobody else can be asked.
    Alone,
}

/// What came of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// An answer that could be believed.
    Good,
    /// None, but one whose newest block may yet be.
    InDoubt,
    /// None.
    Failed,
}

/// What a poll has published here.
#[derive(Debug)]
pub struct Published {
    /// What a node said.
    pub history: FeeHistory,
    /// Whether the head went back, or leapt, which was believed only when it was confirmed.
    pub was_confirmed: bool,
}

/// When a replica goes for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// As soon as the slot begins: it had the last one.
    First,
    /// A moment later.
    Among,
    /// After those: its last poll has failed.
    Last,
}
