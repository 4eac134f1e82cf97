//! State of each chain and its age.
//!
//! One [`Publisher`] per chain writes; any number of [`StoredChain`] handles read. Three stores serve three purposes:
//!
//! - A moka cache holds what may be served. It drops a snapshot `max_age` after it was observed, so that an expired one
//!   cannot be served by mistake.
//! - A watch channel announces changes. A slow subscriber sees the newest suggestion, never a backlog.
//! - A ring holds the recent blocks without gaps. A reorg replaces blocks; a gap drops all blocks below it.
//!
//! A [`CachedSuggestion`] is serialised, with its entity tag, only when the suggestion changes. Ages come from the
//! monotonic clock, so a step of the wall clock changes none. The wall clock is only displayed.

mod cached_suggestion;
mod recent_blocks;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_utils::atomic::AtomicCell;
use moka::Expiry;
use moka::sync::Cache;
use tokio::sync::watch;

pub use cached_suggestion::CachedSuggestion;
pub use recent_blocks::BlockWindow;

use crate::config;
use crate::fees::{FeeHistory, Market, Suggestion};
use recent_blocks::RecentBlocks;

/// All chains. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ChainStore {
    chains: Arc<[StoredChain]>,
    /// By key and by decimal chain id.
    by_name: Arc<HashMap<String, StoredChain>>,
}

/// State of one chain. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StoredChain {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: config::Chain,
    /// Snapshots that may be served, by chain id.
    servable: Cache<u64, Arc<Snapshot>>,
    /// The newest suggestion, however old; `None`: none yet.
    latest_suggestion: watch::Sender<Option<Arc<CachedSuggestion>>>,
    recent_blocks: RwLock<RecentBlocks>,
    timestamps: AtomicCell<Option<Timestamps>>,
    /// True once the first poll has ended, with or without success.
    first_poll_done: AtomicBool,
}

/// Content and time of one accepted reply.
#[derive(Debug)]
pub struct Snapshot {
    /// The suggestion as it is served. Shared by consecutive snapshots while it does not change.
    pub cached_suggestion: Arc<CachedSuggestion>,
    /// Values that the suggestion was computed from.
    pub market: Market,
    /// Number of the window's first block.
    pub oldest_block: u64,
    /// Number of blocks in the window.
    pub block_count: usize,
    /// When the reply was accepted, for display.
    pub observed_time: SystemTime,
    observed_at: Instant,
    /// When the number of the newest block was first seen.
    head_changed_at: Instant,
    max_age: Duration,
}

/// A snapshot that may be served, and its age at the moment of the look-up.
#[derive(Debug, Clone)]
pub struct ServableSnapshot {
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    /// Time since the reply was accepted.
    pub age: Duration,
    /// Time since the head changed.
    pub head_age: Duration,
    /// True if the data is old or the head has not changed, by the chain's settings.
    pub is_stale: bool,
}

/// Times of a chain's newest data, however old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamps {
    /// When the last reply was accepted.
    pub observed_at: Instant,
    /// When the number of the newest block was first seen.
    pub head_changed_at: Instant,
}

/// Reason why a chain has nothing to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    /// No reply was ever accepted.
    NoData,
    /// The newest snapshot is older than `max_age`.
    Expired,
}

/// The only writer of one chain.
#[derive(Debug)]
pub struct Publisher {
    chain: StoredChain,
    last: Option<LastPublished>,
}

#[derive(Debug)]
struct LastPublished {
    cached_suggestion: Arc<CachedSuggestion>,
    head_changed_at: Instant,
    observed_at: Instant,
}

