//! One poll of one chain: calls upstreams and publishes the first good reply.

use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::reporter::{PollError, PollReporter};
use super::{report, with_earlier_blocks};
use crate::config;
use crate::fees::head_tracker::{
    Confirmation, Limits, PollRound, PublishDecision, RoundOutcome, SuspiciousReply,
};
use crate::fees::plausibility::{self, Continuity};
use crate::fees::{self, FeeHistory, Market};
use crate::replicas::PollOutcome;
use crate::store::{Accepted, Publisher};
use crate::upstream::{self, Candidate, ChainUpstreams, FeeHistoryRequest, UpstreamNode};

/// A fee history and its price.
pub(super) type PricedHistory = (FeeHistory, Market);

/// The call that a poll makes at each upstream.
#[derive(Debug, Clone, Copy)]
pub(super) struct UpstreamCall<'a> {
    pub(super) chain: &'a config::Chain,
    pub(super) request: &'a FeeHistoryRequest,
    /// Requests all blocks that a suggestion depends on; `None`: `request` does.
    pub(super) full_request: Option<&'a FeeHistoryRequest>,
    /// Deadline of each attempt.
    pub(super) deadline: Duration,
    /// Fee history that was published last.
    pub(super) earlier: Option<&'a FeeHistory>,
    /// Plausible heads.
    pub(super) limits: Option<Limits>,
}

/// A poll in progress.
pub(super) struct ActivePoll<'a> {
    call: UpstreamCall<'a>,
    /// When the upstreams that have not replied yet were called.
    called_at: Instant,
    round: PollRound<'a>,
    publisher: &'a mut Publisher,
    pub(super) reporter: &'a PollReporter,
    /// Replies that are not published unless they are confirmed.
    suspicious: Vec<(Candidate<'a>, SuspiciousReply, PricedHistory)>,
    published: Option<FeeHistory>,
    /// Time that the first good reply took.
    reply_time: Option<Duration>,
    any_timed_out: bool,
    is_success: bool,
}

/// Result of a poll.
pub(super) struct Finished {
    pub(super) outcome: PollOutcome,
    /// Fee history that this poll published last.
    pub(super) published: Option<FeeHistory>,
}

impl UpstreamCall<'_> {
    /// Fetches and prices a fee history. Requests the chain id again before a surprising one is believed: its head is
    /// implausible, or its blocks are not those that were known before.
    pub(super) async fn send(&self, candidate: Candidate<'_>) -> Result<PricedHistory, PollError> {
        let polled_at = Instant::now();
        let history = self.fetch_newest(candidate.upstream, polled_at).await?;
        let surprising_since = self.surprising_since(candidate, &history, polled_at);
        let history = self.with_all_blocks(history, candidate.upstream, polled_at).await;
        let market = fees::price(&history, &self.chain.pricing)?;
        if let Some(since) = surprising_since {
            candidate.upstream.verify_chain_again(since, self.left(polled_at)).await?;
        }
        Ok((history, market))
    }

    /// Fetches the newest blocks: at the start all that a suggestion depends on, if the node returns so many.
    async fn fetch_newest(
        &self,
        upstream: &UpstreamNode,
        polled_at: Instant,
    ) -> Result<FeeHistory, upstream::Error> {
        if let Some(full_request) = self.full_request.filter(|_| self.earlier.is_none()) {
            match upstream.fee_history(full_request, self.deadline).await {
                // The node may limit the number of blocks.
                Err(upstream::Error::Node(..)) => {}
                reply => return reply,
            }
        }
        upstream.fee_history(self.request, self.left(polled_at)).await
    }

    /// Puts the known blocks before those of the reply. If they do not adjoin, requests all blocks that a suggestion
    /// depends on. If that fails, the reply alone has to do.
    async fn with_all_blocks(
        &self,
        reply: FeeHistory,
        upstream: &UpstreamNode,
        polled_at: Instant,
    ) -> FeeHistory {
        let pricing = &self.chain.pricing;
        let window_blocks = pricing.window_blocks.get();
        // A shorter reply has all blocks of a young chain.
        let is_whole_window = reply.blocks().len() == window_blocks;
        let history = with_earlier_blocks(reply, self.earlier, pricing);
        let Some(full_request) = self.full_request.filter(|_| {
            is_whole_window && self.earlier.is_some() && history.blocks().len() == window_blocks
        }) else {
            return history;
        };
        match upstream.fee_history(full_request, self.left(polled_at)).await {
            Ok(all) if all.newest_block() >= history.newest_block() => all,
            _ => history,
        }
    }

    /// Returns what is left of the deadline of an attempt.
    fn left(&self, polled_at: Instant) -> Duration {
        self.deadline.saturating_sub(polled_at.elapsed())
    }

    /// Returns the time since which the node's chain id must have been requested to believe this reply; `None`: the
    /// reply is not surprising.
    fn surprising_since(
        &self,
        candidate: Candidate<'_>,
        history: &FeeHistory,
        polled_at: Instant,
    ) -> Option<Instant> {
        /// A load balancer may alternate between nodes that compute rewards in different ways.
        const REWARDS_CHECK_INTERVAL: Duration = Duration::from_mins(1);
        let head = history.newest_block();
        if self.limits.is_some_and(|limits| !limits.contains(candidate.index, head)) {
            return Some(polled_at);
        }
        match plausibility::compare(history, self.earlier?) {
            Continuity::Same => None,
            Continuity::OtherRewards => {
                Some(polled_at.checked_sub(REWARDS_CHECK_INTERVAL).unwrap_or(polled_at))
            }
            Continuity::Changed | Continuity::Rewritten => Some(polled_at),
        }
    }
}

