//! Grades of the matrix of horizons and probabilities, as `GET /v1/{chain}/fees` serves it, on recorded blocks.
//!
//! The pairs are those without floors, at the heads at which the estimators quote. A cell fails if its share is below the
//! probability by more than a tolerance, and by more than chance explains. Windows of K blocks overlap, so their outcomes
//! count as fewer independent ones.

use gas_suggestion::extras::horizon::estimator::{Cell, HorizonFees, all_cells};
use gas_suggestion::fees::statistics::{mean, wilson_interval};
use gas_suggestion::fees::{ChainParameters, EntryBlock, Pricing, PricingType, Wei};
use serde::Serialize;

use crate::measures::{Evaluator, percentiles, ratio, share};

/// Grade of one cell: `within` is its number of blocks. docs/pricing.md explains the measures.
#[derive(Debug, Serialize)]
pub struct HorizonScore {
    pub within: usize,
    pub probability: f64,
    pub quotes: usize,
    pub kept: f64,
    pub independent: f64,
    pub upper: f64,
    pub passes: bool,
    pub tip_mean: Option<Wei>,
    pub overpaid_p50: Option<Wei>,
    pub overpaid_mean: Option<Wei>,
    pub max_fee_over_base_fee_p50: Option<f64>,
}

/// Most that a share may be below the probability, in permille, unless half of the promised misses is less: 5 at 99 %.
const TOLERANCE: u32 = 15;

/// Two-sided 99 % quantile of the normal distribution.
const Z: f64 = 2.58;

/// Replays the matrix at the heads of `evaluator`. Returns the cells by number of blocks, then by probability; none if the
/// landing percentile is not recorded, or there are too few blocks.
pub fn scores(evaluator: &Evaluator<'_>) -> Vec<HorizonScore> {
    let pricing = Pricing { base_fee_floor: 0, priority_fee_floor: 1, ..Pricing::default() };
    let parameters = ChainParameters::from_pricing(&pricing);
    let mut tallies: Vec<Tally> = Vec::new();
    for head in evaluator.heads.clone() {
        let (known, following) = evaluator.entries.split_at(head + 1);
        let shown = if evaluator.shows_next_base_fee { &following[0] } else { &known[head] };
        let matrix =
            HorizonFees::new(known, shown.base_fee, PricingType::Eip1559, &pricing, &parameters);
        let Some(matrix) = matrix else { continue };
        tallies.resize_with(all_cells().count(), Tally::default);
        for (cell, tally) in matrix.cells().zip(&mut tallies) {
            tally.record(&cell, following);
        }
    }
    let scores = all_cells().zip(tallies);
    scores.filter_map(|((within, percent), tally)| tally.score(within, percent)).collect()
}

/// Outcomes of one cell.
#[derive(Debug, Default)]
struct Tally {
    outcomes: Vec<bool>,
    tips: Vec<u128>,
    overpaid: Vec<u128>,
    /// In thousandths.
    max_fees: Vec<u128>,
}

impl Tally {
    fn record(&mut self, cell: &Cell, following: &[EntryBlock]) {
        let Some(is_kept) = cell.fees.kept_by(&following[..cell.within]) else { return };
        let next = &following[0];
        self.outcomes.push(is_kept);
        self.tips.push(cell.fees.max_priority_fee_per_gas);
        let paid = cell.fees.tip_paid(next.base_fee);
        self.overpaid.extend(paid.zip(next.ask()).and_then(|(paid, ask)| paid.checked_sub(ask)));
        let thousandths = cell.fees.max_fee_per_gas.checked_mul(1000);
        self.max_fees.extend(thousandths.and_then(|fee| fee.checked_div(next.base_fee)));
    }

    fn score(self, within: usize, percent: u8) -> Option<HorizonScore> {
        let kept = share(&self.outcomes)?;
        let independent = self.outcomes.len() as f64 / inflation(&self.outcomes, within);
        let [_, upper] = wilson_interval(kept, independent, Z);
        Some(HorizonScore {
            within,
            probability: f64::from(percent) / 100.0,
            quotes: self.outcomes.len(),
            kept,
            independent,
            upper,
            passes: passes(percent, kept, upper),
            tip_mean: mean(&self.tips).map(Wei),
            overpaid_mean: mean(&self.overpaid).map(Wei),
            overpaid_p50: percentiles(self.overpaid, [50])[0].map(Wei),
            max_fee_over_base_fee_p50: percentiles(self.max_fees, [50])[0].map(ratio),
        })
    }
}

fn passes(percent: u8, kept: f64, upper: f64) -> bool {
    let percent = u32::from(percent);
    let least = percent * 10 - TOLERANCE.min((100 - percent) * 5);
    // Shares of up to millions of outcomes are further apart than the rounding of floating point numbers.
    kept * 1000.0 >= f64::from(least) - 1e-6 || upper >= f64::from(percent) / 100.0
}

