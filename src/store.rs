//! State of each chain and its age.
//!
//! One [`Publisher`] per chain writes; any number of [`StoredChain`] handles read. Three stores serve three purposes:
//!
//! - A moka cache holds what may be served. It drops a snapshot `max_age` after it was observed, so that an expired one
//!   cannot be served by mistake.
//! - A watch channel holds the newest snapshot, however old, and announces changes of what is served. A slow subscriber
//!   sees the newest snapshot, never a backlog.
//! - A ring holds the recent blocks without gaps. A reorg replaces blocks; a gap drops all blocks below it.
//!
//! Each observer of a chain gets a publication before readers see it.
//!
//! A suggestion is serialised, with its entity tag, only when it changes. Ages come from `observe::clock`, which counts sleep,
//! so a step of the wall clock changes none. After a leap of either clock, data is stale until the next reply. Besides,
//! the wall clock is displayed, and may show that a block is older than it was.

mod asks;
mod base_fee_steps;
mod consistent_reads;
mod entry_window;
pub(crate) mod etag;
mod head_times;
mod newest_block;
mod per_chain;
mod publisher;
mod recent_blocks;
mod ring;
pub(crate) mod wire;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use axum::http::HeaderValue;
use bytes::Bytes;
use moka::Expiry;
use moka::sync::Cache;
use parking_lot::RwLock;
use tokio::sync::watch;

pub use entry_window::EntryWindow;
pub use newest_block::NewestBlock;
pub use per_chain::PerChain;
pub use publisher::{Accepted, Publication, PublishObserver, Publisher};
pub use recent_blocks::RecentBlocks;
pub use ring::BlockWindow;

use crate::config;
use crate::fees::plausibility::Doubt;
use crate::fees::{Market, SinglePrices};
use crate::observe::clock;

/// Number of newest blocks that a caller's fee is compared with. More blocks say less of the next one.
pub const COMPARED_BLOCKS: usize = 20;

/// All chains. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ChainStore {
    chains: Arc<[StoredChain]>,
    /// Index in `chains`, by key and by decimal chain id.
    by_name: Arc<HashMap<String, usize>>,
}

/// State of one chain. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StoredChain {
    record: Arc<ChainRecord>,
}

#[derive(Debug)]
struct ChainRecord {
    config: config::Chain,
    /// Snapshots that may be served, by chain id.
    servable: Cache<u64, Arc<Snapshot>>,
    latest: watch::Sender<LatestState>,
    recent_blocks: RwLock<RecentBlocks>,
    /// Number of publications, readings of rewards and leaps.
    revision: AtomicU64,
    /// When a clock of the machine last leapt.
    leaps: watch::Sender<Option<Instant>>,
}

/// Newest state of one chain, however old.
#[derive(Debug, Clone, Default)]
pub struct LatestState {
    /// The newest snapshot; `None`: no reply was ever accepted.
    pub snapshot: Option<Arc<Snapshot>>,
    /// True once the first poll has ended, with or without success.
    pub first_poll_done: bool,
    /// The state that was announced last.
    pub state: ChainState,
}

/// Content and time of one accepted reply.
#[derive(Debug)]
pub struct Snapshot {
    /// Number of the window's last block.
    pub newest_block: u64,
    /// The suggestion as JSON, with the five members of the HTTP contract. Consecutive snapshots share it while it does
    /// not change.
    pub body: Bytes,
    /// The strong entity tag of `body`, with its quotes.
    pub etag: HeaderValue,
    /// The suggestion, and the values that it was computed from.
    pub market: Market,
    /// Prices of one number.
    pub prices: SinglePrices,
    /// Number of the window's first block.
    pub oldest_block: u64,
    /// Number of blocks in the window.
    pub block_count: usize,
    /// Mean time between the newest blocks, with two digits; the configured one until enough were seen.
    pub block_time: Duration,
    /// When the reply was accepted, for display.
    pub observed_time: SystemTime,
    /// The window's last block: how old it is.
    pub block: NewestBlock,
    /// Reasons to doubt a value of the window, each once.
    pub doubts: Vec<Doubt>,
    timestamps: Timestamps,
    /// When this process received it. Another replica may have observed it before that.
    received_at: Instant,
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
    /// Reason why the data is stale, by the chain's settings; `None`: it is fresh.
    pub stale_reason: Option<StaleReason>,
    /// Time until the data becomes stale unless there is a newer reply; 0 if it is.
    pub fresh_for: Duration,
}

