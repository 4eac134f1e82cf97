//! Content and time of one accepted reply.

use std::time::{Duration, Instant, SystemTime};

use axum::http::HeaderValue;
use bytes::Bytes;

use super::block_time::BlockTime;
use super::wire::SuggestionBody;
use super::{Accepted, BlockWindow, NewestBlock, RecentBlocks, etag, since_1970};
use crate::config;
use crate::fees::plausibility::Doubt;
use crate::fees::{
    BaseFeeRule, ChainParameters, FittedRule, HeadReading, Market, Pricing, SinglePrices,
    Suggestion,
};
use crate::observe::clock;

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
    /// Time between two blocks, with two digits; the configured one until the headers have told it.
    pub block_time: Duration,
    /// When the reply was accepted, for display.
    pub observed_time: SystemTime,
    /// The window's last block: how old it is.
    pub block: NewestBlock,
    /// Reasons to doubt a value of the window, each once.
    pub doubts: Vec<Doubt>,
    /// Age up to which it may be served.
    pub(super) max_age: Duration,
    pub(super) timestamps: Timestamps,
    /// When this process received it. Another process may have observed it before that.
    pub(super) received_at: Instant,
}

/// Times of a chain's newest data, however old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamps {
    /// When the last reply was accepted.
    pub observed_at: Instant,
    /// When the number of the newest block was first seen.
    pub head_changed_at: Instant,
}

/// Measurements over many snapshots.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) block_time: BlockTime,
    /// How the base fee moves by the last header, if that says it.
    stated_rule: Option<BaseFeeRule>,
    observed_rule: FittedRule,
}

impl Measured {
    /// Learns the block time and how the base fee moves from a reply with this `head`, and from the recent blocks that it
    /// has brought.
    pub(super) fn learn(
        &mut self,
        head: HeadReading,
        blocks: &RecentBlocks,
        chain: &config::Chain,
    ) {
        if let HeadReading::Header(header) = head {
            self.stated_rule = header.rule;
            if chain.stall_after(self.block_time(chain)).is_some() {
                self.block_time.record(header);
            }
        }
        if self.observed_rule.is_due(blocks.newest_block) {
            let BlockWindow { newest_block, blocks, next_base_fee } =
                blocks.newest(FittedRule::BLOCKS);
            self.observed_rule.update(newest_block, &blocks, next_base_fee);
        }
    }

    /// Returns the time between two blocks: as measured, else the configured one.
    pub(super) fn block_time(&self, chain: &config::Chain) -> Duration {
        self.block_time.measured().unwrap_or(chain.block_time)
    }

    /// Returns the parameters in force.
    pub(super) fn chain_parameters(&self, pricing: &Pricing) -> ChainParameters {
        ChainParameters::new(pricing, self.stated_rule, self.observed_rule.rule)
    }
}

impl Snapshot {
    /// Creates the snapshot that follows `last`. Both share the body while the suggestion does not change.
    pub(super) fn new(
        accepted: Accepted<'_>,
        last: Option<&Self>,
        measured: &Measured,
        blocks: &mut RecentBlocks,
        chain: &config::Chain,
    ) -> Self {
        let Accepted { history, timestamps, .. } = accepted;
        let newest_block = history.newest_block();
        let suggestion = &accepted.market.suggestion;
        let (body, etag) = match last {
            Some(last) if last.market.suggestion == *suggestion => {
                (last.body.clone(), last.etag.clone())
            }
            _ => serialise(chain.name(), suggestion),
        };
        let same_head = last.filter(|last| last.newest_block == newest_block);
        let head_changed_at = same_head.map_or(timestamps.head_changed_at, |last| {
            last.timestamps.head_changed_at.min(timestamps.head_changed_at)
        });
        let block_time = measured.block_time(chain);
        let first_seen = to_wall_clock(head_changed_at);
        blocks.update_steps(since_1970(first_seen), block_time);
        let steps = blocks.base_fee_steps(block_time);
        let block_count = history.newest(chain.pricing.window_blocks.get()).len();
        let before_window = history.blocks().len().saturating_sub(block_count);
        let before_window = u64::try_from(before_window).unwrap_or_default();
        Self {
            newest_block,
            body,
            etag,
            prices: SinglePrices::new(&accepted.market, &steps, block_time),
            oldest_block: history.oldest_block().saturating_add(before_window),
            block_count,
            block_time,
            observed_time: to_wall_clock(timestamps.observed_at),
            block: NewestBlock::new(&accepted, last, first_seen, chain.max_block_age(block_time)),
            market: accepted.market,
            doubts: accepted.doubts,
            max_age: chain.max_age,
            timestamps: Timestamps { head_changed_at, ..timestamps },
            received_at: accepted.received_at,
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
    pub(super) fn is_news_after(&self, last: Option<&Self>) -> bool {
        const EXPIRY_MARGIN: Duration = Duration::from_millis(100);
        last.is_none_or(|last| {
            let age = clock::elapsed(last.timestamps.observed_at);
            last.newest_block != self.newest_block
                || last.body != self.body
                || age.saturating_add(EXPIRY_MARGIN) >= self.max_age
        })
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
    now.checked_sub(clock::elapsed(moment)).unwrap_or(now)
}
