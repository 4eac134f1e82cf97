//! How quotes are judged against the blocks that came after them.
//!
//! A quote is made when a block is the newest and judged against those after it. All estimators are judged at the
//! same heads: from the first that has the longest window of all, to the last that has [`HORIZON_BLOCKS`] blocks after it.

use super::estimators::{Estimator, Quote, longest_window};
use super::recording::{RecordedBlock, Recording};

/// The percentile of a block's rewards that counts as the cheapest tip that landed, where none is named: literally
/// the lowest.
pub const LANDING_PERCENTILE: f64 = 0.0;

/// The percentile that the realised tip of a block is taken at.
pub(super) const REALISED_PERCENTILE: f64 = 50.0;

/// Within how many blocks a transaction is still soon.
const SOON_BLOCKS: usize = 5;

/// How many blocks after the head a quote is followed.
const HORIZON_BLOCKS: usize = 25;

/// How one estimator did. What nothing could be said of is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The estimator.
    pub name: String,
    /// How many quotes it gave.
    pub quotes: u32,
    /// Share of quotes that the next block would have included.
    pub included_next: Option<Share>,
    /// Those that one of the next five would have included.
    pub included_soon: Option<Share>,
    /// Those whose max fee is not below the base fee of the fifth block after the head.
    pub covers_soon: Option<Share>,
    /// The same for the twenty-fifth.
    pub covers_horizon: Option<Share>,
    /// Between the tip and the realised median tip of the next block: the median, in wei.
    pub tip_gap_p50: Option<u128>,
    /// The 99th percentile of that.
    pub tip_gap_p99: Option<u128>,
    /// Share of tips at or above the realised median.
    pub tip_covered: Option<Share>,
    /// Median overpayment in wei: the amount above the cheapest tip that landed, among quotes that the next block would
    /// have included.
    pub overpaid_p50: Option<u128>,
    /// The 95th percentile of that.
    pub overpaid_p95: Option<u128>,
    /// The max fee over the next block's base fee, in thousandths: the median.
    pub max_fee_permille: Option<u128>,
}

/// So many of so many; never of none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Those that it is the share of.
    pub hits: u32,
    /// All that could be judged.
    pub total: u32,
}

impl Share {
    /// From 0 to 1.
    #[must_use]
    pub fn value(self) -> f64 {
        f64::from(self.hits) / f64::from(self.total)
    }
}

/// Measures that a recording allows.
#[derive(Debug, Clone)]
pub struct Evaluator<'a> {
    recording: &'a Recording,
    landing_column: Option<usize>,
    realised_column: Option<usize>,
    /// The positions of the heads.
    heads: std::ops::RangeInclusive<usize>,
}

/// There are so few blocks that no quote can be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("has {found} consecutive blocks, but at least {needed} are required")]
pub struct RecordingTooShort {
    found: usize,
    needed: usize,
}

impl<'a> Evaluator<'a> {
    /// For quotes of these estimators; tips at `landing_percentile` are the cheapest that land.
    ///
    /// # Errors
    ///
    /// When the recording is too short.
    pub fn new(
        recording: &'a Recording,
        estimators: &[Estimator],
        landing_percentile: f64,
    ) -> Result<Self, RecordingTooShort> {
        let window = longest_window(estimators);
        let (found, needed) = (recording.blocks.len(), window.saturating_add(HORIZON_BLOCKS));
        let last = found.checked_sub(HORIZON_BLOCKS + 1).filter(|_| found >= needed);
        let last = last.ok_or(RecordingTooShort { found, needed })?;
        Ok(Self {
            recording,
            landing_column: recording.reward_column(landing_percentile),
            realised_column: recording.reward_column(REALISED_PERCENTILE),
            heads: window.saturating_sub(1)..=last,
        })
    }

    /// At how many heads quotes are asked for.
    #[must_use]
    pub fn count_heads(&self) -> usize {
        self.heads.clone().count()
    }

    /// Asks for all quotes of `estimator` and judges them.
    #[must_use]
    pub fn score(&self, estimator: &Estimator) -> Score {
        let mut tally = ScoreTally::default();
        for head in self.heads.clone() {
            let Some(history) = self.recording.history_at(head) else { continue };
            if let Some(quote) = estimator.quote(history) {
                self.evaluate(quote, head, &mut tally);
            }
        }
        tally.score(estimator.name.clone())
    }

