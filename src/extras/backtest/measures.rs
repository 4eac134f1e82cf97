//! Compares quotes with the blocks that followed.
//!
//! A quote is made at a head and compared with the blocks after it. All estimators quote at the same heads: from the
//! first with the longest look-back of all, to the last with [`HORIZON_BLOCKS`] blocks after it. In a recording that is
//! too short for that, the first head is the first at which every estimator has a quote.

use super::base_fees;
use super::estimators::{Estimator, EstimatorQuote};
use super::recording::{RecordedBlock, Recording};
use crate::fees::statistics::{mean, nearest_rank};
use crate::fees::{FAIR_PERCENTILE, Target};

pub use crate::fees::statistics::Share;

/// Default percentile of a block's rewards that counts as the tip that it required. The lowest tip of a block is no
/// price: it is 0 in nearly every block of chains with private order flow or deposit transactions.
pub const LANDING_PERCENTILE: f64 = FAIR_PERCENTILE;

/// Percentile of a block's rewards that counts as its realised tip.
pub(crate) const REALISED_PERCENTILE: f64 = 50.0;

/// Gas used ratio from which a block counts as full.
pub(crate) const FULL_GAS_USED_RATIO: f64 = 0.9;

/// Number of blocks within which an inclusion counts as soon.
pub(crate) const SOON_BLOCKS: usize = 5;

/// Number of blocks after the head that every quote needs.
pub(crate) const HORIZON_BLOCKS: usize = 25;

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
    /// Share of quotes that the next block would have included, among those after which a full block follows.
    pub full_blocks_hit: Option<Share>,
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
    /// Median overpayment in wei: the amount above the required tip, among quotes that the next block would have
    /// included.
    pub overpaid_p50: Option<u128>,
    /// 95th percentile of that overpayment.
    pub overpaid_p95: Option<u128>,
    /// Average of that overpayment, rounded down.
    pub overpaid_mean: Option<u128>,
    /// Median ratio of the amount paid to the required one, base fee included, in thousandths, among quotes that the next
    /// block would have included.
    pub price_over_fair_p50: Option<u128>,
    /// 95th percentile of that ratio.
    pub price_over_fair_p95: Option<u128>,
    /// Average pinball loss in wei of the tip against the required tip of the next block. A tip that is too low costs the
    /// target's share of the difference, one that is too high the rest of the share.
    pub pinball_loss: Option<u128>,
    /// Target of the pinball loss.
    pub pinball_target: Target,
    /// Median ratio of the max fee to the next block's base fee, in thousandths.
    pub max_fee_permille: Option<u128>,
}

/// Scores estimators on one recording.
#[derive(Debug, Clone)]
pub struct Evaluator<'a> {
    recording: &'a Recording,
    landing_column: Option<usize>,
    realised_column: Option<usize>,
    /// Positions of the heads.
    heads: std::ops::RangeInclusive<usize>,
    /// True if the recording is too short for the longest look-back.
    is_short: bool,
    /// True if estimators may know the next base fee, because it follows from the head.
    shows_next_base_fee: bool,
}

/// Error: too few blocks to compare any quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("has {found} consecutive blocks, but at least {needed} are required")]
pub struct RecordingTooShort {
    found: usize,
    needed: usize,
}

impl<'a> Evaluator<'a> {
    /// Creates an evaluator of quotes of these estimators. A block requires its reward at `landing_percentile`.
    ///
    /// # Errors
    ///
    /// Fails if the recording is too short.
    pub fn new(
        recording: &'a Recording,
        estimators: &[Estimator],
        landing_percentile: f64,
    ) -> Result<Self, RecordingTooShort> {
        let found = recording.blocks.len();
        let needed = |window: usize| window.saturating_add(HORIZON_BLOCKS);
        let windows = estimators.iter().map(|estimator| estimator.window);
        let longest = windows.max().unwrap_or_default();
        let min_windows = estimators.iter().map(|estimator| estimator.min_window);
        let is_short = found < needed(longest);
        let window = if is_short { min_windows.max().unwrap_or_default() } else { longest };
        let needed = needed(window);
        let last = found.checked_sub(HORIZON_BLOCKS + 1).filter(|_| found >= needed);
        let last = last.ok_or(RecordingTooShort { found, needed })?;
        Ok(Self {
            recording,
            landing_column: recording.reward_column(landing_percentile),
            realised_column: recording.reward_column(REALISED_PERCENTILE),
            heads: window.saturating_sub(1)..=last,
            is_short,
            shows_next_base_fee: base_fees::are_predictable(&recording.blocks),
        })
    }

