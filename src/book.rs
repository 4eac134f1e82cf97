//! What is known of each chain, and how old it is.
//!
//! One [`Publisher`] per chain writes, any number of [`Chain`] handles read. Three stores serve
//! three questions: a moka cache holds what may be served (a value past `max_age` is gone from it),
//! a watch channel tells of change, a ring remembers recent blocks. Ages are monotonic; the wall
//! clock is only ever shown.

mod quote;
mod recent;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_utils::atomic::AtomicCell;
use moka::Expiry;
use moka::sync::Cache;
use tokio::sync::watch;

pub use quote::Quote;
pub use recent::Excerpt;

use crate::config;
use crate::fees::{FeeHistory, Market, Suggestion};
use recent::RecentBlocks;

/// All chains. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Book {
    chains: Arc<[Chain]>,
    /// By key and by decimal chain id.
    by_name: Arc<HashMap<String, Chain>>,
}

/// What is known of one chain. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Chain {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: config::Chain,
    /// All chains' values, by chain id.
    fresh: Cache<u64, Arc<Observation>>,
    /// The newest quote however old it is; `None`: the chain was never read.
    newest: watch::Sender<Option<Arc<Quote>>>,
    recent: RwLock<RecentBlocks>,
    last_seen: AtomicCell<Option<LastSeen>>,
    /// Whether a first poll has come to its end, whatever came of it.
    was_polled: AtomicBool,
}

/// One accepted reply: what it said, and when.
#[derive(Debug)]
pub struct Observation {
    /// The suggestion as it is served; shared with earlier observations while nothing changed.
    pub quote: Arc<Quote>,
    /// What stands behind it.
    pub market: Market,
    /// The number of the window's first block.
    pub oldest_block: u64,
    /// How many blocks the window has.
    pub blocks: usize,
    /// When the reply was accepted, for people to read.
    pub observed_at: SystemTime,
    observed: Instant,
    /// When the newest block's number was first seen.
    head_moved: Instant,
    max_age: Duration,
}

/// A servable observation and its age at the moment of the look-up.
#[derive(Debug, Clone)]
pub struct Reading {
    /// What was observed.
    pub observation: Arc<Observation>,
    /// The time since the reply was accepted.
    pub age: Duration,
    /// The time for which the head has stood where it is.
    pub head_age: Duration,
    /// Whether the data is old, or the head has not moved, by the chain's configuration.
    pub is_stale: bool,
}

/// When a chain was last heard of, however long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastSeen {
    /// When a reply was last accepted.
    pub observed: Instant,
    /// When the newest block's number was first seen.
    pub head_moved: Instant,
}

/// Why a chain has nothing to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    /// It was never read.
    NoData,
    /// What is known is older than `max_age`.
    Expired,
}

/// The only writer of one chain.
#[derive(Debug)]
pub struct Publisher {
    chain: Chain,
    last: Option<Published>,
}

#[derive(Debug)]
struct Published {
    quote: Arc<Quote>,
    head_moved: Instant,
    observed: Instant,
}

impl Book {
    /// An empty book of `chains`, in their order, and a writer for each.
    #[must_use]
    pub fn new(chains: &[config::Chain]) -> (Self, Vec<Publisher>) {
        let fresh = Cache::builder().expire_after(AtMaxAge).build();
        let chains: Arc<[Chain]> =
            chains.iter().map(|config| Chain::new(config.clone(), fresh.clone())).collect();
        let mut by_name = HashMap::new();
        for chain in chains.iter() {
            by_name.insert(chain.config().key.clone(), chain.clone());
            by_name.insert(chain.config().chain_id.to_string(), chain.clone());
        }
        let publishers = chains.iter().cloned().map(Publisher::new).collect();
        (Self { chains, by_name: Arc::new(by_name) }, publishers)
    }

    /// All chains, in ascending order of chain id.
    #[must_use]
    pub fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// The chain with this key or decimal chain id.
    #[must_use]
    pub fn chain(&self, key_or_id: &str) -> Option<&Chain> {
        self.by_name.get(key_or_id)
    }

    /// Whether any chain was ever read.
    #[must_use]
    pub fn has_read_any(&self) -> bool {
        self.chains.iter().any(Chain::was_read)
    }

    /// Whether every chain was polled: those that can be read have been.
    #[must_use]
    pub fn has_polled_all(&self) -> bool {
        self.chains.iter().all(|chain| chain.shared.was_polled.load(Ordering::Relaxed))
    }
}

impl Chain {
    fn new(config: config::Chain, fresh: Cache<u64, Arc<Observation>>) -> Self {
        let recent = RwLock::new(RecentBlocks::new(config.history_blocks.get()));
        let newest = watch::Sender::new(None);
        let (last_seen, was_polled) = (AtomicCell::new(None), AtomicBool::new(false));
        Self { shared: Arc::new(Shared { config, fresh, newest, recent, last_seen, was_polled }) }
    }

    /// The chain's configuration.
    #[must_use]
    pub fn config(&self) -> &config::Chain {
        &self.shared.config
    }

    /// What may be served now.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] when there is nothing, or nothing young enough.
    pub fn read(&self) -> Result<Reading, Unavailable> {
        // Before the look-up, so that what the cache still has is not older than `max_age` here.
        let now = Instant::now();
        let Some(observation) = self.shared.fresh.get(&self.config().chain_id) else {
            return Err(if self.was_read() { Unavailable::Expired } else { Unavailable::NoData });
        };
        let age = now.saturating_duration_since(observation.observed);
        let head_age = now.saturating_duration_since(observation.head_moved);
        let has_stalled = self.config().stall_after().is_some_and(|after| head_age >= after);
        let is_stale = has_stalled || age > self.config().stale_after();
        Ok(Reading { observation, age, head_age, is_stale })
    }

