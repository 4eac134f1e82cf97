//! `GET /v1/{chain}/wait`: holds a request until gas costs at most what the caller names.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use tokio::time::Instant;
use utoipa::IntoParams;

use super::OwnFee;
use crate::api::extractors::ChainParam;
use crate::api::fee_market::{FeeMarketBody, snapshot_with_members};
use crate::api::freshness::snapshot_response;
use crate::api::problems;
use crate::assembly::PriceLimit;
use crate::fees::amount::parse_digits;
use crate::http::client_limits::ClientHandle;
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::{ValidQuery, invalid_parameter};
use crate::store::StoredChain;

const NO_STORE: [(HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];
const MAX_TIMEOUT_SECONDS: u64 = 120;
const DEFAULT_TIMEOUT_SECONDS: u64 = 30;

/// The price to wait for.
#[derive(Debug, IntoParams, Deserialize)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitQuery {
    /// Price per gas in wei, or `p1` to `p99`: a percentile of the last day's prices, each the median of ten minutes.
    #[param(value_type = String, pattern = "^([0-9]+|p[1-9][0-9]?)$", example = "p20")]
    #[serde(deserialize_with = "read_limit")]
    below: PriceLimit,
    /// Longest time to wait, in seconds.
    #[param(nullable = false, minimum = 1, maximum = 120, default = 30)]
    timeout: Option<u64>,
}

fn read_limit<'de, D: Deserializer<'de>>(input: D) -> Result<PriceLimit, D::Error> {
    let limit = PriceLimit::parse(&String::deserialize(input)?, parse_digits);
    limit.ok_or_else(|| D::Error::custom("must be an amount in wei below 2^128, or p1 to p99"))
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
pub(super) async fn wait_for_price(
    State(own_fee): State<OwnFee>,
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
    let wait = Wait { chain, limit: query.below, own_fee };
    wait.limit()?;
    let _permit = wait.own_fee.streams.acquire(&client, 1)?;
    let seconds = if method == Method::HEAD { 0 } else { seconds };
    wait.run(Instant::now() + Duration::from_secs(seconds)).await
}

/// One waiting request.
struct Wait {
    chain: StoredChain,
    limit: PriceLimit,
    own_fee: OwnFee,
}

impl Wait {
    /// Waits. Dropping the future ends it.
    async fn run(self, deadline: Instant) -> Result<Response, Problem> {
        let request = self.own_fee.waiting.get(&self.chain).add(self.limit);
        loop {
            if let Some(response) = self.reached() {
                return Ok(response);
            }
            tokio::select! {
                biased;
                () = self.own_fee.streams.shutdown.cancelled() => return Err(shutting_down()),
                () = request.notified() => {}
                () = tokio::time::sleep_until(deadline) => return self.end(),
            }
        }
    }

    /// Returns the price to wait for.
    fn limit(&self) -> Result<u128, Problem> {
        self.limit.wei(&self.chain, self.own_fee.prices.as_deref()).ok_or_else(|| {
            let detail = "less than an hour of this chain's prices is known";
            Problem::new(ProblemCode::NoData, detail).with_retry_after(Duration::from_mins(1))
        })
    }

    /// Returns the response if the price is low enough and not stale.
    fn reached(&self) -> Option<Response> {
        let (current, others) = snapshot_with_members(&self.chain, &self.own_fee.members).ok()?;
        let is_reached = !current.is_stale()
            && self.limit().is_ok_and(|limit| current.snapshot.market.expected_price() <= limit);
        is_reached.then(|| {
            let body = FeeMarketBody::new(&self.chain, &current, others);
            snapshot_response(&self.chain, &current, (NO_STORE, Json(body)))
        })
    }

    /// Returns the response at the time-out.
    fn end(&self) -> Result<Response, Problem> {
        let current = self.chain.servable_snapshot();
        current.map_err(|reason| problems::unavailable(&self.chain, reason))?;
        Ok((StatusCode::NO_CONTENT, NO_STORE).into_response())
    }
}

/// Returns the problem of a request that waits while the service drains. Another instance may answer at once.
fn shutting_down() -> Problem {
    Problem::new(ProblemCode::NotReady, "the service is shutting down")
        .with_retry_after(Duration::from_secs(1))
}
