//! `GET /v1/{chain}/fee-trend`: prices of gas over the last hour, day or week.

use std::time::{Duration, SystemTime};

use axum::extract::{FromRef, State};
use axum::http::header::{AGE, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::openapi::OpenApi;
use utoipa::{IntoParams, ToSchema};

use super::{
    Bucket, FeeTrend, Level, MAX_DAYS, Observation, Period, PriceLevel, Range, TrendAge, Trends,
};
use crate::api::extractors::ChainParam;
use crate::api::freshness::{write_last_modified, write_snapshot_headers};
use crate::api::openapi::examples::{ExampleChain, set_response_example};
use crate::api::problems;
use crate::config;
use crate::fees::Wei;
use crate::http::headers::{X_NEWEST_BLOCK, X_STALE};
use crate::http::problem::Problem;
use crate::http::query::{ValidQuery, invalid_parameter};
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Metrics;
use crate::store::{BlockWindow, ChainStore, StoredChain, seconds_since_1970};

/// Serialises trends, at most once per state of a chain. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TrendSerializer {
    trends: Trends,
    cache: Cache<TrendKey, Bytes>,
}

/// Cache key: everything that changes a trend.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TrendKey {
    chain_id: u64,
    period: Period,
    /// Number of changes of the trend.
    changes: u64,
    level: Option<Level>,
    /// Buckets disappear with time.
    minute: u64,
}

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
    State(trends): State<TrendSerializer>,
    ChainParam(chain): ChainParam,
    ValidQuery(query): ValidQuery<TrendQuery>,
) -> Result<Response, Problem> {
    let period = query.period.unwrap_or(Period::Day);
    trends.check_period(period)?;
    let (age, body) = trends.serialize(&chain, period)?;
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

impl FromRef<TrendSerializer> for ChainStore {
    fn from_ref(trends: &TrendSerializer) -> Self {
        trends.trends.store.clone()
    }
}

impl TrendSerializer {
    /// Maximum total size of the cached trends. One of a week takes about 60 KiB.
    const MAX_CACHE_BYTES: usize = 16 * 1024 * 1024;

    /// Creates the cache, which takes a sixteenth of `memory` at most.
    pub(crate) fn new(trends: &Trends, memory: &MemoryBudget, metrics: &Metrics) -> Self {
        let weigher = |_: &TrendKey, body: &Bytes| u32::try_from(body.len()).unwrap_or(u32::MAX);
        let max_bytes = Self::MAX_CACHE_BYTES.min(memory.total() / 16);
        let max_bytes = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        let cache = Cache::builder().weigher(weigher).max_capacity(max_bytes).build();
        let measured_cache = cache.clone();
        metrics.register_cache("trends", move || {
            [measured_cache.entry_count(), measured_cache.weighted_size()]
        });
        Self { trends: trends.clone(), cache }
    }

    /// Returns an error if so long a period is not kept.
    fn check_period(&self, period: Period) -> Result<(), Problem> {
        if period.fits(self.trends.days) {
            return Ok(());
        }
        let detail = format!(
            "`7d` is longer than the {} days that are kept; set history.days to {MAX_DAYS}",
            self.trends.days
        );
        Err(invalid_parameter("period", &detail))
    }

    pub(super) fn serialize(
        &self,
        chain: &StoredChain,
        period: Period,
    ) -> Result<(TrendAge, Bytes), Problem> {
        let unavailable = |reason| problems::unavailable(chain, reason);
        let key = |changes, level: Option<PriceLevel>| TrendKey {
            chain_id: chain.config().chain_id,
            period,
            changes,
            level: level.map(|it| it.level),
            minute: seconds_since_1970() / 60,
        };
        let (age, changes, level) = self.trends.state(chain).map_err(unavailable)?;
        if let Some(body) = self.cache.get(&key(changes, level)) {
            return Ok((age, body));
        }
        let trend = self.trends.read(chain, period).map_err(unavailable)?;
        let key = key(trend.changes, trend.level);
        let body = FeeTrendBody::new(chain.config(), period, &trend.buckets, key.level);
        let body = Bytes::from(serde_json::to_vec(&body).expect("strings and numbers serialise"));
        self.cache.insert(key, body.clone());
        Ok((trend.age, body))
    }
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
