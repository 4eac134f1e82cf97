//! The score of many grades, as it is served.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;
use serde::ser::Serializer;
use utoipa::ToSchema;

use super::grade::TierGrade;
use super::totals::{Outcomes, TierTotals, Totals, Unjudged};
use super::{DISTANCES, Scorer, WINDOW};
use crate::fees::statistics::{Share, mean, nearest_rank, wilson_interval};
use crate::fees::{FAIR_PERCENTILE, Strategy, TierName, Wei, column_of};

/// Percentiles that every score shows.
const SHOWN_PERCENTILES: [f64; 2] = [FAIR_PERCENTILE, 50.0];

/// How the suggestions that were served did.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Score {
    chain_name: String,
    chain_id: u64,
    newest_block: u64,
    pub(super) window: ScoreWindow,
    strategy: Strategy,
    /// False if no block of the window paid a tip at the median, so that any tip is enough. `null`: polls do not request
    /// percentile 50.
    #[schema(required)]
    pub(super) tips_decide: Option<bool>,
    pub(super) tiers: TierScores,
    /// How often base fees of `hold` held, since the start.
    pub(super) holds: Vec<HoldScore>,
}

/// Base fees that were said to hold for a time in a share of cases.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HoldScore {
    seconds: u64,
    /// From 0 to 1.
    probability: f64,
    /// Share of the promises that no later block broke; `null` before 100 were judged.
    #[schema(required)]
    kept: Option<f64>,
    judged: u32,
}

/// The suggestions that are graded: one per newest block, at least the last 100 and at most the last 1,000.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ScoreWindow {
    /// Older suggestions are not graded, unless there are fewer than 100.
    seconds: u64,
    /// Age of the oldest graded suggestion in seconds: less than `seconds` after a start, and on chains with more than
    /// 1,000 blocks an hour.
    pub(super) spans_seconds: u64,
    /// Number of suggestions.
    pub(super) heads: usize,
}

/// Scores of both tiers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TierScores {
    pub(super) medium: TierScore,
    pub(super) high: TierScore,
}

/// How one tier did. Shares are from 0 to 1.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TierScore {
    /// Share of blocks whose 10th percentile the tip should reach; `null` if the strategy has no target.
    #[schema(required)]
    pub(super) target: Option<f64>,
    /// The share that was reached, less the target.
    #[schema(required)]
    pub(super) calibration_error: Option<f64>,
    /// Wilson's 95 % interval of that difference: below 0 as a whole, the target was missed by more than chance.
    #[schema(required)]
    pub(super) calibration_interval: Option<[f64; 2]>,
    /// Share of suggestions whose max fee was at least the base fee of the next, the 5th and the 25th block after.
    pub(super) covered: SharesByNumber,
    /// Share of suggestions that paid at least the next block's reward at each percentile.
    pub(super) outbid: SharesByNumber,
    /// Price paid in the next block over the price that the 10th percentile paid, of the suggestions that outbid it.
    pub(super) price_over_fair: NumberQuantiles,
    /// Amount paid in the next block above the 10th percentile, of the same suggestions.
    pub(super) overpaid_per_gas: WeiStatistics,
    /// Share of suggestions that a configured floor decided.
    #[schema(required)]
    pub(super) floor_decided: Option<f64>,
    /// Suggestions whose tip was compared with the next block. Blocks without an ask do not count: their reward at the 10th
    /// percentile is 0.
    pub(super) judged: usize,
    pub(super) unjudged: Unjudged,
    /// Why members are `null`, by name: `percentile_not_polled` (see `pricing.reward_percentiles`), `nothing_judged`,
    /// `none_outbid`, `fair_price_zero`, `not_mined_yet` or `strategy_without_target`.
    null_reasons: BTreeMap<String, &'static str>,
}

/// Median and 95th percentile.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NumberQuantiles {
    #[schema(required)]
    pub(super) p50: Option<f64>,
    #[schema(required)]
    pub(super) p95: Option<f64>,
}

/// Median, 95th percentile and mean in wei.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WeiStatistics {
    #[schema(required)]
    pub(super) p50: Option<Wei>,
    #[schema(required)]
    pub(super) p95: Option<Wei>,
    /// Rounded down.
    #[schema(required)]
    pub(super) mean: Option<Wei>,
}

/// Shares from 0 to 1 by number of blocks, or by percentile; `null`: unknown.
#[derive(Debug, ToSchema)]
#[schema(value_type = BTreeMap<String, Option<f64>>)]
pub(super) struct SharesByNumber(pub(super) Vec<(String, Option<Share>)>);

impl Serialize for SharesByNumber {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().map(|(number, share)| (number, share.map(Share::value))))
    }
}

impl Scorer {
    /// Returns the score at `now`, as if all open heads were closed.
    pub(super) fn score(&self, now: Instant) -> Score {
        let mut heads = self.graded.clone();
        for index in 0..self.open.len().min(self.known()) {
            heads.push(self.grade_open(index));
        }
        let now = self.seconds_until(now);
        heads.forget_old(now);
        let oldest = heads.0.front().map_or(now, |head| head.published_after);
        let spans_seconds = now.saturating_sub(oldest).into();
        let mut totals = Totals::default();
        for head in &heads.0 {
            totals.count(Some(&head.grade));
            totals.unjudged.no_quote += usize::try_from(head.skipped).unwrap_or(usize::MAX);
        }
        let has_tips: Vec<bool> = heads.0.iter().filter_map(|head| head.grade.has_tips).collect();
        let config = self.chain.config();
        let is_calibrated = self.strategy == Strategy::Calibrated;
        let tier = |name: TierName, of_grade: fn(&[TierGrade; 2]) -> TierGrade, counts| {
            let target = is_calibrated.then(|| config.pricing.targets[name].share());
            let grades: Vec<_> = heads.0.iter().map(|head| of_grade(&head.grade.tiers)).collect();
            TierScore::new(&grades, counts, &totals, target, &self.percentiles)
        };
        Score {
            chain_name: config.name().to_owned(),
            chain_id: config.chain_id,
            newest_block: self.newest,
            window: ScoreWindow { seconds: WINDOW.as_secs(), spans_seconds, heads: heads.0.len() },
            strategy: self.strategy,
            tips_decide: (!has_tips.is_empty()).then(|| has_tips.contains(&true)),
            tiers: TierScores {
                medium: tier(TierName::Medium, |tiers| tiers[0], &totals.tiers[0]),
                high: tier(TierName::High, |tiers| tiers[1], &totals.tiers[1]),
            },
            holds: self.holds.totals().map(HoldScore::new).collect(),
        }
    }
}