impl ChainStore {
    /// Creates an empty store of `chains`, in their order, with a writer for each.
    #[must_use]
    pub fn new(chains: &[config::Chain]) -> (Self, Vec<Publisher>) {
        let servable = Cache::builder().expire_after(MaxAgeExpiry).build();
        let chains: Arc<[StoredChain]> = chains
            .iter()
            .map(|config| StoredChain::new(config.clone(), servable.clone()))
            .collect();
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
    pub fn chains(&self) -> &[StoredChain] {
        &self.chains
    }

    /// Returns the chain with this key or decimal chain id.
    #[must_use]
    pub fn chain(&self, key_or_id: &str) -> Option<&StoredChain> {
        self.by_name.get(key_or_id)
    }

    /// Returns true if any chain ever had data.
    #[must_use]
    pub fn has_any_data(&self) -> bool {
        self.chains.iter().any(StoredChain::has_data)
    }

    /// Returns true if the first poll of every chain has ended.
    #[must_use]
    pub fn all_first_polls_done(&self) -> bool {
        self.chains.iter().all(|chain| chain.inner.first_poll_done.load(Ordering::Relaxed))
    }
}

impl StoredChain {
    fn new(config: config::Chain, servable: Cache<u64, Arc<Snapshot>>) -> Self {
        let recent_blocks = RwLock::new(RecentBlocks::new(config.history_blocks.get()));
        let latest_suggestion = watch::Sender::new(None);
        let (timestamps, first_poll_done) = (AtomicCell::new(None), AtomicBool::new(false));
        Self {
            inner: Arc::new(Inner {
                config,
                servable,
                latest_suggestion,
                recent_blocks,
                timestamps,
                first_poll_done,
            }),
        }
    }

    /// The chain's configuration.
    #[must_use]
    pub fn config(&self) -> &config::Chain {
        &self.inner.config
    }

    /// Returns the snapshot that may be served now.
    ///
    /// # Errors
    ///
    /// Returns [`Unavailable`] if there is none, or only an expired one.
    pub fn servable_snapshot(&self) -> Result<ServableSnapshot, Unavailable> {
        // Taken before the look-up, so that a value which the cache still has is not older than `max_age`.
        let now = Instant::now();
        let Some(snapshot) = self.inner.servable.get(&self.config().chain_id) else {
            return Err(if self.has_data() { Unavailable::Expired } else { Unavailable::NoData });
        };
        let age = now.saturating_duration_since(snapshot.observed_at);
        let head_age = now.saturating_duration_since(snapshot.head_changed_at);
        let has_stalled = self.config().stall_after().is_some_and(|after| head_age >= after);
        let is_stale = has_stalled || age > self.config().stale_after();
        Ok(ServableSnapshot { snapshot, age, head_age, is_stale })
    }

    /// Newest block ever published, however old.
    #[must_use]
    pub fn newest_block(&self) -> Option<u64> {
        self.inner.latest_suggestion.borrow().as_ref().map(|quote| quote.newest_block())
    }

    /// Times of the newest data; `None`: none yet.
    #[must_use]
    pub fn timestamps(&self) -> Option<Timestamps> {
        self.inner.timestamps.load()
    }

    /// Returns the servable snapshot and the revision of the recent blocks.
    ///
    /// # Errors
    ///
    /// Like [`servable_snapshot`](Self::servable_snapshot).
    pub fn snapshot_with_revision(&self) -> Result<(ServableSnapshot, u64), Unavailable> {
        let recent = self.inner.recent_blocks.read().unwrap_or_else(PoisonError::into_inner);
        Ok((self.servable_snapshot()?, recent.revision()))
    }

    /// Returns the servable snapshot and the newest `count` blocks, or fewer if fewer are known.
    ///
    /// # Errors
    ///
    /// Like [`servable_snapshot`](Self::servable_snapshot).
    pub fn snapshot_with_blocks(
        &self,
        count: usize,
    ) -> Result<(ServableSnapshot, BlockWindow), Unavailable> {
        let recent = self.inner.recent_blocks.read().unwrap_or_else(PoisonError::into_inner);
        Ok((self.servable_snapshot()?, recent.newest(count)))
    }

    /// Returns a receiver of every suggestion with a new newest block or body, and one that is servable again after it
    /// had expired.
    /// A slow reader sees only the newest.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<CachedSuggestion>>> {
        self.inner.latest_suggestion.subscribe()
    }

    fn has_data(&self) -> bool {
        self.inner.latest_suggestion.borrow().is_some()
    }
}

impl Publisher {
    fn new(chain: StoredChain) -> Self {
        Self { chain, last: None }
    }

    /// The chain that this publisher writes.
    #[must_use]
    pub fn chain(&self) -> &StoredChain {
        &self.chain
    }

