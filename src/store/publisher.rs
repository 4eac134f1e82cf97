//! The writer of a chain.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use axum::http::HeaderValue;
use bytes::Bytes;

use super::base_fee_steps::BaseFeeSteps;
use super::head_times::HeadTimes;
use super::wire::SuggestionBody;
use super::{NewestBlock, RecentBlocks, Snapshot, StoredChain, Timestamps, etag, since_1970};
use crate::config;
use crate::fees::plausibility::Doubt;
use crate::fees::{
    self, CALIBRATED_BLOCKS, FAIR_PERCENTILE, FeeHistory, HeadReading, Market, Pricing,
    SinglePrices, Strategy, Suggestion,
};
use crate::observe::clock;

/// The only writer of one chain.
#[derive(Debug)]
pub struct Publisher {
    chain: StoredChain,
    head_times: HeadTimes,
    base_fees: BaseFeeSteps,
    observers: Vec<Box<dyn PublishObserver>>,
}

/// Follows the publications of one chain.
pub trait PublishObserver: Debug + Send + Sync {
    /// Takes a publication before readers see it. Readers wait meanwhile.
    fn published(&mut self, _publication: &Publication<'_>) {}

    /// Takes a publication once the suggestion is served, which does not wait for this. Readers that take the lock do.
    fn served(&mut self, _publication: &Publication<'_>) {}

    /// Takes a further reading, whose rewards are those at [`GRADED_PERCENTILES`](crate::fees::GRADED_PERCENTILES), and the
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
    /// When it was received. Another replica may have observed it before that.
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
        Self {
            chain,
            head_times: HeadTimes::default(),
            base_fees: BaseFeeSteps::default(),
            observers: Vec::new(),
        }
    }

    /// The chain that this publisher writes.
    #[must_use]
    pub fn chain(&self) -> &StoredChain {
        &self.chain
    }

    /// Adds an observer of what is published from now on.
    pub fn observe(&mut self, observer: impl PublishObserver + 'static) {
        self.observers.push(Box::new(observer));
    }

    /// Publishes an accepted reply, which another replica may have received some time ago.
    pub fn publish(&mut self, accepted: Accepted<'_>) {
        let record = &self.chain.record;
        let last = record.latest.borrow().snapshot.clone();
        let (chain, history) = (&record.config, accepted.history);
        // The time between the blocks before a leap and those after it is not known.
        if self.chain.last_leap() > last.as_ref().map(|last| last.received_at) {
            self.head_times = HeadTimes::default();
        }
        // All are updated under one lock, so a reader that takes it never sees one of them new and another old.
        let mut blocks = record.recent_blocks.write();
        blocks.extend(history);
        let market = with_asks(history, accepted.market, &blocks, &chain.pricing);
        let accepted = Accepted { market, ..accepted };
        let measured = (&mut self.head_times, &mut self.base_fees);
        let snapshot = Snapshot::new(accepted, last.as_deref(), measured, &blocks, chain);
        let snapshot = Arc::new(snapshot);
        let is_announced = snapshot.is_news_after(last.as_deref());
        let publication = Publication { chain, snapshot: &snapshot, history, blocks: &blocks };
        for observer in &mut self.observers {
            observer.published(&publication);
        }
        record.servable.insert(chain.chain_id, Arc::clone(&snapshot));
        record.revision.fetch_add(1, Ordering::Release);
        record.latest.send_if_modified(|latest| {
            latest.snapshot = Some(Arc::clone(&snapshot));
            is_announced
        });
        for observer in &mut self.observers {
            observer.served(&publication);
        }
        drop(blocks);
        self.chain.announce_state();
    }

    /// Adds a further reading of rewards to the recent blocks. Returns the number of blocks whose rewards were learnt.
    pub fn add_reading(&mut self, reading: &FeeHistory) -> usize {
        let mut blocks = self.chain.record.recent_blocks.write();
        let learnt = blocks.add_reading(reading);
        if learnt > 0 {
            for observer in &mut self.observers {
                observer.rewards_read(reading, &blocks);
            }
            self.chain.record.revision.fetch_add(1, Ordering::Release);
        }
        learnt
    }

    /// Records that a poll has ended, whether it published anything or not.
    pub fn mark_polled(&self) {
        self.chain.record.latest.send_if_modified(|latest| {
            latest.first_poll_done = true;
            false
        });
    }
}

impl Snapshot {
    /// Creates the snapshot that follows `last`. Both share the body while the suggestion does not change.
    fn new(
        accepted: Accepted<'_>,
        last: Option<&Self>,
        (head_times, base_fees): (&mut HeadTimes, &mut BaseFeeSteps),
        blocks: &RecentBlocks,
        chain: &config::Chain,
    ) -> Self {
        let Accepted { history, market, timestamps, received_at, head, is_behind, doubts } =
            accepted;
        let newest_block = history.newest_block();
        let (body, etag) = match last {
            Some(last) if last.market.suggestion == market.suggestion => {
                (last.body.clone(), last.etag.clone())
            }
            _ => serialise(chain.name(), &market.suggestion),
        };
        let same_head = last.filter(|last| last.newest_block == newest_block);
        let known_since = same_head.map(|last| last.timestamps.head_changed_at);
        let head_changed_at =
            timestamps.head_changed_at.min(known_since.unwrap_or(timestamps.head_changed_at));
        head_times.record(newest_block, head_changed_at);
        let first_seen = to_wall_clock(head_changed_at);
        let steps = base_fees.update(blocks, since_1970(first_seen), chain.block_time);
        let max_block_age = chain.max_block_age();
        let window = history.newest(chain.pricing.window_blocks.get());
        let before_window = history.blocks().len().saturating_sub(window.len());
        let before_window = u64::try_from(before_window).unwrap_or_default();
        Self {
            newest_block,
            body,
            etag,
            prices: SinglePrices::new(&market, steps, chain.block_time),
            market,
            oldest_block: history.oldest_block().saturating_add(before_window),
            block_count: window.len(),
            block_time: head_times.block_time().unwrap_or(chain.block_time),
            observed_time: to_wall_clock(timestamps.observed_at),
            block: NewestBlock::new(newest_block, head, is_behind, max_block_age, first_seen, last),
            doubts,
            timestamps: Timestamps { head_changed_at, ..timestamps },
            received_at,
            max_age: chain.max_age,
        }
    }

