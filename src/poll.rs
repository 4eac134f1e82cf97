//! The loop of one chain: wait for a block, fetch, price, publish. Several processes may share the polls by slot.
//!
//! A failed poll leaves the last good value, whose age grows. The loop never ends by itself; dropping its future stops
//! it at any point.

mod active_poll;
mod agreement;
mod asks;
mod comparisons;
mod doubts;
pub(crate) mod facts;
pub(crate) mod freshness_log;
pub(crate) mod gauges;
pub mod judge;
pub(crate) mod leaps;
mod reporter;
pub mod schedule;
mod shared_polls;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config;
use crate::fees::plausibility;
use crate::fees::{ChainParameters, FeeHistory, HeadReading, MIN_ASKS};
use crate::nodes::{ChainUpstreams, FeeHistoryRequest};
use crate::observe::clock;
use crate::observe::metrics::Metrics;
use crate::observe::traces::Span;
use crate::store::Publisher;
use active_poll::{ActivePoll, UpstreamCall};
pub use asks::{AskReader, AskReadings};
use comparisons::{Comparisons, Pair};
use doubts::DoubtLog;
use judge::{Judge, Report};
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
    judge: Judge,
    publisher: Publisher,
    reporter: PollReporter,
    doubts: DoubtLog,
    asks: AskReadings,
    comparisons: Comparisons,
    /// The comparison in progress. A poll does not wait for it. `None`: there was nothing to compare.
    comparison: JoinSet<(Pair, Option<bool>)>,
    /// Fee history that was published last; later replies are compared with it.
    last_history: Option<FeeHistory>,
    /// Records of other processes that are adopted before the next check against an own upstream.
    records_until_check: u32,
}

/// Source of poll times.
#[derive(Debug)]
pub enum PollTiming {
    /// Learnt from earlier blocks. With `ws_urls`, also the number of the last announced block.
    Schedule(Option<watch::Receiver<u64>>),
    /// Polls that several processes share.
    Shared(Box<dyn SharedPolls>),
}

impl Poller {
    /// Creates the poller of the chain of `publisher` with its `upstreams`.
    #[must_use]
    pub fn new(
        upstreams: Arc<ChainUpstreams>,
        publisher: Publisher,
        asks: AskReadings,
        metrics: Metrics,
    ) -> Self {
        let chain = publisher.chain().config().clone();
        Self {
            request: FeeHistoryRequest::new(&chain.pricing),
            upstreams,
            judge: Judge::new(chain.block_time, chain.max_age),
            reporter: PollReporter::new(metrics, &chain),
            publisher,
            doubts: DoubtLog::default(),
            asks,
            comparisons: Comparisons::new(clock::now()),
            comparison: JoinSet::new(),
            last_history: None,
            records_until_check: Comparisons::POLL_INTERVAL,
            chain,
        }
    }

    /// Polls for ever: for each block, and sooner after a failure. With shared polls, polls the slots of this process.
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
            let (outcome, _) = self.poll(false).await;
            match self.publisher.chain().newest_block() {
                Some(head) if outcome == PollOutcome::Accepted => {
                    schedule.set_block_time(self.longest_interval());
                    schedule.record_poll(sent, head);
                }
                _ => schedule.record_failure(sent, ChainUpstreams::MAX_RETRY_INTERVAL),
            }
        }
    }

    /// Returns a schedule whose first poll is due now.
    fn new_schedule(&self) -> PollSchedule {
        let config::Chain { max_polls_per_block, min_poll_interval, .. } = self.chain;
        let (block_time, now) = (self.longest_interval(), Instant::now());
        PollSchedule::new(block_time, min_poll_interval, max_polls_per_block.get(), now)
    }

    /// Returns the time between two polls while no block is expected: a block time, as measured or as the operator has set it
    /// if that is shorter. Data must not be too old to be served before the next poll.
    fn longest_interval(&self) -> Duration {
        let measured = self.publisher.chain().block_time();
        let is_set = self.chain.is_block_time_set;
        let block_time = if is_set { measured.min(self.chain.block_time) } else { measured };
        block_time.min(self.chain.max_age / 3)
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

    /// Polls once and records the outcome. With `is_shared`, another process reads the asks of the newest blocks.
    async fn poll(&mut self, is_shared: bool) -> (PollOutcome, Option<FeeHistory>) {
        let started = Instant::now();
        let mut span = Span::for_poll(&self.chain.key);
        // Boxed, so that the poller holds the state of a poll only during one.
        let upstreams = Box::pin(self.poll_upstreams(is_shared));
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
    async fn poll_upstreams(&mut self, is_shared: bool) -> (PollOutcome, Option<FeeHistory>) {
        let now = clock::now();
        self.finish_comparison();
        let candidates = self.upstreams.poll_candidates(now);
        self.judge.set_leap(self.publisher.chain().last_leap());
        let round = self.judge.start_round(now);
        let call = UpstreamCall {
            chain: &self.chain,
            chain_parameters: self.publisher.chain_parameters(),
            request: &self.request,
            deadline: self.upstreams.attempt_deadline(),
            earlier: self.last_history.as_ref(),
            limits: round.limits(),
        };
        let is_start = self.publisher.chain().newest_block().is_none();
        let mut active_poll = ActivePoll {
            call,
            round,
            upstreams: &self.upstreams,
            publisher: &mut self.publisher,
            doubts: &mut self.doubts,
            reporter: &self.reporter,
            suspicious: Vec::new(),
            published: None,
            reply_time: None,
            any_timed_out: false,
            is_success: false,
        };
        match self.chain.agreement.get() {
            1 if is_start => Box::pin(active_poll.poll_all(&candidates)).await,
            1 => active_poll.poll_in_order(&candidates).await,
            count => active_poll.poll_agreeing(&candidates, count).await,
        }
        let (outcome, published) = active_poll.finish();
        if let Some(published) = &published {
            self.last_history = Some(published.clone());
            self.compare_if_due(published);
            self.asks.record_published(is_shared, None);
        }
        self.upstreams.request_due_headers(self.judge.source());
        (outcome, published)
    }
}

/// Returns what the judge checks of this reply, or record, after the `earlier` one.
fn report(
    upstream: usize,
    history: &FeeHistory,
    head: HeadReading,
    earlier: Option<&FeeHistory>,
    chain: &config::Chain,
    parameters: &ChainParameters,
) -> Report {
    Report {
        upstream,
        head: history.newest_block(),
        base_fee: history.newest_known_base_fee(),
        block_age: head.block_age(chain.max_block_age(chain.block_time)),
        is_of_now: head.header().is_some_and(|header| {
            let stall_after = chain.stall_after(chain.block_time).unwrap_or_default();
            let max_age = stall_after.max(chain.stale_after(chain.block_time));
            header.number >= history.newest_block() && header.age <= max_age
        }),
        suspicious_amounts: plausibility::suspicious_amounts(
            history,
            earlier,
            &chain.pricing,
            parameters,
        ),
    }
}

#[cfg(test)]
mod tests;
