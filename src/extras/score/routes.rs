//! `GET /v1/{chain}/score`: how the suggestions that were served did.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::OpenApi;

use super::state::Scores;
use super::{DISTANCES, Quantiles, Scorer, TierScore};
use crate::api::extractors::ChainParam;
use crate::api::freshness::write_snapshot_headers;
use crate::api::openapi::examples::{ExampleChain, set_response_example};
use crate::api::problems;
use crate::api::render_cache::{ServedState, json_bytes};
use crate::config;
use crate::extras::score;
use crate::fees::statistics::Share;
use crate::fees::{FAIR_PERCENTILE, Strategy, Wei};
use crate::http::problem::Problem;

/// Percentiles that every score shows.
const SHOWN_PERCENTILES: [f64; 2] = [FAIR_PERCENTILE, 50.0];

/// How the suggestions that were served did.
#[derive(Serialize, ToSchema)]
#[schema(as = Score)]
pub(crate) struct ScoreBody<'a> {
    chain_name: &'a str,
    chain_id: u64,
    newest_block: u64,
    window: ScoreWindow,
    strategy: Strategy,
    /// False if no block of the window paid a tip at the median, so that any tip is enough. `null`: polls do not request
    /// percentile 50.
    #[schema(required)]
    tips_decide: Option<bool>,
    tiers: TierScores,
}

/// The suggestions that are graded: one per newest block, at least the last 100 and at most the last 1,000.
#[derive(Serialize, ToSchema)]
struct ScoreWindow {
    /// Older suggestions are not graded, unless there are fewer than 100.
    seconds: u64,
    /// Age of the oldest graded suggestion in seconds: less than `seconds` after a start, and on chains with more than
    /// 1,000 blocks an hour.
    spans_seconds: u64,
    /// Number of suggestions.
    heads: usize,
}

/// Scores of both tiers.
#[derive(Serialize, ToSchema)]
struct TierScores {
    medium: TierScoreBody,
    high: TierScoreBody,
}

/// How one tier did. Shares are from 0 to 1.
#[derive(Serialize, ToSchema)]
#[schema(as = TierScore)]
struct TierScoreBody {
    /// Share of blocks whose 10th percentile the tip should reach; `null` if the strategy has no target.
    #[schema(required)]
    target: Option<f64>,
    /// The share that was reached, less the target.
    #[schema(required)]
    calibration_error: Option<f64>,
    /// Wilson's 95 % interval of that difference: below 0 as a whole, the target was missed by more than chance.
    #[schema(required)]
    calibration_interval: Option<[f64; 2]>,
    /// Share of suggestions whose max fee was at least the base fee of the next, the 5th and the 25th block after.
    covered: SharesByNumber,
    /// Share of suggestions that paid at least the next block's reward at each percentile.
    outbid: SharesByNumber,
    /// Price paid in the next block over the price that the 10th percentile paid, of the suggestions that outbid it.
    price_over_fair: NumberQuantiles,
    /// Amount paid in the next block above the 10th percentile, of the same suggestions.
    overpaid_per_gas: WeiStatistics,
    /// Share of suggestions that a configured floor decided.
    #[schema(required)]
    floor_decided: Option<f64>,
    /// Suggestions whose tip was compared with the next block. Blocks without an ask do not count: their reward at the 10th
    /// percentile is 0.
    judged: usize,
    unjudged: Unjudged,
    /// Why members are `null`, by name: `percentile_not_polled` (see `pricing.reward_percentiles`), `nothing_judged`,
    /// `none_outbid`, `fair_price_zero`, `not_mined_yet` or `strategy_without_target`.
    null_reasons: BTreeMap<String, &'static str>,
}

/// Suggestions, and blocks, that could not be judged.
#[derive(Serialize, ToSchema)]
struct Unjudged {
    /// The node returned no usable rewards of the next block.
    no_rewards: usize,
    /// The next block was never seen.
    gap: usize,
    /// Blocks at which nothing was suggested.
    no_quote: usize,
}

/// Median and 95th percentile.
#[derive(Serialize, ToSchema)]
struct NumberQuantiles {
    #[schema(required)]
    p50: Option<f64>,
    #[schema(required)]
    p95: Option<f64>,
}

/// Median, 95th percentile and mean in wei.
#[derive(Serialize, ToSchema)]
struct WeiStatistics {
    #[schema(required)]
    p50: Option<Wei>,
    #[schema(required)]
    p95: Option<Wei>,
    /// Rounded down.
    #[schema(required)]
    mean: Option<Wei>,
}

/// Shares from 0 to 1 by number of blocks, or by percentile; `null`: unknown.
#[derive(ToSchema)]
#[schema(value_type = BTreeMap<String, Option<f64>>)]
struct SharesByNumber(Vec<(String, Option<Share>)>);

impl Serialize for SharesByNumber {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().map(|(name, share)| (name, share.map(Share::value))))
    }
}

