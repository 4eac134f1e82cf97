//! The result of pricing: the suggestion, and the values that it was computed from.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::amount::Wei;
use super::chain_parameters::ChainParameters;
use super::history::{BlobBaseFees, Block};
use super::pricing::Strategy;
use super::tiers::Tiers;

/// Values computed from one fee history. Amounts are wei per gas.
#[derive(Debug, Clone, PartialEq)]
pub struct Market {
    /// Rule that the suggestion follows. Without rewards, that of the network replaces the calibrated strategy.
    pub strategy: Strategy,
    /// Suggested fees.
    pub suggestion: Suggestion,
    /// Average over the window's mined blocks, before floor and factor.
    pub average_base_fee: u128,
    /// Average per percentile of the suggestion; `None` if no block had usable rewards.
    pub average_reward: Option<AverageReward>,
    /// Base fee of the next block; `None` if the node did not return it.
    pub next_base_fee: Option<u128>,
    /// Base fee of the next block, or of the newest mined one if that is unknown.
    pub newest_known_base_fee: u128,
    /// Base fees per blob gas; `None` if the node did not return them, or the chain has no blobs.
    pub blob_base_fees: Option<BlobBaseFees>,
    /// Floors that raised the suggestion.
    pub floors_applied: FloorsApplied,
    /// Floors that are far above what the market pays.
    pub floors_above_market: FloorsAboveMarket,
    /// Fullness of the blocks.
    pub gas_used_ratio: GasUsedRatios,
    /// Direction of the base fee.
    pub base_fee_trend: Trend,
    /// Number of full blocks ahead that each tier's max fee covers.
    pub covers_full_blocks: FullBlocksCovered,
    /// How the base fee moves.
    pub chain_parameters: ChainParameters,
}

impl Market {
    /// Returns what a transaction with the medium fees pays per gas in the next block, in wei.
    #[must_use]
    pub fn expected_price(&self) -> u128 {
        self.suggestion.tiers.medium.price_at(self.newest_known_base_fee)
    }
}

/// Average rewards of the window's blocks in wei per gas, rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AverageReward {
    /// At the percentile of the medium tip.
    pub medium: u128,
    /// At the percentile of the high tip; `None` if it has none of its own.
    pub high: Option<u128>,
}

/// Suggested fees: a base fee that the tiers share, and the tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suggestion {
    /// Fee mechanism that the suggestion is for.
    pub pricing_type: PricingType,
    /// Base fee of the strategy, raised to its floor, times the configured factor; 0 under legacy pricing.
    pub base_fee_per_gas: u128,
    /// In ascending order. The public suggestion omits low.
    pub tiers: Tiers<Tier>,
}

/// One tier. Under legacy pricing both members are the gas price to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Tier {
    /// The tip.
    #[serde(serialize_with = "Wei::serialize_field")]
    #[schema(value_type = Wei)]
    pub max_priority_fee_per_gas: u128,
    /// Tip plus base fee.
    #[serde(serialize_with = "Wei::serialize_field")]
    #[schema(value_type = Wei)]
    pub max_fee_per_gas: u128,
}

impl Tier {
    /// Returns the tip that a block with this base fee gets from a transaction with these fees; `None`: the max fee is
    /// below the base fee.
    #[must_use]
    pub fn tip_paid(&self, base_fee: u128) -> Option<u128> {
        let room = self.max_fee_per_gas.checked_sub(base_fee)?;
        Some(self.max_priority_fee_per_gas.min(room))
    }

    /// Returns what a transaction with these fees pays per gas in a block with this base fee, at most its max fee.
    #[must_use]
    pub fn price_at(&self, base_fee: u128) -> u128 {
        base_fee.saturating_add(self.max_priority_fee_per_gas).min(self.max_fee_per_gas)
    }
}

/// Fee mechanism of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PricingType {
    /// A base fee and a tip.
    #[serde(rename = "eip-1559")]
    Eip1559,
    /// One gas price.
    #[serde(rename = "legacy")]
    Legacy,
}

/// Configured floors that raised the suggestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct FloorsApplied {
    /// The base fee of the strategy was below its floor.
    pub base_fee: bool,
    /// The priority fee of recent blocks was below a floor above 1 wei, or unknown.
    pub priority_fee: bool,
}

/// Configured floors of more than ten times what the market pays.
//
// Users would pay the difference for nothing. Without a usable reward the market is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct FloorsAboveMarket {
    /// The average base fee is less than a tenth of its floor.
    pub base_fee: bool,
    /// The average reward is less than a tenth of the priority fee floor.
    pub priority_fee: bool,
}

/// Gas used divided by gas limit, from 0 to 1; `None` if the node returned no credible ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[schema(as = GasUsedRatio)]
pub struct GasUsedRatios {
    /// Ratio of the newest block.
    #[schema(required, minimum = 0, maximum = 1)]
    pub latest: Option<f64>,
    /// Average of the blocks that have a ratio.
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

/// The next base fee compared with the window's average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
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
    /// Compares `newest` with `average`. `None`: an amount is too large to compare.
    #[must_use]
    pub fn between(average: u128, newest: u128) -> Option<Self> {
        let scaled = newest.checked_mul(20)?;
        Some(if scaled > average.checked_mul(21)? {
            Self::Rising
        } else if scaled < average.checked_mul(19)? {
            Self::Falling
        } else {
            Self::Stable
        })
    }
}

/// Number of coming blocks, all of them full, that a tier's max fee covers; `null` if the source of `chain_parameters` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = CoveredBlocks)]
pub struct FullBlocksCovered {
    /// With medium's max fee.
    #[schema(required, maximum = 100)]
    pub medium: Option<u8>,
    /// With high's max fee.
    #[schema(required, maximum = 100)]
    pub high: Option<u8>,
}