    fn evaluate(&self, quote: Quote, head: usize, tally: &mut ScoreTally) {
        let after = |blocks: usize| self.recording.blocks.get(head.saturating_add(blocks));
        let (Some(next), Some(soon), Some(horizon)) =
            (after(1), after(SOON_BLOCKS), after(HORIZON_BLOCKS))
        else {
            return;
        };
        tally.quotes = tally.quotes.saturating_add(1);
        let max_fee = quote.max_fee();
        let covers = |block: &RecordedBlock| max_fee.map(|max_fee| max_fee >= block.base_fee);
        tally.covers_soon.record(covers(soon));
        tally.covers_horizon.record(covers(horizon));
        let thousandths = max_fee.and_then(|max_fee| max_fee.checked_mul(1000));
        tally.max_fee_permille.extend(thousandths.and_then(|fee| fee.checked_div(next.base_fee)));

        let Some(tip) = quote.tip else { return };
        if let Some(realised) = self.realised_tip(next) {
            tally.tip_gaps.push(tip.abs_diff(realised));
            tally.tip_covered.record(Some(tip >= realised));
        }
        let outcome = |block: &RecordedBlock| self.inclusion(tip, max_fee?, block);
        let next_outcome = outcome(next);
        tally.included_next.record(next_outcome.map(BlockInclusion::is_included));
        if let Some(BlockInclusion::Included { overpaid }) = next_outcome {
            tally.overpaid.push(overpaid);
        }
        let outcomes: Vec<_> = (1..=SOON_BLOCKS).filter_map(after).map(outcome).collect();
        // One that would have included it settles it, whatever is not known of the others.
        let is_included = outcomes.iter().flatten().any(|outcome| outcome.is_included());
        let is_known = is_included || outcomes.iter().all(Option::is_some);
        tally.included_soon.record(is_known.then_some(is_included));
    }

    /// Outcome of a transaction with that tip and max fee in `block`; `None` if the block's cheapest tip is unknown.
    fn inclusion(&self, tip: u128, max_fee: u128, block: &RecordedBlock) -> Option<BlockInclusion> {
        // In an empty block any tip would have landed.
        let cheapest = if block.is_empty() { 0 } else { block.reward(self.landing_column?)? };
        let Some(room) = max_fee.checked_sub(block.base_fee) else {
            return Some(BlockInclusion::Excluded);
        };
        Some(match tip.min(room).checked_sub(cheapest) {
            Some(overpaid) => BlockInclusion::Included { overpaid },
            None => BlockInclusion::Excluded,
        })
    }

    /// Median tip of `block`; `None` if it is unknown or no transaction paid one.
    fn realised_tip(&self, block: &RecordedBlock) -> Option<u128> {
        if block.is_empty() { None } else { block.reward(self.realised_column?) }
    }
}

/// Outcome of a transaction in one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockInclusion {
    /// The base fee is above its max fee, or what is left of that below what landed.
    Excluded,
    /// It pays so much more than the cheapest that landed.
    Included { overpaid: u128 },
}

impl BlockInclusion {
    fn is_included(self) -> bool {
        matches!(self, Self::Included { .. })
    }
}

/// Counts so far.
#[derive(Debug, Default)]
struct ScoreTally {
    quotes: u32,
    included_next: ShareCounter,
    included_soon: ShareCounter,
    covers_soon: ShareCounter,
    covers_horizon: ShareCounter,
    tip_covered: ShareCounter,
    tip_gaps: Vec<u128>,
    overpaid: Vec<u128>,
    max_fee_permille: Vec<u128>,
}

#[derive(Debug, Default)]
struct ShareCounter {
    hits: u32,
    total: u32,
}

impl ShareCounter {
    /// Counts a hit or a miss; `None` is not counted.
    fn record(&mut self, is_hit: Option<bool>) {
        let Some(is_hit) = is_hit else { return };
        self.total = self.total.saturating_add(1);
        self.hits = self.hits.saturating_add(u32::from(is_hit));
    }

    fn share(&self) -> Option<Share> {
        (self.total > 0).then_some(Share { hits: self.hits, total: self.total })
    }
}

impl ScoreTally {
    fn score(mut self, name: String) -> Score {
        for amounts in [&mut self.tip_gaps, &mut self.overpaid, &mut self.max_fee_permille] {
            amounts.sort_unstable();
        }
        Score {
            name,
            quotes: self.quotes,
            included_next: self.included_next.share(),
            included_soon: self.included_soon.share(),
            covers_soon: self.covers_soon.share(),
            covers_horizon: self.covers_horizon.share(),
            tip_gap_p50: nearest_rank(&self.tip_gaps, 50),
            tip_gap_p99: nearest_rank(&self.tip_gaps, 99),
            tip_covered: self.tip_covered.share(),
            overpaid_p50: nearest_rank(&self.overpaid, 50),
            overpaid_p95: nearest_rank(&self.overpaid, 95),
            max_fee_permille: nearest_rank(&self.max_fee_permille, 50),
        }
    }
}

/// The smallest of the ascending amounts that so many percent of them are not above; `None` of nothing.
fn nearest_rank(sorted: &[u128], percent: usize) -> Option<u128> {
    let rank = sorted.len().checked_mul(percent)?.div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests;
