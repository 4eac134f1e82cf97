//! `GET /v1/{chain}/fee-trend`: prices of gas over the last hour, day or week.

use std::time::{Duration, SystemTime};

use axum::extract::{FromRef, State};
use axum::http::header::{AGE, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::openapi::OpenApi;
use utoipa::{IntoParams, ToSchema};

use super::{Bucket, FeeTrend, Level, MAX_DAYS, Observation, Period, Range, TrendAge, Trends};
use crate::api::extractors::ChainParam;
use crate::api::freshness::{write_last_modified, write_snapshot_headers};
use crate::api::openapi::examples::{ExampleChain, set_response_example};
use crate::api::problems;
use crate::config;
use crate::fees::Wei;
use crate::http::headers::{X_NEWEST_BLOCK, X_STALE};
use crate::http::problem::Problem;
use crate::http::query::{ValidQuery, invalid_parameter};
use crate::store::{BlockWindow, ChainStore, StoredChain};

/// The time that a fee trend shows.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TrendQuery {
    /// One hour in minutes, a day in steps of ten minutes, or a week in hours, which needs 7 `history.days`. Default: `24h`.
    #[param(inline, nullable = false)]
    period: Option<Period>,
}

/// Prices of gas over time.
#[derive(Serialize, ToSchema)]
#[schema(as = FeeTrend)]
pub(crate) struct FeeTrendBody<'a> {
    chain_name: &'a str,
    chain_id: u64,
    period: Period,
    /// Width of a bucket.
    bucket_seconds: u32,
    /// Where the expected medium price of the next block stands among the ten-minute medians of the last 24 hours; `null`
    /// before an hour is known, and while the chain is stale. The price of a block is its base fee plus its medium tip.
    #[schema(required)]
    level: Option<Level>,
    /// Oldest first. Spans of time without a block are left out.
    buckets: Vec<FeeTrendBucket>,
}

/// The blocks of one span of time.
#[derive(Serialize, ToSchema)]
struct FeeTrendBucket {
    /// A multiple of the width, in UTC.
    #[schema(format = DateTime)]
    start: String,
    /// Number of blocks.
    blocks: u32,
    base_fee_per_gas: WeiRange,
    /// The medium tips that were suggested at the blocks.
    max_priority_fee_per_gas: WeiRange,
    /// Gas used divided by gas limit; `null` if unknown.
    #[schema(required)]
    gas_used_ratio: Option<NumberRange>,
}

/// Lowest, middle and highest amount. Of two in the middle, the lower one counts.
#[derive(Serialize, ToSchema)]
struct WeiRange {
    min: Wei,
    median: Wei,
    max: Wei,
}

/// Lowest, middle and highest number. Of two in the middle, the lower one counts.
#[derive(Serialize, ToSchema)]
struct NumberRange {
    min: f64,
    median: f64,
    max: f64,
}

/// Prices of gas over the last hour, day or week
///
/// Each block counts once, with its base fee, the medium tip that was suggested at it, and how full it was. A chain whose
/// newest data is too old to serve still has its trend, with `X-Stale: true`.
#[utoipa::path(
    get,
    path = "/v1/{chain}/fee-trend",
    operation_id = "getFeeTrend",
    tag = "Gas",
    params(ChainParam, TrendQuery),
    responses(
        (status = 200, description = "The trend.", body = FeeTrendBody,
            headers(("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(super) async fn get_fee_trend(
    State(trends): State<Trends>,
    ChainParam(chain): ChainParam,
    ValidQuery(query): ValidQuery<TrendQuery>,
) -> Result<Response, Problem> {
    let period = query.period.unwrap_or(Period::Day);
    check_period(period, trends.days)?;
    let read = trends.read(&chain, period);
    let (age, body) = read.map_err(|reason| problems::unavailable(&chain, reason))?;
    let mut response = ([(CONTENT_TYPE, "application/json")], body).into_response();
    write_headers(response.headers_mut(), &chain, &age);
    Ok(response)
}

/// Writes the headers of the freshness of a trend. One without servable data must not be stored.
fn write_headers(headers: &mut HeaderMap, chain: &StoredChain, trend_age: &TrendAge) {
    if let TrendAge::Servable(current) = trend_age {
        return write_snapshot_headers(headers, chain, current);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_STALE, HeaderValue::from_static("true"));
    if let TrendAge::Expired { newest_block, age } = trend_age {
        headers.insert(AGE, age.as_secs().into());
        headers.insert(X_NEWEST_BLOCK, (*newest_block).into());
        if let Some(snapshot) = chain.newest_snapshot() {
            write_last_modified(headers, snapshot.block.last_modified());
        }
    }
}

impl FromRef<Trends> for ChainStore {
    fn from_ref(trends: &Trends) -> Self {
        trends.store.clone()
    }
}

/// Returns an error if so long a period is not kept.
fn check_period(period: Period, days: u32) -> Result<(), Problem> {
    if period.fits(days) {
        return Ok(());
    }
    let detail = format!(
        "`7d` is longer than the {days} days that are kept; set history.days to {MAX_DAYS}"
    );
    Err(invalid_parameter("period", &detail))
}

/// Writes the trend of the example's newest reply at a fixed time.
pub(super) fn write_example(document: &mut OpenApi, example: &ExampleChain) {
    /// 2026-11-20T17:35:00Z
    const MILLISECONDS: u64 = 1_795_196_100_000;
    let chain = example.chain.config();
    let Some((history, market)) = example.replies.last() else { return };
    let window = |_| BlockWindow {
        newest_block: history.newest_block(),
        blocks: history.blocks().to_vec(),
        next_base_fee: history.next_base_fee(),
    };
    let mut trend = FeeTrend::new(MAX_DAYS);
    trend.record(&Observation {
        history,
        market,
        pricing: &chain.pricing,
        newest_time: MILLISECONDS,
        block_time: 1000,
        known_blocks: &window,
    });
    let buckets = trend.buckets(Period::Day, MILLISECONDS / 1000);
    let level = Some(Level::Normal);
    let body = json!(FeeTrendBody::new(chain, Period::Day, &buckets, level));
    set_response_example(document, "/v1/{chain}/fee-trend", body);
}

impl<'a> FeeTrendBody<'a> {
    pub(crate) fn new(
        chain: &'a config::Chain,
        period: Period,
        buckets: &[Bucket],
        level: Option<Level>,
    ) -> Self {
        let bucket_seconds = period.bucket_seconds();
        Self {
            chain_name: chain.name(),
            chain_id: chain.chain_id,
            period,
            bucket_seconds,
            level,
            buckets: buckets.iter().map(|it| FeeTrendBucket::new(it, bucket_seconds)).collect(),
        }
    }
}

impl FeeTrendBucket {
    fn new(bucket: &Bucket, width: u32) -> Self {
        let start = Duration::from_secs(bucket.start(width).into());
        let start = humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + start);
        let ratio = bucket.gas_used_ratio();
        Self {
            start: start.to_string(),
            blocks: bucket.blocks,
            base_fee_per_gas: bucket.base_fee.into(),
            max_priority_fee_per_gas: bucket.tip.into(),
            gas_used_ratio: ratio.map(|Range { min, median, max }| NumberRange {
                min,
                median,
                max,
            }),
        }
    }
}

impl From<Range<u64>> for WeiRange {
    fn from(range: Range<u64>) -> Self {
        let [min, median, max] = range.values().map(|amount| Wei(amount.into()));
        Self { min, median, max }
    }
}
