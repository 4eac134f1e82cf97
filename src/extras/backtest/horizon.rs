//! Grades of the matrix of horizons and probabilities, as `GET /v1/{chain}/fees` serves it, on recorded blocks.
//!
//! The pairs are those without floors, at the heads at which the estimators quote. A cell fails if its share is below the
//! probability by more than a tolerance, and by more than chance explains. Windows of K blocks overlap, so their outcomes
//! count as fewer independent ones.

use super::Recording;
use super::measures::Evaluator;
use super::table::{UNKNOWN, align_columns, multiple};
use crate::extras::horizon::estimator::{Cell, HorizonFees, all_cells};
use crate::fees::gwei::rounded_gwei;
use crate::fees::statistics::{Share, mean, nearest_rank};
use crate::fees::{ChainParameters, EntryBlock, GRADED_PERCENTILES, Pricing, PricingType};
use crate::observe::metrics::to_f64;

/// Grades of the cells.
#[derive(Debug, Clone, PartialEq)]
pub struct HorizonReport {
    /// By number of blocks, then by probability. Empty: the percentile is not recorded, or there are too few blocks.
    pub cells: Vec<HorizonScore>,
}

/// Grade of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct HorizonScore {
    /// Number of blocks.
    pub within: usize,
    /// Probability in percent.
    pub percent: u8,
    /// Share of the pairs that one of the blocks would have included.
    pub kept: Share,
    /// Number of independent outcomes that the overlapping ones stand for.
    pub independent: f64,
    /// Upper end of Wilson's interval of the share at that number.
    pub upper: f64,
    /// Mean tip in wei, rounded down.
    pub tip_mean: Option<u128>,
    /// Median amount above the required tip of the next block, over the pairs that it would have included, in wei.
    pub overpaid_p50: Option<u128>,
    /// Mean of the same amounts, rounded down.
    pub overpaid_mean: Option<u128>,
    /// Median ratio of the max fee to the base fee of the next block, in thousandths.
    pub max_fee_permille: Option<u128>,
}

/// Most that a share may be below the probability, in permille, unless half of the promised misses is less: 5 at 99 %.
const TOLERANCE: u32 = 15;

/// Two-sided 99 % quantile of the normal distribution.
const Z: f64 = 2.58;

impl HorizonReport {
    /// Replays the matrix at the heads of `evaluator`.
    pub(super) fn new(evaluator: &Evaluator<'_>) -> Self {
        let recording = evaluator.recording();
        if recording.has_tips() && evaluator.landing_column().is_none() {
            return Self { cells: Vec::new() };
        }
        let blocks = entry_blocks(recording, evaluator.landing_column());
        let pricing = Pricing { base_fee_floor: 0, priority_fee_floor: 1, ..Pricing::default() };
        let parameters = ChainParameters::without_header(&pricing);
        let mut tallies: Vec<Tally> = Vec::new();
        for head in evaluator.heads() {
            let Some((known, following)) = blocks.split_at_checked(head.saturating_add(1)) else {
                continue;
            };
            let Some((newest, next)) = known.last().zip(following.first()) else { continue };
            let shown = if evaluator.shows_next_base_fee() { next } else { newest };
            let matrix = HorizonFees::new(
                known,
                shown.base_fee,
                PricingType::Eip1559,
                &pricing,
                &parameters,
            );
            let Some(matrix) = matrix else { continue };
            for (index, cell) in matrix.cells().enumerate() {
                if tallies.len() <= index {
                    tallies.push(Tally::default());
                }
                if let Some(tally) = tallies.get_mut(index) {
                    tally.record(&cell, next, following.get(..cell.within));
                }
            }
        }
        let scores = all_cells()
            .zip(tallies)
            .filter_map(|((within, percent), tally)| tally.score(within, percent));
        Self { cells: scores.collect() }
    }

    /// Formats the grades as a table.
    pub(super) fn lines(&self) -> Vec<String> {
        let headings = [
            "within",
            "probability",
            "kept %",
            "upper %",
            "",
            "quotes",
            "independent",
            "tip mean",
            "overpaid mean",
            "max fee / base fee",
        ];
        let mut rows = vec![headings.map(str::to_owned).to_vec()];
        rows.extend(self.cells.iter().map(HorizonScore::cells));
        align_columns(&rows)
    }
}