    /// Number of heads at which estimators quote.
    #[must_use]
    pub fn count_heads(&self) -> usize {
        self.heads.clone().count()
    }

    /// Positions of the heads.
    pub(crate) fn heads(&self) -> std::ops::RangeInclusive<usize> {
        self.heads.clone()
    }

    /// Column of the reward that a block requires; `None`: it is not recorded.
    pub(crate) fn landing_column(&self) -> Option<usize> {
        self.landing_column
    }

    /// Replayed recording.
    pub(crate) fn recording(&self) -> &'a Recording {
        self.recording
    }

    /// Returns true if the recording is too short for the longest look-back of the estimators.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Returns true if estimators know the next base fee.
    pub(crate) fn shows_next_base_fee(&self) -> bool {
        self.shows_next_base_fee
    }

    /// Returns how many of the heads are followed by a full block.
    pub(crate) fn count_full_blocks(&self) -> usize {
        let next = self.heads.clone().map(|head| self.recording.blocks.get(head.saturating_add(1)));
        next.flatten().filter(|block| is_full(block) && self.ask(block).is_some()).count()
    }

    /// Scores all quotes of `estimator`.
    #[must_use]
    pub fn score(&self, estimator: &Estimator) -> Score {
        let target = estimator.target.unwrap_or_default();
        let mut tally = ScoreTally { target, ..ScoreTally::default() };
        for head in self.heads.clone() {
            let Some(history) = self.recording.history_at(head) else { continue };
            let history =
                if self.shows_next_base_fee { history } else { history.without_next_base_fee() };
            if let Some(quote) = estimator.quote(history) {
                self.evaluate(quote, head, &mut tally);
            }
        }
        tally.score(estimator.name.clone())
    }

    fn evaluate(&self, quote: EstimatorQuote, head: usize, tally: &mut ScoreTally) {
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
        let fair_tip = self.ask(next);
        if let Some(fair_tip) = fair_tip {
            tally.record_pinball_loss(tip, fair_tip);
        }
        let outcome = |block: &RecordedBlock| self.inclusion(tip, max_fee?, block);
        let next_outcome = outcome(next);
        let is_included = next_outcome.map(BlockInclusion::is_included);
        tally.included_next.record(is_included);
        tally.full_blocks_hit.record(is_included.filter(|_| is_full(next)));
        if let Some(BlockInclusion::Included { overpaid }) = next_outcome {
            tally.overpaid.push(overpaid);
            let fair_price = fair_tip.and_then(|tip| next.base_fee.checked_add(tip));
            let above = fair_price.and_then(|fair| overpaid.checked_mul(1000)?.checked_div(fair));
            tally.price_over_fair.extend(above.and_then(|above| above.checked_add(1000)));
        }
        let soon = (1..=SOON_BLOCKS).filter_map(after);
        let is_included = soon.clone().filter_map(outcome).map(BlockInclusion::is_included).max();
        // One inclusion decides, even if other blocks are unknown.
        let is_known = is_included == Some(true) || soon.clone().all(|block| self.is_known(block));
        tally.included_soon.record(is_included.filter(|_| is_known));
    }

    fn is_known(&self, block: &RecordedBlock) -> bool {
        let reward = self.landing_column.and_then(|column| block.reward(column));
        block.is_empty() || reward.is_some()
    }

    /// Tip that `block` required; `None` if it has no ask: an empty block says nothing of an estimator, and neither does one
    /// whose transactions paid its producer directly.
    fn ask(&self, block: &RecordedBlock) -> Option<u128> {
        let reward = block.reward(self.landing_column?);
        reward.filter(|reward| *reward > 0 && !block.is_empty())
    }

    /// Outcome of a transaction with that tip and max fee in `block`; `None` if it has no ask.
    fn inclusion(&self, tip: u128, max_fee: u128, block: &RecordedBlock) -> Option<BlockInclusion> {
        let required = self.ask(block)?;
        let Some(room) = max_fee.checked_sub(block.base_fee) else {
            return Some(BlockInclusion::Excluded);
        };
        Some(match tip.min(room).checked_sub(required) {
            Some(overpaid) => BlockInclusion::Included { overpaid },
            None => BlockInclusion::Excluded,
        })
    }

    /// Median tip of `block`; `None` if it is unknown or no transaction paid one.
    fn realised_tip(&self, block: &RecordedBlock) -> Option<u128> {
        if block.is_empty() { None } else { block.reward(self.realised_column?) }
    }
}

