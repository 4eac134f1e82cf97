//! Polls that several processes share: what the loop of a chain needs of the one that divides them.

use std::convert::Infallible;
use std::fmt::Debug;
use std::time::Instant;

use async_trait::async_trait;

use super::active_poll::price;
use super::comparisons::Comparisons;
use super::judge::{Judge, REMOTE};
use super::{Poller, report};
use crate::fees::plausibility::{self, Continuity, Doubt};
use crate::fees::{FeeHistory, HeadReading};
use crate::nodes::UpstreamNode;
use crate::observe::clock;
use crate::store::{Accepted, Timestamps};

/// Divides the polls of one chain among processes.
#[async_trait]
pub trait SharedPolls: Debug + Send {
    /// Waits for the next action. Dropping the future may lose a claimed slot or the message of another process.
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

/// A fee history published by a process.
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
    /// This process's pricing cannot compute a suggestion from it.
    Rejected,
    /// Its newest block or its amounts are implausible, and no own upstream confirms them.
    Implausible,
    /// An own upstream contradicts it.
    Contradicted,
    /// It is not a record, or the shared clock was changed.
    Invalid,
}

/// Next action of a poller.
#[derive(Debug)]
pub enum Action {
    /// Poll, then call [`SharedPolls::finish_poll`].
    Poll(PollGrant),
    /// Adopt the result of another process, then call [`SharedPolls::record_merge`].
    Adopt(Box<SharedFeeHistory>),
}

/// Reason for a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollGrant {
    /// This process claimed the slot.
    Claimed(u64),
    /// Nothing can be shared, or other processes publish nothing. Granted at this time.
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

impl Poller {
    pub(super) async fn run_shared(mut self, mut polls: Box<dyn SharedPolls>) -> Infallible {
        loop {
            match polls.next().await {
                Action::Poll(permit) => {
                    let (outcome, published) = self.poll(false).await;
                    let published = published.and_then(|history| self.shared(history));
                    polls.finish_poll(permit, outcome, published).await;
                }
                Action::Adopt(publication) => {
                    let merge_outcome = self.adopt(&publication).await;
                    self.publisher.mark_polled();
                    polls.record_merge(&publication, merge_outcome);
                }
            }
        }
    }

    /// Returns the record of a `history` that was just published, for other processes. [`SharedPolls`] sets its slot.
    fn shared(&self, history: FeeHistory) -> Option<SharedFeeHistory> {
        let (chain, head) = (self.publisher.chain(), history.newest_block());
        let upstream = self.judge.source().and_then(|index| self.upstreams.polled().get(index));
        Some(SharedFeeHistory {
            slot: 0,
            history,
            timestamps: chain.timestamps()?,
            head: upstream.map(UpstreamNode::head).unwrap_or_default(),
            doubts: chain.newest_snapshot()?.doubts.clone(),
            reading: self.asks.new_reading(head),
        })
    }

    /// Publishes what another process polled, if it is newer and plausible.
    pub(super) fn merge_remote(&mut self, publication: &SharedFeeHistory) -> AdoptOutcome {
        let SharedFeeHistory { history, timestamps, head: reading, doubts, .. } = publication;
        let chain = self.publisher.chain();
        let (head, last) = (history.newest_block(), chain.newest_block());
        let last_observed_at = chain.timestamps().map(|last| last.observed_at);
        let is_earlier = last_observed_at >= Some(timestamps.observed_at);
        if is_earlier && last == Some(head) {
            return AdoptOutcome::Duplicate;
        }
        // An earlier reply says nothing against a later one, however often it is read.
        let has_expired = clock::elapsed(timestamps.observed_at) >= self.chain.max_age;
        if has_expired || (is_earlier && last > Some(head)) {
            return AdoptOutcome::Older;
        }
        let parameters = self.publisher.chain_parameters();
        let Ok(market) = price(history, &self.chain, &parameters) else {
            return AdoptOutcome::Rejected;
        };
        let report = report(
            REMOTE,
            history,
            reading.for_reply(head, self.chain.block_time),
            self.last_history.as_ref(),
            &self.chain,
            &parameters,
        );
        self.judge.set_leap(chain.last_leap());
        let mut round = self.judge.start_round(clock::now());
        round.set_reported_at(timestamps.observed_at);
        let is_plausible = round.check(report).is_ok();
        let is_confirmed = round.finish(clock::now()).confirmed.is_some();
        if !is_plausible && !is_confirmed {
            let is_slightly_older = last.is_some_and(|last| {
                (head..=head.saturating_add(Judge::TOLERANCE_BLOCKS)).contains(&last)
            }) && report.suspicious_amounts.is_none();
            return if is_slightly_older { AdoptOutcome::Older } else { AdoptOutcome::Implausible };
        }
        self.reporter.record_floors(&market, &self.chain.pricing);
        self.publisher.publish(Accepted {
            timestamps: *timestamps,
            head: reading.for_reply(head, self.chain.block_time),
            doubts: doubts.clone(),
            ..Accepted::now(history, market)
        });
        self.last_history = Some(history.clone());
        self.reporter.record_published(None, last.is_some_and(|last| head < last));
        self.asks.record_published(true, publication.reading.as_ref());
        AdoptOutcome::Adopted
    }

    /// Adopts what another process polled. An implausible record is checked against this process's own upstreams, and
    /// so is every record now and then. While an own upstream contradicts the others, this process polls for itself.
    async fn adopt(&mut self, publication: &SharedFeeHistory) -> AdoptOutcome {
        let is_check_due = self.records_until_check == 0 || self.is_in_doubt();
        if !is_check_due {
            let outcome = self.merge_remote(publication);
            if outcome != AdoptOutcome::Implausible {
                self.records_until_check -= u32::from(outcome == AdoptOutcome::Adopted);
                return outcome;
            }
        }
        let (outcome, own) = self.poll(true).await;
        // An upstream that contradicts the others is asked again before its claim says nothing any more.
        let is_unconfirmed = outcome == PollOutcome::Unconfirmed;
        let interval = Comparisons::POLL_INTERVAL;
        self.records_until_check = if is_unconfirmed { interval / 4 } else { interval };
        let Some(own) = own else {
            // Without an own reply there is nothing to check against.
            return if is_check_due {
                self.merge_remote(publication)
            } else {
                AdoptOutcome::Implausible
            };
        };
        let remote = &publication.history;
        let is_contradicted = match plausibility::compare(remote, &own) {
            Continuity::Rewritten => true,
            _ => remote.newest_block().abs_diff(own.newest_block()) > Judge::TOLERANCE_BLOCKS,
        };
        if is_contradicted {
            self.records_until_check = 0;
            return AdoptOutcome::Contradicted;
        }
        self.merge_remote(publication)
    }

    /// Returns true if an own upstream contradicts the published head. With `agreement` most upstreams have reported that, so
    /// one that lags is no reason for polls.
    fn is_in_doubt(&self) -> bool {
        self.chain.agreement.get() == 1 && self.judge.is_in_doubt()
    }
}
