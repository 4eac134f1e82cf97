//! One chain: wait for a block, fetch, price, publish; where replicas share, whoever's turn it is.
//!
//! A poll that fails leaves the last good value where it is; its age tells. The loop never ends by
//! itself and knows nothing of shutdown: dropping its future is how it stops, at any point.

mod reports;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use crate::book::Publisher;
use crate::cadence::Cadence;
use crate::config;
use crate::fees::{self, FeeHistory, Market};
use crate::heads::{Heads, Implausible, Round, Verdict};
use crate::metrics::Metrics;
use crate::rpc::{Candidate, FeeHistoryRequest, Upstream, Upstreams};
use crate::shared::{Adoption, Outcome, Publication, Published, Turn, Turns};
use crate::traces::Span;
use reports::{Failure, Reports};

/// Polls one chain.
#[derive(Debug)]
pub struct Poller {
    chain: config::Chain,
    request: FeeHistoryRequest,
    upstreams: Arc<Upstreams>,
    heads: Heads,
    publisher: Publisher,
    reports: Reports,
}

/// What tells when to poll.
#[derive(Debug)]
pub enum Timing {
    /// When blocks came so far and, where nodes announce them, the number of the newest one that was announced.
    Blocks(Option<watch::Receiver<u64>>),
    /// Turns that replicas take.
    Turns(Box<Turns>),
}

/// A fee history that can be priced, and its price.
type Priced = (FeeHistory, Market);

impl Poller {
    /// A poller of the chain that `publisher` writes, through that chain's `upstreams`.
    #[must_use]
    pub fn new(upstreams: Arc<Upstreams>, publisher: Publisher, metrics: Metrics) -> Self {
        let chain = publisher.chain().config().clone();
        Self {
            request: FeeHistoryRequest::new(&chain.pricing),
            upstreams,
            heads: Heads::new(chain.block_time),
            reports: Reports::new(metrics, &chain),
            publisher,
            chain,
        }
    }

    /// Polls now and then for each block, or sooner after a failure; where there are turns, whenever it has one.
    /// For ever.
    pub async fn run(self, timing: Timing) -> Infallible {
        match timing {
            Timing::Turns(turns) => self.run_in_turns(*turns).await,
            Timing::Blocks(announced) => self.run_alone(announced).await,
        }
    }

    async fn run_alone(mut self, mut announced: Option<watch::Receiver<u64>>) -> Infallible {
        let most = self.chain.max_polls_per_block.get();
        let mut cadence = Cadence::new(self.chain.block_time, most, Instant::now());
        loop {
            self.wait(&mut cadence, &mut announced).await;
            let sent = Instant::now();
            let (outcome, _) = self.poll().await;
            match self.publisher.newest_block() {
                Some(head) if outcome == Outcome::Good => cadence.polled(sent, head),
                _ => cadence.failed(sent, Upstreams::RETRY),
            }
        }
    }

