//! The `[chains.*.pricing]` section: how it is written. [`fees::Pricing`] says what each key means.

use std::num::{NonZeroU64, NonZeroUsize};

use super::units;
use crate::fees::{self, Multiplier, RewardPercentiles, Target, Tiers};

/// Written form of [`fees::Pricing`]. Without a key and without a preset of the chain there are no floors but a tip of
/// 1 wei: those of one chain would overcharge the users of another.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(remote = "fees::Pricing", deny_unknown_fields, default = "PricingSection::default_pricing")]
pub(crate) struct PricingSection {
    #[serde(with = "StrategyName")]
    strategy: fees::Strategy,
    #[serde(with = "targets")]
    targets: Tiers<Target>,
    window_blocks: NonZeroUsize,
    #[serde(with = "percentiles")]
    reward_percentiles: Option<RewardPercentiles>,
    ask_interval: u64,
    #[serde(with = "units::amount")]
    base_fee_floor: u128,
    #[serde(with = "units::multiplier")]
    base_fee_multiplier: Multiplier,
    #[serde(with = "units::least_tip")]
    priority_fee_floor: u128,
    #[serde(with = "units::multiplier")]
    high_multiplier: Multiplier,
    #[serde(with = "ZeroBaseFeeName")]
    zero_base_fee: fees::ZeroBaseFee,
    base_fee_change_denominator: Option<NonZeroU64>,
    #[serde(skip)]
    is_denominator_explicit: bool,
    empty_block_denominator: Option<NonZeroU64>,
    #[serde(skip)]
    is_empty_block_denominator_explicit: bool,
    check_base_fees: bool,
    #[serde(with = "units::amount")]
    max_base_fee: u128,
    #[serde(with = "units::amount")]
    max_priority_fee: u128,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(remote = "fees::Strategy", rename_all = "kebab-case")]
enum StrategyName {
    Network,
    Calibrated,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(remote = "fees::ZeroBaseFee")]
enum ZeroBaseFeeName {
    #[serde(rename = "legacy")]
    Legacy,
    #[serde(rename = "eip-1559")]
    Eip1559,
}

impl PricingSection {
    /// Returns the constants of a chain that has none.
    pub(crate) fn default_pricing() -> fees::Pricing {
        fees::Pricing {
            strategy: fees::Strategy::Calibrated,
            base_fee_floor: 0,
            priority_fee_floor: 1,
            ..fees::Pricing::default()
        }
    }
}

/// Returns percentiles as JSON numbers: whole ones without the decimal point, which some nodes reject.
pub fn percentile_numbers(percentiles: impl IntoIterator<Item = f64>) -> Vec<serde_json::Number> {
    percentiles.into_iter().filter_map(|percentile| percentile.to_string().parse().ok()).collect()
}

/// An array of one or two percentiles.
mod percentiles {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    use super::percentile_numbers;
    use crate::fees::{InvalidPricing, RewardPercentiles};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<RewardPercentiles>, D::Error> {
        let numbers = Vec::<serde_json::Number>::deserialize(input)?;
        let values: Vec<f64> = numbers.iter().filter_map(serde_json::Number::as_f64).collect();
        let percentiles = match *values {
            [medium] => RewardPercentiles::new(medium, None),
            [medium, high] => RewardPercentiles::new(medium, Some(high)),
            _ => Err(InvalidPricing::Percentiles),
        };
        percentiles.map(Some).map_err(D::Error::custom)
    }

    #[expect(clippy::ref_option, reason = "serde calls it with a reference to the field")]
    pub(crate) fn serialize<S: Serializer>(
        percentiles: &Option<RewardPercentiles>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        percentiles.map(|both| percentile_numbers(both.iter())).serialize(out)
    }
}

/// A table with the targets of the tiers; an absent one has its default.
mod targets {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    use crate::fees::{Target, Tiers};

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Shares {
        medium: f64,
        high: f64,
    }

    impl Default for Shares {
        fn default() -> Self {
            Tiers::default().into()
        }
    }

    impl From<Tiers<Target>> for Shares {
        fn from(Tiers { medium, high, .. }: Tiers<Target>) -> Self {
            Self { medium: medium.share(), high: high.share() }
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Tiers<Target>, D::Error> {
        let Shares { medium, high } = Shares::deserialize(input)?;
        Target::new(medium)
            .zip(Target::new(high))
            .map(|(medium, high)| Tiers { medium, high, ..Tiers::default() })
            .filter(|targets| targets.medium <= targets.high)
            .ok_or_else(|| {
                D::Error::custom("expected shares from 0.5 to 0.999, high (default 0.99) not below medium (default 0.95)")
            })
    }

    pub(crate) fn serialize<S: Serializer>(
        targets: &Tiers<Target>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        Shares::from(*targets).serialize(out)
    }
}
