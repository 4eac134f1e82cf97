//! The `[chains.*.pricing]` section: the constants of one network's fee rules.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::LazyLock;

use serde::Deserialize;

use super::units::{self, Multiplier};

/// One gwei in wei.
const GWEI: u128 = 1_000_000_000;

/// The constants of one chain's fee rules; the defaults are the network document's section 2.3.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pricing {
    /// How the tips and the buffered base fee follow from the blocks.
    pub strategy: Strategy,
    /// How many of the newest blocks are averaged.
    pub window_blocks: NonZeroUsize,
    /// As configured; `None`: those of the strategy.
    pub(crate) reward_percentiles: Option<RewardPercentiles>,
    /// The least average base fee, in wei.
    #[serde(deserialize_with = "units::amount")]
    pub base_fee_floor: u128,
    /// The buffer on the average base fee.
    pub base_fee_multiplier: Multiplier,
    /// The least medium tip, in wei; under legacy pricing the least gas price.
    #[serde(deserialize_with = "units::amount")]
    pub priority_fee_floor: u128,
    /// High's tip over medium's when there is one percentile, or the strategy is adaptive.
    pub high_multiplier: Multiplier,
    /// Meaning of a base fee of 0 on this chain.
    pub zero_base_fee: ZeroBaseFee,
    /// A full block raises the base fee by this fraction of it (EIP-1559: 8).
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
    /// The reward percentiles asked for, one or two. By the network's rule high's tip is medium's times
    /// [`high_multiplier`](Self::high_multiplier) with one, and with two the second is high's own; the adaptive
    /// strategy has two.
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

    /// Returns true if the strategy has the percentiles that it needs.
    pub(super) fn has_enough_percentiles(&self) -> bool {
        self.strategy == Strategy::Network || self.percentiles().has_high()
    }
}

/// How a suggestion follows from a fee history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// The network's own rule (network document, section 2.3).
    Network,
    /// Tips from the dearest third of the blocks, and a base fee that follows a rise at once.
    Adaptive,
}

/// Meaning of a base fee of 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZeroBaseFee {
    /// EIP-1559 is not active: one gas price.
    Legacy,
    /// EIP-1559 is active and the base fee is really 0.
    #[serde(rename = "eip-1559")]
    Eip1559,
}

/// One or two reward percentiles from 0 to 100, the second not below the first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Vec<serde_json::Number>")]
pub struct RewardPercentiles(Vec<serde_json::Number>);

impl RewardPercentiles {
    /// The percentiles as `eth_feeHistory` takes them.
    #[must_use]
    pub fn as_slice(&self) -> &[serde_json::Number] {
        &self.0
    }

    /// Returns true if high has a percentile of its own.
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
