//! One poll of one chain: calls upstreams and publishes the first good reply.

use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::doubts::DoubtLog;
use super::judge::{Confirmation, Limits, Round, RoundOutcome};
use super::reporter::{PollError, PollReporter};
use super::{PollOutcome, report};
use crate::config;
use crate::fees::plausibility::{self, Continuity, SuspiciousReply};
use crate::fees::{self, BlockAge, ChainParameters, FeeHistory, HeadReading, Market};
use crate::nodes::{self, Candidate, ChainUpstreams, FeeHistoryRequest, UpstreamNode};
use crate::observe::clock;
use crate::store::{Accepted, Publisher};

/// A fee history, its price, and what its node says of its newest block.
#[derive(Debug, Clone)]
pub(crate) struct PricedReply {
    pub(crate) history: FeeHistory,
    pub(crate) market: Market,
    pub(crate) head: HeadReading,
    /// When the fee history arrived. A poll may wait for other upstreams after that.
    pub(crate) received_at: Instant,
    /// Time from the call to the fee history. The header may have taken longer.
    pub(crate) took: Duration,
}

/// The call that a poll makes at each upstream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpstreamCall<'a> {
    pub(crate) chain: &'a config::Chain,
    /// Parameters in force when the poll began.
    pub(crate) chain_parameters: ChainParameters,
    pub(crate) request: &'a FeeHistoryRequest,
    /// Deadline of each attempt.
    pub(crate) deadline: Duration,
    /// Fee history that was published last.
    pub(crate) earlier: Option<&'a FeeHistory>,
    /// Plausible heads.
    pub(crate) limits: Option<Limits>,
}

/// A poll in progress.
pub(crate) struct ActivePoll<'a> {
    pub(crate) call: UpstreamCall<'a>,
    pub(super) round: Round<'a>,
    pub(super) upstreams: &'a ChainUpstreams,
    pub(super) publisher: &'a mut Publisher,
    pub(super) doubts: &'a mut DoubtLog,
    pub(crate) reporter: &'a PollReporter,
    /// Replies that are not published unless they are confirmed.
    pub(super) suspicious: Vec<(Candidate<'a>, SuspiciousReply, PricedReply)>,
    /// Fee history that this poll published last.
    pub(super) published: Option<FeeHistory>,
    /// Time that the first good reply took; with `agreement`, the slowest.
    pub(super) reply_time: Option<Duration>,
    pub(super) any_timed_out: bool,
    /// True if an upstream had a good reply.
    pub(super) is_success: bool,
}

/// The reply of an upstream.
pub(crate) type Reply<'a> = (Candidate<'a>, PricedReply);

impl UpstreamCall<'_> {
    /// Fetches and prices a fee history. Requests the chain id again before a surprising one is believed: its head is
    /// implausible, or its blocks are not those that were known before.
    pub(crate) async fn send(&self, candidate: Candidate<'_>) -> Result<PricedReply, PollError> {
        let polled_at = clock::now();
        let (history, received_at) =
            candidate.upstream.receive_fee_history(self.request, self.deadline).await?;
        let newest = history.newest_block();
        let is_plausible =
            self.limits.is_none_or(|limits| limits.contains(candidate.index, newest));
        let continuity =
            self.earlier.map_or(Continuity::Changed, |it| plausibility::compare(&history, it));
        let verified_since = match continuity {
            Continuity::Same if is_plausible => None,
            Continuity::OtherRewards if is_plausible => {
                // If the last check is younger, a later poll makes one: this reply becomes what it is compared with.
                candidate.upstream.doubt_chain();
                polled_at.checked_sub(UpstreamNode::DOUBTED_CHECK_INTERVAL).or(Some(polled_at))
            }
            _ => Some(polled_at),
        };
        let market = price(&history, self.chain, &self.chain_parameters)?;
        if let Some(since) = verified_since {
            let left = self.deadline.saturating_sub(clock::elapsed(polled_at));
            candidate.upstream.verify_chain_again(since, left).await?;
        }
        let head = || candidate.upstream.head().for_reply(newest, self.chain.block_time);
        let is_old = || self.block_age(head()) == BlockAge::Old;
        // A header that is old itself was asked for with this poll.
        if !is_plausible || (is_old() && !candidate.upstream.has_old_head()) {
            // A slow node has used up its deadline with the fee history.
            candidate.upstream.read_head_again(polled_at, self.deadline).await;
        }
        let took = received_at.saturating_duration_since(polled_at);
        Ok(PricedReply { head: head(), history, market, received_at, took })
    }

    fn block_age(&self, head: HeadReading) -> BlockAge {
        head.block_age(self.chain.max_block_age(self.chain.block_time))
    }
}

