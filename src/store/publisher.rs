//! The writer of a chain.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use parking_lot::Mutex;

use super::snapshot::Measured;
use super::{RecentBlocks, Snapshot, StoredChain, Timestamps};
use crate::config;
use crate::fees::plausibility::Doubt;
use crate::fees::{
    self, CALIBRATED_BLOCKS, ChainParameters, FAIR_PERCENTILE, FeeHistory, HeadReading, Market,
    Pricing, Strategy,
};
use crate::observe::clock;

/// Writer of one chain. Its clones write the same chain, one at a time.
#[derive(Debug, Clone)]
pub struct Publisher {
    chain: StoredChain,
    inner: Arc<Mutex<PublisherInner>>,
}

#[derive(Debug, Default)]
struct PublisherInner {
    measured: Measured,
    observers: Vec<Box<dyn PublishObserver>>,
}

/// Follows the publications of one chain.
pub trait PublishObserver: Debug + Send + Sync {
    /// Takes a publication before readers see it. Readers wait meanwhile.
    fn published(&mut self, _publication: &Publication<'_>) {}

    /// Takes a publication once the suggestion is served, which does not wait for this. Readers that take the lock do.
    fn served(&mut self, _publication: &Publication<'_>) {}

    /// Takes a reading, whose rewards are those at [`GRADED_PERCENTILES`](crate::fees::GRADED_PERCENTILES), and the
    /// recent blocks with it. Readers wait meanwhile.
    fn rewards_read(&mut self, _reading: &FeeHistory, _blocks: &RecentBlocks) {}
}

/// A snapshot that is published, and what it was made of.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    /// Configuration of the chain.
    pub chain: &'a config::Chain,
    /// The snapshot that readers will get.
    pub snapshot: &'a Snapshot,
    /// The reply.
    pub history: &'a FeeHistory,
    /// The recent blocks, those of the reply included.
    pub blocks: &'a RecentBlocks,
}

/// A reply that is published, and what is known of it.
#[derive(Debug, Clone)]
pub struct Accepted<'a> {
    /// The reply.
    pub history: &'a FeeHistory,
    /// Its price by the network's rule. With the calibrated strategy, asks that are known replace its tips.
    pub market: Market,
    /// When it was accepted, and when its newest block was first seen.
    pub timestamps: Timestamps,
    /// When it was received. Another process may have observed it before that.
    pub received_at: Instant,
    /// Age of its newest block, as far as its node tells.
    pub head: HeadReading,
    /// True if another node has a newer block.
    pub is_behind: bool,
    /// Reasons to doubt a value in the window.
    pub doubts: Vec<Doubt>,
}

impl<'a> Accepted<'a> {
    /// Creates a reply that arrived now, with a new head of unknown age.
    #[must_use]
    pub fn now(history: &'a FeeHistory, market: Market) -> Self {
        Self::at(clock::now(), history, market)
    }

    /// Creates a reply that arrived at `observed_at`, with a new head of unknown age.
    #[must_use]
    pub fn at(observed_at: Instant, history: &'a FeeHistory, market: Market) -> Self {
        Self {
            history,
            market,
            timestamps: Timestamps { observed_at, head_changed_at: observed_at },
            received_at: observed_at,
            head: HeadReading::Unread,
            is_behind: false,
            doubts: Vec::new(),
        }
    }
}

impl Publisher {
    pub(super) fn new(chain: StoredChain) -> Self {
        Self { chain, inner: Arc::default() }
    }

    /// The chain that this publisher writes.
    #[must_use]
    pub fn chain(&self) -> &StoredChain {
        &self.chain
    }

    /// Adds an observer of what is published from now on.
    pub fn observe(&mut self, observer: impl PublishObserver + 'static) {
        self.inner.lock().observers.push(Box::new(observer));
    }

    /// Publishes an accepted reply, which another process may have received some time ago.
    pub fn publish(&mut self, accepted: Accepted<'_>) {
        let PublisherInner { measured, observers } = &mut *self.inner.lock();
        let record = &self.chain.record;
        let last = self.chain.newest_snapshot();
        let (chain, history) = (&record.config, accepted.history);
        // All are updated under one lock, so a reader that takes it never sees one of them new and another old.
        let mut blocks = record.recent_blocks.write();
        blocks.extend(history);
        measured.learn(accepted.head, &blocks, chain);
        blocks.set_reading_interval(chain.reading_interval(measured.block_time(chain)));
        let market = with_asks(history, accepted.market, &blocks, &chain.pricing);
        let accepted = Accepted { market, ..accepted };
        let snapshot = Snapshot::new(accepted, last.as_deref(), measured, &mut blocks, chain);
        let snapshot = Arc::new(snapshot);
        let is_news = snapshot.is_news_after(last.as_deref());
        let publication = Publication { chain, snapshot: &snapshot, history, blocks: &blocks };
        for observer in &mut *observers {
            observer.published(&publication);
        }
        record.served.insert(chain.chain_id, Arc::clone(&snapshot));
        record.latest.send_if_modified(|latest| {
            latest.snapshot = Some(Arc::clone(&snapshot));
            let is_other_state = self.chain.update_state(latest);
            is_news || is_other_state
        });
        record.revision.fetch_add(1, Ordering::Release);
        for observer in observers {
            observer.served(&publication);
        }
    }

    /// Adds a reading of asks to the recent blocks. Returns the number of blocks whose ask was learnt.
    pub fn add_reading(&mut self, reading: &FeeHistory) -> usize {
        let PublisherInner { observers, .. } = &mut *self.inner.lock();
        let mut blocks = self.chain.record.recent_blocks.write();
        let learnt = blocks.add_reading(reading);
        if learnt > 0 {
            for observer in observers {
                observer.rewards_read(reading, &blocks);
            }
            self.chain.record.revision.fetch_add(1, Ordering::Release);
        }
        learnt
    }

    /// Returns how the chain moves its base fee, as far as the publications so far have told.
    #[must_use]
    pub fn chain_parameters(&self) -> ChainParameters {
        self.inner.lock().measured.chain_parameters(&self.chain.config().pricing)
    }

    /// Learns the block time from a header that is older than those of the publications.
    pub(crate) fn add_older_header(&self, number: u64, unix_seconds: u64) {
        self.inner.lock().measured.block_time.add_older(number, unix_seconds);
    }

    /// Records that a poll has ended, whether it published anything or not.
    pub fn mark_polled(&self) {
        self.chain.record.latest.send_if_modified(|latest| {
            latest.first_poll_done = true;
            false
        });
    }
}

/// Returns the price of `history` with the asks that are known by now; `by_network` while there are too few.
fn with_asks(
    history: &FeeHistory,
    by_network: Market,
    blocks: &RecentBlocks,
    pricing: &Pricing,
) -> Market {
    let entries = match pricing.strategy {
        Strategy::Network => return by_network,
        Strategy::Calibrated => blocks.newest_entries(CALIBRATED_BLOCKS),
    };
    if entries.percentile.total_cmp(&FAIR_PERCENTILE).is_ne() {
        return by_network;
    }
    fees::price(history, &entries.blocks, pricing, &by_network.chain_parameters)
        .unwrap_or(by_network)
}