impl HorizonScore {
    /// Returns true unless the share is below the probability by more than the tolerance and more than chance.
    #[must_use]
    pub fn passes(&self) -> bool {
        let percent = u32::from(self.percent);
        let least = percent * 10 - TOLERANCE.min((100 - percent) * 5);
        let is_near =
            u64::from(self.kept.hits) * 1000 >= u64::from(self.kept.total) * u64::from(least);
        is_near || self.upper >= f64::from(self.percent) / 100.0
    }

    fn cells(&self) -> Vec<String> {
        let gwei = |wei: Option<u128>| wei.map_or(UNKNOWN.into(), rounded_gwei);
        vec![
            self.within.to_string(),
            format!("{:.2}", f64::from(self.percent) / 100.0),
            format!("{:.2}", self.kept.value() * 100.0),
            format!("{:.2}", self.upper * 100.0),
            (if self.passes() { "pass" } else { "MISS" }).into(),
            self.kept.total.to_string(),
            format!("{:.0}", self.independent),
            gwei(self.tip_mean),
            gwei(self.overpaid_mean),
            self.max_fee_permille.map_or(UNKNOWN.into(), multiple),
        ]
    }
}

/// Returns the blocks with the tips that they required. Without recorded tips 1 wei is enough.
fn entry_blocks(recording: &Recording, column: Option<usize>) -> Vec<EntryBlock> {
    let [_, high] = GRADED_PERCENTILES;
    let high = recording.reward_column(high);
    let entry = |block: &super::RecordedBlock| {
        let reward = column.and_then(|column| block.reward(column));
        let tip = reward.map(|tip| if block.is_empty() { 0 } else { tip });
        let tip = if recording.has_tips() { tip } else { Some(1) };
        let high = high.and_then(|column| block.reward(column));
        EntryBlock { base_fee: block.base_fee, tip, high }
    };
    recording.blocks.iter().map(entry).collect()
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
    fn record(&mut self, cell: &Cell, next: &EntryBlock, following: Option<&[EntryBlock]>) {
        let Some(is_kept) = following.and_then(|blocks| cell.fees.kept_by(blocks)) else {
            return;
        };
        self.outcomes.push(is_kept);
        self.tips.push(cell.fees.max_priority_fee_per_gas);
        let paid = cell.fees.tip_paid(next.base_fee);
        self.overpaid.extend(paid.zip(next.ask()).and_then(|(paid, tip)| paid.checked_sub(tip)));
        let thousandths = cell.fees.max_fee_per_gas.checked_mul(1000);
        self.max_fees.extend(thousandths.and_then(|fee| fee.checked_div(next.base_fee)));
    }

    fn score(mut self, within: usize, percent: u8) -> Option<HorizonScore> {
        let hits = self.outcomes.iter().filter(|is_kept| **is_kept).count();
        let kept = Share {
            hits: u32::try_from(hits).ok()?,
            total: u32::try_from(self.outcomes.len()).ok().filter(|total| *total > 0)?,
        };
        self.max_fees.sort_unstable();
        self.overpaid.sort_unstable();
        let independent = f64::from(kept.total) / inflation(&self.outcomes, within);
        Some(HorizonScore {
            within,
            percent,
            kept,
            independent,
            upper: wilson_upper(kept.value(), independent),
            tip_mean: mean(&self.tips),
            overpaid_p50: nearest_rank(&self.overpaid, 50),
            overpaid_mean: mean(&self.overpaid),
            max_fee_permille: nearest_rank(&self.max_fees, 50),
        })
    }
}

