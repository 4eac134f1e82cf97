//! The grade of one quote.

use super::{DISTANCES, MAX_PERCENTILES};
use crate::fees::{Block, FAIR_PERCENTILE, Market, Pricing, Strategy, Tier, column_of};
use crate::observe::metrics::to_f64;

const MEDIAN: f64 = 50.0;

/// Fees that were served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServedQuote {
    /// Medium and high.
    tiers: [Tier; 2],
    /// True if a configured floor decided the tip or the base fee. By tier.
    is_floor: [bool; 2],
}

impl ServedQuote {
    pub(crate) fn new(market: &Market, pricing: &Pricing) -> Self {
        let floors = market.floors_applied;
        let (medium, high) = (market.suggestion.medium, market.suggestion.high);
        // The network's rule multiplies the medium tip, unless the high tier has its own percentile.
        let is_multiple =
            pricing.strategy == Strategy::Network && !pricing.percentiles().has_high();
        let is_high_tip_floor = floors.priority_fee && (is_multiple || high == medium);
        Self {
            tiers: [medium, high],
            is_floor: [floors.priority_fee, is_high_tip_floor]
                .map(|is_tip| is_tip || floors.base_fee),
        }
    }
}

/// A block that quotes are compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GradingBlock {
    base_fee: u128,
    gas_used_ratio: Option<f64>,
    /// By percentile, in the order of the graded ones.
    rewards: [Option<u128>; MAX_PERCENTILES],
}

impl GradingBlock {
    /// Creates a block without rewards.
    pub(crate) fn new(block: &Block) -> Self {
        let Block { base_fee, gas_used_ratio, .. } = *block;
        Self { base_fee, gas_used_ratio, rewards: [None; MAX_PERCENTILES] }
    }

    /// Returns true if the block has these amounts beside its rewards.
    pub(crate) fn is_same(&self, block: &Block) -> bool {
        let known =
            Block { base_fee: self.base_fee, gas_used_ratio: self.gas_used_ratio, rewards: None };
        known.is_same_as(block)
    }

    /// Takes the rewards of the same block whose columns are `of`. Both kinds of percentiles are among `graded`.
    pub(crate) fn add_rewards(&mut self, block: &Block, of: &[f64], graded: &[f64]) {
        for (kept, percentile) in self.rewards.iter_mut().zip(graded) {
            let column = column_of(*percentile, of);
            if let Some(reward) = column.and_then(|column| block.reward(column)) {
                *kept = Some(reward);
            }
        }
    }
}

/// How a quote did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grade {
    /// Medium and high.
    pub(crate) tiers: [TierGrade; 2],
    /// Base fee and fair tip of the next block in wei per gas; NaN: unknown.
    pub(crate) fair_price: f64,
    pub(crate) tips: TipOutcome,
    /// By tier.
    pub(crate) is_floor: [bool; 2],
    /// True if the median tip of the next block is above 0; `None`: unknown.
    pub(crate) has_tips: Option<bool>,
}

/// Comparison of one tier. `None`: it could not be compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TierGrade {
    /// In wei per gas, at most 2^64 - 1; meaningful if the tier outbid the fair tip.
    pub(crate) overpaid: u64,
    /// Meaningful if the tier outbid the fair tip; NaN if the fair price is 0.
    pub(crate) price_over_fair: f64,
    /// By distance, in the order of [`DISTANCES`].
    pub(crate) covered: [Option<bool>; 3],
    /// By percentile, in the order of the requested ones.
    pub(crate) outbid: [Option<bool>; MAX_PERCENTILES],
}

/// Comparison of the tips with the next block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TipOutcome {
    /// They were compared.
    Judged,
    /// It had no transactions, so it says nothing.
    Empty,
    /// The node returned no usable rewards.
    NoRewards,
    /// It was never seen, but a later one was.
    Gap,
    /// It is not mined yet.
    Pending,
}

/// Grades `quote` by the blocks at distances after its head.
pub(crate) fn grade<'a>(
    quote: &ServedQuote,
    after: impl Fn(usize) -> Option<&'a GradingBlock>,
    is_newest: bool,
    percentiles: &[f64],
) -> Grade {
    let next = after(1);
    let tips = match next {
        None if is_newest => TipOutcome::Pending,
        None => TipOutcome::Gap,
        Some(block) if block.gas_used_ratio == Some(0.0) => TipOutcome::Empty,
        Some(block) if block.rewards.iter().all(Option::is_none) => TipOutcome::NoRewards,
        Some(_) => TipOutcome::Judged,
    };
    let judged = next.filter(|_| tips == TipOutcome::Judged);
    let reward_at = |percentile: f64| {
        let column = column_of(percentile, percentiles)?;
        judged?.rewards.get(column).copied().flatten()
    };
    let tiers = quote.tiers.map(|tier| {
        let paid = judged.and_then(|block| tier.tip_paid(block.base_fee));
        let mut outbid = [None; MAX_PERCENTILES];
        for (outbid, percentile) in outbid.iter_mut().zip(percentiles) {
            *outbid = reward_at(*percentile).map(|reward| paid.is_some_and(|paid| paid >= reward));
        }
        let fair = reward_at(FAIR_PERCENTILE);
        let overpaid = paid.zip(fair).and_then(|(paid, fair)| paid.checked_sub(fair));
        let base_fee = judged.map_or(0, |block| block.base_fee);
        let price = |tip: Option<u128>| to_f64(base_fee.saturating_add(tip.unwrap_or_default()));
        TierGrade {
            overpaid: u64::try_from(overpaid.unwrap_or_default()).unwrap_or(u64::MAX),
            price_over_fair: match overpaid {
                Some(_) if price(fair) > 0.0 => price(paid) / price(fair),
                _ => f64::NAN,
            },
            covered: DISTANCES
                .map(|distance| Some(tier.max_fee_per_gas >= after(distance)?.base_fee)),
            outbid,
        }
    });
    let has_tips = reward_at(MEDIAN).map(|reward| reward > 0);
    let fair_price = judged.zip(reward_at(FAIR_PERCENTILE));
    let fair_price =
        fair_price.map_or(f64::NAN, |(block, fair)| to_f64(block.base_fee.saturating_add(fair)));
    Grade { tiers, fair_price, tips, is_floor: quote.is_floor, has_tips }
}
