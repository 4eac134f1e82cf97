//! From an accepted reply, or from old blocks, to samples.

use super::{FeeTrend, Sample, TEN_MINUTES, to_seconds};
use crate::fees::{
    self, Block, ChainParameters, EntryBlock, FeeHistory, Market, Pricing, Strategy,
};
use crate::store::BlockWindow;

/// An accepted reply, and what is needed to price its older blocks.
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
    /// Returns so many of the newest known blocks, those of the reply included.
    pub known_blocks: &'a dyn Fn(usize) -> BlockWindow,
}

/// A mined block and its time in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatedBlock {
    pub(crate) number: u64,
    pub(crate) time: u64,
}

/// Old blocks between two whose times are known.
#[derive(Debug)]
pub(crate) struct PastSpan<'a> {
    /// All of the blocks, and those before them that their tips depend on.
    pub(crate) history: &'a FeeHistory,
    /// The first block.
    pub(crate) first: DatedBlock,
    /// The block after the last one.
    pub(crate) above: DatedBlock,
}

impl std::fmt::Debug for Observation<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Observation").field("history", self.history).finish_non_exhaustive()
    }
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
            if self.open.remove_above(newest) {
                self.count_change();
            }
            self.newest_block = newest;
        }
        let mut window = None;
        for (number, block) in (seen.history.oldest_block()..=newest).zip(seen.history.blocks()) {
            let since = newest.saturating_sub(number).saturating_mul(seen.block_time);
            let time = to_seconds(seen.newest_time.saturating_sub(since) / 1000);
            let Some(mut sample) = sample(number, block, time) else { continue };
            let is_newest = number == newest;
            if !is_newest && self.is_known(&sample) {
                continue;
            }
            let tip = if is_newest || seen.market.strategy == Strategy::Calibrated {
                Some(seen.market.suggestion.tiers.medium.max_priority_fee_per_gas)
            } else {
                let window = window.get_or_insert_with(|| seen.blocks_to_price(number));
                tip_at(number, window, &[], seen.pricing)
            };
            if let Some(tip) = tip.and_then(|tip| u64::try_from(tip).ok()) {
                sample.tip = tip;
                self.add(sample);
            }
        }
    }

    /// Returns true if the block is counted already and has not changed, or can no longer be replaced.
    fn is_known(&self, sample: &Sample) -> bool {
        match self.open.get(sample.number) {
            Some(known) => known.has_block_of(sample),
            None => sample.number <= self.newest_block && self.newest_time > 0,
        }
    }
}

impl Observation<'_> {
    /// Returns the blocks that the network's rule needs at `first` and at all later blocks.
    fn blocks_to_price(&self, first: u64) -> BlockWindow {
        let later = self.history.newest_block().saturating_sub(first);
        let later = usize::try_from(later).unwrap_or(usize::MAX);
        (self.known_blocks)(self.pricing.window_blocks.get().saturating_add(later))
    }
}

impl PastSpan<'_> {
    /// Returns the samples of the blocks, the newest first, with the tips that would have been suggested by `pricing`, whose
    /// percentiles are those of the history. They are dated evenly. A block without a price is left out.
    pub(crate) fn samples(&self, pricing: &Pricing) -> Vec<Sample> {
        let Self { history, first, above } = self;
        let window = BlockWindow {
            newest_block: history.newest_block(),
            blocks: history.blocks().to_vec(),
            next_base_fee: history.next_base_fee(),
        };
        let distance = above.number.saturating_sub(first.number).max(1);
        let duration = above.time.saturating_sub(first.time);
        let entries = pricing.entries(history.blocks());
        let blocks = (history.oldest_block()..above.number).zip(history.blocks());
        let wanted = blocks.skip_while(|(number, _)| *number < first.number);
        let sample = |(number, block): (u64, &Block)| {
            let since_first = duration.saturating_mul(number - first.number) / distance;
            let time = to_seconds(first.time.saturating_add(since_first));
            let tip = tip_at(number, &window, &entries, pricing)?.try_into().ok()?;
            Some(Sample { tip, ..sample(number, block, time)? })
        };
        let mut samples: Vec<Sample> = wanted.filter_map(sample).collect();
        samples.reverse();
        samples
    }
}

/// Creates the sample of a block without its tip; `None`: the base fee exceeds 64 bits.
fn sample(number: u64, block: &Block, time: u32) -> Option<Sample> {
    Some(Sample {
        number,
        base_fee: block.base_fee.try_into().ok()?,
        tip: 0,
        gas_used_ratio: block.gas_used_ratio.unwrap_or(f64::NAN),
        time,
    })
}

/// Returns the medium tip that the blocks up to `number` yield, and the entries of the same blocks if their asks are known;
/// `None`: they yield none.
fn tip_at(
    number: u64,
    window: &BlockWindow,
    entries: &[EntryBlock],
    pricing: &Pricing,
) -> Option<u128> {
    let later = usize::try_from(window.newest_block.checked_sub(number)?).ok()?;
    let count = window.blocks.len().checked_sub(later)?;
    let (blocks, after) = window.blocks.split_at_checked(count)?;
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