/// How the suggestions that were served did
///
/// Each suggestion is graded by the blocks that followed it. "Covered" compares its max fee with their base fees.
/// "Outbid" compares its tip with the rewards of the next block. No transaction was sent, so a grade does not say that
/// one was included. A restart begins anew.
#[utoipa::path(
    get,
    path = "/v1/{chain}/score",
    operation_id = "getScore",
    tag = "Gas",
    params(ChainParam),
    responses(
        (status = 200, description = "The score.", body = ScoreBody,
            headers(("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(super) async fn get_score(
    State(scores): State<Scores>,
    ChainParam(chain): ChainParam,
) -> Result<Response, Problem> {
    let read = chain.read_together(|_| {
        let current = chain.servable_snapshot()?;
        let state = ServedState::new(&chain, &current);
        let body = scores.bodies.get_or_render(&chain, state, (), || {
            let newest_block = current.snapshot.newest_block;
            json_bytes(&ScoreBody::new(chain.config(), newest_block, &scores.score(&chain)))
        });
        Ok((current, body))
    });
    let (current, body) = read.map_err(|reason| problems::unavailable(&chain, reason))?;
    let mut response = ([(CONTENT_TYPE, "application/json")], body).into_response();
    write_snapshot_headers(response.headers_mut(), &chain, &current);
    Ok(response)
}

/// Writes the score of the example's replies.
pub(super) fn write_example(document: &mut OpenApi, example: &ExampleChain) {
    let chain = example.chain.config();
    let now = Instant::now();
    let mut scorer = Scorer::new(&chain.pricing, None, now);
    for (history, market) in example.replies {
        scorer.record(history, market, now);
    }
    let newest_block = example.current.snapshot.newest_block;
    let body = json!(ScoreBody::new(chain, newest_block, &scorer.score(now)));
    set_response_example(document, "/v1/{chain}/score", body);
}

impl<'a> ScoreBody<'a> {
    fn new(chain: &'a config::Chain, newest_block: u64, score: &score::Score) -> Self {
        let [medium, high] = &score.tiers;
        Self {
            chain_name: chain.name(),
            chain_id: chain.chain_id,
            newest_block,
            window: ScoreWindow {
                seconds: score::WINDOW.as_secs(),
                spans_seconds: score.seconds,
                heads: score.heads,
            },
            strategy: score.strategy,
            tips_decide: score.tips_decide,
            tiers: TierScores {
                medium: TierScoreBody::new(score, medium),
                high: TierScoreBody::new(score, high),
            },
        }
    }
}

impl TierScoreBody {
    fn new(score: &score::Score, tier: &TierScore) -> Self {
        let covered = DISTANCES.iter().zip(tier.covered);
        let covered: Vec<_> =
            covered.map(|(distance, share)| (distance.to_string(), share)).collect();
        let mut null_reasons = BTreeMap::new();
        for (distance, share) in &covered {
            if share.is_none() {
                null_reasons.insert(format!("covered.{distance}"), "not_mined_yet");
            }
        }
        let is_polled =
            |wanted: f64| tier.outbid.iter().any(|(known, _)| known.total_cmp(&wanted).is_eq());
        let not_polled = SHOWN_PERCENTILES.into_iter().filter(|percentile| !is_polled(*percentile));
        let mut outbid: Vec<(f64, Option<Share>)> = tier.outbid.clone();
        outbid.extend(not_polled.map(|percentile| (percentile, None)));
        outbid.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let missing = |percentile| {
            if is_polled(percentile) { "nothing_judged" } else { "percentile_not_polled" }
        };
        for (percentile, share) in &outbid {
            if share.is_none() {
                null_reasons.insert(format!("outbid.{percentile}"), missing(*percentile));
            }
        }
        let [fair, _] = SHOWN_PERCENTILES;
        let of_fair = match missing(fair) {
            "nothing_judged" if score.judged > 0 => "none_outbid",
            reason => reason,
        };
        let mut note = |name: &str, is_null: bool, reason| {
            if is_null {
                null_reasons.insert(name.to_owned(), reason);
            }
        };
        let has_fair_tip = tier.overpaid.is_some();
        let of_price = if has_fair_tip { "fair_price_zero" } else { of_fair };
        note("price_over_fair", tier.price_over_fair.is_none(), of_price);
        note("overpaid_per_gas", tier.overpaid.is_none(), of_fair);
        note("target", tier.target.is_none(), "strategy_without_target");
        let uncalibrated = tier.target.map_or("strategy_without_target", |_| "nothing_judged");
        note("calibration_error", tier.calibration.is_none(), uncalibrated);
        let calibration = tier.calibration;
        let overpaid = tier.overpaid.map(|Quantiles { p50, p95 }| [Wei(p50), Wei(p95)]);
        Self {
            target: tier.target,
            calibration_error: calibration.map(|calibration| calibration.error),
            calibration_interval: calibration
                .map(|calibration| [calibration.low, calibration.high]),
            covered: SharesByNumber(covered),
            outbid: SharesByNumber(
                outbid
                    .into_iter()
                    .map(|(percentile, share)| (percentile.to_string(), share))
                    .collect(),
            ),
            price_over_fair: NumberQuantiles {
                p50: tier.price_over_fair.map(|prices| prices.p50),
                p95: tier.price_over_fair.map(|prices| prices.p95),
            },
            overpaid_per_gas: WeiStatistics {
                p50: overpaid.map(|[p50, _]| p50),
                p95: overpaid.map(|[_, p95]| p95),
                mean: tier.overpaid_mean.map(Wei),
            },
            floor_decided: tier.floor_decided.map(Share::value),
            judged: score.judged,
            unjudged: Unjudged {
                no_rewards: score.no_rewards,
                gap: score.gap,
                no_quote: score.no_quote,
            },
            null_reasons,
        }
    }
}
