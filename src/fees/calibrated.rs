//! The calibrated strategy: the tip is not below the 10th percentile of the next block in a chosen share of blocks.
//!
//! It is split conformal prediction with feedback from its own misses (adaptive conformal inference, Gibbs and Candès
//! 2021), in integers, and a pure function of the asks among the newest [`BLOCKS`] blocks. So replicas and restarts agree.
//! docs/pricing.md has the derivation and results on recorded blocks.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::{EntryBlock, Tiers};

/// Number of newest blocks that the tip depends on.
pub const BLOCKS: usize = 400;

/// Number of asks from which there is a tip.
pub const MIN_ASKS: usize = 20;

/// Number of newest amounts that a quote is chosen from.
const WINDOW: usize = 200;

/// Number of newest blocks whose highest high reward limits the quote.
pub(crate) const LIMIT_BLOCKS: usize = 20;

const MILLION: i64 = 1_000_000;

/// Least and largest amount by which one miss lowers the level, in millionths. Between them it is a fifth of the share that
/// may be missed, so that a level that has risen falls within some blocks after prices rise.
const STEPS: [i64; 2] = [10_000, 40_000];

/// Lowest level, in millionths.
const MIN_LEVEL: i64 = -200_000;

/// How far below 0 the level is for each raise of the quote, in millionths. A begun part of it counts.
const RAISE_STEP: u64 = 50_000;

/// Share of next blocks whose 10th percentile the tip should reach, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    millionths: i32,
}

impl Target {
    /// Creates a target from a share; `None` unless it is from 0.5 to 0.999.
    #[must_use]
    pub fn new(share: f64) -> Option<Self> {
        // There is no conversion trait from floating point numbers to integers.
        let millionths = (0.5..=0.999).contains(&share).then(|| format!("{:.0}", share * 1e6))?;
        Some(Self { millionths: millionths.parse().ok()? })
    }

    /// Creates a target from a percentage.
    #[must_use]
    pub fn from_percent(percent: u8) -> Self {
        Self { millionths: i32::from(percent) * 10_000 }
    }

    /// Returns the share, from 0.5 to 0.999.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.millionths) / 1e6
    }

    /// Returns the share in millionths.
    #[must_use]
    pub fn millionths(self) -> u32 {
        self.millionths.unsigned_abs()
    }

    /// Share that may be missed, in millionths.
    fn missable(self) -> i64 {
        MILLION.saturating_sub(self.millionths.into())
    }
}

/// Level of a conformal quantile: the share of asks that may exceed a quote, moved by the outcomes of the quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level {
    millionths: i64,
    missable: i64,
}

impl Level {
    pub(crate) fn new(target: Target) -> Self {
        Self { millionths: target.missable(), missable: target.missable() }
    }

    /// Records the outcome of a quote: what was needed, compared with it.
    pub(crate) fn record(&mut self, needed: Ordering) {
        let Self { millionths: level, missable } = *self;
        let [least, largest] = STEPS;
        let step = (missable / 5).clamp(least, largest);
        let risen = level + step * missable / MILLION;
        let level = match needed {
            Ordering::Less => risen,
            Ordering::Greater => risen - step,
            // Else prices that stay would raise the level until a rise is missed for long.
            Ordering::Equal => level.max(risen.min(missable)),
        };
        self.millionths = level.clamp(MIN_LEVEL, 2 * missable);
    }

    /// Returns the quote from a window of amounts; `None` without any.
    pub(crate) fn quote(self, window: &mut AmountWindow) -> Option<u128> {
        let amounts = window.ascending();
        let highest = |position: usize| amounts.get(amounts.len().checked_sub(position)?).copied();
        let count = i64::try_from(amounts.len()).unwrap_or(i64::MAX);
        let position = self.millionths.max(0) * count.saturating_add(1) / MILLION;
        let position = position.min(count);
        if position >= 1 {
            return highest(usize::try_from(position).ok()?);
        }
        let raises = (-self.millionths).max(0).unsigned_abs().div_ceil(RAISE_STEP);
        Some((0..raises).fold(highest(1)?, |quote, _| quote.saturating_add(quote / 8)))
    }
}