/// Reason why data that may be served is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StaleReason {
    /// No reply was accepted for two block times, or since the machine has slept or its clock was set forward.
    OldData,
    /// The newest block was too old already when this process first read it, or another node has a newer one.
    OldBlock,
    /// The newest block was young when it was read, and none has followed.
    StandingHead,
}

/// State of a chain, as in `/v1/chains`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChainState {
    /// There is no data yet.
    #[default]
    NoData,
    /// Data is served, and none of it is old.
    Fresh,
    /// Data is served and labelled stale.
    Stale(StaleReason),
    /// The newest data is older than `max_age` and not served.
    Expired,
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
        for (index, chain) in chains.iter().enumerate() {
            by_name.insert(chain.config().key.clone(), index);
            by_name.insert(chain.config().chain_id.to_string(), index);
        }
        let publishers = chains.iter().cloned().map(Publisher::new).collect();
        (Self { chains, by_name: Arc::new(by_name) }, publishers)
    }

    /// All chains, in ascending order of chain id.
    #[must_use]
    pub fn chains(&self) -> &[StoredChain] {
        &self.chains
    }

    /// Returns the chain with this key, in any case, or with this chain id, decimal or as `0x` and hex digits.
    #[must_use]
    pub fn chain(&self, key_or_id: &str) -> Option<&StoredChain> {
        self.chains.get(self.index_of(key_or_id)?)
    }

    /// Returns the index in [`chains`](Self::chains) of the chain with this key or chain id.
    pub(crate) fn index_of(&self, key_or_id: &str) -> Option<usize> {
        // Nearly all requests have the name as it is configured.
        self.by_name.get(key_or_id).copied().or_else(|| self.index_of_variant(key_or_id))
    }

    /// Like [`index_of`](Self::index_of), for a key in another case and for a hex chain id.
    fn index_of_variant(&self, key_or_id: &str) -> Option<usize> {
        // Longer than any key in a path that is worth a copy.
        const MAX_LENGTH: usize = 256;
        if key_or_id.len() > MAX_LENGTH {
            return None;
        }
        let name = config::parse_hex_chain_id(key_or_id)
            .map_or_else(|| key_or_id.to_ascii_lowercase(), |id| id.to_string());
        self.by_name.get(&name).copied()
    }

    /// Returns true if any chain ever had data.
    #[must_use]
    pub fn has_any_data(&self) -> bool {
        self.chains.iter().any(StoredChain::has_data)
    }

    /// Returns true if the first poll of every chain has ended.
    #[must_use]
    pub fn all_first_polls_done(&self) -> bool {
        self.chains.iter().all(|chain| chain.record.latest.borrow().first_poll_done)
    }
}

impl StoredChain {
    fn new(config: config::Chain, servable: Cache<u64, Arc<Snapshot>>) -> Self {
        let recent_blocks = RwLock::new(RecentBlocks::new(
            config.history_blocks.get(),
            &config.pricing,
            config.reading_interval(),
        ));
        let latest = watch::Sender::new(LatestState::default());
        let revision = AtomicU64::new(0);
        let leaps = watch::Sender::new(None);
        let record = ChainRecord { config, servable, latest, recent_blocks, revision, leaps };
        Self { record: Arc::new(record) }
    }

    /// The chain's configuration.
    #[must_use]
    pub fn config(&self) -> &config::Chain {
        &self.record.config
    }

