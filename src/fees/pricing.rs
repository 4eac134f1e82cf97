//! Constants of one chain's fee rules.

use std::cmp::Ordering;
use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};

use serde::ser::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;
use utoipa::ToSchema;

use super::amount::{self, ParsedVisitor, parse_decimal, with_point};
use super::calibrated::{self, Target};
use super::{Block, EntryBlock, PricingType, Tiers, have_ratios};

/// Percentile of a block's rewards that counts as its fair tip: docs/pricing.md says why.
pub const FAIR_PERCENTILE: f64 = 10.0;

/// Percentiles that quotes are graded by, and that the calibrated strategy computes with. Where polls do not request them, a
/// second reading does.
pub const GRADED_PERCENTILES: [f64; 2] = [FAIR_PERCENTILE, 60.0];

/// One gwei in wei.
const GWEI: u128 = 1_000_000_000;

/// One coin of the chain in wei. No chain charges that much per gas.
const COIN: u128 = GWEI * GWEI;

/// Returns the position of `percentile` among these; `None`: they do not have it.
#[must_use]
pub fn column_of(percentile: f64, percentiles: &[f64]) -> Option<usize> {
    let is_same = |known: &f64| known.partial_cmp(&percentile).is_some_and(Ordering::is_eq);
    percentiles.iter().position(is_same)
}

/// Constants of one chain's fee rules: the `[chains.*.pricing]` section. [`Default`] is the network document's section 2.3.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default = "Pricing::for_any_chain")]
pub struct Pricing {
    /// Rule that computes tips and base fee from the blocks.
    pub strategy: Strategy,
    /// Targets of the calibrated strategy.
    #[serde(with = "calibrated::targets")]
    pub targets: Tiers<Target>,
    /// Number of newest blocks that are averaged.
    pub window_blocks: NonZeroUsize,
    /// Percentiles of the rewards that polls request; `None`: the 60th.
    pub reward_percentiles: Option<RewardPercentiles>,
    /// Number of blocks after which the rewards at [`GRADED_PERCENTILES`] are read that polls do not request; 0: never.
    pub ask_interval: u64,
    /// Minimum of the base fee of the strategy in wei.
    #[serde(with = "amount")]
    pub base_fee_floor: u128,
    /// Factor of the base fee of the strategy.
    pub base_fee_multiplier: Multiplier,
    /// Minimum tip in wei, at least 1: no pool takes a transaction without a tip. Under legacy pricing the minimum gas price.
    #[serde(serialize_with = "amount::serialize", deserialize_with = "amount::deserialize_tip")]
    pub priority_fee_floor: u128,
    /// Factor from the medium to the high tip, with one percentile.
    pub high_multiplier: Multiplier,
    /// Fee mechanism of this chain while its base fee is 0.
    pub zero_base_fee: PricingType,
    /// A full block raises the base fee by 1/denominator of it; `None`: unknown.
    pub base_fee_change_denominator: Option<NonZeroU64>,
    /// An empty block lowers the base fee by 1/denominator of it; `None`: by as much as a full block raises it.
    pub empty_block_denominator: Option<NonZeroU64>,
    /// True if a base fee that changes more than the denominator allows is suspicious.
    pub check_base_fees: bool,
    /// Highest base fee of a block in wei. A reply with a higher one is rejected.
    #[serde(with = "amount")]
    pub max_base_fee: u128,
    /// Highest tip in wei; under legacy pricing the highest gas price.
    #[serde(with = "amount")]
    pub max_priority_fee: u128,
}

/// Rule that computes the suggestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[derive(strum::IntoStaticStr, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Strategy {
    /// The network's own rule.
    //
    // Section 2.3 of the network document.
    Network,
    /// Tips that are enough for a chosen share of blocks. Until 20 asks are known, the network's rule replaces it.
    Calibrated,
}

/// One or two reward percentiles above 0 and at most 100, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Number>", into = "Vec<Number>")]
pub struct RewardPercentiles {
    medium: f64,
    high: Option<f64>,
}

/// An exact factor from 1 to 1000. It is an integer, so that amounts in wei never become floating point numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multiplier {
    millionths: u128,
}

impl Default for Pricing {
    fn default() -> Self {
        Self {
            window_blocks: NonZeroUsize::new(20).expect("20 is not 0"),
            strategy: Strategy::Network,
            targets: Tiers::default(),
            reward_percentiles: None,
            ask_interval: 10,
            base_fee_floor: GWEI,
            base_fee_multiplier: Multiplier { millionths: 2_000_000 },
            priority_fee_floor: 20 * GWEI,
            high_multiplier: Multiplier { millionths: 1_200_000 },
            zero_base_fee: PricingType::Legacy,
            base_fee_change_denominator: None,
            empty_block_denominator: None,
            check_base_fees: true,
            max_base_fee: COIN,
            max_priority_fee: COIN,
        }
    }
}