    /// Waits until a poll is due, by the `cadence` or because a block is announced that is not known.
    async fn wait(&self, cadence: &mut Cadence, announced: &mut Option<watch::Receiver<u64>>) {
        loop {
            let news = async {
                let Some(announced) = announced else { return std::future::pending().await };
                while announced.changed().await.is_ok() {
                    if self.may_be_new(*announced.borrow_and_update()) {
                        return;
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = tokio::time::sleep_until(cadence.next().into()) => return,
                () = news => cadence.announced(Instant::now()),
            }
        }
    }

    /// Whether there may be a block of this number and it is not known.
    fn may_be_new(&self, number: u64) -> bool {
        /// What is further ahead is of another chain; polls catch up with what is not.
        const MOST_AHEAD: u64 = 128;
        self.publisher.newest_block().is_none_or(|newest| {
            (newest.saturating_add(1)..=newest.saturating_add(MOST_AHEAD)).contains(&number)
        })
    }

    async fn run_in_turns(mut self, mut turns: Turns) -> Infallible {
        loop {
            match turns.next().await {
                Turn::Poll(permit) => {
                    let (outcome, published) = self.poll().await;
                    let published = published.zip(self.publisher.last_seen());
                    turns.conclude(permit, outcome, published).await;
                }
                Turn::Adopt(publication) => {
                    let taken = self.adopt(&publication, turns.epoch());
                    self.publisher.conclude_poll();
                    turns.took(&publication, taken);
                }
                // It is known by now that nothing is known.
                Turn::Failed => self.publisher.conclude_poll(),
            }
        }
    }

    /// Makes what another replica has polled what is known of the chain, where that is newer. The epoch is that
    /// of what is known.
    fn adopt(&mut self, publication: &Publication, epoch: u64) -> Adoption {
        let Publication { history, seen, .. } = publication;
        let (head, last) = (history.newest_block(), self.publisher.newest_block());
        if seen.observed.elapsed() >= self.chain.max_age {
            return Adoption::Older;
        }
        let was_confirmed = publication.epoch > epoch;
        let is_seen = self.publisher.last_seen().is_some_and(|last| last.observed >= seen.observed);
        // From before what is known: of another epoch it says nothing but that there was one.
        if is_seen && (was_confirmed || last == Some(head)) {
            return Adoption::Known;
        }
        let Ok(market) = fees::price(history, &self.chain.pricing) else {
            return Adoption::Rejected;
        };
        match self.heads.adopt(head, Instant::now(), was_confirmed) {
            Ok(()) => {}
            Err(Implausible::Behind) => return Adoption::Older,
            Err(Implausible::Ahead) => return Adoption::Implausible,
        }
        self.publisher.publish_as_of(*seen, history, market);
        self.reports.adopted(last.is_some_and(|last| head < last));
        Adoption::Adopted
    }

    /// Polls once, and tells of it and what was published.
    async fn poll(&mut self) -> (Outcome, Option<Published>) {
        let started = Instant::now();
        let mut span = Span::of_poll(&self.chain.key);
        let (outcome, published) = span.around(self.ask_upstreams()).await;
        let was_good = outcome == Outcome::Good;
        if was_good {
            span.succeeded();
        } else {
            span.failed("failed");
        }
        drop(span);
        self.reports.poll(was_good, started.elapsed());
        self.publisher.conclude_poll();
        (outcome, published)
    }

    /// Asks the first upstream that is well and, when that gives nothing to publish, all others at
    /// once: the first good answer is published, within two attempts' deadlines however many
    /// upstreams are silent. They are asked, too, when the head seems to be late; then a higher one
    /// wins.
    async fn ask_upstreams(&mut self) -> (Outcome, Option<Published>) {
        let now = Instant::now();
        let Self { chain, request, upstreams, heads, publisher, reports, .. } = self;
        let deadline = upstreams.attempt_deadline();
        let order = upstreams.in_order(now);
        let Some((&first, others)) = order.split_first() else {
            return (Outcome::Failed, None);
        };

        let round = heads.round(now);
        let mut poll = Poll { round, publisher, reports, waiting: Vec::new(), published: None };
        let answer = ask(first.upstream, request, chain, deadline).await;
        let is_published = poll.consider(first, answer);
        let seeks_newer = is_published && poll.round.wants_second_opinion();
        if is_published && !seeks_newer {
            return (Outcome::Good, poll.published);
        }
        let published = poll.publisher.newest_block();
        // A second opinion is worth no wait for those that do not answer.
        let others = others.iter().copied().filter(|other| other.is_well || !seeks_newer);
        let (request, chain) = (&*request, &*chain);
        let ask_other = |other| async move {
            let Candidate { upstream, .. } = other;
            (other, ask(upstream, request, chain, deadline).await)
        };
        let mut answers: FuturesUnordered<_> = others.map(ask_other).collect();
        let mut was_good = is_published;
        while let Some((other, answer)) = answers.next().await {
            was_good |= poll.consider(other, answer);
            if was_good && !seeks_newer {
                break;
            }
        }
        if seeks_newer && poll.publisher.newest_block() > published {
            poll.reports.failure(first, &Failure::Stands);
        }
        let is_in_doubt = !poll.waiting.is_empty();
        let published = poll.conclude();
        let outcome = match was_good || published.is_some() {
            true => Outcome::Good,
            false if is_in_doubt => Outcome::InDoubt,
            false => Outcome::Failed,
        };
        (outcome, published)
    }
}

/// One poll under way.
struct Poll<'a> {
    round: Round<'a>,
    publisher: &'a mut Publisher,
    reports: &'a Reports,
    /// What was good but for its head, by the upstream's place.
    waiting: Vec<(usize, Priced)>,
    published: Option<Published>,
}

impl Poll<'_> {
    /// Publishes an answer where that may be; whether it was good.
    fn consider(&mut self, asked: Candidate<'_>, answer: Result<Priced, Failure>) -> bool {
        let outcome = answer.and_then(|(history, market)| {
            match self.round.offer(asked.index, history.newest_block()) {
                Ok(Verdict::Publish) => {
                    publish(self.publisher, self.reports, asked.index, &history, market);
                    self.published = Some(Published { history, was_confirmed: false });
                }
                Ok(Verdict::Known) => {}
                Err(implausible) => {
                    self.waiting.push((asked.index, (history, market)));
                    return Err(implausible.into());
                }
            }
            Ok(())
        });
        match &outcome {
            Ok(()) => self.reports.success(asked),
            Err(failure) => self.reports.failure(asked, failure),
        }
        outcome.is_ok()
    }

    /// Publishes a head that is implausible but confirmed, if there is one. What was published last.
    fn conclude(self) -> Option<Published> {
        let Self { round, publisher, reports, waiting, published } = self;
        let Some(confirmed) = round.close() else { return published };
        let found = waiting.into_iter().find(|(index, _)| *index == confirmed);
        let Some((index, (history, market))) = found else { return published };
        publish(publisher, reports, index, &history, market);
        reports.confirmed(index, history.newest_block());
        Some(Published { history, was_confirmed: true })
    }
}

fn publish(
    publisher: &mut Publisher,
    reports: &Reports,
    index: usize,
    history: &FeeHistory,
    market: Market,
) {
    let last = publisher.newest_block();
    publisher.publish(history, market);
    reports.published(index, last.is_some_and(|last| history.newest_block() < last));
}

async fn ask(
    upstream: &Upstream,
    request: &FeeHistoryRequest,
    chain: &config::Chain,
    deadline: Duration,
) -> Result<Priced, Failure> {
    let history = upstream.fee_history(request, deadline).await?;
    let market = fees::price(&history, &chain.pricing)?;
    Ok((history, market))
}