    /// The newest block that was ever published, however old that is by now.
    #[must_use]
    pub fn newest_block(&self) -> Option<u64> {
        self.shared.newest.borrow().as_ref().map(|quote| quote.newest_block())
    }

    /// When the chain was last heard of; `None`: never.
    #[must_use]
    pub fn last_seen(&self) -> Option<LastSeen> {
        self.shared.last_seen.load()
    }

    /// What may be served now, and a number that is another whenever the recent blocks are others.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_revision(&self) -> Result<(Reading, u64), Unavailable> {
        let recent = self.shared.recent.read().unwrap_or_else(PoisonError::into_inner);
        Ok((self.read()?, recent.revision()))
    }

    /// What may be served now, and the newest `count` blocks known then, or as many as there are.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_blocks(&self, count: usize) -> Result<(Reading, Excerpt), Unavailable> {
        let recent = self.shared.recent.read().unwrap_or_else(PoisonError::into_inner);
        Ok((self.read()?, recent.last(count)))
    }

    /// Tells of every quote with a new newest block or a new body, and of one that can be served again
    /// after it was too old; a slow reader sees the newest.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Quote>>> {
        self.shared.newest.subscribe()
    }

    fn was_read(&self) -> bool {
        self.shared.newest.borrow().is_some()
    }
}

impl Publisher {
    fn new(chain: Chain) -> Self {
        Self { chain, last: None }
    }

    /// The chain that is written.
    #[must_use]
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The newest block of what was published last.
    #[must_use]
    pub fn newest_block(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.quote.newest_block())
    }

    /// When what was published last was observed.
    #[must_use]
    pub fn last_seen(&self) -> Option<LastSeen> {
        let seen =
            |last: &Published| LastSeen { observed: last.observed, head_moved: last.head_moved };
        self.last.as_ref().map(seen)
    }

    /// Makes an accepted reply what is known of the chain. Its age counts from now.
    pub fn publish(&mut self, history: &FeeHistory, market: Market) {
        let now = Instant::now();
        self.publish_as_of(LastSeen { observed: now, head_moved: now }, history, market);
    }

    /// The same of a reply that was accepted somewhere else, and some time ago.
    pub fn publish_as_of(&mut self, seen: LastSeen, history: &FeeHistory, market: Market) {
        const MARGIN: Duration = Duration::from_millis(100);
        let LastSeen { observed, head_moved } = seen;
        let shared = &self.chain.shared;
        let newest_block = history.newest_block();
        let quote = self.quote(newest_block, &market.suggestion);
        let is_change = self.last.as_ref().is_none_or(|last| !Arc::ptr_eq(&last.quote, &quote));
        let head_moved = match &self.last {
            Some(last) if last.quote.newest_block() == newest_block => {
                last.head_moved.min(head_moved)
            }
            _ => head_moved,
        };
        let observation = Observation {
            quote: Arc::clone(&quote),
            market,
            oldest_block: history.oldest_block(),
            blocks: history.blocks().len(),
            observed_at: shown(observed),
            observed,
            head_moved,
            max_age: shared.config.max_age,
        };
        {
            // Who looks at both sees both as they were or as they are.
            let mut recent = shared.recent.write().unwrap_or_else(PoisonError::into_inner);
            recent.extend(history);
            shared.fresh.insert(shared.config.chain_id, Arc::new(observation));
        }
        shared.last_seen.store(Some(LastSeen { observed, head_moved }));
        // Whoever looked while the last value was too old has to be told. To be told twice hurts nobody.
        let last = self.last.as_ref().map(|last| last.observed.elapsed().saturating_add(MARGIN));
        let was_servable = last.is_some_and(|age| age < shared.config.max_age);
        if is_change || !was_servable {
            shared.newest.send_replace(Some(Arc::clone(&quote)));
        }
        self.last = Some(Published { quote, head_moved, observed });
    }

    /// Takes note that a poll has come to its end, whether anything was published or not.
    pub fn conclude_poll(&self) {
        self.chain.shared.was_polled.store(true, Ordering::Relaxed);
    }

    /// The quote for `suggestion`, made from the last one as far as that still holds.
    fn quote(&self, newest_block: u64, suggestion: &Suggestion) -> Arc<Quote> {
        match self.last.as_ref().map(|last| &last.quote) {
            Some(quote) if quote.suggestion() == suggestion => {
                if quote.newest_block() == newest_block {
                    Arc::clone(quote)
                } else {
                    Arc::new(quote.at_block(newest_block))
                }
            }
            _ => Arc::new(Quote::new(self.chain.config().name(), newest_block, *suggestion)),
        }
    }
}

/// A moment in the past, for people to read.
fn shown(moment: Instant) -> SystemTime {
    let now = SystemTime::now();
    now.checked_sub(moment.elapsed()).unwrap_or(now)
}

/// Ends an entry `max_age` after its observation, however it got into the cache.
struct AtMaxAge;

impl AtMaxAge {
    fn remaining(observation: &Observation, at: Instant) -> Duration {
        let age = at.saturating_duration_since(observation.observed);
        observation.max_age.saturating_sub(age)
    }
}

impl Expiry<u64, Arc<Observation>> for AtMaxAge {
    fn expire_after_create(
        &self,
        _: &u64,
        observation: &Arc<Observation>,
        created_at: Instant,
    ) -> Option<Duration> {
        Some(Self::remaining(observation, created_at))
    }

    // Without this an update would keep the deadline of the value that it replaces.
    fn expire_after_update(
        &self,
        _: &u64,
        observation: &Arc<Observation>,
        updated_at: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(Self::remaining(observation, updated_at))
    }
}

#[cfg(test)]
mod tests;
