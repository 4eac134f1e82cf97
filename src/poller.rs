//! The loop of one chain: wait for a block, fetch, price, publish. With Redis, replicas share the polls by slot.
//!
//! A failed poll leaves the last good value, whose age grows. The loop never ends by itself; dropping its future stops
//! it at any point.

mod reporter;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use crate::config;
use crate::fees::head_tracker::{HeadTracker, PollRound, PublishDecision, SuspiciousHead};
use crate::fees::{self, FeeHistory, Market};
use crate::metrics::Metrics;
use crate::poll_schedule::PollSchedule;
use crate::replicas::{
    Action, AdoptOutcome, PollCoordinator, PollOutcome, PublishedPoll, SharedFeeHistory,
};
use crate::store::Publisher;
use crate::traces::Span;
use crate::upstream::{self, Candidate, ChainUpstreams, FeeHistoryRequest, UpstreamNode};
use reporter::{PollError, PollReporter};

/// Polls one chain.
#[derive(Debug)]
pub struct Poller {
    chain: config::Chain,
    request: FeeHistoryRequest,
    upstreams: Arc<ChainUpstreams>,
    head_tracker: HeadTracker,
    publisher: Publisher,
    reporter: PollReporter,
}

/// Source of poll times.
#[derive(Debug)]
pub enum PollTiming {
    /// Learnt from earlier blocks. With `ws_urls`, also the number of the last announced block.
    Schedule(Option<watch::Receiver<u64>>),
    /// Slots that replicas share.
    Coordinator(Box<PollCoordinator>),
}

/// A fee history and its price.
type PricedHistory = (FeeHistory, Market);

impl Poller {
    /// Creates the poller of the chain of `publisher`, with that chain's `upstreams`.
    #[must_use]
    pub fn new(upstreams: Arc<ChainUpstreams>, publisher: Publisher, metrics: Metrics) -> Self {
        let chain = publisher.chain().config().clone();
        Self {
            request: FeeHistoryRequest::new(&chain.pricing),
            upstreams,
            head_tracker: HeadTracker::new(chain.block_time),
            reporter: PollReporter::new(metrics, &chain),
            publisher,
            chain,
        }
    }

    /// Polls for ever: for each block, and sooner after a failure. With a coordinator, polls the slots of this replica.
    pub async fn run(self, timing: PollTiming) -> Infallible {
        match timing {
            PollTiming::Coordinator(coordinator) => self.run_coordinated(*coordinator).await,
            PollTiming::Schedule(announced) => self.run_standalone(announced).await,
        }
    }

    async fn run_standalone(mut self, mut announced: Option<watch::Receiver<u64>>) -> Infallible {
        let max_polls = self.chain.max_polls_per_block.get();
        let mut schedule = PollSchedule::new(self.chain.block_time, max_polls, Instant::now());
        loop {
            self.wait_for_poll(&mut schedule, &mut announced).await;
            let sent = Instant::now();
            let (outcome, _) = self.poll().await;
            match self.publisher.chain().newest_block() {
                Some(head) if outcome == PollOutcome::Accepted => schedule.record_poll(sent, head),
                _ => schedule.record_failure(sent, ChainUpstreams::MAX_RETRY_INTERVAL),
            }
        }
    }