impl Pricing {
    /// Returns the constants of a chain without a preset. There are no floors but a tip of 1 wei: those of another chain
    /// would overcharge its users.
    pub(crate) fn for_any_chain() -> Self {
        Self {
            strategy: Strategy::Calibrated,
            base_fee_floor: 0,
            priority_fee_floor: 1,
            ..Self::default()
        }
    }

    /// Returns the requested reward percentiles, one or two, in ascending order. Under the network's rule and with one
    /// percentile the high tier has the medium tip times [`high_multiplier`](Self::high_multiplier); with two, the second is
    /// for the high tip. The calibrated strategy may have [`GRADED_PERCENTILES`].
    #[must_use]
    pub fn percentiles(&self) -> RewardPercentiles {
        self.reward_percentiles.unwrap_or(RewardPercentiles::DEFAULT)
    }

    /// Returns the column of this percentile in a block's [`Rewards`](super::Rewards); `None` if polls do not request it.
    #[must_use]
    pub fn column(&self, percentile: f64) -> Option<usize> {
        column_of(percentile, &self.percentiles().iter().collect::<Vec<_>>())
    }

    /// Returns the column of the high tip; `None` if it has no percentile of its own. That of the medium tip is 0.
    pub(super) fn high_column(&self) -> Option<usize> {
        self.percentiles().has_high().then_some(1)
    }

    /// Returns true if the chain has a minimum tip: one of 1 wei is that of every pool.
    #[must_use]
    pub fn has_priority_fee_floor(&self) -> bool {
        self.priority_fee_floor > 1
    }

    /// Returns the same constants, with the percentiles that a history has to have so that it yields suggestions by itself.
    #[must_use]
    pub fn for_whole_histories(&self) -> Self {
        let reward_percentiles = match self.strategy {
            Strategy::Network => self.reward_percentiles,
            Strategy::Calibrated => Some(RewardPercentiles::GRADED),
        };
        Self { reward_percentiles, ..*self }
    }

    /// Returns the number of newest blocks that a suggestion depends on.
    #[must_use]
    pub fn history_blocks(&self) -> usize {
        let window = self.window_blocks.get();
        match self.strategy {
            Strategy::Network => window,
            Strategy::Calibrated => window.max(calibrated::BLOCKS),
        }
    }

    /// Returns the entries of blocks whose rewards are at [`percentiles`](Self::percentiles).
    #[must_use]
    pub fn entries(&self, blocks: &[Block]) -> Vec<EntryBlock> {
        let [fair, high] = GRADED_PERCENTILES.map(|percentile| self.column(percentile));
        let have_ratios = have_ratios(blocks.iter());
        let entry = |block: &Block| {
            let reward = |column: Option<usize>| block.reward(column?);
            EntryBlock::new(block, have_ratios, reward(fair), reward(high))
        };
        blocks.iter().map(entry).collect()
    }

    /// Returns the allowed percentiles, if those of the strategy are not.
    pub(crate) fn percentiles_mistake(&self) -> Option<&'static str> {
        let are_graded = self.percentiles() == RewardPercentiles::GRADED;
        match self.strategy {
            Strategy::Network if are_graded => Some(
                "must be [60], or others than [10, 60], which belong to strategy = \"calibrated\"",
            ),
            Strategy::Calibrated
                if !are_graded && self.percentiles() != RewardPercentiles::DEFAULT =>
            {
                Some("must be [60] or [10, 60] with strategy = \"calibrated\"")
            }
            _ => None,
        }
    }
}

impl RewardPercentiles {
    const ALLOWED: &'static str =
        "expected one or two percentiles above 0, at most 100 and in ascending order";

    /// That of the network's rule (network document, section 2.3).
    const DEFAULT: Self = Self { medium: 60.0, high: None };

    /// Those at which quotes are graded.
    const GRADED: Self = Self { medium: GRADED_PERCENTILES[0], high: Some(GRADED_PERCENTILES[1]) };

