//! Reads of chain state for clients: which are allowed, how long an answer may be used again, and how
//! many may be under way.
//!
//! Identical reads at one time share one upstream call, and so do those that come while its answer
//! still holds, which follows from what of the chain it depends on. Everything is bounded: calls
//! under way per chain, bytes held by requests and answers, bytes kept for reuse.

mod anchor;
mod finality;
mod kept;
mod method;
mod params;
mod told;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join;
use metrics::Counter;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

pub use crate::rpc::{Answer, Unanswered};
pub(crate) use kept::Reuse;
pub use params::Invalid;

use crate::book;
use crate::config;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::rpc::{Call, Upstreams};
use anchor::Anchor;
use finality::Finality;
use kept::{Answers, Head, Hold, Kept, Key};
use method::{Known, Method, Methods};
use told::Told;

/// The reads of all chains. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reads {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: config::Rpc,
    memory: Memory,
    chains: Vec<ChainReads>,
    /// Their places by key and by decimal chain id.
    by_name: HashMap<String, usize>,
}

/// The reads of one chain.
#[derive(Debug)]
pub struct ChainReads {
    chain: book::Chain,
    upstreams: Arc<Upstreams>,
    methods: Methods,
    in_flight: Semaphore,
    memory: Memory,
    answers: Answers,
    finality: Finality,
    told: Told,
    timeout: Duration,
    counts: Counts,
}

/// Why a call has no answer of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The method is not on the chain's list.
    // One library takes its way around a missing method only after "the method … does not exist".
    #[error("the method asked for does not exist or is not allowed here")]
    NotAllowed,
    /// The parameters cannot be right.
    #[error(transparent)]
    InvalidParams(#[from] Invalid),
    /// As many calls to the chain's nodes are under way as may be.
    #[error("too many calls at a time; try again later")]
    Overloaded,
    /// The nodes were asked in vain.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

#[derive(Debug)]
struct Found {
    answer: Answer,
    source: Source,
}

/// Counts a call when it is over: as abandoned where its client did not wait for that.
struct Counted<'a> {
    counter: &'a Counter,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.counter.increment(1);
    }
}

/// Where an answer is from.
#[derive(Debug, Clone, Copy)]
enum Source {
    Memory,
    /// The call of somebody else that was under way.
    Other,
    Node,
}

#[derive(Debug)]
struct Counts {
    reused: Counter,
    shared: Counter,
    answered: Counter,
    refused: Counter,
    overloaded: Counter,
    failed: Counter,
    abandoned: Counter,
}

impl Reads {
    /// For bodies of requests under way and answers not yet delivered, those kept for reuse
    /// included.
    const MEMORY_BYTES: usize = 256 * 1024 * 1024;

    /// The reads of the chains of `book` through their `upstreams`, both in the same order.
    #[must_use]
    pub fn new(
        limits: &config::Rpc,
        book: &book::Book,
        upstreams: &[Arc<Upstreams>],
        metrics: &Metrics,
    ) -> Self {
        let memory = Memory::new(Self::MEMORY_BYTES);
        let answers = kept::answers();
        let kept = answers.clone();
        metrics.watch_cache("reads", move || [kept.entry_count(), kept.weighted_size()]);
        let of_chain = |(chain, upstreams): (&book::Chain, &Arc<Upstreams>)| ChainReads {
            chain: chain.clone(),
            upstreams: Arc::clone(upstreams),
            methods: Methods::of(chain.config().rpc_methods.as_deref()),
            in_flight: Semaphore::new(limits.max_in_flight.get()),
            memory: memory.clone(),
            answers: answers.clone(),
            finality: Finality::default(),
            told: Told::default(),
            timeout: limits.timeout,
            counts: Counts::new(metrics, &chain.config().key),
        };
        let chains: Vec<_> = book.chains().iter().zip(upstreams).map(of_chain).collect();
        let mut by_name = HashMap::new();
        for (index, reads) in chains.iter().enumerate() {
            let chain = reads.chain.config();
            by_name.insert(chain.key.clone(), index);
            by_name.insert(chain.chain_id.to_string(), index);
        }
        Self { shared: Arc::new(Shared { limits: limits.clone(), memory, chains, by_name }) }
    }

