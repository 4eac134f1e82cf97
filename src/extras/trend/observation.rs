//! From an accepted reply, or from old blocks, to samples.

use std::time::Duration;

use super::{FeeTrend, Sample, TEN_MINUTES, to_seconds};
use crate::fees::{
    self, Block, ChainParameters, EntryBlock, FeeHistory, Market, Pricing, Strategy,
};

/// A mined block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DatedBlock {
    pub(crate) number: u64,
    /// In wei per gas.
    pub(crate) base_fee: u128,
    /// In seconds since 1970.
    pub(crate) time: u64,
}

impl FeeTrend {
    /// Records the blocks of an accepted reply that are new, or that a reorg has changed. `market` was published at the
    /// newest one, which was first seen `newest_time` milliseconds after 1970; older ones are dated back by `block_time`. The
    /// tip at a block that was not the newest one of a reply is that of the newest one if asks decide it, which are no newer;
    /// else it is computed from the `known` blocks, those of the reply included, up to it. A block for which that is not
    /// possible is left out, and so is one with an amount beyond 64 bits.
    pub(crate) fn record(
        &mut self,
        history: &FeeHistory,
        market: &Market,
        pricing: &Pricing,
        known: &[Block],
        newest_time: u64,
        block_time: Duration,
    ) {
        let newest = history.newest_block();
        let block_time = u64::try_from(block_time.as_millis()).unwrap_or(u64::MAX);
        let newest_second = to_seconds(newest_time / 1000);
        if newest_second.saturating_add(TEN_MINUTES) < self.newest_known() {
            self.remove_from_hour(newest_second);
        }
        if newest < self.newest_block {
            self.open.samples.retain(|sample| sample.number <= newest);
            // Blocks that were mined while a head far ahead was believed are not known.
            self.newest_block = self.open.samples.last().map_or(newest, |sample| sample.number);
            self.changes += 1;
        }
        for (number, block) in (history.oldest_block()..=newest).zip(history.blocks()) {
            let since = newest.saturating_sub(number).saturating_mul(block_time);
            let time = to_seconds(newest_time.saturating_sub(since) / 1000);
            if number < newest && self.is_known(number, block) {
                continue;
            }
            let tip = if number == newest || market.strategy == Strategy::Calibrated {
                Some(market.suggestion.tiers.medium.max_priority_fee_per_gas)
            } else {
                tip_at(number, newest, known, &[], pricing)
            };
            if let Some(sample) = tip.and_then(|tip| Sample::new(number, block, tip, time)) {
                self.add(sample);
            }
        }
    }

    /// Returns true if the block is counted already and has not changed, or can no longer be replaced.
    fn is_known(&self, number: u64, block: &Block) -> bool {
        let Some(known) = self.open.get(number) else {
            return number <= self.newest_block && self.newest_time > 0;
        };
        Sample::new(number, block, known.tip.into(), known.time).as_ref() == Some(known)
    }
}

/// Returns the samples of the blocks from `first` up to the one before `above`, the newest first, with the tips that would
/// have been suggested by `pricing`, whose percentiles are those of the history. They are dated evenly between the two. The
/// history also has the blocks that their tips depend on. A block without a price is left out.
pub(crate) fn past_samples(
    history: &FeeHistory,
    first: DatedBlock,
    above: DatedBlock,
    pricing: &Pricing,
) -> Vec<Sample> {
    let (blocks, newest) = (history.blocks(), history.newest_block());
    let entries = pricing.entries(blocks);
    let distance = above.number.saturating_sub(first.number).max(1);
    let duration = above.time.saturating_sub(first.time);
    let sample = |(number, block): (u64, &Block)| {
        let since_first = duration.saturating_mul(number.checked_sub(first.number)?) / distance;
        let time = to_seconds(first.time.saturating_add(since_first));
        Sample::new(number, block, tip_at(number, newest, blocks, &entries, pricing)?, time)
    };
    let numbered = (history.oldest_block()..above.number).zip(blocks);
    let mut samples: Vec<Sample> = numbered.filter_map(sample).collect();
    samples.reverse();
    samples
}

/// Returns the medium tip that those of the `known` blocks, which end with `newest`, up to `number` yield, and the entries of
/// the same blocks if their asks are known; `None`: they yield none.
fn tip_at(
    number: u64,
    newest: u64,
    known: &[Block],
    entries: &[EntryBlock],
    pricing: &Pricing,
) -> Option<u128> {
    let later = usize::try_from(newest.checked_sub(number)?).ok()?;
    let count = known.len().checked_sub(later)?;
    let (blocks, after) = known.split_at_checked(count)?;
    let blocks = blocks.get(count.saturating_sub(pricing.window_blocks.get())..)?;
    let below = u64::try_from(blocks.len().checked_sub(1)?).ok()?;
    let next_base_fee = after.first().map(|block| block.base_fee);
    let history = FeeHistory::new(number.checked_sub(below)?, blocks.to_vec(), next_base_fee)?;
    let entries = entries.get(..count).unwrap_or_default();
    // A tip does not depend on the parameters.
    let parameters = ChainParameters::from_pricing(pricing);
    let market = fees::price(&history, entries, pricing, &parameters).ok()?;
    Some(market.suggestion.tiers.medium.max_priority_fee_per_gas)
}
