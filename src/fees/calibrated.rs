//! The calibrated strategy: the tip is not below the 10th percentile of the next block in a chosen share of blocks.
//!
//! It is split conformal prediction with feedback from its own misses (adaptive conformal inference, Gibbs and Candès
//! 2021), in integers, and a pure function of the asks among the newest [`BLOCKS`] blocks. So all processes agree, also after restarts.
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
}

/// Level of a conformal quantile: the share of asks that may exceed a quote, moved by the outcomes of the quotes.
#[derive(Debug, Clone, Copy)]
struct Level {
    millionths: i64,
    /// Share that may be missed, in millionths.
    missable: i64,
}

impl Level {
    fn new(target: Target) -> Self {
        let missable = MILLION.saturating_sub(target.millionths.into());
        Self { millionths: missable, missable }
    }

    /// Records the outcome of a quote: what was needed, compared with it.
    fn record(&mut self, needed: Ordering) {
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
    fn quote(self, window: &AmountWindow) -> Option<u128> {
        let amounts = &window.sorted;
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
struct AmountWindow {
    /// In the order in which they came.
    newest: VecDeque<u128>,
    /// The same, ascending.
    sorted: Vec<u128>,
}

impl AmountWindow {
    /// Returns true if the next amount replaces the oldest one.
    fn is_full(&self) -> bool {
        self.newest.len() >= WINDOW
    }

    fn push(&mut self, amount: u128) {
        if self.is_full()
            && let Some(oldest) = self.newest.pop_front()
        {
            self.sorted.remove(self.position(oldest));
        }
        self.newest.push_back(amount);
        self.sorted.insert(self.position(amount), amount);
    }

    /// Returns the position of the first amount that is not below this one.
    fn position(&self, amount: u128) -> usize {
        self.sorted.partition_point(|other| *other < amount)
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

/// Returns the tip after the newest of `blocks`; `None` if fewer than [`MIN_ASKS`] of the newest ones have an ask.
pub(crate) fn tip(blocks: &[EntryBlock], target: Target) -> Option<u128> {
    let newest = blocks.iter().skip(blocks.len().saturating_sub(BLOCKS));
    // The ask of each block that has one, and its high, at least the ask.
    let prices = newest.filter_map(|block| {
        let ask = block.ask()?;
        Some((ask, block.high.unwrap_or(ask).max(ask)))
    });
    let prices: Vec<(u128, u128)> = prices.collect();
    if prices.len() < MIN_ASKS {
        return None;
    }
    let limit = |index: usize| {
        let known = prices.get(..=index).unwrap_or(&prices);
        let newest_highs = known.iter().rev().take(LIMIT_BLOCKS).map(|(_, high)| *high);
        newest_highs.max().unwrap_or_default()
    };
    replay(prices.iter().map(|(ask, _)| Some(*ask)), 1, target, limit)
}

/// Replays the quotes from the needs of blocks and their misses, and returns the last quote. The outcome of a quote is known
/// `within` blocks after its block. `limit` is that of the quote after the block with this index. While the window is not
/// full, nothing is compared. `None`: no need is known.
pub(crate) fn replay(
    needs: impl Iterator<Item = Option<u128>>,
    within: usize,
    target: Target,
    limit: impl Fn(usize) -> u128,
) -> Option<u128> {
    let mut level = Level::new(target);
    let mut window = AmountWindow::default();
    // The quote after each block.
    let mut quotes: Vec<Option<u128>> = Vec::with_capacity(BLOCKS);
    let mut quote = None;
    for (index, need) in needs.enumerate() {
        if let Some(need) = need {
            let compared = index.checked_sub(within).and_then(|index| *quotes.get(index)?);
            if let Some(compared) = compared {
                level.record(need.cmp(&compared));
            }
            window.push(need);
            let unlimited = if window.is_full() { level.quote(&window) } else { None };
            quote = unlimited.map(|quote| quote.min(limit(index)));
        }
        quotes.push(quote);
    }
    quote.or_else(|| Some(level.quote(&window)?.min(limit(quotes.len()))))
}
