//! Compares quotes with the blocks that followed.
//!
//! A quote is made at a head and compared with the blocks after it. All estimators quote at the same heads: from the
//! first with the longest look-back of all, to the last with [`HORIZON_BLOCKS`] blocks after it. In a recording that is
//! too short for that, the first head is the first at which every estimator has a quote.

use std::ops::RangeInclusive;

use anyhow::ensure;
use gas_suggestion::fees::statistics::{mean, nearest_rank};
use gas_suggestion::fees::{EntryBlock, FAIR_PERCENTILE, GRADED_PERCENTILES, Target, Tier, Wei};
use serde::Serialize;

use crate::base_fees;
use crate::estimators::{Estimator, EstimatorQuote};
use crate::recording::{RecordedBlock, Recording};

/// Default percentile of a block's rewards that counts as the tip that it required. The lowest tip of a block is no
/// price: it is 0 in nearly every block of chains with private order flow or deposit transactions.
pub const LANDING_PERCENTILE: f64 = FAIR_PERCENTILE;

/// Percentile of a block's rewards that counts as its realised tip.
pub const REALISED_PERCENTILE: f64 = 50.0;

/// Gas used ratio from which a block counts as full.
pub const FULL_GAS_USED_RATIO: f64 = 0.9;

/// Number of blocks within which an inclusion counts as soon.
pub const SOON_BLOCKS: usize = 5;

/// Number of blocks after the head that every quote needs.
pub const HORIZON_BLOCKS: usize = 25;

/// Measures of one estimator, which docs/pricing.md explains. Shares are from 0 to 1. `None`: not computable.
#[derive(Debug, Serialize)]
pub struct Score {
    pub name: String,
    pub quotes: usize,
    pub included_next: Option<f64>,
    pub included_within_5: Option<f64>,
    pub full_blocks_hit: Option<f64>,
    pub covers_after_5: Option<f64>,
    pub covers_after_25: Option<f64>,
    pub tip_gap_p50: Option<Wei>,
    pub tip_gap_p99: Option<Wei>,
    pub tip_covered: Option<f64>,
    pub overpaid_p50: Option<Wei>,
    pub overpaid_p95: Option<Wei>,
    pub overpaid_mean: Option<Wei>,
    pub price_over_fair_p50: Option<f64>,
    pub price_over_fair_p95: Option<f64>,
    pub pinball_loss: Option<Wei>,
    pub pinball_target: f64,
    pub max_fee_over_base_fee_p50: Option<f64>,
}

/// Scores estimators on one recording.
#[derive(Debug)]
pub struct Evaluator<'a> {
    pub recording: &'a Recording,
    /// The blocks with the tips that they required. An empty block, and one whose transactions paid its producer directly,
    /// has none and says nothing of an estimator. Without recorded tips 1 wei is enough.
    pub entries: Vec<EntryBlock>,
    /// Positions of the heads.
    pub heads: RangeInclusive<usize>,
    /// True if the recording is too short for the longest look-back of the estimators.
    pub is_short: bool,
    /// True if estimators may know the next base fee, because it follows from the head.
    pub shows_next_base_fee: bool,
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
    ) -> anyhow::Result<Self> {
        let found = recording.blocks.len();
        let longest = estimators.iter().map(|estimator| estimator.window).max().unwrap_or_default();
        let shortest = estimators.iter().map(|estimator| estimator.min_window).max();
        let is_short = found < longest + HORIZON_BLOCKS;
        let window = if is_short { shortest.unwrap_or_default() } else { longest };
        let needed = window + HORIZON_BLOCKS;
        ensure!(
            found >= needed,
            "has {found} consecutive blocks, but at least {needed} are required"
        );
        Ok(Self {
            recording,
            entries: entries(recording, landing_percentile),
            heads: window - 1..=found - HORIZON_BLOCKS - 1,
            is_short,
            shows_next_base_fee: base_fees::are_predictable(&recording.blocks),
        })
    }

    /// Returns how many of the heads are followed by a full block with an ask.
    pub fn count_full_blocks(&self) -> usize {
        let is_counted = |next: usize| {
            is_full(&self.recording.blocks[next]) && self.entries[next].ask().is_some()
        };
        self.heads.clone().filter(|head| is_counted(head + 1)).count()
    }

    /// Scores all quotes of `estimator`.
    pub fn score(&self, estimator: &Estimator) -> Score {
        let target = estimator.target.unwrap_or_default();
        let mut tally = Tally { target, ..Tally::default() };
        for head in self.heads.clone() {
            let mut history = self.recording.history_at(head);
            history.is_next_base_fee_known = self.shows_next_base_fee;
            if let Some(quote) = estimator.quote(history) {
                self.evaluate(quote, head, &mut tally);
            }
        }
        tally.score(estimator.name.clone())
    }

    fn evaluate(&self, quote: EstimatorQuote, head: usize, tally: &mut Tally) {
        let next = &self.recording.blocks[head + 1];
        let following = &self.entries[head + 1..=head + HORIZON_BLOCKS];
        tally.quotes += 1;
        let max_fee = quote.max_fee();
        let covers = |block: usize| max_fee.map(|max_fee| max_fee >= following[block - 1].base_fee);
        tally.covers_soon.extend(covers(SOON_BLOCKS));
        tally.covers_horizon.extend(covers(HORIZON_BLOCKS));
        let thousandths = max_fee.and_then(|max_fee| max_fee.checked_mul(1000));
        tally.max_fees.extend(thousandths.and_then(|fee| fee.checked_div(next.base_fee)));

        let Some(tip) = quote.tip else { return };
        if let Some(realised) = self.realised_tip(next) {
            tally.tip_gaps.push(tip.abs_diff(realised));
            tally.tip_covered.push(tip >= realised);
        }
        let ask = following[0].ask();
        tally.pinball_losses.extend(ask.map(|ask| pinball_loss(tally.target, tip, ask)));
        let Some(max_fee_per_gas) = max_fee else { return };
        let fees = Tier { max_priority_fee_per_gas: tip, max_fee_per_gas };
        let is_included = following[0].accepts(fees);
        tally.included_next.extend(is_included);
        tally.full_blocks_hit.extend(is_included.filter(|_| is_full(next)));
        tally.included_soon.extend(fees.kept_by(&following[..SOON_BLOCKS]));
        if let (Some(true), Some(paid), Some(ask)) =
            (is_included, fees.tip_paid(next.base_fee), ask)
        {
            tally.overpaid.push(paid - ask);
            let above = (paid - ask).checked_mul(1000);
            let above = above.zip(next.base_fee.checked_add(ask)).map(|(above, fair)| above / fair);
            tally.price_over_fair.extend(above.map(|above| above + 1000));
        }
    }

    /// Median tip of `block`; `None` if it is unknown or no transaction paid one.
    fn realised_tip(&self, block: &RecordedBlock) -> Option<u128> {
        let column = self.recording.reward_column(REALISED_PERCENTILE)?;
        if block.is_empty() { None } else { block.reward(column) }
    }
}

