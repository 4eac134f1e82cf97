//! The loop of one chain: wait for a block, fetch, price, publish. With Redis, replicas share the polls by slot.
//!
//! A failed poll leaves the last good value, whose age grows. The loop never ends by itself; dropping its future stops
//! it at any point.

mod active_poll;
mod agreement;
mod asks;
pub(crate) mod chain_parameters;
mod comparisons;
mod doubts;
pub(crate) mod freshness_log;
pub(crate) mod gauges;
pub(crate) mod leaps;
mod reporter;
pub mod schedule;
mod shared_polls;

use std::cmp::Ordering;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config;
use crate::fees::head_tracker::{HeadTracker, REMOTE, Report};
use crate::fees::plausibility::{self, Continuity};
use crate::fees::{self, ChainParameters, FeeHistory, HeadReading, HeaderParameters, MIN_ASKS};
use crate::nodes::circuit_breaker::Availability;
use crate::nodes::{ChainUpstreams, Error, FeeHistoryRequest, UpstreamNode};
use crate::observe::clock;
use crate::observe::metrics::Metrics;
use crate::observe::traces::Span;
use crate::store::{Accepted, Publisher};
use active_poll::{ActivePoll, Finished, UpstreamCall, is_unsynced_genesis};
pub use asks::{AskReader, AskReadings};
use comparisons::{Comparisons, Pair};
use doubts::DoubtLog;
use reporter::PollReporter;
use schedule::PollSchedule;
pub use shared_polls::{
    Action, AdoptOutcome, PollGrant, PollOutcome, SharedFeeHistory, SharedPolls,
};

/// Polls one chain.
#[derive(Debug)]
pub struct Poller {
    chain: config::Chain,
    request: FeeHistoryRequest,
    upstreams: Arc<ChainUpstreams>,
    head_tracker: HeadTracker,
    publisher: Publisher,
    /// Newest parameters in the chain's headers; `None`: the headers are not read.
    header_parameters: Option<watch::Receiver<Option<HeaderParameters>>>,
    reporter: PollReporter,
    doubts: DoubtLog,
    /// Index of the upstream whose reply was published last; `None`: another replica's was.
    in_use: Option<usize>,
    /// Reads of headers that are due. A poll does not wait for them, and they end with the poller.
    head_reads: JoinSet<()>,
    asks: AskReadings,
    comparisons: Comparisons,
    /// The comparison in progress. A poll does not wait for it. `None`: there was nothing to compare.
    comparison: JoinSet<(Pair, Option<bool>)>,
    /// Fee history that was published last; later replies are compared with it.
    last_history: Option<FeeHistory>,
    /// False while an own upstream contradicts the other replicas.
    trusts_replicas: bool,
    /// Records of other replicas that were adopted since the last check against an own upstream.
    unchecked_records: u32,
}

/// Source of poll times.
#[derive(Debug)]
pub enum PollTiming {
    /// Learnt from earlier blocks. With `ws_urls`, also the number of the last announced block.
    Schedule(Option<watch::Receiver<u64>>),
    /// Polls that replicas share.
    Shared(Box<dyn SharedPolls>),
}

impl Poller {
    /// Creates the poller of the chain of `publisher`, with that chain's `upstreams`, and with a receiver of the
    /// parameters in its headers if they are read.
    #[must_use]
    pub fn new(
        upstreams: Arc<ChainUpstreams>,
        publisher: Publisher,
        header_parameters: Option<watch::Receiver<Option<HeaderParameters>>>,
        asks: AskReadings,
        metrics: Metrics,
    ) -> Self {
        let chain = publisher.chain().config().clone();
        Self {
            request: FeeHistoryRequest::new(&chain.pricing),
            upstreams,
            head_tracker: HeadTracker::new(chain.block_time, chain.max_age),
            reporter: PollReporter::new(metrics, &chain),
            publisher,
            header_parameters,
            doubts: DoubtLog::default(),
            in_use: None,
            head_reads: JoinSet::new(),
            asks,
            comparisons: Comparisons::new(clock::now()),
            comparison: JoinSet::new(),
            last_history: None,
            trusts_replicas: true,
            unchecked_records: 0,
            chain,
        }
    }