    /// What one request may be.
    pub(crate) fn limits(&self) -> &config::Rpc {
        &self.shared.limits
    }

    /// What requests and answers may hold together.
    pub(crate) fn memory(&self) -> &Memory {
        &self.shared.memory
    }

    /// When a call that has come now has to be answered.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.shared.limits.timeout
    }

    /// All chains, in ascending order of chain id.
    pub(crate) fn chains(&self) -> &[ChainReads] {
        &self.shared.chains
    }

    /// The reads of the chain with this key or decimal chain id.
    pub(crate) fn chain(&self, key_or_id: &str) -> Option<&ChainReads> {
        let index = *self.shared.by_name.get(key_or_id)?;
        self.shared.chains.get(index)
    }
}

impl ChainReads {
    /// What is known of the chain.
    pub(crate) fn chain(&self) -> &book::Chain {
        &self.chain
    }

    /// Answers a call of `method` with `params` (`None`: without any): from memory where an answer
    /// still holds, else by one call that all who ask the same share. Ends by `until`; dropping the
    /// future leaves a shared call to the others.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotAllowed`] and [`Refusal::InvalidParams`] without any upstream call;
    /// [`Refusal::Overloaded`] at once.
    pub(crate) async fn answer(
        &self,
        method: &str,
        params: Option<&RawValue>,
        until: Instant,
    ) -> Result<Answer, Refusal> {
        self.counted(self.methods.get(method), params, Reuse::WhileGood, until).await
    }

    /// Answers a call that the service makes to answer a client in its turn, which the chain's
    /// `rpc_methods` need not allow.
    ///
    /// # Errors
    ///
    /// As [`answer`](Self::answer).
    pub(crate) async fn answer_service(
        &self,
        method: &str,
        params: &RawValue,
        reuse: Reuse,
        until: Instant,
    ) -> Result<Answer, Refusal> {
        let method = method::known(method).map(Method::Known);
        self.counted(method.as_ref(), Some(params), reuse, until).await
    }

    async fn counted(
        &self,
        method: Option<&Method>,
        params: Option<&RawValue>,
        reuse: Reuse,
        until: Instant,
    ) -> Result<Answer, Refusal> {
        let mut count = Counted { counter: &self.counts.abandoned };
        let found = self.find(method, params, reuse, until).await;
        count.counter = match &found {
            Ok(Found { source: Source::Memory, .. }) => &self.counts.reused,
            Ok(Found { source: Source::Other, .. }) => &self.counts.shared,
            Ok(Found { source: Source::Node, .. }) => &self.counts.answered,
            Err(Refusal::NotAllowed | Refusal::InvalidParams(_)) => &self.counts.refused,
            Err(Refusal::Overloaded) => &self.counts.overloaded,
            Err(Refusal::Unanswered(_)) => &self.counts.failed,
        };
        found.map(|found| found.answer)
    }

    async fn find(
        &self,
        method: Option<&Method>,
        params: Option<&RawValue>,
        reuse: Reuse,
        until: Instant,
    ) -> Result<Found, Refusal> {
        let method = method.ok_or(Refusal::NotAllowed)?;
        let none = params::none();
        let params = params.unwrap_or(none);
        let known = match method {
            Method::Known(known) => known,
            Method::Other(method) => {
                params::check_depth(params)?;
                let call = Call { method, params, is_repeatable: false };
                let answer = self.ask(call, until).await?;
                return Ok(Found { answer, source: Source::Node });
            }
        };
        let anchor = known.anchor(params)?;
        let call = Call { method: known.name, params, is_repeatable: true };
        if reuse == Reuse::Never {
            return Ok(Found { answer: self.ask(call, until).await?, source: Source::Node });
        }
        let is_kept = reuse == Reuse::WhileGood && known.is_kept(anchor);
        let hold = if is_kept { self.hold(anchor) } else { Hold::Never };
        let key = Key {
            chain_id: self.chain.config().chain_id,
            head: (hold != Hold::Long).then(|| self.head()),
            method: known.name,
            reuse,
            params: Sha256::digest(params.get()).into(),
        };
        if let Some(kept) = self.answers.get(&key).await {
            return Ok(Found { answer: kept.answer, source: Source::Memory });
        }
        loop {
            let found = self.ask_or_join(key.clone(), known, call, anchor, hold, until).await;
            let left = until.saturating_duration_since(Instant::now());
            match found {
                // Whoever asked had less time left than this call still has.
                Err((Refusal::Unanswered(Unanswered::TimedOut), Source::Other))
                    if left >= self.timeout / 2 => {}
                found => return found.map_err(|(refusal, _)| refusal),
            }
        }
    }

