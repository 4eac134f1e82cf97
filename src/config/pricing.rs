//! The `[chains.*.pricing]` section: constants of the fee rules of one chain.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::LazyLock;

use serde::Deserialize;

use super::units::{self, Multiplier};

/// One gwei in wei.
const GWEI: u128 = 1_000_000_000;

/// Constants of one chain's fee rules. The defaults are those of the network document's section 2.3.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pricing {
    /// Rule that computes tips and base fee from the blocks.
    pub strategy: Strategy,
    /// Number of newest blocks that are averaged.
    pub window_blocks: NonZeroUsize,
    /// Configured percentiles; `None`: those of the strategy.
    pub(crate) reward_percentiles: Option<RewardPercentiles>,
    /// Minimum of the base fee of the strategy in wei.
    #[serde(deserialize_with = "units::amount")]
    pub base_fee_floor: u128,
    /// Factor of the base fee of the strategy.
    pub base_fee_multiplier: Multiplier,
    /// Minimum medium tip in wei; under legacy pricing the minimum gas price.
    #[serde(deserialize_with = "units::amount")]
    pub priority_fee_floor: u128,
    /// Factor from the medium to the high tip, with one percentile or with the adaptive strategy.
    pub high_multiplier: Multiplier,
    /// Meaning of a base fee of 0 on this chain.
    pub zero_base_fee: ZeroBaseFee,
    /// A full block raises the base fee by 1/denominator of it (EIP-1559: 8).
    pub base_fee_change_denominator: NonZeroU64,
}

impl Default for Pricing {
    fn default() -> Self {
        let factor = |text: &str| text.parse().expect("a factor between 1 and 1000");
        Self {
            window_blocks: NonZeroUsize::new(20).expect("20 is not 0"),
            strategy: Strategy::Network,
            reward_percentiles: None,
            base_fee_floor: GWEI,
            base_fee_multiplier: factor("2"),
            priority_fee_floor: 20 * GWEI,
            high_multiplier: factor("1.2"),
            zero_base_fee: ZeroBaseFee::Legacy,
            base_fee_change_denominator: NonZeroU64::new(8).expect("8 is not 0"),
        }
    }
}

impl Pricing {
    /// Returns the requested reward percentiles, one or two. Under the network's rule and with one percentile the high
    /// tip is the medium tip times [`high_multiplier`](Self::high_multiplier); with two, the second is for the high
    /// tip. The adaptive strategy has two.
    #[must_use]
    pub fn percentiles(&self) -> &RewardPercentiles {
        static NETWORK_DEFAULT: LazyLock<RewardPercentiles> =
            LazyLock::new(|| RewardPercentiles(vec![60.into()]));
        static ADAPTIVE_DEFAULT: LazyLock<RewardPercentiles> =
            LazyLock::new(|| RewardPercentiles(vec![10.into(), 60.into()]));
        self.reward_percentiles.as_ref().unwrap_or(match self.strategy {
            Strategy::Network => &NETWORK_DEFAULT,
            Strategy::Adaptive => &ADAPTIVE_DEFAULT,
        })
    }

    /// Returns true if there are as many percentiles as the strategy needs.
    pub(super) fn has_enough_percentiles(&self) -> bool {
        self.strategy == Strategy::Network || self.percentiles().has_high()
    }
}

/// Rule that computes a suggestion from a fee history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// The network's own rule (network document, section 2.3).
    Network,
    /// Tips from the third of the blocks with the highest tips, and a base fee that follows a rise at once.
    Adaptive,
}

/// Meaning of a base fee of 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZeroBaseFee {
    /// EIP-1559 is not active: one gas price.
    Legacy,
    /// EIP-1559 is active and the base fee is 0.
    #[serde(rename = "eip-1559")]
    Eip1559,
}

/// One or two reward percentiles from 0 to 100, in ascending order.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Vec<serde_json::Number>")]
pub struct RewardPercentiles(Vec<serde_json::Number>);

impl RewardPercentiles {
    /// Returns the percentiles as `eth_feeHistory` accepts them.
    #[must_use]
    pub fn as_slice(&self) -> &[serde_json::Number] {
        &self.0
    }

    /// Returns true if the high tier has its own percentile.
    #[must_use]
    pub fn has_high(&self) -> bool {
        self.0.len() > 1
    }
}

impl TryFrom<Vec<serde_json::Number>> for RewardPercentiles {
    type Error = &'static str;

    fn try_from(percentiles: Vec<serde_json::Number>) -> Result<Self, Self::Error> {
        let values: Vec<f64> = percentiles.iter().filter_map(serde_json::Number::as_f64).collect();
        let allowed = matches!(percentiles.len(), 1 | 2)
            && values.iter().all(|value| (0.0..=100.0).contains(value))
            && values.is_sorted();
        if allowed {
            Ok(Self(percentiles))
        } else {
            Err("expected one or two percentiles from 0 to 100 in ascending order")
        }
    }
}
