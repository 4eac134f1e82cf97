//! Gauges and counters of the score.

use super::metrics::{
    ChainReasonLabels, DistanceLabels, DistanceOutcomeLabels, PercentileLabels,
    PercentileOutcomeLabels, ScoreMetrics, StatisticLabels,
};
use super::state::Scores;
use super::{DISTANCES, TierScore, Totals};
use crate::fees::statistics::Share;
use crate::fees::{FAIR_PERCENTILE, TierName};
use crate::observe::metrics::{ChainLabels, Counter, TierLabels, to_f64};
use crate::store::StoredChain;

const OUTCOMES: [&str; 2] = ["miss", "hit"];

/// Updates the score of `chain`. What is unknown is NaN.
pub(super) fn update(metrics: &ScoreMetrics, chain: &StoredChain, scores: &Scores) {
    let key = &chain.config().key;
    let score = scores.score(chain);
    let labels = ChainLabels { chain: key.clone() };
    metrics.score_heads.get_or_create(&labels).set(to_f64(score.heads));
    for (tier, of_tier) in TierName::SUGGESTED.into_iter().zip(&score.tiers) {
        update_tier(metrics, key, tier.as_str(), of_tier);
    }
    let (totals, percentiles) = scores.totals(chain);
    count(metrics, key, &percentiles, &totals);
}

fn update_tier(metrics: &ScoreMetrics, key: &str, tier: &'static str, score: &TierScore) {
    let value = |share: Option<Share>| share.map_or(f64::NAN, Share::value);
    let chain = || key.to_owned();
    let labels = TierLabels { chain: chain(), tier };
    metrics.score_floor_decided_ratio.get_or_create(&labels).set(value(score.floor_decided));
    for (blocks, share) in DISTANCES.into_iter().zip(score.covered) {
        let labels = DistanceLabels { chain: chain(), tier, blocks };
        metrics.score_covered_ratio.get_or_create(&labels).set(value(share));
    }
    let mut has_fair_percentile = false;
    for (percentile, share) in &score.outbid {
        has_fair_percentile |= percentile.total_cmp(&FAIR_PERCENTILE).is_eq();
        let labels = PercentileLabels { chain: chain(), tier, percentile: percentile.to_string() };
        metrics.score_outbid_ratio.get_or_create(&labels).set(value(*share));
    }
    if has_fair_percentile {
        let (prices, overpaid) = (score.price_over_fair, score.overpaid);
        for (statistic, price, wei) in [
            ("p50", prices.map(|prices| prices.p50), overpaid.map(|overpaid| overpaid.p50)),
            ("p95", prices.map(|prices| prices.p95), overpaid.map(|overpaid| overpaid.p95)),
        ] {
            let labels = StatisticLabels { chain: chain(), tier, statistic };
            metrics.score_price_over_fair.get_or_create(&labels).set(price.unwrap_or(f64::NAN));
            metrics.score_overpaid_wei.get_or_create(&labels).set(wei.map_or(f64::NAN, to_f64));
        }
    }
    if has_fair_percentile {
        let labels = StatisticLabels { chain: chain(), tier, statistic: "mean" };
        let mean = score.overpaid_mean.map_or(f64::NAN, to_f64);
        metrics.score_overpaid_wei.get_or_create(&labels).set(mean);
    }
    if let Some(target) = score.target {
        let labels = TierLabels { chain: chain(), tier };
        metrics.score_target_ratio.get_or_create(&labels).set(target);
        let calibration = score.calibration;
        for (gauge, value) in [
            (&metrics.score_calibration_error, calibration.map(|found| found.error)),
            (&metrics.score_calibration_error_low, calibration.map(|found| found.low)),
            (&metrics.score_calibration_error_high, calibration.map(|found| found.high)),
        ] {
            gauge.get_or_create(&labels).set(value.unwrap_or(f64::NAN));
        }
    }
}

fn count(metrics: &ScoreMetrics, key: &str, percentiles: &[f64], totals: &Totals) {
    let chain = || key.to_owned();
    for (tier, (covered, outbid)) in
        TierName::SUGGESTED.into_iter().zip(totals.covered.iter().zip(&totals.outbid))
    {
        let tier = tier.as_str();
        for (blocks, counts) in DISTANCES.into_iter().zip(covered) {
            for (outcome, total) in OUTCOMES.into_iter().zip(counts) {
                let labels = DistanceOutcomeLabels { chain: chain(), tier, blocks, outcome };
                advance_to(&metrics.score_covered_total.get_or_create(&labels), *total);
            }
        }
        for (percentile, counts) in percentiles.iter().zip(outbid) {
            for (outcome, total) in OUTCOMES.into_iter().zip(counts) {
                let percentile = percentile.to_string();
                let labels = PercentileOutcomeLabels { chain: chain(), tier, percentile, outcome };
                advance_to(&metrics.score_outbid_total.get_or_create(&labels), *total);
            }
        }
    }
    for (reason, total) in
        [("no_rewards", totals.no_rewards), ("gap", totals.gap), ("no_quote", totals.no_quote)]
    {
        let labels = ChainReasonLabels { chain: chain(), reason };
        advance_to(&metrics.score_unjudged_total.get_or_create(&labels), total);
    }
}

/// Raises a counter to a total that is counted elsewhere.
fn advance_to(counter: &Counter, total: u64) {
    counter.add(total.saturating_sub(counter.get()));
}