    /// Polls for ever: for each block, and sooner after a failure. With shared polls, polls the slots of this replica.
    pub async fn run(self, timing: PollTiming) -> Infallible {
        match timing {
            PollTiming::Shared(polls) => self.run_shared(polls).await,
            PollTiming::Schedule(announced) => self.run_standalone(announced).await,
        }
    }

    async fn run_standalone(mut self, mut announced: Option<watch::Receiver<u64>>) -> Infallible {
        let mut schedule = self.new_schedule();
        let mut leaps = self.publisher.chain().leaps();
        loop {
            self.wait_for_poll(&mut schedule, &mut announced, &mut leaps).await;
            let sent = Instant::now();
            let (outcome, _) = self.poll().await;
            match self.publisher.chain().newest_block() {
                Some(head) if outcome == PollOutcome::Accepted => schedule.record_poll(sent, head),
                _ => schedule.record_failure(sent, ChainUpstreams::MAX_RETRY_INTERVAL),
            }
        }
    }

    /// Returns a schedule whose first poll is due now.
    fn new_schedule(&self) -> PollSchedule {
        let max_polls = self.chain.max_polls_per_block.get();
        PollSchedule::new(self.chain.block_time, max_polls, Instant::now())
    }

    /// Waits until a poll is due by `schedule`, until an unknown block is announced, or until asks have come for a
    /// price without any. After a leap of a clock it is due at once, and the times of blocks before are forgotten.
    async fn wait_for_poll(
        &self,
        schedule: &mut PollSchedule,
        announced: &mut Option<watch::Receiver<u64>>,
        leaps: &mut watch::Receiver<Option<Instant>>,
    ) {
        loop {
            let new_announcement = async {
                let Some(announced) = announced else { return std::future::pending().await };
                while announced.changed().await.is_ok() {
                    if self.is_plausible_new_block(*announced.borrow_and_update()) {
                        return;
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = tokio::time::sleep_until(schedule.next().into()) => return,
                () = new_announcement => schedule.record_announcement(Instant::now()),
                () = self.first_asks() => return,
                Ok(()) = leaps.changed() => *schedule = self.new_schedule(),
            }
        }
    }

    /// Waits until enough asks are read for a price that was made without them. A chain whose blocks have none never has.
    async fn first_asks(&self) {
        let chain = self.publisher.chain();
        let newest = chain.newest_snapshot();
        if newest.is_none_or(|it| it.market.strategy == self.chain.pricing.strategy) {
            std::future::pending::<()>().await;
        }
        loop {
            self.asks.changed().await;
            let asks = chain.read_together(|recent| recent.newest_asks(MIN_ASKS));
            if asks.blocks.len() >= MIN_ASKS {
                return;
            }
        }
    }

    /// Returns true if a block with this number may exist and is not known yet.
    fn is_plausible_new_block(&self, number: u64) -> bool {
        /// Larger gaps belong to another chain; polls catch up with smaller ones.
        const MAX_BLOCKS_AHEAD: u64 = 128;
        self.publisher.chain().newest_block().is_none_or(|newest| {
            (newest.saturating_add(1)..=newest.saturating_add(MAX_BLOCKS_AHEAD)).contains(&number)
        })
    }

    async fn run_shared(mut self, mut polls: Box<dyn SharedPolls>) -> Infallible {
        loop {
            match polls.next().await {
                Action::Poll(permit) => {
                    let (outcome, published) = self.poll().await;
                    let published = published.and_then(|history| self.shared(history));
                    polls.finish_poll(permit, outcome, published).await;
                }
                Action::Adopt(publication) => {
                    let merge_outcome = self.adopt(&publication).await;
                    self.publisher.mark_polled();
                    polls.record_merge(&publication, merge_outcome);
                }
                // Other replicas have polled in vain, which counts as the first poll here too.
                Action::Skip => self.publisher.mark_polled(),
            }
        }
    }

    /// Returns the record of a `history` that was just published, for the other replicas. [`SharedPolls`] sets its slot.
    fn shared(&self, history: FeeHistory) -> Option<SharedFeeHistory> {
        let (chain, head) = (self.publisher.chain(), history.newest_block());
        let upstream = self.in_use.and_then(|index| self.upstreams.polled().get(index));
        Some(SharedFeeHistory {
            slot: 0,
            history,
            timestamps: chain.timestamps()?,
            head: upstream.map(UpstreamNode::head).unwrap_or_default(),
            doubts: chain.newest_snapshot()?.doubts.clone(),
            reading: self.asks.new_reading(head),
        })
    }

    /// Publishes what another replica polled, if it is newer and plausible.
    fn merge_remote(&mut self, publication: &SharedFeeHistory) -> AdoptOutcome {
        let SharedFeeHistory { history, timestamps, head: reading, doubts, .. } = publication;
        let chain = self.publisher.chain();
        let (head, last) = (history.newest_block(), chain.newest_block());
        let last_observed_at = chain.timestamps().map(|last| last.observed_at);
        if last_observed_at >= Some(timestamps.observed_at) {
            match last.cmp(&Some(head)) {
                Ordering::Less => {}
                Ordering::Equal => return AdoptOutcome::Duplicate,
                // An earlier reply says nothing against a later one, however often it is read.
                Ordering::Greater => return AdoptOutcome::Older,
            }
        }
        if clock::elapsed(timestamps.observed_at) >= self.chain.max_age {
            return AdoptOutcome::Older;
        }
        let Ok(market) = fees::price(history, &[], &self.chain.pricing, &self.chain_parameters())
        else {
            return AdoptOutcome::Rejected;
        };
        if is_unsynced_genesis(history, &self.chain) {
            return AdoptOutcome::Rejected;
        }
        let report = self.remote_report(history, *reading);
        self.head_tracker.set_leap(chain.last_leap());
        let mut round = self.head_tracker.start_round(clock::now());
        round.set_reported_at(timestamps.observed_at);
        let is_plausible = round.check(report).is_ok();
        let is_confirmed = round.finish().confirmed.is_some();
        if !is_plausible && !is_confirmed {
            let is_slightly_older = last.is_some_and(|last| {
                (head..=head.saturating_add(HeadTracker::TOLERANCE_BLOCKS)).contains(&last)
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
        self.in_use = None;
        self.last_history = Some(history.clone());
        self.reporter.record_merged(last.is_some_and(|last| head < last));
        self.asks.record_published(true, publication.reading.as_ref());
        AdoptOutcome::Adopted
    }

    /// Returns the parameters in force, with the newest ones of the chain's headers.
    fn chain_parameters(&self) -> ChainParameters {
        let newest = self.header_parameters.as_ref().and_then(|newest| *newest.borrow());
        ChainParameters::new(&self.chain.pricing, newest)
    }

    fn remote_report(&self, history: &FeeHistory, head: HeadReading) -> Report {
        let head = head.for_reply(history.newest_block(), self.chain.block_time);
        report(REMOTE, history, head, self.last_history.as_ref(), &self.chain)
    }

    /// Adopts what another replica polled. An implausible record is checked against this replica's own upstreams, and
    /// so is every record now and then. While an own upstream contradicts the others, this replica polls for itself.
    async fn adopt(&mut self, publication: &SharedFeeHistory) -> AdoptOutcome {
        let is_check_due = !self.trusts_replicas
            || self.unchecked_records >= Comparisons::POLL_INTERVAL
            || self.is_in_doubt();
        if !is_check_due {
            let outcome = self.merge_remote(publication);
            if outcome != AdoptOutcome::Implausible {
                self.unchecked_records += u32::from(outcome == AdoptOutcome::Adopted);
                return outcome;
            }
        }
        let remote = &publication.history;
        let suspicious = (!is_check_due).then(|| self.remote_report(remote, publication.head));
        let (outcome, own) = self.poll_recorded(CallOrder::ByPreference, suspicious).await;
        // An upstream that contradicts the others is asked again before its claim says nothing any more.
        let is_unconfirmed = outcome == PollOutcome::Unconfirmed;
        let interval = Comparisons::POLL_INTERVAL;
        self.unchecked_records = if is_unconfirmed { interval - interval / 4 } else { 0 };
        let Some(own) = own else {
            // Without an own reply there is nothing to check against.
            return if is_check_due {
                self.merge_remote(publication)
            } else {
                AdoptOutcome::Implausible
            };
        };
        let is_contradicted = match plausibility::compare(remote, &own) {
            Continuity::Rewritten => true,
            _ => remote.newest_block().abs_diff(own.newest_block()) > HeadTracker::TOLERANCE_BLOCKS,
        };
        self.trusts_replicas = !is_contradicted;
        if is_contradicted {
            return AdoptOutcome::Contradicted;
        }
        match self.merge_remote(publication) {
            // The own reply is as new.
            AdoptOutcome::Older | AdoptOutcome::Implausible => AdoptOutcome::Duplicate,
            outcome => outcome,
        }
    }

    /// Returns true if an own upstream contradicts the published head. With `agreement` most upstreams have reported that, so
    /// one that lags is no reason for polls.
    fn is_in_doubt(&self) -> bool {
        self.chain.agreement.get() == 1 && self.head_tracker.is_in_doubt()
    }

    /// Polls once and records the outcome.
    async fn poll(&mut self) -> (PollOutcome, Option<FeeHistory>) {
        self.poll_recorded(CallOrder::ByHealth, None).await
    }

    /// Polls once, after another replica's suspicious report if any, and records the outcome.
    async fn poll_recorded(
        &mut self,
        order: CallOrder,
        remote: Option<Report>,
    ) -> (PollOutcome, Option<FeeHistory>) {
        let started = Instant::now();
        let mut span = Span::for_poll(&self.chain.key);
        // Boxed, so that the poller holds the state of a poll only during one.
        let upstreams = Box::pin(self.poll_upstreams(order, remote));
        let (outcome, published) = span.instrument(upstreams).await;
        let is_success = outcome == PollOutcome::Accepted;
        if is_success {
            span.record_success();
        } else {
            span.record_failure("failed");
        }
        drop(span);
        self.reporter.record_poll(is_success, started.elapsed());
        self.publisher.mark_polled();
        (outcome, published)
    }

    /// At the start calls all upstreams at once. Later calls the first healthy one. If it returns nothing to publish, calls all others at once; the first good
    /// reply is published. This takes at most two attempt deadlines, however many upstreams are silent. The others are
    /// also called if the head seems late; then a higher head wins. If none had a good reply and one timed out, the
    /// next poll waits longer.
    ///
    /// With `agreement`, calls that many at once instead, and publishes what most of them agree on.
    async fn poll_upstreams(
        &mut self,
        order: CallOrder,
        remote: Option<Report>,
    ) -> (PollOutcome, Option<FeeHistory>) {
        let now = clock::now();
        self.finish_comparison();
        let chain_parameters = self.chain_parameters();
        let Self {
            chain,
            request,
            upstreams,
            head_tracker,
            publisher,
            reporter,
            doubts,
            last_history,
            ..
        } = self;
        let mut candidates = upstreams.poll_candidates(now);
        if order == CallOrder::ByPreference {
            candidates.sort_by_key(|candidate| candidate.index);
        }
        head_tracker.set_leap(publisher.chain().last_leap());
        let mut round = head_tracker.start_round(now);
        if let Some(remote) = remote
            && let Some(reason) = round.suspicion(remote)
        {
            round.add_suspicious(remote, reason);
        }
        let call = UpstreamCall {
            chain,
            chain_parameters,
            request,
            deadline: upstreams.attempt_deadline(),
            earlier: last_history.as_ref(),
            limits: round.limits(),
        };
        let is_start = publisher.chain().newest_block().is_none();
        let mut active_poll = ActivePoll::new(&call, round, upstreams, publisher, doubts, reporter);
        match chain.agreement.get() {
            1 if is_start => Box::pin(active_poll.poll_all(&candidates)).await,
            1 => active_poll.poll_in_order(&candidates).await,
            count => active_poll.poll_agreeing(&candidates, count).await,
        }
        active_poll.adapt_deadline();
        let Finished { outcome, source, published } = active_poll.finish();
        if let Some(published) = &published {
            *last_history = Some(published.clone());
            self.in_use = source;
            self.compare_if_due(published);
            // After a check of another replica's record, that replica reads.
            self.asks.record_published(order == CallOrder::ByPreference, None);
        }
        self.start_head_reads();
        (outcome, published)
    }
}

impl Poller {
    /// Starts to read the headers that are due, unless the last reads have not ended.
    fn start_head_reads(&mut self) {
        while self.head_reads.try_join_next().is_some() {}
        let (upstreams, in_use) = (Arc::clone(&self.upstreams), self.in_use);
        if self.head_reads.is_empty() && upstreams.has_due_head(in_use) {
            // A node without headers gets two calls. Nothing waits for them.
            let deadline = 2 * upstreams.attempt_deadline();
            self.head_reads.spawn(async move { upstreams.read_due_heads(in_use, deadline).await });
        }
    }
}

impl Poller {
    /// Starts to compare the reply that was just published with that of another upstream, if that is due. With
    /// `agreement` each poll compares.
    fn compare_if_due(&mut self, published: &FeeHistory) {
        if self.chain.agreement.get() > 1 {
            return;
        }
        let now = clock::now();
        let is_due = self.comparisons.record_poll(now);
        let Some(in_use) = self.in_use.filter(|_| is_due && self.comparison.is_empty()) else {
            return;
        };
        let others = self.upstreams.polled().iter().enumerate().filter(|(index, upstream)| {
            *index != in_use && upstream.availability(now) != Availability::Excluded
        });
        let others: Vec<_> = others.map(|(index, _)| index).collect();
        let Some(other) = self.comparisons.begin(&others, now) else { return };
        let (pair, published) = (Pair { in_use, other }, published.clone());
        let (request, pricing) = (self.request.clone(), self.chain.pricing);
        let upstreams = Arc::clone(&self.upstreams);
        let deadline = upstreams.attempt_deadline();
        self.comparison.spawn(async move {
            let Some(node) = upstreams.polled().get(other) else { return (pair, None) };
            match node.fee_history(&request, deadline).await {
                Ok(history) => (pair, plausibility::agree(&published, &history, &pricing)),
                Err(error) => {
                    // Polls decide about other failures: the reply was not needed.
                    if matches!(error, Error::RateLimited(_)) {
                        node.record_failure(&error);
                    }
                    (pair, None)
                }
            }
        });
    }

    /// Records the result of the last comparison, if it has ended.
    fn finish_comparison(&mut self) {
        while let Some(ended) = self.comparison.try_join_next() {
            let Ok((pair, agrees)) = ended else { continue };
            let change = agrees.and_then(|agrees| self.comparisons.record(pair, agrees));
            self.reporter.record_comparison(pair, agrees, change);
            let has_disagreement = self.comparisons.has_disagreement();
            self.reporter.set_disagreement(has_disagreement);
            self.doubts.set_disagreement(has_disagreement);
        }
    }
}

/// Order in which a poll calls the upstreams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallOrder {
    /// Healthy ones first.
    ByHealth,
    /// The first one first, even if it failed lately: it is asked to check what others say.
    ByPreference,
}

/// Returns what the head tracker checks of this reply, or record, after the `earlier` one.
fn report(
    upstream: usize,
    history: &FeeHistory,
    head: HeadReading,
    earlier: Option<&FeeHistory>,
    chain: &config::Chain,
) -> Report {
    Report {
        upstream,
        head: history.newest_block(),
        base_fee: history.newest_known_base_fee(),
        block_age: head.block_age(chain.max_block_age()),
        is_of_now: head.header().is_some_and(|header| {
            let max_age = chain.stall_after().unwrap_or_default().max(chain.stale_after());
            header.number >= history.newest_block() && header.age <= max_age
        }),
        suspicious_amounts: plausibility::suspicious_amounts(history, earlier, &chain.pricing),
    }
}

#[cfg(test)]
mod tests;