fn is_full(block: &RecordedBlock) -> bool {
    block.gas_used_ratio.is_some_and(|ratio| ratio >= FULL_GAS_USED_RATIO)
}

/// Outcome of a transaction in one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockInclusion {
    /// The base fee exceeds the max fee, or the rest of the max fee is below the required tip.
    Excluded,
    /// Included, paying this much more than the required tip.
    Included { overpaid: u128 },
}

impl BlockInclusion {
    fn is_included(self) -> bool {
        matches!(self, Self::Included { .. })
    }
}

const MILLION: u32 = 1_000_000;

/// Counters of a score.
#[derive(Debug, Default)]
struct ScoreTally {
    quotes: u32,
    included_next: ShareCounter,
    included_soon: ShareCounter,
    full_blocks_hit: ShareCounter,
    covers_soon: ShareCounter,
    covers_horizon: ShareCounter,
    tip_covered: ShareCounter,
    tip_gaps: Vec<u128>,
    overpaid: Vec<u128>,
    /// In thousandths.
    price_over_fair: Vec<u128>,
    max_fee_permille: Vec<u128>,
    target: Target,
    /// Pinball losses in millionths of a wei; `None` is an overflow.
    pinball_losses: Vec<Option<u128>>,
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
    fn record_pinball_loss(&mut self, tip: u128, required: u128) {
        let target = self.target.millionths();
        let weight = if tip < required { target } else { MILLION.saturating_sub(target) };
        self.pinball_losses.push(tip.abs_diff(required).checked_mul(weight.into()));
    }

    /// Average of the pinball losses in wei, rounded down; `None` without any, or on overflow.
    fn pinball_loss(&self) -> Option<u128> {
        let sum =
            self.pinball_losses.iter().try_fold(0_u128, |sum, loss| sum.checked_add((*loss)?));
        let count = u128::try_from(self.pinball_losses.len()).ok()?;
        sum?.checked_div(count.checked_mul(MILLION.into())?)
    }

    fn score(mut self, name: String) -> Score {
        for amounts in [
            &mut self.tip_gaps,
            &mut self.overpaid,
            &mut self.price_over_fair,
            &mut self.max_fee_permille,
        ] {
            amounts.sort_unstable();
        }
        Score {
            name,
            quotes: self.quotes,
            included_next: self.included_next.share(),
            included_soon: self.included_soon.share(),
            full_blocks_hit: self.full_blocks_hit.share(),
            covers_soon: self.covers_soon.share(),
            covers_horizon: self.covers_horizon.share(),
            tip_gap_p50: nearest_rank(&self.tip_gaps, 50),
            tip_gap_p99: nearest_rank(&self.tip_gaps, 99),
            tip_covered: self.tip_covered.share(),
            overpaid_p50: nearest_rank(&self.overpaid, 50),
            overpaid_p95: nearest_rank(&self.overpaid, 95),
            overpaid_mean: mean(&self.overpaid),
            price_over_fair_p50: nearest_rank(&self.price_over_fair, 50),
            price_over_fair_p95: nearest_rank(&self.price_over_fair, 95),
            pinball_loss: self.pinball_loss(),
            pinball_target: self.target,
            max_fee_permille: nearest_rank(&self.max_fee_permille, 50),
        }
    }
}

#[cfg(test)]
mod tests;
