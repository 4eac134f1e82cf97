//! Constants of one chain's fee rules.

use std::cmp::Ordering;
use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};

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

/// Constants of one chain's fee rules. The defaults are those of the network document's section 2.3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pricing {
    /// Rule that computes tips and base fee from the blocks.
    pub strategy: Strategy,
    /// Targets of the calibrated strategy.
    pub targets: Tiers<Target>,
    /// Number of newest blocks that are averaged.
    pub window_blocks: NonZeroUsize,
    /// Percentiles of the rewards that polls request; `None`: the 60th.
    pub reward_percentiles: Option<RewardPercentiles>,
    /// Number of blocks after which the rewards at [`GRADED_PERCENTILES`] are read that polls do not request; 0: never.
    pub ask_interval: u64,
    /// Minimum of the base fee of the strategy in wei.
    pub base_fee_floor: u128,
    /// Factor of the base fee of the strategy.
    pub base_fee_multiplier: Multiplier,
    /// Minimum tip in wei, at least 1: no pool takes a transaction without a tip. Under legacy pricing the minimum gas price.
    pub priority_fee_floor: u128,
    /// Factor from the medium to the high tip, with one percentile.
    pub high_multiplier: Multiplier,
    /// Meaning of a base fee of 0 on this chain.
    pub zero_base_fee: ZeroBaseFee,
    /// A full block raises the base fee by 1/denominator of it; `None`: unknown.
    pub base_fee_change_denominator: Option<NonZeroU64>,
    /// True if the operator set the denominator, so that the one of a header does not replace it.
    pub is_denominator_explicit: bool,
    /// An empty block lowers the base fee by 1/denominator of it; `None`: by as much as a full block raises it.
    pub empty_block_denominator: Option<NonZeroU64>,
    /// True if the operator set that denominator, so that the one of a header does not replace it.
    pub is_empty_block_denominator_explicit: bool,
    /// True if a base fee that changes more than the denominator allows is suspicious.
    pub check_base_fees: bool,
    /// Highest base fee of a block in wei. A reply with a higher one is rejected.
    pub max_base_fee: u128,
    /// Highest tip in wei; under legacy pricing the highest gas price.
    pub max_priority_fee: u128,
}

/// Rule that computes a suggestion from a fee history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The network's own rule (network document, section 2.3).
    Network,
    /// Tips that reach the 10th percentile of the next block in a chosen share of blocks, and a base fee that follows a
    /// rise at once.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroBaseFee {
    /// EIP-1559 is not active: one gas price.
    Legacy,
    /// EIP-1559 is active and the base fee is 0.
    Eip1559,
}

/// One or two reward percentiles from 0 to 100, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq)]
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
    /// A percentile is not from 0 to 100, or the second is below the first.
    #[error("expected one or two percentiles from 0 to 100 in ascending order")]
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
            is_denominator_explicit: false,
            empty_block_denominator: None,
            is_empty_block_denominator_explicit: false,
            check_base_fees: true,
            max_base_fee: COIN,
            max_priority_fee: COIN,
        }
    }
}

impl Pricing {
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
    /// Returns [`InvalidPricing::Percentiles`] unless they are from 0 to 100 and in ascending order.
    pub fn new(medium: f64, high: Option<f64>) -> Result<Self, InvalidPricing> {
        let high_range = medium..=100.0;
        let allowed = (0.0..=100.0).contains(&medium)
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

impl fmt::Display for Multiplier {
    /// Writes up to six decimals, such as `1.2` and `2`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MILLION: u128 = 1_000_000;
        let millionths = self.apply(MILLION).unwrap_or_default();
        let (whole, fraction) = (millionths / MILLION, millionths % MILLION);
        let decimals = format!("{fraction:06}");
        match decimals.trim_end_matches('0') {
            "" => write!(out, "{whole}"),
            decimals => write!(out, "{whole}.{decimals}"),
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

    /// Returns `value` times the factor, rounded down; `None` on overflow.
    #[must_use]
    pub fn apply(self, value: u128) -> Option<u128> {
        value.checked_mul(self.numerator)?.checked_div(self.denominator)
    }
}
