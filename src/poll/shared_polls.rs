//! Polls that several processes share: what the loop of a chain needs of the one that divides them.

use std::fmt::Debug;
use std::time::Instant;

use async_trait::async_trait;

use crate::fees::plausibility::Doubt;
use crate::fees::{FeeHistory, HeadReading};
use crate::store::Timestamps;

/// Divides the polls of one chain among processes.
#[async_trait]
pub trait SharedPolls: Debug + Send {
    /// Waits for the next action. Dropping the future may lose a claimed slot or another replica's message.
    async fn next(&mut self) -> Action;

    /// Records the outcome of merging a history. An unusable one does not end its slot.
    fn record_merge(&mut self, received: &SharedFeeHistory, outcome: AdoptOutcome);

    /// Publishes the result of a poll, if any, for the slot of its grant, and schedules the next claim.
    async fn finish_poll(
        &mut self,
        grant: PollGrant,
        outcome: PollOutcome,
        published: Option<SharedFeeHistory>,
    );
}

/// A fee history published by a replica.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedFeeHistory {
    /// Slot that it was polled for.
    pub slot: u64,
    /// Reply of the node.
    pub history: FeeHistory,
    /// Times of the reply by the local clock of ages.
    pub timestamps: Timestamps,
    /// Age of the node's newest block, as far as it tells.
    pub head: HeadReading,
    /// Reasons to doubt a value in the window.
    pub doubts: Vec<Doubt>,
    /// The last reading of rewards at [`GRADED_PERCENTILES`](crate::fees::GRADED_PERCENTILES), if it is new.
    pub reading: Option<FeeHistory>,
}

/// Outcome of merging a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, enum_map::Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum AdoptOutcome {
    /// It is now the published data.
    Adopted,
    /// It is not newer than the published data.
    Duplicate,
    /// It has expired, or its newest block is lower than the published one, slightly or of an earlier time.
    Older,
    /// This replica's pricing cannot compute a suggestion from it.
    Rejected,
    /// Its newest block or its amounts are implausible, and no own upstream confirms them.
    Implausible,
    /// An own upstream contradicts it.
    Contradicted,
    /// It is not a record, or Redis' clock was changed.
    Invalid,
}

/// Next action of a poller.
#[derive(Debug)]
pub enum Action {
    /// Poll, then call [`SharedPolls::finish_poll`].
    Poll(PollGrant),
    /// Adopt the result of another replica, then call [`SharedPolls::record_merge`].
    Adopt(Box<SharedFeeHistory>),
    /// Other replicas polled without a result; nothing to do.
    Skip,
}

/// Reason for a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollGrant {
    /// This replica claimed the slot.
    Claimed(u64),
    /// Redis is unavailable, or other replicas publish nothing. Granted at this time.
    Standalone(Instant),
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
