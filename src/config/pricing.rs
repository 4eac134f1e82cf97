//! The `[chains.*.pricing]` section: how it is written. [`fees::Pricing`] says what each key means.

use std::num::{NonZeroU64, NonZeroUsize};

use serde::de::{Deserialize, Deserializer, Error};

use super::units;
use crate::fees::{self, InvalidPricing, Multiplier, RewardPercentiles};

/// Written form of [`fees::Pricing`], with its defaults.
#[derive(serde::Deserialize)]
#[serde(remote = "fees::Pricing", deny_unknown_fields, default = "fees::Pricing::default")]
pub(super) struct PricingSection {
    #[serde(with = "StrategyName")]
    strategy: fees::Strategy,
    window_blocks: NonZeroUsize,
    #[serde(deserialize_with = "percentiles")]
    reward_percentiles: Option<RewardPercentiles>,
    #[serde(deserialize_with = "units::amount")]
    base_fee_floor: u128,
    #[serde(deserialize_with = "units::multiplier")]
    base_fee_multiplier: Multiplier,
    #[serde(deserialize_with = "units::amount")]
    priority_fee_floor: u128,
    #[serde(deserialize_with = "units::multiplier")]
    high_multiplier: Multiplier,
    #[serde(with = "ZeroBaseFeeName")]
    zero_base_fee: fees::ZeroBaseFee,
    base_fee_change_denominator: Option<NonZeroU64>,
    check_base_fees: bool,
    #[serde(deserialize_with = "units::amount")]
    max_base_fee: u128,
    #[serde(deserialize_with = "units::amount")]
    max_priority_fee: u128,
}

#[derive(serde::Deserialize)]
#[serde(remote = "fees::Strategy", rename_all = "kebab-case")]
enum StrategyName {
    Network,
    Adaptive,
}

#[derive(serde::Deserialize)]
#[serde(remote = "fees::ZeroBaseFee")]
enum ZeroBaseFeeName {
    #[serde(rename = "legacy")]
    Legacy,
    #[serde(rename = "eip-1559")]
    Eip1559,
}

/// Deserializes an array of one or two percentiles.
fn percentiles<'de, D: Deserializer<'de>>(input: D) -> Result<Option<RewardPercentiles>, D::Error> {
    let numbers = Vec::<serde_json::Number>::deserialize(input)?;
    let values: Vec<f64> = numbers.iter().filter_map(serde_json::Number::as_f64).collect();
    let percentiles = match *values {
        [medium] => RewardPercentiles::new(medium, None),
        [medium, high] => RewardPercentiles::new(medium, Some(high)),
        _ => Err(InvalidPricing::Percentiles),
    };
    percentiles.map(Some).map_err(D::Error::custom)
}