impl<'a> ActivePoll<'a> {
    /// Calls these upstreams at once.
    pub(crate) fn send_all(
        &self,
        candidates: &[Candidate<'a>],
    ) -> FuturesUnordered<
        impl Future<Output = (Candidate<'a>, Result<PricedReply, PollError>)> + use<'a>,
    > {
        let call = self.call;
        let send = |candidate| async move { (candidate, call.send(candidate).await) };
        candidates.iter().copied().map(send).collect()
    }

    /// Calls all candidates at once, because no head is known that a wrong one would contradict. Waits for those that are
    /// preferred to the best reply, and for the others if its block is old or of unknown age. Publishes the best reply.
    pub(crate) async fn poll_all(&mut self, candidates: &[Candidate<'a>]) {
        let mut pending = self.send_all(candidates);
        let mut unanswered: Vec<usize> = candidates.iter().map(|it| it.index).collect();
        let mut replies: Vec<Reply<'a>> = Vec::new();
        let mut deadline = None;
        loop {
            // Preferred upstreams have the whole deadline of their call.
            let next = match deadline {
                None => pending.next().await,
                Some(deadline) => {
                    tokio::time::timeout_at(deadline, pending.next()).await.ok().flatten()
                }
            };
            let Some((candidate, reply)) = next else { break };
            unanswered.retain(|index| *index != candidate.index);
            match reply {
                Ok(reply) => replies.push((candidate, reply)),
                Err(failure) => self.record_failure(candidate, &failure),
            }
            replies.sort_by_key(|(it, reply)| self.preference(it.index, reply));
            let Some((best, reply)) = replies.first() else { continue };
            if unanswered.iter().any(|index| *index < best.index) {
                continue;
            }
            if self.call.block_age(reply.head) == BlockAge::Young {
                break;
            }
            deadline.get_or_insert((Instant::now() + self.call.deadline / 2).into());
        }
        drop(pending);
        self.publish_best(replies);
    }

    /// Publishes the first good one of these replies, the best of which comes first.
    pub(crate) fn publish_best(&mut self, replies: Vec<Reply<'a>>) {
        let mut has_young_block = false;
        for (candidate, reply) in replies {
            let block_age = self.call.block_age(reply.head);
            if !self.is_success {
                self.evaluate_reply(candidate, Ok(reply));
                has_young_block = self.is_success && block_age == BlockAge::Young;
            } else if has_young_block && block_age == BlockAge::Old {
                self.record_failure(candidate, &PollError::OldBlock);
            } else {
                self.record_success(candidate);
            }
        }
    }

    /// Order of replies at the start, the best first: those whose block is not old, then those whose node does not tell,
    /// then the newest of the old ones.
    fn preference(&self, index: usize, reply: &PricedReply) -> (u8, Duration, usize) {
        let age = reply.head.header().map_or(Duration::MAX, |header| header.age);
        match self.call.block_age(reply.head) {
            BlockAge::Young => (0, Duration::ZERO, index),
            BlockAge::Unknown => (1, Duration::ZERO, index),
            BlockAge::Old => (2, age, index),
        }
    }

    /// Calls the first candidate, then all others at once if it has no good reply or seems late.
    pub(crate) async fn poll_in_order(&mut self, candidates: &[Candidate<'a>]) {
        let Some((&first, others)) = candidates.split_first() else { return };
        let reply = self.call.send(first).await;
        self.evaluate_reply(first, reply);
        let seeks_newer = self.is_success && self.round.should_query_others();
        if self.is_success && !seeks_newer {
            return;
        }
        let published = self.publisher.chain().newest_block();
        // Do not wait for upstreams that failed lately only to find a higher head.
        let others = others.iter().copied().filter(|other| other.is_healthy || !seeks_newer);
        let mut replies = self.send_all(&others.collect::<Vec<_>>());
        while let Some((other, reply)) = replies.next().await {
            self.evaluate_reply(other, reply);
            // A suspicious reply waits for all others, of which most may contradict it or agree with it.
            if self.is_success && !seeks_newer && !self.round.is_disputed() {
                break;
            }
        }
        if seeks_newer && self.publisher.chain().newest_block() > published {
            self.reporter.record_failure(first, &PollError::HeadStalled);
        }
    }

    /// Publishes a reply if it is plausible.
    fn evaluate_reply(&mut self, candidate: Candidate<'a>, reply: Result<PricedReply, PollError>) {
        let reply = match reply {
            Ok(reply) => reply,
            Err(failure) => return self.record_failure(candidate, &failure),
        };
        let UpstreamCall { earlier, chain, ref chain_parameters, .. } = self.call;
        let PricedReply { history, head, .. } = &reply;
        let report = report(candidate.index, history, *head, earlier, chain, chain_parameters);
        match self.round.check(report) {
            Ok(is_new) => {
                self.record_reply_time(reply.took);
                // Before the publication, so that the log has the recovery of the upstream before that of the chain.
                self.record_success(candidate);
                if is_new {
                    self.publish(candidate.index, reply);
                }
            }
            // The end of the poll decides about it.
            Err(reason) => self.suspicious.push((candidate, reason, reply)),
        }
    }

    /// Records the time of the reply that the deadline adapts to. Only the first call counts.
    pub(crate) fn record_reply_time(&mut self, took: Duration) {
        self.reply_time.get_or_insert(took);
    }

    fn record_success(&mut self, candidate: Candidate<'a>) {
        self.is_success = true;
        self.reporter.record_success(candidate);
    }

    pub(crate) fn record_failure(&mut self, candidate: Candidate<'a>, failure: &PollError) {
        self.any_timed_out |= matches!(failure, PollError::Rpc(nodes::Error::Timeout(_)));
        self.reporter.record_failure(candidate, failure);
    }

    pub(crate) fn publish(&mut self, index: usize, reply: PricedReply) {
        let PricedReply { history, market, head, received_at, .. } = reply;
        let publisher = &mut *self.publisher;
        let chain = publisher.chain().config();
        let last = publisher.chain().newest_block();
        self.reporter.record_floors(&market, &chain.pricing);
        let accepted = Accepted {
            head,
            is_behind: self.upstreams.has_newer_block(Some(history.newest_block()), index),
            doubts: self.doubts.current(&history, &chain.pricing),
            ..Accepted::at(received_at, &history, market)
        };
        let outlying = plausibility::count_outlying_rewards(history.blocks(), &chain.pricing);
        publisher.publish(accepted);
        let is_regression = last.is_some_and(|last| history.newest_block() < last);
        self.reporter.record_published(Some(index), is_regression);
        self.reporter.record_outlying_rewards(outlying);
        self.published = Some(history);
    }

    /// Publishes a suspicious but confirmed reply, if there is one. Returns what this poll published last. The deadline of the
    /// next poll adapts to the replies.
    pub(crate) fn finish(mut self) -> (PollOutcome, Option<FeeHistory>) {
        match self.reply_time {
            Some(took) => self.upstreams.record_reply_time(took),
            None if self.any_timed_out => self.upstreams.record_timeouts(),
            None => {}
        }
        let has_unconfirmed = !self.suspicious.is_empty();
        let RoundOutcome { confirmed, refuted } = self.round.finish(clock::now());
        for (candidate, reason, reply) in std::mem::take(&mut self.suspicious) {
            let index = candidate.index;
            let confirmed = confirmed.filter(|it| it.upstream == index);
            if refuted.contains(&index) {
                candidate.upstream.record_rejected_reply();
            }
            let Some(Confirmation { is_majority, .. }) = confirmed else {
                self.reporter.record_failure(candidate, &reason.into());
                continue;
            };
            self.record_success(candidate);
            let newest_block = reply.history.newest_block();
            let window_blocks = self.call.chain.pricing.window_blocks.get();
            if !is_majority && self.doubts.record(reason, newest_block, window_blocks) {
                self.reporter.log_confirmed(index, reason, newest_block);
            }
            self.publish(index, reply);
        }
        let outcome = match self.is_success {
            true => PollOutcome::Accepted,
            false if has_unconfirmed => PollOutcome::Unconfirmed,
            false => PollOutcome::Failed,
        };
        (outcome, self.published)
    }
}

/// Prices a reply, by the network's rule. Asks that are known replace the tips when it is published.
///
/// # Errors
///
/// Fails without a suggestion, and if the node has nothing but the genesis block of a chain that is known to have more. Its
/// base fee of 0 is no price.
pub(crate) fn price(
    history: &FeeHistory,
    chain: &config::Chain,
    parameters: &ChainParameters,
) -> Result<Market, PollError> {
    let market = fees::price(history, &[], &chain.pricing, parameters)?;
    let is_genesis = history.newest_block() == 0 && history.newest_known_base_fee() == 0;
    if is_genesis && chain.has_long_history() { Err(PollError::Genesis) } else { Ok(market) }
}
