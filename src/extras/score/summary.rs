//! The score of many grades.

use super::grade::{Grade, TierGrade, TipOutcome};
use crate::fees::statistics::{Share, mean, nearest_rank, wilson_interval};
use crate::fees::{FAIR_PERCENTILE, Pricing, Strategy, TierName, column_of};

/// How the quotes of one chain did.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Score {
    /// Strategy of the last quote.
    pub strategy: Strategy,
    /// Number of quotes.
    pub heads: usize,
    /// Medium and high.
    pub tiers: [TierScore; 2],
    /// False if no block of the window paid a tip at the median: any tip is enough. `None`: unknown.
    pub tips_decide: Option<bool>,
    /// Quotes whose tip was compared.
    pub judged: usize,
    /// Quotes whose next block had transactions, but no usable rewards.
    pub no_rewards: usize,
    /// Quotes whose next block was never seen.
    pub gap: usize,
    /// Blocks that no quote was made at.
    pub no_quote: usize,
    /// Seconds since the oldest of these quotes was published.
    pub seconds: u64,
}

/// How the quotes of one tier did. `None`: nothing could be compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TierScore {
    /// By distance, in the order of [`DISTANCES`](super::DISTANCES).
    pub covered: [Option<Share>; 3],
    /// By requested percentile.
    pub outbid: Vec<(f64, Option<Share>)>,
    /// Price paid over the fair price, of the quotes that outbid the fair tip; `None` without percentile 10.
    pub price_over_fair: Option<Quantiles<f64>>,
    /// Amount paid above the fair tip, in wei per gas, of the same quotes.
    pub overpaid: Option<Quantiles<u128>>,
    /// Mean of the same amounts, rounded down.
    pub overpaid_mean: Option<u128>,
    /// Share of the quotes that a configured floor decided.
    pub floor_decided: Option<Share>,
    /// Share of blocks that the strategy should outbid; `None`: the strategy has no target.
    pub target: Option<f64>,
    /// Distance from the target; `None` without a target, or if no tip was compared.
    pub calibration: Option<Calibration>,
}

/// Nearest-rank percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quantiles<T> {
    /// The median.
    pub p50: T,
    /// The 95th percentile.
    pub p95: T,
}

/// Distance of a share from its target, with the ends of Wilson's 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Calibration {
    /// The share less the target.
    pub error: f64,
    /// Lower end of the interval, less the target.
    pub low: f64,
    /// Upper end of the interval, less the target.
    pub high: f64,
}

/// Returns the score of these grades. `no_quote` blocks between them had none.
pub(crate) fn summarise(
    grades: &[Grade],
    no_quote: usize,
    seconds: u64,
    pricing: &Pricing,
    percentiles: &[f64],
) -> Score {
    let count = |outcome| grades.iter().filter(|grade| grade.tips == outcome).count();
    let has_tips: Vec<bool> = grades.iter().filter_map(|grade| grade.has_tips).collect();
    let targets = match pricing.strategy {
        Strategy::Network => [None; 2],
        Strategy::Calibrated => TierName::SUGGESTED.map(|name| Some(pricing.targets[name].share())),
    };
    let [medium, high] = targets;
    let tier = |choose: fn(&Grade) -> TierGrade, target| {
        let of_tier: Vec<_> = grades.iter().map(choose).collect();
        summarise_tier(&of_tier, percentiles, target)
    };
    Score {
        strategy: pricing.strategy,
        heads: grades.len(),
        tiers: [tier(|grade| grade.tiers[0], medium), tier(|grade| grade.tiers[1], high)],
        tips_decide: (!has_tips.is_empty()).then(|| has_tips.contains(&true)),
        judged: count(TipOutcome::Judged),
        no_rewards: count(TipOutcome::NoRewards),
        gap: count(TipOutcome::Gap),
        no_quote,
        seconds,
    }
}

fn summarise_tier(grades: &[TierGrade], percentiles: &[f64], target: Option<f64>) -> TierScore {
    let covered = |index: usize| {
        Share::from_outcomes(
            grades.iter().filter_map(|grade| grade.covered.get(index).copied().flatten()),
        )
    };
    let outbid = |column: usize| {
        Share::from_outcomes(
            grades.iter().filter_map(|grade| grade.outbid.get(column).copied().flatten()),
        )
    };
    let fair = column_of(FAIR_PERCENTILE, percentiles);
    let outbid_fair = fair.and_then(outbid);
    let outbidding = grades.iter().filter(|grade| {
        fair.and_then(|column| grade.outbid.get(column).copied().flatten()) == Some(true)
    });
    let mut overpaid: Vec<u128> = outbidding.clone().map(|grade| grade.overpaid.into()).collect();
    overpaid.sort_unstable();
    let mut prices: Vec<f64> = outbidding.filter_map(TierGrade::price_over_fair).collect();
    prices.sort_unstable_by(f64::total_cmp);
    TierScore {
        covered: [0, 1, 2].map(covered),
        outbid: percentiles.iter().enumerate().map(|(column, p)| (*p, outbid(column))).collect(),
        price_over_fair: quantiles(&prices),
        overpaid: quantiles(&overpaid),
        overpaid_mean: mean(&overpaid),
        floor_decided: Share::from_outcomes(grades.iter().map(|grade| grade.is_floor)),
        target,
        calibration: target.zip(outbid_fair).map(|(target, share)| calibration(share, target)),
    }
}

/// Returns the distance of `share` from `target` with Wilson's interval.
fn calibration(share: Share, target: f64) -> Calibration {
    /// Two-sided 95 % quantile of the normal distribution.
    const Z: f64 = 1.959_963_984_540_054;
    let value = share.value();
    let [low, high] = wilson_interval(value, f64::from(share.total), Z);
    Calibration { error: value - target, low: low - target, high: high - target }
}

/// Returns percentiles of ascending values; `None` without values.
fn quantiles<T: Copy>(sorted: &[T]) -> Option<Quantiles<T>> {
    Some(Quantiles { p50: nearest_rank(sorted, 50)?, p95: nearest_rank(sorted, 95)? })
}
