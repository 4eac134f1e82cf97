//! Reports as JSON: amounts are wei as decimal strings, shares are numbers from 0 to 1, unknown values are null.

use serde::Serialize;

use super::Report;
use super::horizon::HorizonScore;
use super::measures::{HORIZON_BLOCKS, SOON_BLOCKS, Score, Share};
use crate::fees::Wei;

#[derive(Serialize)]
struct Document<'a> {
    landing_percentile: f64,
    recordings: Vec<RecordingReport<'a>>,
}

#[derive(Serialize)]
struct RecordingReport<'a> {
    name: &'a str,
    oldest_block: u64,
    newest_block: u64,
    quotes: usize,
    has_tips: bool,
    seconds_of_5_blocks: Option<f64>,
    seconds_of_25_blocks: Option<f64>,
    notes: &'a [String],
    estimators: Vec<EstimatorScore<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    horizon: Option<Vec<HorizonCell>>,
}

#[derive(Serialize)]
struct HorizonCell {
    within: usize,
    probability: f64,
    quotes: u32,
    kept: f64,
    independent: f64,
    upper: f64,
    passes: bool,
    tip_mean: Option<Wei>,
    overpaid_p50: Option<Wei>,
    overpaid_mean: Option<Wei>,
    max_fee_over_base_fee_p50: Option<f64>,
}

#[derive(Serialize)]
struct EstimatorScore<'a> {
    name: &'a str,
    quotes: u32,
    included_next: Option<f64>,
    included_within_5: Option<f64>,
    full_blocks_hit: Option<f64>,
    covers_after_5: Option<f64>,
    covers_after_25: Option<f64>,
    tip_gap_p50: Option<Wei>,
    tip_gap_p99: Option<Wei>,
    tip_covered: Option<f64>,
    overpaid_p50: Option<Wei>,
    overpaid_p95: Option<Wei>,
    overpaid_mean: Option<Wei>,
    price_over_fair_p50: Option<f64>,
    price_over_fair_p95: Option<f64>,
    pinball_loss: Option<Wei>,
    pinball_target: f64,
    max_fee_over_base_fee_p50: Option<f64>,
}

/// Serialises all reports as one document.
///
/// # Errors
///
/// Fails only if JSON serialisation fails.
pub fn document(reports: &[Report<'_>], landing_percentile: f64) -> serde_json::Result<String> {
    let recordings = reports.iter().map(|report| RecordingReport {
        name: &report.recording.name,
        oldest_block: report.recording.oldest_block,
        newest_block: report.recording.newest_block(),
        quotes: report.heads,
        has_tips: report.recording.has_tips(),
        seconds_of_5_blocks: report.time_of_blocks(SOON_BLOCKS).map(|time| time.as_secs_f64()),
        seconds_of_25_blocks: report.time_of_blocks(HORIZON_BLOCKS).map(|time| time.as_secs_f64()),
        notes: &report.notes,
        estimators: report.scores.iter().map(estimator_score).collect(),
        horizon: report
            .horizon
            .as_ref()
            .map(|horizon| horizon.cells.iter().map(horizon_cell).collect()),
    });
    let document = Document { landing_percentile, recordings: recordings.collect() };
    serde_json::to_string_pretty(&document)
}

fn estimator_score(score: &Score) -> EstimatorScore<'_> {
    let share = |share: Option<Share>| share.map(Share::value);
    let wei = |amount: Option<u128>| amount.map(Wei);
    EstimatorScore {
        name: &score.name,
        quotes: score.quotes,
        included_next: share(score.included_next),
        included_within_5: share(score.included_soon),
        full_blocks_hit: share(score.full_blocks_hit),
        covers_after_5: share(score.covers_soon),
        covers_after_25: share(score.covers_horizon),
        tip_gap_p50: wei(score.tip_gap_p50),
        tip_gap_p99: wei(score.tip_gap_p99),
        tip_covered: share(score.tip_covered),
        overpaid_p50: wei(score.overpaid_p50),
        overpaid_p95: wei(score.overpaid_p95),
        overpaid_mean: wei(score.overpaid_mean),
        price_over_fair_p50: score.price_over_fair_p50.and_then(from_permille),
        price_over_fair_p95: score.price_over_fair_p95.and_then(from_permille),
        pinball_loss: wei(score.pinball_loss),
        pinball_target: score.pinball_target.share(),
        max_fee_over_base_fee_p50: score.max_fee_permille.and_then(from_permille),
    }
}

fn horizon_cell(cell: &HorizonScore) -> HorizonCell {
    HorizonCell {
        within: cell.within,
        probability: f64::from(cell.percent) / 100.0,
        quotes: cell.kept.total,
        kept: cell.kept.value(),
        independent: cell.independent,
        upper: cell.upper,
        passes: cell.passes(),
        tip_mean: cell.tip_mean.map(Wei),
        overpaid_p50: cell.overpaid_p50.map(Wei),
        overpaid_mean: cell.overpaid_mean.map(Wei),
        max_fee_over_base_fee_p50: cell.max_fee_permille.and_then(from_permille),
    }
}

/// Converts thousandths to the nearest number.
fn from_permille(thousandths: u128) -> Option<f64> {
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_any_size_is_a_number() {
        assert_eq!(from_permille(2_005), Some(2.005));
        assert_eq!(from_permille(4_294_967_296), Some(4_294_967.296));
        assert!(from_permille(u128::MAX).is_some_and(f64::is_finite));
    }
}
