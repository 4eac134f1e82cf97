//! Constants of one chain's fee rules.

use std::cmp::Ordering;
use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;
use utoipa::ToSchema;

use super::amount::{self, ParsedVisitor, parse_decimal, with_point};
use super::calibrated::{self, Target};
use super::{Block, EntryBlock, Tiers, have_ratios};

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
    percentiles.iter().position(|known| is_same(*known, percentile))
}

/// Compares percentiles. A negative zero is a zero.
fn is_same(one: f64, other: f64) -> bool {
    one.partial_cmp(&other).is_some_and(Ordering::is_eq)
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
    /// Meaning of a base fee of 0 on this chain.
    pub zero_base_fee: ZeroBaseFee,
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
pub enum Strategy {
    /// The network's own rule.
    //
    // Section 2.3 of the network document.
    Network,
    /// Tips that are enough for a chosen share of blocks. Until 20 asks are known, the network's rule replaces it.
    Calibrated,
}

impl Strategy {
    /// All strategies.
    pub(crate) const ALL: [Self; 2] = [Self::Network, Self::Calibrated];

    /// Name of the strategy in the configuration and in responses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Calibrated => "calibrated",
        }
    }
}

/// Meaning of a base fee of 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ZeroBaseFee {
    /// EIP-1559 is not active: one gas price.
    #[serde(rename = "legacy")]
    Legacy,
    /// EIP-1559 is active and the base fee is 0.
    #[serde(rename = "eip-1559")]
    Eip1559,
}

/// One or two reward percentiles above 0 and at most 100, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Number>", into = "Vec<Number>")]
pub struct RewardPercentiles {
    medium: f64,
    high: Option<f64>,
}

/// Columns of a block's [`Rewards`](super::Rewards) that the tips of the suggestion depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierColumns {
    /// Column of the medium tip.
    pub medium: usize,
    /// Column of the high tip, which may be the same; `None` if it has no percentile of its own.
    pub high: Option<usize>,
}

/// An exact factor from 1 to 1000. It is a fraction, so that amounts in wei never become floating point numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multiplier {
    numerator: u128,
    denominator: u128,
}

/// Reason why a constant is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPricing {
    /// A percentile is not above 0 and at most 100, or the second is below the first.
    #[error("expected one or two percentiles above 0, at most 100 and in ascending order")]
    Percentiles,
    /// A factor is not from 1 to 1000.
    #[error("expected a factor from 1 to 1000")]
    Multiplier,
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
            base_fee_multiplier: Multiplier { numerator: 2, denominator: 1 },
            priority_fee_floor: 20 * GWEI,
            high_multiplier: Multiplier { numerator: 12, denominator: 10 },
            zero_base_fee: ZeroBaseFee::Legacy,
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
        self.percentiles().iter().position(|known| is_same(known, percentile))
    }

    /// Returns the columns of [`percentiles`](Self::percentiles).
    #[must_use]
    pub fn tier_columns(&self) -> TierColumns {
        TierColumns { medium: 0, high: self.percentiles().has_high().then_some(1) }
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

impl TierColumns {
    /// Returns those of the network's rule with one percentile, on the columns of the calibrated strategy.
    pub(super) fn for_network_rule(self) -> Self {
        Self { medium: self.high.unwrap_or(self.medium), high: None }
    }
}

impl RewardPercentiles {
    /// That of the network's rule (network document, section 2.3).
    const DEFAULT: Self = Self { medium: 60.0, high: None };

    /// Those at which quotes are graded.
    const GRADED: Self = Self { medium: GRADED_PERCENTILES[0], high: Some(GRADED_PERCENTILES[1]) };

    /// Creates the percentiles of the medium tip and, with two, of the high tip.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidPricing::Percentiles`] unless they are above 0, at most 100 and in ascending order: the lowest
    /// reward of a block is often 0, and no price.
    pub fn new(medium: f64, high: Option<f64>) -> Result<Self, InvalidPricing> {
        let high_range = medium..=100.0;
        let allowed = medium > 0.0
            && medium <= 100.0
            && high.is_none_or(|percentile| high_range.contains(&percentile));
        if allowed { Ok(Self { medium, high }) } else { Err(InvalidPricing::Percentiles) }
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
    type Error = InvalidPricing;

    fn try_from(numbers: Vec<Number>) -> Result<Self, InvalidPricing> {
        let values: Vec<f64> = numbers.iter().filter_map(Number::as_f64).collect();
        match *values {
            [medium] => Self::new(medium, None),
            [medium, high] => Self::new(medium, Some(high)),
            _ => Err(InvalidPricing::Percentiles),
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
        let millionths = self.apply(1_000_000).unwrap_or_default();
        out.write_str(&with_point(&millionths.to_string(), 6))
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
        let text = self.to_string();
        // A whole number without a decimal point, like in most files.
        match (text.parse::<u64>(), text.parse::<f64>()) {
            (Ok(whole), _) => whole.serialize(out),
            (Err(_), Ok(decimal)) => decimal.serialize(out),
            (Err(_), Err(_)) => text.serialize(out),
        }
    }
}

impl Multiplier {
    const MAX: u128 = 1000;

    /// Creates the factor `numerator / denominator`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidPricing::Multiplier`] unless it is from 1 to 1000.
    pub fn new(numerator: u128, denominator: u128) -> Result<Self, InvalidPricing> {
        let allowed = denominator > 0
            && numerator >= denominator
            && numerator.div_ceil(denominator) <= Self::MAX;
        if allowed { Ok(Self { numerator, denominator }) } else { Err(InvalidPricing::Multiplier) }
    }

    fn parse(text: &str) -> Option<Self> {
        const MAX_DECIMALS: u32 = 6;
        let (numerator, scale) = parse_decimal(text, MAX_DECIMALS)?;
        Self::new(numerator, 10_u128.checked_pow(scale)?).ok()
    }

    /// Returns `value` times the factor, rounded down; `None` on overflow.
    #[must_use]
    pub fn apply(self, value: u128) -> Option<u128> {
        value.checked_mul(self.numerator)?.checked_div(self.denominator)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::{IntoDeserializer, value};

    use super::*;

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