    /// Returns the snapshot that may be served now.
    ///
    /// # Errors
    ///
    /// Returns [`Unavailable`] if there is none, or only an expired one.
    pub fn servable_snapshot(&self) -> Result<ServableSnapshot, Unavailable> {
        self.find_servable().ok_or_else(|| Unavailable::new(self.has_data()))
    }

    /// Number of publications, readings of rewards and leaps. While it stays, all that is served of the chain changes by its
    /// age alone.
    pub(crate) fn revision(&self) -> u64 {
        self.record.revision.load(Ordering::Acquire)
    }

    /// Returns a receiver of the moment when a clock of the machine last leapt.
    pub(crate) fn leaps(&self) -> watch::Receiver<Option<Instant>> {
        self.record.leaps.subscribe()
    }

    /// Records that a clock of the machine has leapt at this moment: what was received before is stale, and the chain is
    /// polled at once.
    pub(crate) fn record_leap(&self, at: Instant) {
        self.record.leaps.send_replace(Some(at));
        self.record.revision.fetch_add(1, Ordering::Release);
    }

    /// Returns when a clock of the machine last leapt; `None`: never.
    pub(crate) fn last_leap(&self) -> Option<Instant> {
        *self.record.leaps.borrow()
    }

    fn find_servable(&self) -> Option<ServableSnapshot> {
        let now = clock::now();
        let snapshot = self.record.servable.get(&self.config().chain_id)?;
        let age = now.saturating_duration_since(snapshot.timestamps.observed_at);
        // The cache does not count the time that the machine has slept.
        if age >= snapshot.max_age {
            return None;
        }
        let head_age = now.saturating_duration_since(snapshot.timestamps.head_changed_at);
        let stale_reason = self.stale_reason(&snapshot, age, head_age, now);
        let fresh_for = match stale_reason {
            Some(_) => Duration::ZERO,
            None => self.time_to_stale(&snapshot, age, head_age, now),
        };
        Some(ServableSnapshot { snapshot, age, head_age, stale_reason, fresh_for })
    }

    /// Returns the first reason that holds.
    fn stale_reason(
        &self,
        snapshot: &Snapshot,
        age: Duration,
        head_age: Duration,
        now: Instant,
    ) -> Option<StaleReason> {
        let config = self.config();
        let block = &snapshot.block;
        let is_above = |age: Option<Duration>, max: Option<Duration>| {
            age.zip(max).is_some_and(|(age, max)| age > max)
        };
        if age > config.stale_after() || self.last_leap() > Some(snapshot.received_at) {
            return Some(StaleReason::OldData);
        }
        if block.was_old() {
            return Some(StaleReason::OldBlock);
        }
        let has_stalled = config.stall_after().is_some_and(|after| head_age >= after)
            || is_above(block.age(now), config.max_block_age());
        match (has_stalled, block.is_behind()) {
            (false, _) => None,
            (true, true) => Some(StaleReason::OldBlock),
            (true, false) => Some(StaleReason::StandingHead),
        }
    }

    /// Returns the time after which fresh data becomes stale by itself.
    fn time_to_stale(
        &self,
        snapshot: &Snapshot,
        age: Duration,
        head_age: Duration,
        now: Instant,
    ) -> Duration {
        let config = self.config();
        let until_stalled = config.stall_after().map(|after| after.saturating_sub(head_age));
        let block_age = snapshot.block.age(now);
        let until_old_block =
            block_age.zip(config.max_block_age()).map(|(age, max)| max.saturating_sub(age));
        let until_old = config.stale_after().saturating_sub(age);
        [until_stalled, until_old_block].into_iter().flatten().fold(until_old, Duration::min)
    }

    /// Returns the state of the chain now.
    #[must_use]
    pub fn state(&self) -> ChainState {
        ChainState::new(&self.servable_snapshot())
    }

    /// Notifies subscribers if the state has changed since it was announced last.
    pub(crate) fn announce_state(&self) {
        self.record.latest.send_if_modified(|latest| {
            // Looked up under the lock, so that an older state never replaces a newer one.
            let servable = self.find_servable();
            let servable = servable.ok_or_else(|| Unavailable::new(latest.snapshot.is_some()));
            let state = ChainState::new(&servable);
            std::mem::replace(&mut latest.state, state) != state
        });
    }

