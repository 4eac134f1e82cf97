//! The writer of a chain.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::http::HeaderValue;
use bytes::Bytes;

use super::{COMPARED_BLOCKS, NewestBlock, Snapshot, StoredChain, Timestamps, since_1970};
use crate::api::etag;
use crate::api::wire::SuggestionBody;
use crate::extras::compat::head_times::HeadTimes;
use crate::extras::compat::{Documents, Quote};
use crate::extras::trend::Observation;
use crate::fees::plausibility::Doubt;
use crate::fees::{FeeHistory, HeadReading, Market, SinglePrices, Suggestion};

/// The only writer of one chain.
#[derive(Debug)]
pub struct Publisher {
    chain: StoredChain,
    head_times: HeadTimes,
}

/// A reply that is published, and what is known of it.
#[derive(Debug, Clone)]
pub struct Accepted<'a> {
    /// The reply, with the blocks before it that its price depends on.
    pub history: &'a FeeHistory,
    /// Its price.
    pub market: Market,
    /// When it was accepted, and when its newest block was first seen.
    pub timestamps: Timestamps,
    /// Age of its newest block, as far as its node tells.
    pub head: HeadReading,
    /// True if another node has a newer block.
    pub is_behind: bool,
    /// Reasons to doubt a value in the window.
    pub doubts: Vec<Doubt>,
}

impl<'a> Accepted<'a> {
    /// Creates a reply that is accepted now, with a new head of unknown age.
    #[must_use]
    pub fn now(history: &'a FeeHistory, market: Market) -> Self {
        let now = Instant::now();
        Self {
            history,
            market,
            timestamps: Timestamps { observed_at: now, head_changed_at: now },
            head: HeadReading::Unknown,
            is_behind: false,
            doubts: Vec::new(),
        }
    }
}

impl Publisher {
    pub(super) fn new(chain: StoredChain) -> Self {
        Self { chain, head_times: HeadTimes::default() }
    }

    /// The chain that this publisher writes.
    #[must_use]
    pub fn chain(&self) -> &StoredChain {
        &self.chain
    }

    /// Publishes an accepted reply, which another replica may have received some time ago.
    pub fn publish(&mut self, accepted: Accepted<'_>) {
        const EXPIRY_MARGIN: Duration = Duration::from_millis(100);
        let Accepted { history, market, timestamps, head, is_behind, doubts } = accepted;
        let Timestamps { observed_at, head_changed_at } = timestamps;
        let inner = &self.chain.inner;
        let newest_block = history.newest_block();
        let last = inner.latest.borrow().snapshot.clone();
        let (body, etag) = match &last {
            Some(last) if last.market.suggestion == market.suggestion => {
                (last.body.clone(), last.etag.clone())
            }
            _ => serialise(inner.config.name(), &market.suggestion),
        };
        let same_head = last.as_ref().filter(|last| last.newest_block == newest_block);
        let is_changed = same_head.is_none_or(|last| last.body != body);
        let head_changed_at = same_head
            .map_or(head_changed_at, |last| last.timestamps.head_changed_at.min(head_changed_at));
        let block = NewestBlock::new(
            newest_block,
            head,
            is_behind,
            inner.config.max_block_age(),
            to_wall_clock(head_changed_at),
            last.as_deref(),
        );
        // Subscribers that came while the value had expired have not received it. A repeat is harmless.
        let was_servable = last.is_some_and(|last| {
            last.timestamps.observed_at.elapsed().saturating_add(EXPIRY_MARGIN) < last.max_age
        });
        let window = history.newest(inner.config.pricing.window_blocks.get());
        let before_window = history.blocks().len().saturating_sub(window.len());
        let before_window = u64::try_from(before_window).unwrap_or_default();
        self.head_times.record(newest_block, head_changed_at);
        // All are updated under one lock, so a reader never sees one of them new and another old.
        let mut recent = inner.recent_blocks.write().unwrap_or_else(PoisonError::into_inner);
        recent.extend(history);
        let block_time = self.head_times.block_time().unwrap_or(inner.config.block_time);
        let prices = SinglePrices::new(&market, &recent.base_fees());
        let quote = Quote {
            chain: &inner.config,
            market: &market,
            prices,
            newest_block,
            blocks: &recent.newest(COMPARED_BLOCKS).blocks,
            ranges: recent.ranges(market.newest_known_base_fee, &inner.config.pricing),
            block_time,
            head_age: observed_at.saturating_duration_since(head_changed_at),
        };
        let documents = Documents::new(&quote, inner.config.formats);
        let snapshot = Arc::new(Snapshot {
            newest_block,
            body,
            etag,
            market,
            prices,
            oldest_block: history.oldest_block().saturating_add(before_window),
            block_count: window.len(),
            documents,
            observed_time: to_wall_clock(observed_at),
            block,
            doubts,
            timestamps: Timestamps { observed_at, head_changed_at },
            max_age: inner.config.max_age,
        });
        let now = Instant::now();
        self.chain.with_scorer(|scorer| scorer.record(history, &snapshot.market, now));
        let seen = Observation {
            history,
            market: Some(&snapshot.market),
            pricing: &inner.config.pricing,
            newest_time: since_1970(to_wall_clock(head_changed_at)),
            block_time: u64::try_from(block_time.as_millis()).unwrap_or(u64::MAX),
            known_blocks: &|count| recent.newest(count),
        };
        self.chain.with_fee_trend(|trend| trend.record(&seen));
        inner.servable.insert(inner.config.chain_id, Arc::clone(&snapshot));
        drop(recent);
        inner.latest.send_if_modified(|latest| {
            latest.snapshot = Some(snapshot);
            is_changed || !was_servable
        });
        self.chain.announce_state();
    }

    /// Records that a poll has ended, whether it published anything or not.
    pub fn mark_polled(&self) {
        self.chain.inner.latest.send_if_modified(|latest| {
            latest.first_poll_done = true;
            false
        });
    }
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
    now.checked_sub(moment.elapsed()).unwrap_or(now)
}
