//! The fee rules: those of the network, or another configured strategy. Pure: a fee history, a chain's pricing and the
//! parameters of its base fee in, a market out.
//!
//! All amounts are wei in `u128`. Averages and products are rounded down. An overflow rejects the history, because only
//! a faulty node returns such numbers. The rules are section 2.3 of the network document; where it is silent, a comment
//! gives the reason. A chain can be configured to use another strategy (`calibrated`).

pub(crate) mod amount;
mod base_fee_rule;
mod block_age;
pub(crate) mod calibrated;
mod chain_parameters;
mod grading;
pub mod gwei;
mod history;
mod market;
pub mod plausibility;
mod pricing;
pub(crate) mod single_price;
pub mod statistics;
mod tiers;

pub use amount::Wei;
pub use base_fee_rule::{BaseFeeRule, FittedRule};
pub use block_age::{BlockAge, HeadReading, HeaderTime};
pub use calibrated::{BLOCKS as CALIBRATED_BLOCKS, MIN_ASKS, Target};
pub use chain_parameters::{ChainParameters, DenominatorSource, Denominators};
pub use grading::EntryBlock;
pub use history::{
    BlobBaseFees, Block, FeeHistory, MAX_PERCENTILES, Rewards, have_ratios, paid_rewards,
};
pub use market::{
    AverageReward, FloorsAboveMarket, FloorsApplied, FullBlocksCovered, GasUsedRatios, Market,
    PricingType, Suggestion, Tier, Trend,
};
pub use pricing::{
    FAIR_PERCENTILE, GRADED_PERCENTILES, Multiplier, Pricing, RewardPercentiles, Strategy,
    column_of, percentile_numbers,
};
pub use single_price::{BaseFeeStep, HeldBaseFee, SinglePrices};
pub use tiers::{TierName, Tiers};

/// Reason why a valid fee history yields no suggestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum PricingError {
    /// No block has a usable reward and there is no floor: a tip would be a guess.
    #[error("no block has a usable reward and there is no priority fee floor")]
    NoRewards,
    /// An amount or a sum of amounts exceeds 128 bits.
    #[error("the amounts overflow")]
    Overflow,
    /// A base fee exceeds `max_base_fee`, or a tip `max_priority_fee`.
    #[error("an amount is above its maximum")]
    AboveMaximum,
}

impl PricingError {
    /// Label of the reason, from a closed list.
    #[must_use]
    pub fn reason(self) -> &'static str {
        self.into()
    }
}

/// Computes the market of `history` by the rules of `pricing`. The calibrated strategy takes its tips from the newest
/// `entries` whose rewards at [`GRADED_PERCENTILES`] are known; while they have too few asks, the network's rule applies.
/// `chain_parameters` say how many full blocks a tier covers; no suggested fee depends on them.
///
/// # Errors
///
/// Returns [`PricingError`] if the history yields no suggestion.
pub fn price(
    history: &FeeHistory,
    entries: &[EntryBlock],
    pricing: &Pricing,
    chain_parameters: &ChainParameters,
) -> Result<Market, PricingError> {
    let window = history.newest(pricing.window_blocks.get());
    let newest_known_base_fee = history.newest_known_base_fee();
    let average_base_fee = average(window.iter().map(|block| block.base_fee))?.unwrap_or_default();
    let average_reward = average_rewards(window, 0, pricing.high_column())?;
    let calibrated = match pricing.strategy {
        Strategy::Network => None,
        Strategy::Calibrated => pricing.targets.try_map(|target| calibrated::tip(entries, target)),
    };
    let (strategy, base_fee, tips) = match calibrated {
        Some(Tiers { low, medium, high }) => {
            let base_fee = average_base_fee.max(newest_known_base_fee);
            let tips = Tips { low, medium: Some(medium), high: Some(high) };
            (Strategy::Calibrated, base_fee, tips)
        }
        None => (Strategy::Network, average_base_fee, network_tips(window, pricing)?),
    };
    let suggestion = suggest(history, base_fee, tips.with_floor(pricing)?, pricing)?;
    let Tiers { medium, high, .. } = suggestion.tiers.map(|tier| {
        let denominators = chain_parameters.denominators?;
        let minimum_tip = pricing.priority_fee_floor;
        Some(covered_blocks(tier, newest_known_base_fee, minimum_tip, denominators))
    });
    Ok(Market {
        strategy,
        average_base_fee,
        average_reward,
        next_base_fee: history.next_base_fee,
        blob_base_fees: history.blob_base_fees,
        newest_known_base_fee,
        floors_applied: FloorsApplied {
            base_fee: suggestion.pricing_type == PricingType::Eip1559
                && base_fee < pricing.base_fee_floor,
            priority_fee: pricing.has_priority_fee_floor()
                && tips.medium.is_none_or(|tip| tip < pricing.priority_fee_floor),
        },
        floors_above_market: FloorsAboveMarket {
            // After an activation the average still has zeros.
            base_fee: suggestion.pricing_type == PricingType::Eip1559
                && is_far_above(pricing.base_fee_floor, base_fee.max(newest_known_base_fee)),
            priority_fee: pricing.has_priority_fee_floor()
                && average_reward.is_some_and(|average| {
                    is_far_above(pricing.priority_fee_floor, average.medium)
                }),
        },
        gas_used_ratio: GasUsedRatios::from_blocks(window),
        base_fee_trend: Trend::between(average_base_fee, newest_known_base_fee)
            .ok_or(PricingError::Overflow)?,
        covers_full_blocks: FullBlocksCovered { medium, high },
        chain_parameters: *chain_parameters,
        suggestion,
    })
}