    /// Time since the reply was accepted.
    #[must_use]
    pub fn age(&self) -> Duration {
        clock::elapsed(self.timestamps.observed_at)
    }

    /// When its newest block was first seen, by the wall clock.
    #[must_use]
    pub fn head_changed_time(&self) -> SystemTime {
        to_wall_clock(self.timestamps.head_changed_at)
    }

    /// Time from the first sight of its newest block to the reply.
    #[must_use]
    pub fn head_age_at_reply(&self) -> Duration {
        let Timestamps { observed_at, head_changed_at } = self.timestamps;
        observed_at.saturating_duration_since(head_changed_at)
    }

    /// Returns true if subscribers do not have what the snapshot says: it has a new head or body, or `last` had expired,
    /// and subscribers that came meanwhile have received nothing. A repeat is harmless.
    fn is_news_after(&self, last: Option<&Self>) -> bool {
        const EXPIRY_MARGIN: Duration = Duration::from_millis(100);
        last.is_none_or(|last| {
            let age = clock::elapsed(last.timestamps.observed_at);
            last.newest_block != self.newest_block
                || last.body != self.body
                || age.saturating_add(EXPIRY_MARGIN) >= last.max_age
        })
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

/// Serialises a suggestion. Returns its body and entity tag.
fn serialise(chain_name: &str, suggestion: &Suggestion) -> (Bytes, HeaderValue) {
    let body = serde_json::to_vec(&SuggestionBody::new(chain_name, suggestion))
        .expect("a struct of strings serialises");
    let etag = etag::for_body(&body);
    (body.into(), etag)
}

/// Converts a past instant to wall-clock time, for display.
fn to_wall_clock(moment: Instant) -> SystemTime {
    let now = SystemTime::now();
    now.checked_sub(clock::elapsed(moment)).unwrap_or(now)
}
