//! State of each chain and its age.
//!
//! A [`Publisher`] per chain writes; any number of [`StoredChain`] handles read. Each chain has three stores:
//!
//! - A moka cache holds what may be served. It drops a snapshot `max_age` after it was observed.
//! - A watch channel holds the newest snapshot, however old, and announces changes of what is served. A slow subscriber
//!   sees the newest snapshot, never a backlog.
//! - A ring holds the recent blocks without gaps, with their asks. A reorg replaces blocks; a gap drops all blocks below it.
//!
//! Each observer of a chain gets a publication before readers see it.
//!
//! A suggestion is serialised, with its entity tag, only when it changes. Ages come from `observe::clock`, which counts sleep,
//! so a step of the wall clock changes none. After a leap of either clock, data is stale until the next reply. Besides,
//! the wall clock is displayed, and may show that a block is older than it was.

mod base_fee_steps;
mod block_time;
mod entry_window;
pub(crate) mod etag;
mod newest_block;
mod per_chain;
mod publisher;
mod recent_blocks;
mod served;
mod snapshot;
mod state;
pub(crate) mod wire;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::RwLock;
use tokio::sync::watch;

pub use entry_window::EntryWindow;
pub use newest_block::NewestBlock;
pub use per_chain::PerChain;
pub use publisher::{Accepted, Publication, PublishObserver, Publisher};
pub use recent_blocks::{BlockWindow, RecentBlocks};
pub use snapshot::{Snapshot, Timestamps};
pub use state::{ChainState, ServableSnapshot, StaleReason, Unavailable};

use crate::config;
use served::ServedSnapshots;

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
    served: ServedSnapshots,
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

impl ChainStore {
    /// Creates an empty store of `chains`, in their order, with a writer for each.
    #[must_use]
    pub fn new(chains: &[config::Chain]) -> (Self, Vec<Publisher>) {
        let served = served::new_cache();
        let chains: Arc<[StoredChain]> =
            chains.iter().map(|config| StoredChain::new(config.clone(), served.clone())).collect();
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
        // Longer than any key in a path that is worth a copy.
        const MAX_LENGTH: usize = 256;
        // Nearly all requests have the name as it is configured.
        let index = self.by_name.get(key_or_id);
        if index.is_some() || key_or_id.len() > MAX_LENGTH {
            return index.copied();
        }
        let name = config::parse_hex_chain_id(key_or_id)
            .map_or_else(|| key_or_id.to_ascii_lowercase(), |id| id.to_string());
        self.by_name.get(&name).copied()
    }

    /// Returns the chains that have a servable snapshot, with it, in ascending order of chain id.
    pub(crate) fn servable_snapshots(&self) -> Vec<(&StoredChain, ServableSnapshot)> {
        let chains = self.chains.iter();
        chains.filter_map(|chain| Some((chain, chain.servable_snapshot().ok()?))).collect()
    }

    /// Returns true if any chain ever had data.
    #[must_use]
    pub fn has_any_data(&self) -> bool {
        self.chains.iter().any(|chain| chain.newest_block().is_some())
    }

    /// Returns true if the first poll of every chain has ended.
    #[must_use]
    pub fn all_first_polls_done(&self) -> bool {
        self.chains.iter().all(|chain| chain.record.latest.borrow().first_poll_done)
    }
}

impl StoredChain {
    fn new(config: config::Chain, served: ServedSnapshots) -> Self {
        let recent_blocks = RecentBlocks::new(
            config.history_blocks.get(),
            &config.pricing,
            config.reading_interval(config.block_time),
        );
        let record = ChainRecord {
            config,
            served,
            latest: watch::Sender::new(LatestState::default()),
            recent_blocks: RwLock::new(recent_blocks),
            revision: AtomicU64::new(0),
            leaps: watch::Sender::new(None),
        };
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
        // Asked for first, because the first publication may come in between.
        let had_data = self.newest_block().is_some();
        let served = self.record.served.get(&self.config().chain_id);
        if served.is_none() && had_data {
            return Err(Unavailable::Expired);
        }
        ServableSnapshot::new(served, self.config(), self.last_leap())
    }

    /// Calls `read` with the recent blocks. Nothing is published meanwhile, so all that it reads of the chain, and of what
    /// observers keep, belongs to the same blocks. It must not wait.
    pub fn read_together<T>(&self, read: impl FnOnce(&RecentBlocks) -> T) -> T {
        read(&self.record.recent_blocks.read())
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
        self.read_together(|recent| Ok((self.servable_snapshot()?, recent.newest(count))))
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

    /// Returns the state of the chain now.
    #[must_use]
    pub fn state(&self) -> ChainState {
        ChainState::new(&self.servable_snapshot())
    }

    /// Notifies subscribers if the state has changed since it was announced last.
    pub(crate) fn announce_state(&self) {
        self.record.latest.send_if_modified(|latest| self.update_state(latest));
    }

    /// Returns true if the state of what is published last has changed since it was announced.
    fn update_state(&self, latest: &mut LatestState) -> bool {
        let snapshot = latest.snapshot.clone();
        let current = ServableSnapshot::new(snapshot, self.config(), self.last_leap());
        let state = ChainState::new(&current);
        std::mem::replace(&mut latest.state, state) != state
    }

    /// Newest snapshot, however old; `None`: no reply was ever accepted.
    #[must_use]
    pub fn newest_snapshot(&self) -> Option<Arc<Snapshot>> {
        self.record.latest.borrow().snapshot.clone()
    }

    /// Time between two blocks: as measured, else the configured one.
    #[must_use]
    pub fn block_time(&self) -> Duration {
        self.newest_snapshot().map_or(self.config().block_time, |snapshot| snapshot.block_time)
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
}

/// Returns milliseconds since 1970; 0 for an earlier time.
pub(crate) fn since_1970(time: SystemTime) -> u64 {
    let elapsed = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
