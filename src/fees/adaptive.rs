//! The adaptive strategy: pays what blocks lately required rather than the usual tip.
//!
//! The price of a block is its low percentile, or its high one if the block was at least 70 % full: only such a block
//! can exclude a low tip. The tip is the average over the third of the blocks with the highest prices, so that one busy
//! block among quiet ones counts, and at most the network's average of the high percentile. docs/pricing.md has the
//! derivation and results on recorded blocks.

use super::history::{Block, FeeHistory};
use super::{Pricing, PricingError, PriorityFees, apply_floor, average};

/// Blocks from this gas used ratio on are crowded.
const CROWDED_RATIO: f64 = 0.7;

/// Priority fees of the tiers.
pub(super) fn priority_fees(
    history: &FeeHistory,
    pricing: &Pricing,
) -> Result<PriorityFees, PricingError> {
    let usable = history.blocks().iter().filter_map(|block| Some((block, block.rewards?)));
    let (mut prices, mut highs) = (Vec::new(), Vec::new());
    for (block, rewards) in usable {
        // A row whose second percentile is below its first is malformed.
        let high = rewards.high.map_or(rewards.medium, |high| high.max(rewards.medium));
        prices.push(if is_crowded(block) { high } else { rewards.medium });
        highs.push(high);
    }
    let average_high = average(highs.into_iter())?;
    prices.sort_unstable_by(|one, other| other.cmp(one));
    let third = prices.len().div_ceil(3);
    let average_dearest = average(prices.into_iter().take(third))?.unwrap_or_default();
    let (medium, is_floor) =
        apply_floor(average_high.map(|most| average_dearest.min(most)), pricing)?;
    let multiplied = pricing.high_multiplier.apply(medium).ok_or(PricingError::Overflow)?;
    let high = multiplied.max(average_high.unwrap_or_default());
    Ok(PriorityFees { medium, high, is_floor_applied: is_floor })
}

/// A block without a ratio is not crowded.
fn is_crowded(block: &Block) -> bool {
    block.gas_used_ratio.is_some_and(|ratio| ratio >= CROWDED_RATIO)
}