/// Returns how many overlapping outcomes stand for an independent one: the variance of their mean over that of independent
/// ones (Newey and West, 1987), with 2K + 10 lags, and at most 2K + 3.
fn inflation(outcomes: &[bool], within: usize) -> f64 {
    let values: Vec<f64> = outcomes.iter().map(|is_kept| f64::from(u8::from(*is_kept))).collect();
    let average = values.iter().sum::<f64>() / values.len() as f64;
    let products = |lag: usize| -> f64 {
        let later = values.iter().skip(lag);
        values.iter().zip(later).map(|(one, other)| (one - average) * (other - average)).sum()
    };
    let variance = products(0);
    if variance <= 0.0 {
        return 1.0;
    }
    let lags = 2 * within + 10;
    let weight = |lag: usize| 1.0 - lag as f64 / (lags + 1) as f64;
    let sum: f64 = (1..=lags).map(|lag| weight(lag) * products(lag) / variance).sum();
    (1.0 + 2.0 * sum).min((2 * within + 3) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimators::all_estimators;
    use crate::recording::{RecordedBlock, Recording};
    use crate::report::Report;

    fn is_near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-6
    }

    #[test]
    fn repeated_outcomes_count_as_fewer() {
        assert!(is_near(inflation(&[true; 50], 1), 1.0));
        // Each outcome comes ten times in a row: at most 2K + 3 of them count as one.
        let pattern = |index: usize| ((index * index * 31 + index * 17) % 1009) % 7 < 3;
        let repeated: Vec<bool> = (0..5000).map(|index| pattern(index / 10)).collect();
        assert!(is_near(inflation(&repeated, 1), 5.0));
        // With more lags, about as many as come in a row.
        assert!((7.0..12.0).contains(&inflation(&repeated, 25)));
        let alternating: Vec<bool> = (0..1000).map(|index| index % 2 == 0).collect();
        assert!(inflation(&alternating, 1) < 0.2);
    }

    #[test]
    fn a_cell_fails_beyond_chance_and_half_of_the_promised_misses() {
        for (percent, hits, independent, expected) in [
            // 97.1 ± 1.0 % and 98.2 ± 0.7 % at 99 %.
            (99, 9711, 998.0, false),
            (99, 9818, 1324.0, false),
            // By chance, and within the tolerance.
            (99, 9770, 250.0, true),
            (99, 9850, 10_000.0, true),
            (99, 9849, 10_000.0, false),
            (95, 9350, 10_000.0, true),
            (95, 9349, 10_000.0, false),
            (50, 4840, 10_000.0, false),
            (50, 4840, 400.0, true),
        ] {
            let kept = f64::from(hits) / 10_000.0;
            let [_, upper] = wilson_interval(kept, independent, Z);
            assert_eq!(passes(percent, kept, upper), expected, "{percent} {hits}");
        }
    }

    fn report(tip: impl Fn(u64) -> u128) -> Vec<HorizonScore> {
        let block = |number| RecordedBlock {
            base_fee: 1000,
            gas_used_ratio: Some(0.5),
            rewards: Some(vec![tip(number); 3]),
        };
        let recording = Recording {
            name: "synthetic".into(),
            oldest_block: 1,
            percentiles: vec![10.0, 50.0, 60.0],
            blocks: (1..=500).map(block).collect(),
        };
        let estimators = all_estimators(&Pricing::default());
        let report = Report::new(&recording, &estimators, 10.0, None, true, || {}).unwrap();
        let table = report.text();
        let cells = report.horizon.unwrap();
        for (word, passes) in [(" pass ", true), (" MISS ", false)] {
            let count = cells.iter().filter(|cell| cell.passes == passes).count();
            assert_eq!(table.matches(word).count(), count);
        }
        cells
    }

    #[test]
    fn a_constant_tip_is_kept_in_every_cell_and_a_rising_one_in_none() {
        let constant = report(|_| 7);
        assert_eq!(constant.len(), 24);
        for cell in &constant {
            assert!(cell.passes && cell.kept >= 1.0 && cell.quotes == 76, "{cell:?}");
            assert_eq!((cell.tip_mean, cell.overpaid_mean), (Some(Wei(7)), Some(Wei(0))));
            assert_eq!(cell.overpaid_p50, Some(Wei(0)));
            assert_eq!(cell.max_fee_over_base_fee_p50, Some(1.007));
        }
        for cell in report(|number| u128::from(number) * 1000) {
            assert!(!cell.passes && cell.kept <= 0.0, "{cell:?}");
        }
    }
}