/// Returns how many overlapping outcomes stand for an independent one: the variance of their mean over that of independent
/// ones (Newey and West, 1987), with 2K + 10 lags, and at most 2K + 3.
fn inflation(outcomes: &[bool], within: usize) -> f64 {
    let values: Vec<f64> = outcomes.iter().map(|is_kept| f64::from(u8::from(*is_kept))).collect();
    let average = values.iter().sum::<f64>() / to_f64(values.len());
    let products = |lag: usize| -> f64 {
        let later = values.iter().skip(lag);
        values.iter().zip(later).map(|(one, other)| (one - average) * (other - average)).sum()
    };
    let variance = products(0);
    if variance <= 0.0 {
        return 1.0;
    }
    let lags = within.saturating_mul(2).saturating_add(10);
    let weight = |lag: usize| 1.0 - to_f64(lag) / to_f64(lags.saturating_add(1));
    let sum: f64 = (1..=lags).map(|lag| weight(lag) * products(lag) / variance).sum();
    (1.0 + 2.0 * sum).min(to_f64(within.saturating_mul(2).saturating_add(3)))
}

/// Returns the upper end of Wilson's interval (E. B. Wilson, 1927).
fn wilson_upper(share: f64, outcomes: f64) -> f64 {
    let scale = 1.0 + Z * Z / outcomes;
    let centre = share + Z * Z / (2.0 * outcomes);
    let half = (share * (1.0 - share) / outcomes + Z * Z / (4.0 * outcomes * outcomes)).sqrt();
    (centre + Z * half) / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extras::backtest::{RecordedBlock, Report, all_estimators};

    fn is_near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-6
    }

    #[test]
    fn the_upper_end_is_wilsons() {
        assert!(is_near(wilson_upper(0.95, 100.0), 0.983_178_95));
        assert!(is_near(wilson_upper(1.0, 8.0), 1.0));
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
        let passes = |percent, hits, total, independent: f64| {
            let kept = Share { hits, total };
            let upper = wilson_upper(kept.value(), independent);
            let (within, unknown) = (1, None);
            let score = HorizonScore {
                within,
                percent,
                kept,
                independent,
                upper,
                tip_mean: unknown,
                overpaid_p50: unknown,
                overpaid_mean: unknown,
                max_fee_permille: unknown,
            };
            score.passes()
        };
        for (percent, hits, total, independent, expected) in [
            // 97.1 ± 1.0 % and 98.2 ± 0.7 % at 99 %.
            (99, 9711, 10_000, 998.0, false),
            (99, 9818, 10_000, 1324.0, false),
            // By chance, and within the tolerance.
            (99, 9770, 10_000, 250.0, true),
            (99, 9850, 10_000, 10_000.0, true),
            (99, 9849, 10_000, 10_000.0, false),
            (95, 9350, 10_000, 10_000.0, true),
            (95, 9349, 10_000, 10_000.0, false),
            (50, 4840, 10_000, 10_000.0, false),
            (50, 4840, 10_000, 400.0, true),
        ] {
            assert_eq!(passes(percent, hits, total, independent), expected, "{percent} {hits}");
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
        let mut report = Report::new(&recording, &estimators, 10.0, None, || {}).unwrap();
        assert_eq!(report.horizon, None);
        report.add_horizon(&estimators, 10.0).unwrap();
        let table = report.table();
        let horizon = report.horizon.unwrap();
        let verdicts = [true, false]
            .map(|passes| horizon.cells.iter().filter(|cell| cell.passes() == passes).count());
        let words = ["pass", "MISS"].map(|word| table.matches(&format!(" {word} ")).count());
        assert_eq!(words, verdicts);
        horizon.cells
    }

    #[test]
    fn a_constant_tip_is_kept_in_every_cell_and_a_rising_one_in_none() {
        let constant = report(|_| 7);
        assert_eq!(constant.len(), 24);
        for cell in &constant {
            assert!(cell.passes() && cell.kept == Share { hits: 76, total: 76 }, "{cell:?}");
            assert_eq!((cell.tip_mean, cell.overpaid_mean), (Some(7), Some(0)));
            assert_eq!(cell.overpaid_p50, Some(0));
            assert_eq!(cell.max_fee_permille, Some(1007));
        }
        for cell in report(|number| u128::from(number) * 1000) {
            assert!(!cell.passes() && cell.kept.hits == 0, "{cell:?}");
        }
    }
}