/// Returns the suggestion with these tips. `base_fee` is that of the strategy, before floor and factor.
fn suggest(
    history: &FeeHistory,
    base_fee: u128,
    tips: Tiers<u128>,
    pricing: &Pricing,
) -> Result<Suggestion, PricingError> {
    // Without a base fee EIP-1559 is not active (network document, section 4.1), except on a chain whose base fee is
    // configured to be really 0.
    let pricing_type = match history.newest_known_base_fee() {
        0 => pricing.zero_base_fee,
        _ => PricingType::Eip1559,
    };
    let base_fee_per_gas = match pricing_type {
        PricingType::Legacy => 0,
        PricingType::Eip1559 => pricing
            .base_fee_multiplier
            .apply(base_fee.max(pricing.base_fee_floor))
            .ok_or(PricingError::Overflow)?,
    };
    let base_fees = history.blocks().iter().map(|block| block.base_fee);
    let highest_base_fee = base_fees.fold(history.newest_known_base_fee(), u128::max);
    if highest_base_fee > pricing.max_base_fee || tips.high > pricing.max_priority_fee {
        return Err(PricingError::AboveMaximum);
    }
    let tier = |tip: u128| {
        let max_fee_per_gas = tip.checked_add(base_fee_per_gas)?;
        Some(Tier { max_priority_fee_per_gas: tip, max_fee_per_gas })
    };
    let tiers = tips.try_map(tier).ok_or(PricingError::Overflow)?;
    Ok(Suggestion { pricing_type, base_fee_per_gas, tiers })
}

/// Tips that a strategy computes, in wei per gas, before the floor.
struct Tips {
    low: u128,
    /// `None`: no block has a usable reward.
    medium: Option<u128>,
    /// `None`: the medium tip times its factor.
    high: Option<u128>,
}

impl Tips {
    /// Returns the tips in ascending order, none below the floor. Without a usable reward medium is the floor.
    fn with_floor(&self, pricing: &Pricing) -> Result<Tiers<u128>, PricingError> {
        let floor = pricing.priority_fee_floor;
        if self.medium.is_none() && !pricing.has_priority_fee_floor() {
            return Err(PricingError::NoRewards);
        }
        let medium = self.medium.unwrap_or_default().max(floor);
        let high = match self.high {
            // A row whose second percentile is below its first is malformed. It must not push high below medium.
            Some(high) => high.max(medium),
            None => pricing.high_multiplier.apply(medium).ok_or(PricingError::Overflow)?,
        };
        Ok(Tiers { low: self.low.max(floor).min(medium), medium, high })
    }
}

/// The network's rule: average rewards, with zeros for empty blocks as nodes return them. The low tip is not part of the
/// rule: it is the lowest reward that the window's blocks were paid, in the column of the medium tip.
fn network_tips(window: &[Block], pricing: &Pricing) -> Result<Tips, PricingError> {
    let (medium, high) = match pricing.strategy {
        Strategy::Network => (0, pricing.high_column()),
        // While asks are unknown, the rule has the percentile that is meant for it, the last one.
        Strategy::Calibrated => (pricing.high_column().unwrap_or_default(), None),
    };
    let average = average_rewards(window, medium, high)?;
    Ok(Tips {
        low: paid_rewards(window, medium).min().unwrap_or_default(),
        medium: average.map(|reward| reward.medium),
        high: high.map(|_| average.and_then(|reward| reward.high).unwrap_or_default()),
    })
}

/// Returns true if the floor is more than ten times the market's amount.
fn is_far_above(floor: u128, market: u128) -> bool {
    const FACTOR: u128 = 10;
    floor > market.saturating_mul(FACTOR)
}

/// Returns the number of coming blocks, all of them full, in which the tier's max fee covers the base fee and the
/// minimum tip. `base_fee` is that of the first block.
pub(crate) fn covered_blocks(
    tier: Tier,
    mut base_fee: u128,
    minimum_tip: u128,
    denominators: Denominators,
) -> u8 {
    /// Counting stops here.
    const MAX_COVERED: u8 = 100;
    let denominator = u128::from(denominators.full_block.get());
    let mut covered = 0;
    while covered < MAX_COVERED {
        let required_fee = base_fee.checked_add(minimum_tip);
        if required_fee.is_none_or(|due| tier.max_fee_per_gas < due) {
            break;
        }
        covered += 1;
        let rise = (base_fee / denominator).max(1);
        base_fee = base_fee.saturating_add(rise);
    }
    covered
}

/// Averages the columns of both tips over the blocks with usable rewards; `None` without any.
fn average_rewards(
    blocks: &[Block],
    medium: usize,
    high: Option<usize>,
) -> Result<Option<AverageReward>, PricingError> {
    let column_average = |column| average(blocks.iter().filter_map(|block| block.reward(column)));
    let medium = column_average(medium)?;
    let high = high.map(column_average).transpose()?.flatten();
    Ok(medium.map(|medium| AverageReward { medium, high }))
}

/// Returns the average, rounded down; `None` without amounts.
fn average(amounts: impl Iterator<Item = u128>) -> Result<Option<u128>, PricingError> {
    let (mut sum, mut count) = (0_u128, 0_u128);
    for amount in amounts {
        sum = sum.checked_add(amount).ok_or(PricingError::Overflow)?;
        count += 1;
    }
    Ok(sum.checked_div(count))
}

#[cfg(test)]
pub(crate) mod tests;
