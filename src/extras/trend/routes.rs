//! `GET /v1/{chain}/fee-trend`: prices of gas over the last hour, day or week.

use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{AGE, CACHE_CONTROL};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::level::Level;
use super::{Bucket, DAY, MAX_DAYS, Period, Trends};
use crate::api::extractors::ChainParam;
use crate::api::freshness::{snapshot_response, tagged_json, write_last_modified};
use crate::api::problems;
use crate::config;
use crate::fees::Wei;
use crate::http::headers::{X_NEWEST_BLOCK, X_STALE};
use crate::http::problem::Problem;
use crate::http::query::{ValidQuery, invalid_parameter};

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
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(super) async fn get_fee_trend(
    State(trends): State<Trends>,
    ChainParam(chain): ChainParam,
    ValidQuery(query): ValidQuery<TrendQuery>,
) -> Result<Response, Problem> {
    let period = query.period.unwrap_or(Period::Day);
    let days = trends.days;
    if period.seconds() > days * DAY {
        let detail = format!(
            "`7d` is longer than the {days} days that are kept; set history.days to {MAX_DAYS}"
        );
        return Err(invalid_parameter("period", &detail));
    }
    let read = trends.read(&chain, period);
    let read = read.map_err(|reason| problems::unavailable(&chain, reason))?;
    let mut response = tagged_json(read.body);
    if let Some(current) = &read.current {
        return Ok(snapshot_response(&chain, current, response));
    }
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_STALE, HeaderValue::from_static("true"));
    if let Some(newest) = read.newest {
        headers.insert(AGE, newest.age().as_secs().into());
        headers.insert(X_NEWEST_BLOCK, newest.newest_block.into());
        write_last_modified(headers, newest.block.last_modified);
    }
    Ok(response)
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
        let wei = |amounts: [u64; 3]| {
            let [min, median, max] = amounts.map(|amount| Wei(amount.into()));
            WeiRange { min, median, max }
        };
        let [min, median, max] = bucket.gas_used_ratio.map(f64::from_bits);
        Self {
            start: start.to_string(),
            blocks: bucket.blocks,
            base_fee_per_gas: wei(bucket.base_fee),
            max_priority_fee_per_gas: wei(bucket.tip),
            gas_used_ratio: (!median.is_nan()).then_some(NumberRange { min, median, max }),
        }
    }
}