    /// Newest snapshot, however old; `None`: no reply was ever accepted.
    #[must_use]
    pub fn newest_snapshot(&self) -> Option<Arc<Snapshot>> {
        self.record.latest.borrow().snapshot.clone()
    }

    /// Newest block ever published, however old.
    #[must_use]
    pub fn newest_block(&self) -> Option<u64> {
        self.record.latest.borrow().snapshot.as_ref().map(|snapshot| snapshot.newest_block)
    }

    /// Times of the newest data; `None`: none yet.
    #[must_use]
    pub fn timestamps(&self) -> Option<Timestamps> {
        self.record.latest.borrow().snapshot.as_ref().map(|snapshot| snapshot.timestamps)
    }

    /// Returns a receiver of the newest state. It is notified of every snapshot with a new newest block or body, of one
    /// that is servable again after it had expired, and of every change of [`state`](Self::state). Other snapshots
    /// replace the newest without a notification. A slow reader sees only the newest.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<LatestState> {
        self.record.latest.subscribe()
    }

    /// Waits until a reply was accepted. Dropping the future changes nothing.
    pub(crate) async fn first_data(&self) {
        let mut latest = self.subscribe();
        // The sender lives as long as the chain.
        let _ = latest.wait_for(|state| state.snapshot.is_some()).await;
    }

    fn has_data(&self) -> bool {
        self.record.latest.borrow().snapshot.is_some()
    }
}

impl Unavailable {
    fn new(has_data: bool) -> Self {
        if has_data { Self::Expired } else { Self::NoData }
    }
}

impl ServableSnapshot {
    /// Returns true if the data is labelled stale.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.stale_reason.is_some()
    }
}

impl StaleReason {
    /// Name of the reason in responses and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OldData => "old_data",
            Self::OldBlock => "old_block",
            Self::StandingHead => "standing_head",
        }
    }
}

impl ChainState {
    /// Returns the state that the result of a look-up shows.
    #[must_use]
    pub fn new(result: &Result<ServableSnapshot, Unavailable>) -> Self {
        match result {
            Ok(ServableSnapshot { stale_reason: None, .. }) => Self::Fresh,
            Ok(ServableSnapshot { stale_reason: Some(reason), .. }) => Self::Stale(*reason),
            Err(Unavailable::NoData) => Self::NoData,
            Err(Unavailable::Expired) => Self::Expired,
        }
    }

    /// `fresh`, `stale` or `unavailable`.
    #[must_use]
    pub fn status(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Stale(_) => "stale",
            Self::NoData | Self::Expired => "unavailable",
        }
    }

    /// Reason why the chain is not fresh; `None`: it is.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Fresh => None,
            Self::NoData => Some("no_data"),
            Self::Stale(reason) => Some(reason.name()),
            Self::Expired => Some(StaleReason::OldData.name()),
        }
    }
}

/// Returns milliseconds since 1970; 0 for an earlier time.
pub(crate) fn since_1970(time: SystemTime) -> u64 {
    let elapsed = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// Expires an entry `max_age` after its observation, whenever it was inserted.
struct MaxAgeExpiry;

impl MaxAgeExpiry {
    fn remaining(snapshot: &Snapshot) -> Duration {
        snapshot.max_age.saturating_sub(snapshot.age())
    }
}

impl Expiry<u64, Arc<Snapshot>> for MaxAgeExpiry {
    fn expire_after_create(
        &self,
        _: &u64,
        snapshot: &Arc<Snapshot>,
        _: Instant,
    ) -> Option<Duration> {
        Some(Self::remaining(snapshot))
    }

    // By default an update keeps the deadline of the replaced value.
    fn expire_after_update(
        &self,
        _: &u64,
        snapshot: &Arc<Snapshot>,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(Self::remaining(snapshot))
    }
}

#[cfg(test)]
pub(crate) mod tests;