    /// Makes the call, or waits for the one that somebody else makes.
    async fn ask_or_join(
        &self,
        key: Key,
        known: &Known,
        call: Call<'_>,
        anchor: Anchor,
        hold: Hold,
        until: Instant,
    ) -> Result<Found, (Refusal, Source)> {
        let is_asked = AtomicBool::new(false);
        let ask = async {
            is_asked.store(true, Ordering::Relaxed);
            let asked = Instant::now();
            let (answer, ()) = join(self.ask(call, until), self.learn_finality(anchor)).await;
            let answer = answer?;
            if let Some(block) = known.block_told_by(&answer) {
                self.told.learn(block, self.chain.newest_block());
            }
            Ok(Kept::new(answer, asked, hold, self.chain.config()))
        };
        let kept = self.answers.try_get_with(key, ask).await;
        let source = if is_asked.load(Ordering::Relaxed) { Source::Node } else { Source::Other };
        kept.map(|kept| Found { answer: kept.answer, source })
            .map_err(|refusal| (Refusal::clone(&refusal), source))
    }

    /// Asks the nodes, if not too many calls are under way.
    async fn ask(&self, call: Call<'_>, until: Instant) -> Result<Answer, Refusal> {
        let _permit = self.in_flight.try_acquire().map_err(|_| Refusal::Overloaded)?;
        let answer = self.upstreams.read(call, until, &self.memory).await;
        Ok(answer?)
    }

    fn head(&self) -> Head {
        (self.chain.newest_block(), self.told.news())
    }

    /// For how long an answer that depends on `anchor` can be used again, as far as is known.
    fn hold(&self, anchor: Anchor) -> Hold {
        match anchor {
            Anchor::Fixed => Hold::Long,
            Anchor::Head => Hold::UntilNextBlock,
            Anchor::Block(number) if self.finality.reaches(number) => Hold::Long,
            Anchor::Block(number) if self.chain.newest_block() >= Some(number) => {
                Hold::UntilNextBlock
            }
            // A block above the head may be in the making.
            Anchor::Block(_) | Anchor::Pending => Hold::Flashblock,
        }
    }

    /// Finds out, once in a while, whether a block that a client reads by its number is final.
    async fn learn_finality(&self, anchor: Anchor) {
        let (Anchor::Block(number), Some(newest)) = (anchor, self.chain.newest_block()) else {
            return;
        };
        let now = Instant::now();
        if !self.finality.is_worth_asking(number, newest, now) {
            return;
        }
        let params = finality::params();
        let call = Call { method: "eth_getBlockByNumber", params: &params, is_repeatable: true };
        // Nothing depends on it but how often the node is asked.
        if let Ok(Answer::Result(block)) = self.ask(call, now + Finality::DEADLINE).await {
            self.finality.learn(&block, newest);
        }
    }
}

impl Counts {
    fn new(metrics: &Metrics, chain: &str) -> Self {
        let count = |outcome| metrics.reads(chain, outcome);
        Self {
            reused: count("reused"),
            shared: count("shared"),
            answered: count("answered"),
            refused: count("refused"),
            overloaded: count("overloaded"),
            failed: count("failed"),
            abandoned: count("abandoned"),
        }
    }
}

#[cfg(test)]
mod tests;