impl<'a> ActivePoll<'a> {
    pub(super) fn new(
        call: &UpstreamCall<'a>,
        round: PollRound<'a>,
        publisher: &'a mut Publisher,
        reporter: &'a PollReporter,
    ) -> Self {
        Self {
            call: *call,
            called_at: Instant::now(),
            round,
            publisher,
            reporter,
            suspicious: Vec::new(),
            published: None,
            reply_time: None,
            any_timed_out: false,
            is_success: false,
        }
    }

    /// Starts to measure the time of replies, and returns the call to make.
    pub(super) fn start_calls(&mut self) -> UpstreamCall<'a> {
        self.called_at = Instant::now();
        self.call
    }

    /// Returns true if an upstream had a good reply.
    pub(super) fn is_success(&self) -> bool {
        self.is_success
    }

    /// Calls the first candidate, then all others at once if it has no good reply or seems late.
    pub(super) async fn poll_in_order(&mut self, candidates: &[Candidate<'a>]) {
        let Some((&first, others)) = candidates.split_first() else { return };
        let call = self.call;
        let reply = call.send(first).await;
        self.evaluate_reply(first, reply);
        let seeks_newer = self.is_success && self.round.should_query_others();
        if self.is_success && !seeks_newer {
            return;
        }
        let published = self.publisher.chain().newest_block();
        // Do not wait for upstreams that failed lately only to find a higher head.
        let others = others.iter().copied().filter(|other| other.is_healthy || !seeks_newer);
        self.start_calls();
        let mut replies: FuturesUnordered<_> =
            others.map(|other| async move { (other, call.send(other).await) }).collect();
        let mut deadline = None;
        loop {
            // A suspicious reply waits for the other upstreams, which may agree with it, but not for slow ones.
            let next = match deadline {
                None => replies.next().await,
                Some(deadline) => {
                    tokio::time::timeout_at(deadline, replies.next()).await.ok().flatten()
                }
            };
            let Some((other, reply)) = next else { break };
            self.evaluate_reply(other, reply);
            if self.is_success && !seeks_newer {
                if !self.round.is_disputed() {
                    break;
                }
                let grace = Instant::now() + call.chain.block_time / 2;
                deadline.get_or_insert(grace.into());
            }
        }
        if seeks_newer && self.publisher.chain().newest_block() > published {
            self.reporter.record_failure(first, &PollError::HeadStalled);
        }
    }

    /// Adapts the deadline of the next polls to the replies of this one.
    pub(super) fn adapt_deadline(&self, upstreams: &ChainUpstreams) {
        match self.reply_time {
            Some(took) => upstreams.record_reply_time(took),
            None if self.any_timed_out => upstreams.record_timeouts(),
            None => {}
        }
    }

    /// Publishes a reply if it is plausible.
    pub(super) fn evaluate_reply(
        &mut self,
        candidate: Candidate<'a>,
        reply: Result<PricedHistory, PollError>,
    ) {
        let checked = reply.and_then(|(history, market)| {
            let UpstreamCall { earlier, chain, .. } = self.call;
            match self.round.check(report(candidate.index, &history, earlier, chain)) {
                Ok(PublishDecision::Publish) => Ok(Some((history, market))),
                Ok(PublishDecision::AlreadyPublished) => Ok(None),
                Err(reason) => {
                    self.suspicious.push((candidate, reason, (history, market)));
                    Err(reason.into())
                }
            }
        });
        let (outcome, publishable) = match checked {
            Ok(publishable) => (Ok(()), publishable),
            Err(failure) => (Err(failure), None),
        };
        // The end of the poll decides about a suspicious reply.
        if !matches!(outcome, Err(PollError::Suspicious(_))) {
            self.record(candidate, &outcome);
        }
        // Last, so that the log has the recovery of the upstream before that of the chain.
        if let Some((history, market)) = publishable {
            self.publish(candidate.index, history, market);
        }
    }

    /// Records the outcome of an attempt.
    pub(super) fn record(&mut self, candidate: Candidate<'a>, outcome: &Result<(), PollError>) {
        self.any_timed_out |= matches!(outcome, Err(PollError::Rpc(upstream::Error::Timeout(_))));
        match outcome {
            Ok(()) => {
                self.is_success = true;
                self.reply_time.get_or_insert_with(|| self.called_at.elapsed());
                self.reporter.record_success(candidate);
            }
            Err(failure) => self.reporter.record_failure(candidate, failure),
        }
    }

    fn publish(&mut self, index: usize, history: FeeHistory, market: Market) {
        publish(self.publisher, self.reporter, index, &history, market);
        self.published = Some(history);
    }

    /// Publishes a suspicious but confirmed reply, if there is one.
    pub(super) fn finish(mut self) -> Finished {
        let suspicious = std::mem::take(&mut self.suspicious);
        let has_unconfirmed = !suspicious.is_empty();
        let Self { round, publisher, reporter, mut published, is_success, .. } = self;
        let RoundOutcome { confirmed, refuted } = round.finish();
        for (candidate, reason, (history, market)) in suspicious {
            let index = candidate.index;
            let confirmed = confirmed.filter(|it| it.upstream == index);
            match confirmed {
                Some(Confirmation { is_new: false, .. }) => reporter.record_success(candidate),
                _ => reporter.record_failure(candidate, &reason.into()),
            }
            if refuted.contains(&index) {
                candidate.upstream.record_rejected_reply();
            }
            let Some(Confirmation { is_new, .. }) = confirmed else { continue };
            publish(publisher, reporter, index, &history, market);
            if is_new {
                reporter.log_confirmed(index, reason, history.newest_block());
            }
            published = Some(history);
        }
        let outcome = match is_success || published.is_some() {
            true => PollOutcome::Accepted,
            false if has_unconfirmed => PollOutcome::Unconfirmed,
            false => PollOutcome::Failed,
        };
        Finished { outcome, published }
    }
}

pub(super) fn publish(
    publisher: &mut Publisher,
    reporter: &PollReporter,
    index: usize,
    history: &FeeHistory,
    market: Market,
) {
    let last = publisher.chain().newest_block();
    reporter.record_floors(&market, &publisher.chain().config().pricing);
    publisher.publish(Accepted::now(history, market));
    reporter.record_published(index, last.is_some_and(|last| history.newest_block() < last));
    reporter.record_outlying_rewards(plausibility::count_outlying_rewards(history));
}
