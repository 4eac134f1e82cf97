//! The result of pricing: the suggestion and the facts behind it.

use utoipa::ToSchema;

use super::PricingError;
use super::history::{Block, Rewards};

/// Everything derived from one fee history. Amounts are wei per gas.
#[derive(Debug, Clone, PartialEq)]
pub struct Market {
    /// Suggested fees.
    pub suggestion: Suggestion,
    /// Over the window's mined blocks, before floor and buffer.
    pub average_base_fee: u128,
    /// Per percentile; `None` when no block had usable rewards.
    pub average_reward: Option<Rewards>,
    /// The next block's base fee; `None` when the node did not say.
    pub next_base_fee: Option<u128>,
    /// Which floors decided.
    pub floors_applied: FloorsApplied,
    /// How full the blocks were.
    pub gas_used_ratio: GasUsedRatios,
    /// Where the base fee is going.
    pub base_fee_trend: Trend,
    /// How long the tiers last when demand stays at its peak.
    pub covers_full_blocks: FullBlocksCovered,
}

/// The price of gas: a base fee that both tiers share, and two tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suggestion {
    /// How the tiers are meant.
    pub pricing_type: PricingType,
    /// The buffered base fee; 0 under legacy pricing.
    pub base_fee_per_gas: u128,
    /// For inclusion soon.
    pub medium: Tier,
    /// For inclusion first; at least medium.
    pub high: Tier,
}

/// One tier. Under legacy pricing both members are the gas price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// The miner tip.
    pub max_priority_fee_per_gas: u128,
    /// The tip plus the buffered base fee.
    pub max_fee_per_gas: u128,
}

/// Which fee mechanism the chain runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, ToSchema)]
pub enum PricingType {
    /// A base fee and a tip.
    #[serde(rename = "eip-1559")]
    Eip1559,
    /// One gas price.
    #[serde(rename = "legacy")]
    Legacy,
}

/// Which of the configured floors decided the suggestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, ToSchema)]
pub struct FloorsApplied {
    /// The base fee that the suggestion starts from was below its floor.
    pub base_fee: bool,
    /// The priority fee of recent blocks was below the floor, or unknown.
    pub priority_fee: bool,
}

/// Gas used over gas limit, from 0 to 1; `None` where the node said nothing credible.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, ToSchema)]
#[schema(as = GasUsedRatio)]
pub struct GasUsedRatios {
    /// In the newest block.
    #[schema(required, minimum = 0, maximum = 1)]
    pub latest: Option<f64>,
    /// Over the blocks that have one.
    #[schema(required, minimum = 0, maximum = 1)]
    pub average: Option<f64>,
}

impl GasUsedRatios {
    pub(crate) fn from_blocks(blocks: &[Block]) -> Self {
        let (mut sum, mut count) = (0.0, 0_u32);
        for ratio in blocks.iter().filter_map(|block| block.gas_used_ratio) {
            sum += ratio;
            count += 1;
        }
        Self {
            latest: blocks.last().and_then(|block| block.gas_used_ratio),
            average: (count > 0).then(|| sum / f64::from(count)),
        }
    }
}

/// The upcoming base fee against the window's average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Trend {
    /// More than 5 % above it.
    Rising,
    /// Within 5 % of it.
    Stable,
    /// More than 5 % below it.
    Falling,
}

impl Trend {
    pub(super) fn from_base_fees(average: u128, upcoming: u128) -> Result<Self, PricingError> {
        let times = |amount: u128, factor| amount.checked_mul(factor).ok_or(PricingError::Overflow);
        let scaled = times(upcoming, 20)?;
        Ok(if scaled > times(average, 21)? {
            Self::Rising
        } else if scaled < times(average, 19)? {
            Self::Falling
        } else {
            Self::Stable
        })
    }
}

/// For how many of the coming blocks, all of them full, a tier's max fee is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, ToSchema)]
#[schema(as = CoveredBlocks)]
pub struct FullBlocksCovered {
    /// At medium's max fee.
    #[schema(maximum = 100)]
    pub medium: u8,
    /// At high's max fee.
    #[schema(maximum = 100)]
    pub high: u8,
}

impl FullBlocksCovered {
    /// Where counting ends.
    pub(super) const MAX: u8 = 100;
}
