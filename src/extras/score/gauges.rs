//! Gauges and counters of the score.

use super::DISTANCES;
use super::metrics::{
    ChainReasonLabels, DistanceLabels, DistanceOutcomeLabels, HoldLabels, PercentileLabels,
    PercentileOutcomeLabels, ScoreMetrics, StatisticLabels,
};
use super::state::Scores;
use super::summary::TierScore;
use super::totals::{TierTotals, Unjudged};
use crate::fees::statistics::Share;
use crate::fees::{FAIR_PERCENTILE, TierName, Wei, column_of};
use crate::observe::clock;
use crate::observe::metrics::{ChainLabels, Counter, TierLabels, to_f64};

const OUTCOMES: [&str; 2] = ["miss", "hit"];

/// Updates the scores of all chains. What is unknown is NaN.
pub(super) fn update(metrics: &ScoreMetrics, scores: &Scores) {
    for chain in scores.store.chains() {
        let key = &chain.config().key;
        let graded = scores.scorer(chain).lock();
        let (score, totals) = (graded.score(clock::now()), graded.totals);
        let percentiles = graded.percentiles.clone();
        for (seconds, probability, counts) in graded.holds.totals() {
            for (outcome, total) in OUTCOMES.into_iter().zip(counts) {
                let (chain, probability) = (key.clone(), probability.to_string());
                let labels = HoldLabels { chain, seconds, probability, outcome };
                advance_to(&metrics.score_holds_total.get_or_create(&labels), total.into());
            }
        }
        drop(graded);
        let labels = ChainLabels { chain: key.clone() };
        metrics.score_heads.get_or_create(&labels).set(to_f64(score.window.heads));
        let tiers = [&score.tiers.medium, &score.tiers.high].into_iter().zip(&totals.tiers);
        for (tier, (score, totals)) in TierName::SUGGESTED.into_iter().zip(tiers) {
            update_tier(metrics, key, tier.as_str(), score, totals, &percentiles);
        }
        let Unjudged { no_rewards, gap, no_quote } = totals.unjudged;
        for (reason, total) in [("no_rewards", no_rewards), ("gap", gap), ("no_quote", no_quote)] {
            let labels = ChainReasonLabels { chain: key.clone(), reason };
            let total = u64::try_from(total).unwrap_or(u64::MAX);
            advance_to(&metrics.score_unjudged_total.get_or_create(&labels), total);
        }
    }
}

fn update_tier(
    metrics: &ScoreMetrics,
    key: &str,
    tier: &'static str,
    score: &TierScore,
    totals: &TierTotals,
    percentiles: &[f64],
) {
    let chain = || key.to_owned();
    let value = |share: Option<Share>| share.map_or(f64::NAN, Share::value);
    let labels = TierLabels { chain: chain(), tier };
    let floor_decided = score.floor_decided.unwrap_or(f64::NAN);
    metrics.score_floor_decided_ratio.get_or_create(&labels).set(floor_decided);
    let covered = score.covered.0.iter().zip(totals.covered);
    for (blocks, ((_, share), counts)) in DISTANCES.into_iter().zip(covered) {
        let labels = DistanceLabels { chain: chain(), tier, blocks };
        metrics.score_covered_ratio.get_or_create(&labels).set(value(*share));
        for (outcome, total) in OUTCOMES.into_iter().zip(counts) {
            let labels = DistanceOutcomeLabels { chain: chain(), tier, blocks, outcome };
            advance_to(&metrics.score_covered_total.get_or_create(&labels), total.into());
        }
    }
    for (percentile, counts) in percentiles.iter().zip(totals.outbid) {
        let percentile = percentile.to_string();
        let shown = score.outbid.0.iter().find(|(shown, _)| *shown == percentile);
        let share = shown.and_then(|(_, share)| *share);
        for (outcome, total) in OUTCOMES.into_iter().zip(counts) {
            let percentile = percentile.clone();
            let labels = PercentileOutcomeLabels { chain: chain(), tier, percentile, outcome };
            advance_to(&metrics.score_outbid_total.get_or_create(&labels), total.into());
        }
        let labels = PercentileLabels { chain: chain(), tier, percentile };
        metrics.score_outbid_ratio.get_or_create(&labels).set(value(share));
    }
    if column_of(FAIR_PERCENTILE, percentiles).is_some() {
        let (prices, overpaid) = (&score.price_over_fair, &score.overpaid_per_gas);
        let wei = |amount: Option<Wei>| amount.map(|Wei(amount)| to_f64(amount));
        for (family, statistic, value) in [
            (&metrics.score_price_over_fair, "p50", prices.p50),
            (&metrics.score_price_over_fair, "p95", prices.p95),
            (&metrics.score_overpaid_wei, "p50", wei(overpaid.p50)),
            (&metrics.score_overpaid_wei, "p95", wei(overpaid.p95)),
            (&metrics.score_overpaid_wei, "mean", wei(overpaid.mean)),
        ] {
            let labels = StatisticLabels { chain: chain(), tier, statistic };
            family.get_or_create(&labels).set(value.unwrap_or(f64::NAN));
        }
    }
    if let Some(target) = score.target {
        let [low, high] = score.calibration_interval.unwrap_or([f64::NAN; 2]);
        for (gauge, value) in [
            (&metrics.score_target_ratio, target),
            (&metrics.score_calibration_error, score.calibration_error.unwrap_or(f64::NAN)),
            (&metrics.score_calibration_error_low, low),
            (&metrics.score_calibration_error_high, high),
        ] {
            gauge.get_or_create(&labels).set(value);
        }
    }
}

/// Raises a counter to a total that is counted elsewhere.
fn advance_to(counter: &Counter, total: u64) {
    counter.add(total.saturating_sub(counter.get()));
}