impl HoldScore {
    fn new((seconds, probability, outcomes): (u64, f64, Outcomes)) -> Self {
        let share = share(outcomes);
        let judged = share.map_or(0, |share| share.total);
        let kept = share.filter(|_| judged >= 100).map(Share::value);
        Self { seconds, probability, kept, judged }
    }
}

impl TierScore {
    fn new(
        grades: &[TierGrade],
        counts: &TierTotals,
        totals: &Totals,
        target: Option<f64>,
        percentiles: &[f64],
    ) -> Self {
        /// Two-sided 95 % quantile of the normal distribution.
        const Z: f64 = 1.959_963_984_540_054;
        let distances = DISTANCES.map(|distance| distance.to_string());
        let covered: Vec<_> = distances.into_iter().zip(counts.covered.map(share)).collect();
        let mut outbid: Vec<_> =
            percentiles.iter().copied().zip(counts.outbid.map(share)).collect();
        let is_polled = |percentile| column_of(percentile, percentiles).is_some();
        let not_polled = SHOWN_PERCENTILES.into_iter().filter(|shown| !is_polled(*shown));
        outbid.extend(not_polled.map(|percentile| (percentile, None)));
        outbid.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let outbid_fair = column_of(FAIR_PERCENTILE, percentiles)
            .and_then(|column| share(*counts.outbid.get(column)?));
        let (calibration_error, calibration_interval) = target
            .zip(outbid_fair)
            .map(|(target, share)| {
                let ends = wilson_interval(share.value(), f64::from(share.total), Z);
                (share.value() - target, ends.map(|end| end - target))
            })
            .unzip();
        let mut overpaid: Vec<u128> =
            grades.iter().filter_map(|grade| Some(grade.overpaid?.into())).collect();
        overpaid.sort_unstable();
        let mut prices: Vec<f64> = grades.iter().filter_map(TierGrade::price_over_fair).collect();
        prices.sort_unstable_by(f64::total_cmp);
        let mut score = Self {
            target,
            calibration_error,
            calibration_interval,
            covered: SharesByNumber(covered),
            outbid: SharesByNumber(
                outbid.into_iter().map(|(percentile, it)| (percentile.to_string(), it)).collect(),
            ),
            price_over_fair: NumberQuantiles {
                p50: nearest_rank(&prices, 50),
                p95: nearest_rank(&prices, 95),
            },
            overpaid_per_gas: WeiStatistics {
                p50: nearest_rank(&overpaid, 50).map(Wei),
                p95: nearest_rank(&overpaid, 95).map(Wei),
                mean: mean(&overpaid).map(Wei),
            },
            floor_decided: share(counts.floor_decided).map(Share::value),
            judged: totals.judged,
            unjudged: totals.unjudged,
            null_reasons: BTreeMap::new(),
        };
        score.null_reasons = score.null_reasons(percentiles);
        score
    }

    /// Returns why members are `null`, by name.
    fn null_reasons(&self, percentiles: &[f64]) -> BTreeMap<String, &'static str> {
        let missing = |percentile: &str| {
            let is_polled = percentiles.iter().any(|polled| polled.to_string() == percentile);
            if is_polled { "nothing_judged" } else { "percentile_not_polled" }
        };
        let fair = match missing(&FAIR_PERCENTILE.to_string()) {
            "nothing_judged" if self.judged > 0 => "none_outbid",
            reason => reason,
        };
        let is_outbid = self.overpaid_per_gas.mean.is_some();
        let price = if is_outbid { "fair_price_zero" } else { fair };
        let no_target = self.target.is_none().then_some("strategy_without_target");
        let calibration = no_target.unwrap_or("nothing_judged");
        let members = [
            ("price_over_fair", self.price_over_fair.p50.is_none(), price),
            ("overpaid_per_gas", !is_outbid, fair),
            ("target", self.target.is_none(), calibration),
            ("calibration_error", self.calibration_error.is_none(), calibration),
        ];
        let members = members.map(|(name, is_null, reason)| (name.to_owned(), is_null, reason));
        let covered = self.covered.0.iter().map(|(distance, share)| {
            (format!("covered.{distance}"), share.is_none(), "not_mined_yet")
        });
        let outbid = self.outbid.0.iter().map(|(percentile, share)| {
            (format!("outbid.{percentile}"), share.is_none(), missing(percentile))
        });
        let all = members.into_iter().chain(covered).chain(outbid);
        all.filter_map(|(name, is_null, reason)| is_null.then_some((name, reason))).collect()
    }
}

/// Returns the share of hits; `None` without outcomes.
fn share([misses, hits]: Outcomes) -> Option<Share> {
    let total = misses.saturating_add(hits);
    (total > 0).then_some(Share { hits, total })
}
