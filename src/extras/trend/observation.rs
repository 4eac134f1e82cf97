//! From an accepted reply, or from old blocks, to samples.

use super::{FeeTrend, Sample, TEN_MINUTES, to_seconds};
use crate::fees::plausibility::KnownBlock;
use crate::fees::{
    self, Block, ChainParameters, EntryBlock, FeeHistory, Market, Pricing, Strategy,
};

/// An accepted reply, and what is needed to price its older blocks.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    /// The reply.
    pub history: &'a FeeHistory,
    /// The market that was published at its newest block.
    pub market: &'a Market,
    /// Pricing of the chain.
    pub pricing: &'a Pricing,
    /// When the newest block was first seen, in milliseconds since 1970.
    pub newest_time: u64,
    /// Time between blocks in milliseconds. Older blocks are dated back by it.
    pub block_time: u64,
    /// Blocks up to the newest one, those of the reply included.
    pub known_blocks: &'a [Block],
}

/// A mined block and its time in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DatedBlock {
    pub(crate) block: KnownBlock,
    pub(crate) time: u64,
}

impl FeeTrend {
    /// Records the blocks of a reply that are new, or that a reorg has changed. The tip at a block that was not the newest
    /// one of a reply is that of the newest one if asks decide it, which are no newer; else it is computed from the blocks up
    /// to it. A block for which that is not possible is left out, and so is one with an amount beyond 64 bits.
    pub(crate) fn record(&mut self, seen: &Observation<'_>) {
        let newest = seen.history.newest_block();
        let newest_time = to_seconds(seen.newest_time / 1000);
        if newest_time.saturating_add(TEN_MINUTES) < self.newest_known() {
            self.remove_from_hour(newest_time);
        }
        if newest < self.newest_block {
            self.open.remove_above(newest);
            self.newest_block = newest;
            self.changes += 1;
        }
        for (number, block) in (seen.history.oldest_block()..=newest).zip(seen.history.blocks()) {
            let since = newest.saturating_sub(number).saturating_mul(seen.block_time);
            let time = to_seconds(seen.newest_time.saturating_sub(since) / 1000);
            if number < newest && self.is_known(number, block) {
                continue;
            }
            let tip = if number == newest || seen.market.strategy == Strategy::Calibrated {
                Some(seen.market.suggestion.tiers.medium.max_priority_fee_per_gas)
            } else {
                tip_at(number, newest, seen.known_blocks, &[], seen.pricing)
            };
            if let Some(sample) = tip.and_then(|tip| Sample::new(number, block, tip, time)) {
                self.add(sample);
            }
        }
    }

    /// Returns true if the block is counted already and has not changed, or can no longer be replaced.
    fn is_known(&self, number: u64, block: &Block) -> bool {
        match self.open.get(number) {
            Some(known) => {
                let seen = Sample::new(number, block, known.tip.into(), known.time);
                seen.as_ref() == Some(known)
            }
            None => number <= self.newest_block && self.newest_time > 0,
        }
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
    let distance = above.block.number.saturating_sub(first.block.number).max(1);
    let duration = above.time.saturating_sub(first.time);
    let sample = |(number, block): (u64, &Block)| {
        let since_first =
            duration.saturating_mul(number.checked_sub(first.block.number)?) / distance;
        let time = to_seconds(first.time.saturating_add(since_first));
        Sample::new(number, block, tip_at(number, newest, blocks, &entries, pricing)?, time)
    };
    let numbered = (history.oldest_block()..above.block.number).zip(blocks);
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
    let parameters = ChainParameters::without_header(pricing);
    let market = fees::price(&history, entries, pricing, &parameters).ok()?;
    Some(market.suggestion.tiers.medium.max_priority_fee_per_gas)
}