    /// Newest block of the last publication.
    #[must_use]
    pub fn newest_block(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.cached_suggestion.newest_block())
    }

    /// Times of the last publication.
    #[must_use]
    pub fn timestamps(&self) -> Option<Timestamps> {
        let timestamps_of = |last: &LastPublished| Timestamps {
            observed_at: last.observed_at,
            head_changed_at: last.head_changed_at,
        };
        self.last.as_ref().map(timestamps_of)
    }

    /// Publishes an accepted reply. Its age counts from now.
    pub fn publish(&mut self, history: &FeeHistory, market: Market) {
        let now = Instant::now();
        self.publish_at(Timestamps { observed_at: now, head_changed_at: now }, history, market);
    }

    /// Publishes a reply that another replica accepted some time ago.
    pub fn publish_at(&mut self, timestamps: Timestamps, history: &FeeHistory, market: Market) {
        const EXPIRY_MARGIN: Duration = Duration::from_millis(100);
        let Timestamps { observed_at, head_changed_at } = timestamps;
        let inner = &self.chain.inner;
        let newest_block = history.newest_block();
        let cached_suggestion = self.build_suggestion(newest_block, &market.suggestion);
        let is_changed = self
            .last
            .as_ref()
            .is_none_or(|last| !Arc::ptr_eq(&last.cached_suggestion, &cached_suggestion));
        let head_changed_at = match &self.last {
            Some(last) if last.cached_suggestion.newest_block() == newest_block => {
                last.head_changed_at.min(head_changed_at)
            }
            _ => head_changed_at,
        };
        let snapshot = Snapshot {
            cached_suggestion: Arc::clone(&cached_suggestion),
            market,
            oldest_block: history.oldest_block(),
            block_count: history.blocks().len(),
            observed_time: to_wall_clock(observed_at),
            observed_at,
            head_changed_at,
            max_age: inner.config.max_age,
        };
        {
            // Both are updated under one lock, so a reader never sees one of them new and the other old.
            let mut recent = inner.recent_blocks.write().unwrap_or_else(PoisonError::into_inner);
            recent.extend(history);
            inner.servable.insert(inner.config.chain_id, Arc::new(snapshot));
        }
        inner.timestamps.store(Some(Timestamps { observed_at, head_changed_at }));
        // Subscribers that came while the value had expired have not received it. A repeat is harmless.
        let last =
            self.last.as_ref().map(|last| last.observed_at.elapsed().saturating_add(EXPIRY_MARGIN));
        let was_servable = last.is_some_and(|age| age < inner.config.max_age);
        if is_changed || !was_servable {
            inner.latest_suggestion.send_replace(Some(Arc::clone(&cached_suggestion)));
        }
        self.last = Some(LastPublished { cached_suggestion, head_changed_at, observed_at });
    }

    /// Records that a poll has ended, whether it published anything or not.
    pub fn mark_polled(&self) {
        self.chain.inner.first_poll_done.store(true, Ordering::Relaxed);
    }

    /// Builds the served form of `suggestion`, reusing parts of the last one if they are equal.
    fn build_suggestion(
        &self,
        newest_block: u64,
        suggestion: &Suggestion,
    ) -> Arc<CachedSuggestion> {
        match self.last.as_ref().map(|last| &last.cached_suggestion) {
            Some(quote) if quote.suggestion() == suggestion => {
                if quote.newest_block() == newest_block {
                    Arc::clone(quote)
                } else {
                    Arc::new(quote.at_block(newest_block))
                }
            }
            _ => Arc::new(CachedSuggestion::new(
                self.chain.config().name(),
                newest_block,
                *suggestion,
            )),
        }
    }
}

/// Converts a past instant to wall-clock time, for display.
fn to_wall_clock(moment: Instant) -> SystemTime {
    let now = SystemTime::now();
    now.checked_sub(moment.elapsed()).unwrap_or(now)
}

/// Expires an entry `max_age` after its observation, whenever it was inserted.
struct MaxAgeExpiry;

impl MaxAgeExpiry {
    fn remaining(snapshot: &Snapshot, at: Instant) -> Duration {
        let age = at.saturating_duration_since(snapshot.observed_at);
        snapshot.max_age.saturating_sub(age)
    }
}

impl Expiry<u64, Arc<Snapshot>> for MaxAgeExpiry {
    fn expire_after_create(
        &self,
        _: &u64,
        observation: &Arc<Snapshot>,
        created_at: Instant,
    ) -> Option<Duration> {
        Some(Self::remaining(observation, created_at))
    }

    // By default an update keeps the deadline of the replaced value.
    fn expire_after_update(
        &self,
        _: &u64,
        observation: &Arc<Snapshot>,
        updated_at: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(Self::remaining(observation, updated_at))
    }
}

#[cfg(test)]
mod tests;
