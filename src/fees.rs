//! The network's fee rules, pure: a fee history and a chain's pricing in, a market out.
//!
//! All amounts are wei in `u128`. Averages and multiplications round down. Arithmetic that does not
//! fit rejects the history: such numbers are a broken node's, not a market's. The rules are
//! section 2.3 of the network document; where it is silent the reason stands beside the code. A chain
//! may be configured to be priced in another way (`adaptive`).

mod adaptive;
mod history;
mod market;

pub use history::{Block, FeeHistory, Rewards};
pub use market::{
    FloorsApplied, FullBlocksCovered, GasUsedRatios, Market, PricingType, Suggestion, Tier, Trend,
};

use crate::config::{Pricing, Strategy, ZeroBaseFee};

/// Why a well-formed fee history gives no suggestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PricingError {
    /// No block has a usable reward and there is no floor: the tip would be an invented 0.
    #[error("no block has a usable reward and the priority fee floor is 0")]
    NoRewards,
    /// An amount or a sum of amounts is over 128 bits.
    #[error("the amounts overflow")]
    Overflow,
}

impl PricingError {
    /// The kind of rejection, from a closed list.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoRewards => "no_rewards",
            Self::Overflow => "overflow",
        }
    }
}

/// Computes the market of `history` by the rules of `pricing`.
///
/// # Errors
///
/// [`PricingError`] when the numbers allow no honest suggestion.
pub fn price(history: &FeeHistory, pricing: &Pricing) -> Result<Market, PricingError> {
    let average_base_fee =
        average(history.blocks().iter().map(|block| block.base_fee))?.unwrap_or_default();
    let average_reward = average_rewards(history)?;
    let pricing_type = pricing_type(history, pricing);
    let upcoming_base_fee = history.newest_known_base_fee();

    let (typical_base_fee, priority_fees) = match pricing.strategy {
        Strategy::Network => (average_base_fee, network_priority_fees(average_reward, pricing)?),
        Strategy::Adaptive => {
            (average_base_fee.max(upcoming_base_fee), adaptive::priority_fees(history, pricing)?)
        }
    };
    let base_fee_per_gas = match pricing_type {
        PricingType::Legacy => 0,
        PricingType::Eip1559 => pricing
            .base_fee_multiplier
            .apply(typical_base_fee.max(pricing.base_fee_floor))
            .ok_or(PricingError::Overflow)?,
    };
    let PriorityFees { medium, high, is_floor_applied: is_floor } = priority_fees;
    let suggestion = Suggestion {
        pricing_type,
        base_fee_per_gas,
        medium: tier(medium, base_fee_per_gas)?,
        high: tier(high, base_fee_per_gas)?,
    };

    Ok(Market {
        average_base_fee,
        average_reward,
        next_base_fee: history.next_base_fee(),
        floors_applied: FloorsApplied {
            base_fee: pricing_type == PricingType::Eip1559
                && typical_base_fee < pricing.base_fee_floor,
            priority_fee: is_floor,
        },
        gas_used_ratio: GasUsedRatios::from_blocks(history.blocks()),
        base_fee_trend: Trend::from_base_fees(average_base_fee, upcoming_base_fee)?,
        covers_full_blocks: FullBlocksCovered {
            medium: covered_blocks(suggestion.medium, upcoming_base_fee, pricing),
            high: covered_blocks(suggestion.high, upcoming_base_fee, pricing),
        },
        suggestion,
    })
}

/// The detection rule (section 4.1): a newest known base fee of 0 means EIP-1559 is not active,
/// unless the chain is one whose base fee is really 0.
fn pricing_type(history: &FeeHistory, pricing: &Pricing) -> PricingType {
    match (history.newest_known_base_fee(), pricing.zero_base_fee) {
        (0, ZeroBaseFee::Legacy) => PricingType::Legacy,
        _ => PricingType::Eip1559,
    }
}

/// Priority fees of the tiers, in wei per gas.
struct PriorityFees {
    medium: u128,
    /// At least medium.
    high: u128,
    /// True if medium is the floor because the blocks paid less.
    is_floor_applied: bool,
}

/// The network's rule: the average rewards. Without a single usable reward both tips fall to the floor.
fn network_priority_fees(
    average: Option<Rewards>,
    pricing: &Pricing,
) -> Result<PriorityFees, PricingError> {
    let (medium, is_floor) = apply_floor(average.map(|reward| reward.medium), pricing)?;
    let high = if pricing.percentiles().has_high() {
        // A row whose second percentile is below its first is malformed; high never undercuts
        // medium because of one.
        average.and_then(|reward| reward.high).map_or(medium, |high| high.max(medium))
    } else {
        pricing.high_multiplier.apply(medium).ok_or(PricingError::Overflow)?
    };
    Ok(PriorityFees { medium, high, is_floor_applied: is_floor })
}

/// The tip, and whether it is the floor because it was below that, or is not known.
fn apply_floor(
    priority_fee: Option<u128>,
    pricing: &Pricing,
) -> Result<(u128, bool), PricingError> {
    match (priority_fee, pricing.priority_fee_floor) {
        (Some(tip), floor) => Ok((tip.max(floor), tip < floor)),
        (None, 0) => Err(PricingError::NoRewards),
        (None, floor) => Ok((floor, true)),
    }
}

fn tier(max_priority_fee_per_gas: u128, base_fee_per_gas: u128) -> Result<Tier, PricingError> {
    let max_fee_per_gas =
        max_priority_fee_per_gas.checked_add(base_fee_per_gas).ok_or(PricingError::Overflow)?;
    Ok(Tier { max_priority_fee_per_gas, max_fee_per_gas })
}

/// For how many of the coming blocks, all of them full, the tier pays the base fee and the least
/// tip; `base_fee` is that of the first of them.
fn covered_blocks(tier: Tier, mut base_fee: u128, pricing: &Pricing) -> u8 {
    let mut covered = 0;
    while covered < FullBlocksCovered::MAX {
        let required_fee = base_fee.checked_add(pricing.priority_fee_floor);
        if required_fee.is_none_or(|due| tier.max_fee_per_gas < due) {
            break;
        }
        covered += 1;
        let rise = (base_fee / u128::from(pricing.base_fee_change_denominator.get())).max(1);
        base_fee = base_fee.saturating_add(rise);
    }
    covered
}

/// The averages of each percentile over the blocks whose rewards are usable; `None` without one.
fn average_rewards(history: &FeeHistory) -> Result<Option<Rewards>, PricingError> {
    let usable = || history.blocks().iter().filter_map(|block| block.rewards);
    let Some(medium) = average(usable().map(|rewards| rewards.medium))? else {
        return Ok(None);
    };
    let high = average(usable().filter_map(|rewards| rewards.high))?;
    Ok(Some(Rewards { medium, high }))
}

/// The average, rounded down; `None` of nothing.
fn average(amounts: impl Iterator<Item = u128>) -> Result<Option<u128>, PricingError> {
    let (mut sum, mut count) = (0_u128, 0_u128);
    for amount in amounts {
        sum = sum.checked_add(amount).ok_or(PricingError::Overflow)?;
        count += 1;
    }
    Ok(sum.checked_div(count))
}

#[cfg(test)]
mod tests;