    /// Waits until a poll is due by `schedule`, or until an unknown block is announced.
    async fn wait_for_poll(
        &self,
        schedule: &mut PollSchedule,
        announced: &mut Option<watch::Receiver<u64>>,
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

    async fn run_coordinated(mut self, mut coordinator: PollCoordinator) -> Infallible {
        loop {
            match coordinator.next().await {
                Action::Poll(permit) => {
                    let (outcome, published) = self.poll().await;
                    let published = published.zip(self.publisher.chain().timestamps());
                    coordinator.finish_poll(permit, outcome, published).await;
                }
                Action::Adopt(publication) => {
                    let merge_outcome = self.merge_remote(&publication);
                    self.publisher.mark_polled();
                    coordinator.record_merge(&publication, merge_outcome);
                }
                // Other replicas have polled in vain, which counts as the first poll here too.
                Action::Skip => self.publisher.mark_polled(),
            }
        }
    }

    /// Publishes what another replica polled, if it is newer.
    fn merge_remote(&mut self, publication: &SharedFeeHistory) -> AdoptOutcome {
        let SharedFeeHistory { history, timestamps, confirmed_at, .. } = publication;
        let (head, last) = (history.newest_block(), self.publisher.chain().newest_block());
        if timestamps.observed_at.elapsed() >= self.chain.max_age {
            return AdoptOutcome::Older;
        }
        let last_observed_at = self.publisher.chain().timestamps().map(|last| last.observed_at);
        let was_confirmed = *confirmed_at > last_observed_at;
        if last == Some(head) && last_observed_at >= Some(timestamps.observed_at) {
            return AdoptOutcome::Duplicate;
        }
        let Ok(market) = fees::price(history, &self.chain.pricing) else {
            return AdoptOutcome::Rejected;
        };
        match self.head_tracker.accept_remote(head, Instant::now(), was_confirmed) {
            Ok(()) => {}
            Err(SuspiciousHead::Regression) => return AdoptOutcome::Older,
            Err(SuspiciousHead::Jump) => return AdoptOutcome::Implausible,
        }
        self.publisher.publish_at(*timestamps, history, market);
        self.reporter.record_merged(last.is_some_and(|last| head < last));
        AdoptOutcome::Adopted
    }

    /// Polls once and records the outcome.
    async fn poll(&mut self) -> (PollOutcome, Option<PublishedPoll>) {
        let started = Instant::now();
        let mut span = Span::for_poll(&self.chain.key);
        let (outcome, published) = span.instrument(self.poll_upstreams()).await;
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

    /// Calls the first healthy upstream. If it returns nothing to publish, calls all others at once; the first good
    /// reply is published. This takes at most two attempt deadlines, however many upstreams are silent. The others are
    /// also called if the head seems late; then a higher head wins. If none had a good reply and one timed out, the
    /// next poll waits longer.
    async fn poll_upstreams(&mut self) -> (PollOutcome, Option<PublishedPoll>) {
        let now = Instant::now();
        let Self { chain, request, upstreams, head_tracker, publisher, reporter, .. } = self;
        let deadline = upstreams.attempt_deadline();
        let order = upstreams.poll_candidates(now);
        let Some((&first, others)) = order.split_first() else {
            return (PollOutcome::Failed, None);
        };

        let round = head_tracker.start_round(now);
        let mut active_poll = ActivePoll {
            called_at: now,
            round,
            publisher,
            reporter,
            unconfirmed: Vec::new(),
            published: None,
            reply_time: None,
            any_timed_out: false,
        };
        let reply = fetch_priced_history(first.upstream, request, chain, deadline).await;
        let is_published = active_poll.evaluate_reply(first, reply);
        let seeks_newer = is_published && active_poll.round.should_query_others();
        if is_published && !seeks_newer {
            active_poll.adapt_deadline(upstreams);
            return (PollOutcome::Accepted, active_poll.published);
        }
        let published = active_poll.publisher.chain().newest_block();
        // Do not wait for upstreams that failed lately only to find a higher head.
        let others = others.iter().copied().filter(|other| other.is_healthy || !seeks_newer);
        let (request, chain) = (&*request, &*chain);
        let fetch_from = |other| async move {
            let Candidate { upstream, .. } = other;
            (other, fetch_priced_history(upstream, request, chain, deadline).await)
        };
        active_poll.called_at = Instant::now();
        let mut replies: FuturesUnordered<_> = others.map(fetch_from).collect();
        let mut is_success = is_published;
        while let Some((other, reply)) = replies.next().await {
            is_success |= active_poll.evaluate_reply(other, reply);
            if is_success && !seeks_newer {
                break;
            }
        }
        if seeks_newer && active_poll.publisher.chain().newest_block() > published {
            active_poll.reporter.record_failure(first, &PollError::HeadStalled);
        }
        active_poll.adapt_deadline(upstreams);
        let has_unconfirmed = !active_poll.unconfirmed.is_empty();
        let published = active_poll.finish();
        let outcome = match is_success || published.is_some() {
            true => PollOutcome::Accepted,
            false if has_unconfirmed => PollOutcome::Unconfirmed,
            false => PollOutcome::Failed,
        };
        (outcome, published)
    }
}

/// A poll in progress.
struct ActivePoll<'a> {
    /// When the upstreams that have not replied yet were called.
    called_at: Instant,
    round: PollRound<'a>,
    publisher: &'a mut Publisher,
    reporter: &'a PollReporter,
    /// Histories with an unconfirmed head, by index of the upstream.
    unconfirmed: Vec<(usize, PricedHistory)>,
    published: Option<PublishedPoll>,
    /// Time that the first good reply took.
    reply_time: Option<Duration>,
    any_timed_out: bool,
}

impl ActivePoll<'_> {
    /// Adapts the deadline of the next polls to the replies of this one.
    fn adapt_deadline(&self, upstreams: &ChainUpstreams) {
        match self.reply_time {
            Some(took) => upstreams.record_reply_time(took),
            None if self.any_timed_out => upstreams.record_timeouts(),
            None => {}
        }
    }

