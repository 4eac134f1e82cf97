//! Compares quotes with the blocks that followed.
//!
//! A quote is made at a head and compared with the blocks after it. All estimators quote at the same heads: from the
//! first with the longest look-back of all, to the last with [`HORIZON_BLOCKS`] blocks after it.

use super::estimators::{Estimator, Quote, longest_window};
use super::recording::{RecordedBlock, Recording};

/// Default percentile of a block's rewards that counts as the cheapest tip that landed: the lowest.
pub const LANDING_PERCENTILE: f64 = 0.0;

/// Percentile of a block's rewards that counts as its realised tip.
pub(super) const REALISED_PERCENTILE: f64 = 50.0;

/// Number of blocks within which an inclusion counts as soon.
const SOON_BLOCKS: usize = 5;

/// Number of blocks after the head that every quote needs.
const HORIZON_BLOCKS: usize = 25;

/// Measures of one estimator. `None`: not computable.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Name of the estimator.
    pub name: String,
    /// Number of quotes.
    pub quotes: u32,
    /// Share of quotes that the next block would have included.
    pub included_next: Option<Share>,
    /// Share of quotes that one of the next five blocks would have included.
    pub included_soon: Option<Share>,
    /// Share of quotes whose max fee covers the base fee of the fifth block after the head.
    pub covers_soon: Option<Share>,
    /// The same for the twenty-fifth block.
    pub covers_horizon: Option<Share>,
    /// Median distance in wei between the tip and the realised median tip of the next block.
    pub tip_gap_p50: Option<u128>,
    /// 99th percentile of that distance.
    pub tip_gap_p99: Option<u128>,
    /// Share of tips at or above the realised median.
    pub tip_covered: Option<Share>,
    /// Median overpayment in wei: the amount above the cheapest tip that landed, among quotes that the next block would
    /// have included.
    pub overpaid_p50: Option<u128>,
    /// 95th percentile of that overpayment.
    pub overpaid_p95: Option<u128>,
    /// Median ratio of the max fee to the next block's base fee, in thousandths.
    pub max_fee_permille: Option<u128>,
}

/// A share; the total is never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Number of hits.
    pub hits: u32,
    /// Number of quotes that could be compared.
    pub total: u32,
}

impl Share {
    /// Returns the share from 0 to 1.
    #[must_use]
    pub fn value(self) -> f64 {
        f64::from(self.hits) / f64::from(self.total)
    }
}

/// Scores estimators on one recording.
#[derive(Debug, Clone)]
pub struct Evaluator<'a> {
    recording: &'a Recording,
    landing_column: Option<usize>,
    realised_column: Option<usize>,
    /// Positions of the heads.
    heads: std::ops::RangeInclusive<usize>,
}

/// Error: too few blocks to compare any quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("has {found} consecutive blocks, but at least {needed} are required")]
pub struct RecordingTooShort {
    found: usize,
    needed: usize,
}

impl<'a> Evaluator<'a> {
    /// Creates an evaluator of quotes of these estimators. Tips at `landing_percentile` are the cheapest that land.
    ///
    /// # Errors
    ///
    /// Fails if the recording is too short.
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

    /// Number of heads at which estimators quote.
    #[must_use]
    pub fn count_heads(&self) -> usize {
        self.heads.clone().count()
    }

    /// Scores all quotes of `estimator`.
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
        // One inclusion decides, even if other blocks are unknown.
        let is_included = outcomes.iter().flatten().any(|outcome| outcome.is_included());
        let is_known = is_included || outcomes.iter().all(Option::is_some);
        tally.included_soon.record(is_known.then_some(is_included));
    }

    /// Outcome of a transaction with that tip and max fee in `block`; `None` if the block's cheapest tip is unknown.
    fn inclusion(&self, tip: u128, max_fee: u128, block: &RecordedBlock) -> Option<BlockInclusion> {
        // An empty block would have included any tip.
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
    /// The base fee exceeds the max fee, or the rest of the max fee is below the cheapest tip that landed.
    Excluded,
    /// Included, paying this much more than the cheapest tip that landed.
    Included { overpaid: u128 },
}

impl BlockInclusion {
    fn is_included(self) -> bool {
        matches!(self, Self::Included { .. })
    }
}

/// Counters of a score.
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
    /// Counts a hit or a miss; `None` is ignored.
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

/// Returns the nearest-rank percentile of ascending amounts; `None` without amounts.
fn nearest_rank(sorted: &[u128], percent: usize) -> Option<u128> {
    let rank = sorted.len().checked_mul(percent)?.div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests;
