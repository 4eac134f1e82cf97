//! `GET /v1/{chain}/wait`: holds a request until gas costs at most what the caller names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;

use super::fee_market::{FeeMarketBody, snapshot_with_members};
use super::freshness::write_uncached_snapshot_headers;
use super::problems;
use super::public_routes::MarketMembers;
use super::stream::SuggestionStreams;
use crate::api::extractors::ChainParam;
use crate::config::units::parse_digits;
use crate::http::client_limits::ClientHandle;
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::{ValidQuery, invalid_parameter};
use crate::store::StoredChain;

const MAX_TIMEOUT_SECONDS: u64 = 120;
const DEFAULT_TIMEOUT_SECONDS: u64 = 30;

/// Returns the price that so many percent of the day's ten-minute medians do not exceed, in wei; `None`: less than an hour
/// is known.
type DayPrice = dyn Fn(&StoredChain, usize) -> Option<u128> + Send + Sync;

/// The prices of the last day, which another room knows. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct DayPrices(Option<Arc<DayPrice>>);

impl DayPrices {
    pub(crate) fn new(
        price: impl Fn(&StoredChain, usize) -> Option<u128> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(price)))
    }

    /// Returns a percentile of the day in wei; `None`: less than an hour is known.
    pub(crate) fn price(&self, chain: &StoredChain, percent: usize) -> Option<u128> {
        self.0.as_ref()?(chain, percent)
    }
}

impl fmt::Debug for DayPrices {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("DayPrices")
    }
}

/// The price to wait for.
#[derive(Debug, IntoParams, serde::Deserialize)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitQuery {
    /// Price per gas in wei, or `p1` to `p99`: a percentile of the last day's prices, each the median of ten minutes.
    #[param(value_type = String, pattern = "^([0-9]+|p[1-9][0-9]?)$", example = "p20")]
    below: Limit,
    /// Longest time to wait, in seconds.
    #[param(nullable = false, minimum = 1, maximum = 120, default = 30)]
    timeout: Option<u64>,
}

/// A price to compare the expected medium price with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Wei(u128),
    /// Percentile of the last day.
    Percentile(usize),
}

impl Limit {
    /// Parses `p1` to `p99`, and other texts as `parse_amount` does.
    pub(crate) fn parse(text: &str, parse_amount: impl Fn(&str) -> Option<u128>) -> Option<Self> {
        match text.strip_prefix('p') {
            Some(percent) if !percent.starts_with('0') => {
                let percent = parse_digits(percent).filter(|percent| (1..100).contains(percent));
                percent.map(Self::Percentile)
            }
            Some(_) => None,
            None => parse_amount(text).map(Self::Wei),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct LimitText;

        impl Visitor<'_> for LimitText {
            type Value = Limit;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a price")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Limit, E> {
                let required = "must be an amount in wei below 2^128, or p1 to p99";
                Limit::parse(text, parse_digits).ok_or_else(|| E::custom(required))
            }
        }

        input.deserialize_str(LimitText)
    }
}

/// The fee market as soon as gas costs at most this
///
/// The request is held until the expected medium price is not above `below`, or until the time-out. A stale price ends no
/// wait. Waiting requests count as streams of the client.
#[utoipa::path(
    get,
    path = "/v1/{chain}/wait",
    operation_id = "waitForPrice",
    tag = "Gas",
    params(ChainParam, WaitQuery),
    responses(
        (status = 200, description = "Gas costs at most this.", body = FeeMarketBody,
            headers(("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
        (status = 204, description = "Gas cost more until the time-out.", headers(("Cache-Control"))),
    )
)]
pub(crate) async fn wait_for_price(
    State(streams): State<SuggestionStreams>,
    State(members): State<MarketMembers>,
    State(prices): State<DayPrices>,
    ChainParam(chain): ChainParam,
    ValidQuery(query): ValidQuery<WaitQuery>,
    method: Method,
    client: ClientHandle,
) -> Result<Response, Problem> {
    let seconds = query.timeout.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
    if !(1..=MAX_TIMEOUT_SECONDS).contains(&seconds) {
        let allowed = format_args!("must be from 1 to {MAX_TIMEOUT_SECONDS}");
        return Err(invalid_parameter("timeout", allowed));
    }
    let wait = Wait { chain, limit: query.below, members, prices };
    wait.limit()?;
    if method == Method::HEAD {
        return Ok(match wait.reached() {
            Some(response) => response,
            None => wait.end()?,
        });
    }
    let permit = streams.acquire(&client, 1)?;
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let response = wait.run(deadline, streams.shutdown()).await;
    drop(permit);
    response
}

/// One waiting request.
struct Wait {
    chain: StoredChain,
    limit: Limit,
    members: MarketMembers,
    prices: DayPrices,
}

impl Wait {
    /// Waits. Dropping the future ends it.
    async fn run(
        self,
        deadline: Instant,
        shutdown: &CancellationToken,
    ) -> Result<Response, Problem> {
        let mut changes = self.chain.subscribe();
        loop {
            changes.mark_unchanged();
            if let Some(response) = self.reached() {
                return Ok(response);
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Err(shutting_down()),
                // The sender lives as long as the chain.
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(deadline) => return self.end(),
            }
        }
    }

    /// Returns the price to wait for.
    fn limit(&self) -> Result<u128, Problem> {
        match self.limit {
            Limit::Wei(wei) => Ok(wei),
            Limit::Percentile(percent) => {
                self.prices.price(&self.chain, percent).ok_or_else(|| {
                    let detail = "less than an hour of this chain's prices is known";
                    let problem = Problem::new(ProblemCode::NoData, detail);
                    problem.with_retry_after(Duration::from_mins(1))
                })
            }
        }
    }

    /// Returns the response if the price is low enough and not stale.
    fn reached(&self) -> Option<Response> {
        let (current, others) = snapshot_with_members(&self.chain, &self.members).ok()?;
        let is_reached = !current.is_stale()
            && self.limit().is_ok_and(|limit| current.snapshot.market.expected_price() <= limit);
        is_reached.then(|| {
            let body = FeeMarketBody::new(&self.chain, &current, others);
            let mut response = Json(body).into_response();
            write_uncached_snapshot_headers(response.headers_mut(), &self.chain, &current);
            response
        })
    }

    /// Returns the response at the time-out.
    fn end(&self) -> Result<Response, Problem> {
        let current = self.chain.servable_snapshot();
        current.map_err(|reason| problems::unavailable(&self.chain, reason))?;
        let no_store = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
        Ok((StatusCode::NO_CONTENT, no_store).into_response())
    }
}

/// Returns the problem of a request that waits while the service drains. Another instance may answer at once.
fn shutting_down() -> Problem {
    Problem::new(ProblemCode::NotReady, "the service is shutting down")
        .with_retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_an_amount_or_a_percentile() {
        for (text, expected) in [
            ("0", Some(Limit::Wei(0))),
            ("21000000000", Some(Limit::Wei(21_000_000_000))),
            ("p1", Some(Limit::Percentile(1))),
            ("p99", Some(Limit::Percentile(99))),
        ] {
            assert_eq!(Limit::parse(text, parse_digits), expected, "{text}");
        }
        for text in
            ["", "p", "p0", "p100", "p05", "p-1", "P20", "p2.5", "-1", "+1", "1e9", "0x1", " 1"]
        {
            assert_eq!(Limit::parse(text, parse_digits), None, "{text}");
        }
        assert_eq!(Limit::parse(&format!("{}0", u128::MAX), parse_digits), None);
    }
}