    /// Creates the percentiles of the medium tip and, with two, of the high tip.
    ///
    /// # Errors
    ///
    /// Returns what is allowed unless they are above 0, at most 100 and in ascending order: the lowest reward of a block is
    /// often 0, and no price.
    pub fn new(medium: f64, high: Option<f64>) -> Result<Self, &'static str> {
        let highest = high.unwrap_or(medium);
        let is_allowed = 0.0 < medium && medium <= highest && highest <= 100.0;
        is_allowed.then_some(Self { medium, high }).ok_or(Self::ALLOWED)
    }

    /// Returns the percentiles in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = f64> + use<> {
        [Some(self.medium), self.high].into_iter().flatten()
    }

    /// Returns true if the high tier has its own percentile.
    #[must_use]
    pub fn has_high(&self) -> bool {
        self.high.is_some()
    }
}

impl TryFrom<Vec<Number>> for RewardPercentiles {
    type Error = &'static str;

    fn try_from(numbers: Vec<Number>) -> Result<Self, &'static str> {
        let values: Vec<f64> = numbers.iter().filter_map(Number::as_f64).collect();
        match *values {
            [medium] => Self::new(medium, None),
            [medium, high] => Self::new(medium, Some(high)),
            _ => Err(Self::ALLOWED),
        }
    }
}

impl From<RewardPercentiles> for Vec<Number> {
    fn from(percentiles: RewardPercentiles) -> Self {
        percentile_numbers(percentiles.iter())
    }
}

/// Returns percentiles as JSON numbers: whole ones without the decimal point, which some nodes reject.
pub fn percentile_numbers(percentiles: impl IntoIterator<Item = f64>) -> Vec<Number> {
    percentiles.into_iter().filter_map(|percentile| percentile.to_string().parse().ok()).collect()
}

impl fmt::Display for Multiplier {
    /// Writes up to six decimals, such as `1.2` and `2`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&with_point(&self.millionths.to_string(), 6))
    }
}

impl<'de> Deserialize<'de> for Multiplier {
    /// A TOML `1.2` arrives as a float. Its shortest decimal form is what the file contains.
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(ParsedVisitor {
            expected: "a factor from 1 to 1000 with at most six decimals, such as 1.2",
            parse: Self::parse,
        })
    }
}

impl Serialize for Multiplier {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        // A whole number without a decimal point, like in most files.
        self.to_string().parse::<Number>().map_err(S::Error::custom)?.serialize(out)
    }
}

impl Multiplier {
    /// One, in millionths.
    const ONE: u128 = 1_000_000;

    fn parse(text: &str) -> Option<Self> {
        let millionths = parse_decimal(text, 6)?;
        (Self::ONE..=1000 * Self::ONE).contains(&millionths).then_some(Self { millionths })
    }

    /// Returns `value` times the factor, rounded down; `None` on overflow.
    #[must_use]
    pub fn apply(self, value: u128) -> Option<u128> {
        Some(value.checked_mul(self.millionths)? / Self::ONE)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::{IntoDeserializer, value};

    use super::*;

    #[test]
    fn percentiles_are_above_0_at_most_100_and_in_ascending_order() {
        let has_high =
            |medium, high| RewardPercentiles::new(medium, high).map(|both| both.has_high());
        for (medium, high) in [(0.1, None), (100.0, None), (0.5, Some(0.5)), (60.0, Some(100.0))] {
            assert_eq!(has_high(medium, high), Ok(high.is_some()), "{medium} {high:?}");
        }
        for wrong in [-0.1, 0.0, 100.1, f64::NAN] {
            assert!(has_high(wrong, None).is_err() && has_high(60.0, Some(wrong)).is_err());
        }
        assert!(has_high(60.0, Some(59.9)).is_err());
    }

    #[test]
    fn multipliers_are_exact_fractions_that_round_down() {
        let high = Multiplier::parse("1.2").unwrap();
        assert_eq!(high.apply(20_000_000_000), Some(24_000_000_000));
        assert_eq!(high.apply(7), Some(8));
        for text in ["1", "1.2", "2", "1000", "1.000001", "12.34"] {
            assert_eq!(Multiplier::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(high.apply(u128::MAX), None);
        assert_eq!(Multiplier::parse("2").unwrap().apply(3), Some(6));
        for wrong in ["0.9", "1000.1", "-2", "1.0000001", "NaN", "", "1,2"] {
            assert_eq!(Multiplier::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn whole_number_of_an_environment_variable_is_a_multiplier() {
        let parse = |number: u64| {
            Multiplier::deserialize(IntoDeserializer::<value::Error>::into_deserializer(number))
        };
        assert_eq!(parse(2).unwrap().apply(3), Some(6));
        let error = parse(1001).unwrap_err().to_string();
        assert!(error.starts_with("invalid value: integer `1001`, expected a factor"), "{error}");
    }
}
