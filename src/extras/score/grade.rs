//! The grade of one quote.

use super::{DISTANCES, MAX_PERCENTILES};
use crate::fees::{Block, FAIR_PERCENTILE, Market, Pricing, Strategy, Tier, Tiers, column_of};

const MEDIAN: f64 = 50.0;

/// Fees that were quoted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quote {
    /// Medium and high, each with true if a configured floor decided the tip or the base fee.
    tiers: [(Tier, bool); 2],
}

impl Quote {
    pub(super) fn new(market: &Market, pricing: &Pricing) -> Self {
        let floors = market.floors_applied;
        let Tiers { medium, high, .. } = market.suggestion.tiers;
        // The network's rule multiplies the medium tip, unless the high tier has its own percentile.
        let has_high = pricing.strategy == Strategy::Network && pricing.percentiles().has_high();
        let is_multiple = market.strategy == Strategy::Network && !has_high;
        let is_high_tip_floor = floors.priority_fee && (is_multiple || high == medium);
        Self {
            tiers: [(medium, floors.priority_fee), (high, is_high_tip_floor)]
                .map(|(tier, is_tip_floor)| (tier, is_tip_floor || floors.base_fee)),
        }
    }
}

/// A block that quotes are compared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct GradingBlock {
    /// Without its gas used ratio if that says nothing.
    pub(super) block: Block,
    /// By percentile, in the order of the graded ones.
    rewards: [Option<u128>; MAX_PERCENTILES],
}

impl GradingBlock {
    /// Creates a block whose rewards are not known yet. Without `have_ratios` its gas used ratio says nothing.
    pub(super) fn new(block: &Block, have_ratios: bool) -> Self {
        let gas_used_ratio = block.gas_used_ratio.filter(|_| have_ratios);
        let block = Block { gas_used_ratio, ..*block };
        Self { block, rewards: [None; MAX_PERCENTILES] }
    }

    /// Returns the reward at this percentile, if it is among the `graded` ones and known.
    fn reward(&self, percentile: f64, graded: &[f64]) -> Option<u128> {
        self.rewards.get(column_of(percentile, graded)?).copied().flatten()
    }

    /// Takes the rewards of the same block whose columns are `of`. Both kinds of percentiles are among `graded`.
    pub(super) fn add_rewards(&mut self, block: &Block, of: &[f64], graded: &[f64]) {
        for (kept, percentile) in self.rewards.iter_mut().zip(graded) {
            let column = column_of(*percentile, of);
            if let Some(reward) = column.and_then(|column| block.reward(column)) {
                *kept = Some(reward);
            }
        }
    }
}

/// How a quote did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grade {
    /// Medium and high.
    pub(super) tiers: [TierGrade; 2],
    pub(super) tips: TipOutcome,
    /// True if the median tip of the next block is above 0; `None`: unknown.
    pub(super) has_tips: Option<bool>,
}

/// Comparison of one tier. `None`: it could not be compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct TierGrade {
    /// Amount above the fair tip in wei per gas, at most 2^64 - 1; `None`: the tier did not outbid it.
    pub(super) overpaid: Option<u64>,
    /// Base fee and fair tip of the next block in wei per gas, at most 2^64 - 1; 0: unknown.
    fair_price: u64,
    /// By distance, in the order of [`DISTANCES`].
    pub(super) covered: [Option<bool>; 3],
    /// By percentile, in the order of the graded ones.
    pub(super) outbid: [Option<bool>; MAX_PERCENTILES],
    /// True if a configured floor decided the tip or the base fee.
    pub(super) is_floor: bool,
}

impl TierGrade {
    /// Returns the price over the fair price; `None`: the tier did not outbid the fair tip, or the fair price is 0.
    pub(super) fn price_over_fair(&self) -> Option<f64> {
        let paid = self.fair_price.saturating_add(self.overpaid?);
        (self.fair_price > 0).then(|| nearest_f64(paid) / nearest_f64(self.fair_price))
    }
}

/// Comparison of the tips with the next block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TipOutcome {
    /// They were compared.
    Judged,
    /// It had no transactions, or none that paid a tip, so it says nothing.
    NoAsk,
    /// The node returned no usable rewards.
    NoRewards,
    /// It was never seen, but a later one was.
    Gap,
    /// It is not mined yet.
    Pending,
}

/// Grades `quote` by the blocks at distances after its head.
pub(super) fn grade<'a>(
    quote: &Quote,
    after: impl Fn(usize) -> Option<&'a GradingBlock>,
    is_newest: bool,
    percentiles: &[f64],
) -> Grade {
    let next = after(1);
    let tips = match next {
        None if is_newest => TipOutcome::Pending,
        None => TipOutcome::Gap,
        Some(next) if next.block.is_empty() => TipOutcome::NoAsk,
        Some(next) if next.rewards.iter().all(Option::is_none) => TipOutcome::NoRewards,
        Some(next) if next.reward(FAIR_PERCENTILE, percentiles) == Some(0) => TipOutcome::NoAsk,
        Some(_) => TipOutcome::Judged,
    };
    let judged = next.filter(|_| tips == TipOutcome::Judged);
    let base_fee = judged.map(|next| next.block.base_fee);
    let fair = judged.and_then(|next| next.reward(FAIR_PERCENTILE, percentiles));
    let fair_price = base_fee.zip(fair).map(|(base_fee, fair)| base_fee.saturating_add(fair));
    let rewards = judged.map_or([None; MAX_PERCENTILES], |next| next.rewards);
    let grade_tier = |(tier, is_floor): (Tier, bool)| {
        let paid = base_fee.and_then(|base_fee| tier.tip_paid(base_fee));
        let overpaid = paid.zip(fair).and_then(|(paid, fair)| paid.checked_sub(fair));
        TierGrade {
            overpaid: overpaid.map(saturating_u64),
            fair_price: saturating_u64(fair_price.unwrap_or_default()),
            covered: DISTANCES.map(|distance| Some(tier.covers(after(distance)?.block.base_fee))),
            outbid: rewards.map(|reward| Some(tier.is_enough(base_fee?, reward?))),
            is_floor,
        }
    };
    let used = next.filter(|next| !next.block.is_empty());
    let median = used.and_then(|next| next.reward(MEDIAN, percentiles));
    let has_tips = median.map(|reward| reward > 0);
    Grade { tiers: quote.tiers.map(grade_tier), tips, has_tips }
}

fn saturating_u64(amount: u128) -> u64 {
    u64::try_from(amount).unwrap_or(u64::MAX)
}

/// Converts to the nearest `f64`. Parsing takes too long for all grades of a score. Only the sum is rounded.
pub(super) fn nearest_f64(amount: u64) -> f64 {
    let halves = [amount >> 32, amount & u64::from(u32::MAX)];
    let [high, low] = halves.map(|half| f64::from(u32::try_from(half).unwrap_or(u32::MAX)));
    high * 4_294_967_296.0 + low
}