    /// Publishes a reply if its head is plausible. Returns true if the reply was good.
    fn evaluate_reply(
        &mut self,
        candidate: Candidate<'_>,
        reply: Result<PricedHistory, PollError>,
    ) -> bool {
        let outcome = reply.and_then(|(history, market)| {
            match self.round.check(candidate.index, history.newest_block()) {
                Ok(PublishDecision::Publish) => {
                    publish(self.publisher, self.reporter, candidate.index, &history, market);
                    self.published = Some(PublishedPoll { history, was_confirmed: false });
                }
                Ok(PublishDecision::AlreadyPublished) => {}
                Err(implausible) => {
                    self.unconfirmed.push((candidate.index, (history, market)));
                    return Err(implausible.into());
                }
            }
            Ok(())
        });
        self.any_timed_out |= matches!(outcome, Err(PollError::Rpc(upstream::Error::Timeout(_))));
        match &outcome {
            Ok(()) => {
                self.reply_time.get_or_insert_with(|| self.called_at.elapsed());
                self.reporter.record_success(candidate);
            }
            Err(failure) => self.reporter.record_failure(candidate, failure),
        }
        outcome.is_ok()
    }

    /// Publishes an implausible but confirmed head, if there is one. Returns what was published last.
    fn finish(self) -> Option<PublishedPoll> {
        let Self { round, publisher, reporter, unconfirmed, published, .. } = self;
        let Some(confirmed) = round.finish() else { return published };
        let found = unconfirmed.into_iter().find(|(index, _)| *index == confirmed);
        let Some((index, (history, market))) = found else { return published };
        publish(publisher, reporter, index, &history, market);
        reporter.log_confirmed_head(index, history.newest_block());
        Some(PublishedPoll { history, was_confirmed: true })
    }
}

fn publish(
    publisher: &mut Publisher,
    reporter: &PollReporter,
    index: usize,
    history: &FeeHistory,
    market: Market,
) {
    let last = publisher.chain().newest_block();
    publisher.publish(history, market);
    reporter.record_published(index, last.is_some_and(|last| history.newest_block() < last));
}

async fn fetch_priced_history(
    upstream: &UpstreamNode,
    request: &FeeHistoryRequest,
    chain: &config::Chain,
    deadline: Duration,
) -> Result<PricedHistory, PollError> {
    let history = upstream.fee_history(request, deadline).await?;
    let market = fees::price(&history, &chain.pricing)?;
    Ok((history, market))
}

#[cfg(test)]
mod tests;