/// Returns the blocks with the tips that they required. If their percentile is not recorded, none is known.
fn entries(recording: &Recording, landing_percentile: f64) -> Vec<EntryBlock> {
    let [_, high] = GRADED_PERCENTILES;
    let [landing, high] = [landing_percentile, high].map(|it| recording.reward_column(it));
    let entry = |block: &RecordedBlock| {
        let tip = match landing {
            _ if !recording.has_tips() => Some(1),
            Some(_) if block.is_empty() => Some(0),
            column => block.reward_in(column),
        };
        EntryBlock { base_fee: block.base_fee, tip, high: block.reward_in(high) }
    };
    recording.blocks.iter().map(entry).collect()
}

fn is_full(block: &RecordedBlock) -> bool {
    block.gas_used_ratio.is_some_and(|ratio| ratio >= FULL_GAS_USED_RATIO)
}

/// Returns the loss of one tip in millionths of a wei; `None` is an overflow.
fn pinball_loss(target: Target, tip: u128, required: u128) -> Option<u128> {
    let target = target.millionths();
    let weight = if tip < required { target } else { 1_000_000 - target };
    tip.abs_diff(required).checked_mul(weight.into())
}

/// Outcomes and amounts of the quotes of one estimator. Ratios are in thousandths.
#[derive(Debug, Default)]
struct Tally {
    quotes: usize,
    included_next: Vec<bool>,
    included_soon: Vec<bool>,
    full_blocks_hit: Vec<bool>,
    covers_soon: Vec<bool>,
    covers_horizon: Vec<bool>,
    tip_covered: Vec<bool>,
    tip_gaps: Vec<u128>,
    overpaid: Vec<u128>,
    price_over_fair: Vec<u128>,
    max_fees: Vec<u128>,
    target: Target,
    pinball_losses: Vec<Option<u128>>,
}

impl Tally {
    fn score(self, name: String) -> Score {
        let losses: Option<Vec<u128>> = self.pinball_losses.into_iter().collect();
        let loss = losses.and_then(|losses| mean(&losses)).map(|millionths| millionths / 1_000_000);
        let overpaid_mean = mean(&self.overpaid).map(Wei);
        let tip_gap = percentiles(self.tip_gaps, [50, 99]);
        let overpaid = percentiles(self.overpaid, [50, 95]);
        let price_over_fair = percentiles(self.price_over_fair, [50, 95]);
        Score {
            name,
            quotes: self.quotes,
            included_next: share(&self.included_next),
            included_within_5: share(&self.included_soon),
            full_blocks_hit: share(&self.full_blocks_hit),
            covers_after_5: share(&self.covers_soon),
            covers_after_25: share(&self.covers_horizon),
            tip_gap_p50: tip_gap[0].map(Wei),
            tip_gap_p99: tip_gap[1].map(Wei),
            tip_covered: share(&self.tip_covered),
            overpaid_p50: overpaid[0].map(Wei),
            overpaid_p95: overpaid[1].map(Wei),
            overpaid_mean,
            price_over_fair_p50: price_over_fair[0].map(ratio),
            price_over_fair_p95: price_over_fair[1].map(ratio),
            pinball_loss: loss.map(Wei),
            pinball_target: self.target.share(),
            max_fee_over_base_fee_p50: percentiles(self.max_fees, [50])[0].map(ratio),
        }
    }
}

/// Returns the share of hits; `None` without outcomes.
pub fn share(outcomes: &[bool]) -> Option<f64> {
    let hits = outcomes.iter().filter(|is_hit| **is_hit).count();
    (!outcomes.is_empty()).then(|| hits as f64 / outcomes.len() as f64)
}

/// Returns the nearest ranks of these percentages.
pub fn percentiles<const N: usize>(
    mut amounts: Vec<u128>,
    percents: [usize; N],
) -> [Option<u128>; N] {
    amounts.sort_unstable();
    percents.map(|percent| nearest_rank(&amounts, percent))
}

/// Converts thousandths.
pub fn ratio(thousandths: u128) -> f64 {
    thousandths as f64 / 1000.0
}

#[cfg(test)]
mod tests;