/// The newest amounts, at most [`WINDOW`] of them.
#[derive(Debug, Default)]
pub(crate) struct AmountWindow {
    /// In the order in which they came.
    newest: VecDeque<u128>,
    /// The same, ascending once the window is full.
    sorted: Vec<u128>,
}

impl AmountWindow {
    /// Returns true if the next amount replaces the oldest one.
    pub(crate) fn is_full(&self) -> bool {
        self.newest.len() >= WINDOW
    }

    pub(crate) fn push(&mut self, amount: u128) {
        if self.is_full()
            && let Some(oldest) = self.newest.pop_front()
        {
            self.replace(oldest, amount);
            self.newest.push_back(amount);
            return;
        }
        self.newest.push_back(amount);
        self.sorted.push(amount);
        // Sorting once takes less time than inserting each.
        if self.is_full() {
            self.sorted.sort_unstable();
        }
    }

    /// Moves the amounts between both by one place. Removing one and inserting the other would move most of them twice.
    fn replace(&mut self, oldest: u128, amount: u128) {
        let place = |wanted: u128| self.sorted.partition_point(|other| *other < wanted);
        let (from, to) = (place(oldest), place(amount));
        if from < to {
            if let Some(between) = self.sorted.get_mut(from..to) {
                between.rotate_left(1);
                if let Some(last) = between.last_mut() {
                    *last = amount;
                }
            }
        } else if let Some(between) = self.sorted.get_mut(to..=from) {
            between.rotate_right(1);
            if let Some(first) = between.first_mut() {
                *first = amount;
            }
        }
    }

    fn ascending(&mut self) -> &[u128] {
        if !self.is_full() {
            self.sorted.sort_unstable();
        }
        &self.sorted
    }
}

impl Default for Target {
    /// Returns 95 %.
    fn default() -> Self {
        Self::from_percent(95)
    }
}

impl Default for Tiers<Target> {
    fn default() -> Self {
        let [low, medium, high] = [80, 95, 99].map(Target::from_percent);
        Self { low, medium, high }
    }
}

/// A table with the targets of the tiers; an absent one has its default.
pub(super) mod targets {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    use super::{Target, Tiers};

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

/// Prices of one block with an ask.
#[derive(Debug, Clone, Copy)]
struct BlockPrices {
    /// Reward at the 10th percentile.
    ask: u128,
    /// Reward at the 60th percentile, at least the ask.
    high: u128,
}

/// Returns the tip after the newest of `blocks`; `None` if fewer than [`MIN_ASKS`] of the newest ones have an ask.
pub(crate) fn tip(blocks: &[EntryBlock], target: Target) -> Option<u128> {
    let newest = blocks.iter().skip(blocks.len().saturating_sub(BLOCKS));
    let prices = newest.filter_map(|block| {
        let ask = block.ask()?;
        Some(BlockPrices { ask, high: block.high.map_or(ask, |high| high.max(ask)) })
    });
    let prices: Vec<_> = prices.collect();
    if prices.len() < MIN_ASKS { None } else { replay(&prices, target) }
}

/// Replays the quotes and their misses, and returns the last quote. The first [`WINDOW`] blocks are not compared.
fn replay(prices: &[BlockPrices], target: Target) -> Option<u128> {
    let mut level = Level::new(target);
    let mut window = AmountWindow::default();
    let mut quote = None;
    for (index, block) in prices.iter().enumerate() {
        if let Some(quote) = quote {
            level.record(block.ask.cmp(&quote));
        }
        window.push(block.ask);
        if window.is_full() {
            let known = prices.get(..=index).unwrap_or(prices);
            quote = quote_after(known, &mut window, level);
        }
    }
    quote.or_else(|| quote_after(prices, &mut window, level))
}

/// Returns the quote after the `known` blocks, whose newest asks are in the window.
fn quote_after(known: &[BlockPrices], window: &mut AmountWindow, level: Level) -> Option<u128> {
    let newest_highs = known.iter().rev().take(LIMIT_BLOCKS).map(|block| block.high);
    Some(level.quote(window)?.min(newest_highs.max().unwrap_or_default()))
}
