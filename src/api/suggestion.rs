//! `GET /v1/{chain}/gas-suggestion` and `GET /v1/gas-suggestions`.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use enum_map::{Enum, EnumMap};

use super::freshness::{Freshness, MAX_HEADERS, write_list_headers};
use super::openapi::components::{IfNoneMatch, NotModified};
use super::problems;
use crate::api::extractors::{ChainParam, charge_for_list};
use crate::http::client_limits::ClientHandle;
use crate::http::headers::X_NEWEST_BLOCK;
use crate::http::problem::Problem;
use crate::observe::metrics::{FreshnessLabels, Metrics, RequestCounter, counters};
use crate::store::wire::SuggestionBody;
use crate::store::{ChainStore, ServableSnapshot, Snapshot, StaleReason, StoredChain, Unavailable};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(Debug, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum ResponseFreshness {
    Fresh,
    /// Stale because the newest block has not changed for too long, although polls succeed.
    Stalled,
    /// Stale because the last successful poll is too long ago.
    Old,
    /// Stale because the newest block was too old when it was first read.
    OldBlock,
    Unavailable,
}

/// Counters of one chain's responses.
#[derive(Debug, Clone)]
pub(crate) struct FreshnessCounters(EnumMap<ResponseFreshness, RequestCounter>);

impl FreshnessCounters {
    pub(crate) fn new(chain: &StoredChain, metrics: &Metrics) -> Self {
        Self(counters(&metrics.suggestion_responses_total, |freshness| FreshnessLabels {
            chain: chain.config().key.clone(),
            freshness,
        }))
    }

    /// Counts a response with fresh data.
    pub(crate) fn record_fresh(&self) {
        self.0[ResponseFreshness::Fresh].increment();
    }

    pub(crate) fn record(&self, result: &Result<ServableSnapshot, Unavailable>) {
        let reason = result.as_ref().map(|current| current.stale_reason);
        let freshness = match reason {
            Err(_) => ResponseFreshness::Unavailable,
            Ok(None) => ResponseFreshness::Fresh,
            Ok(Some(StaleReason::OldData)) => ResponseFreshness::Old,
            Ok(Some(StaleReason::OldBlock)) => ResponseFreshness::OldBlock,
            Ok(Some(StaleReason::StandingHead)) => ResponseFreshness::Stalled,
        };
        self.0[freshness].increment();
    }
}

/// Gas suggestion of one chain
///
/// The response is 304 if the client's copy is current.
#[utoipa::path(
    get,
    path = "/v1/{chain}/gas-suggestion",
    operation_id = "getGasSuggestion",
    tag = "Gas",
    params(ChainParam, IfNoneMatch),
    responses(
        NotModified,
        (status = 200, description = "The suggestion.", body = SuggestionBody,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(crate) async fn get_suggestion(
    State(metrics): State<Metrics>,
    ChainParam(chain): ChainParam,
) -> Result<Response, Problem> {
    let result = chain.servable_snapshot();
    FreshnessCounters::new(&chain, &metrics).record(&result);
    let current = result.map_err(|reason| problems::unavailable(&chain, reason))?;
    let headers = headers_of(&chain, &current, &current.snapshot.etag);
    Ok((headers, current.snapshot.body.clone()).into_response())
}

/// Builds the headers of a response that was made of the snapshot, and that has this entity tag.
pub(crate) fn headers_of(
    chain: &StoredChain,
    current: &ServableSnapshot,
    etag: &HeaderValue,
) -> HeaderMap {
    headers_with(&current.snapshot, etag, Freshness::from_snapshot(chain, current))
}

/// Like [`headers_of`], with this freshness.
pub(crate) fn headers_with(
    snapshot: &Snapshot,
    etag: &HeaderValue,
    freshness: Freshness,
) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(MAX_HEADERS);
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.insert(header::ETAG, etag.clone());
    headers.insert(X_NEWEST_BLOCK, snapshot.newest_block.into());
    freshness.write_headers(&mut headers, &snapshot.doubts);
    headers
}

/// Gas suggestions of all chains
///
/// Chains without data that may be served are omitted.
#[utoipa::path(
    get,
    path = "/v1/gas-suggestions",
    operation_id = "getGasSuggestions",
    tag = "Gas",
    responses(
        (status = 200,
            description = "One suggestion for each chain that has one, in ascending order of chain id.",
            body = Vec<SuggestionBody>, headers(("Cache-Control"), ("Age"), ("X-Stale"))),
    )
)]
pub(crate) async fn list_suggestions(
    State(store): State<ChainStore>,
    client: ClientHandle,
) -> Result<Response, Problem> {
    const CHAINS_PER_REQUEST: usize = 32;
    charge_for_list(&client, store.chains().len(), CHAINS_PER_REQUEST)?;
    let available = store.servable_snapshots();
    let mut body = vec![b'['];
    for (position, (_, current)) in available.iter().enumerate() {
        if position > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&current.snapshot.body);
    }
    body.push(b']');

    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, JSON);
    write_list_headers(headers, available.iter().map(|(chain, current)| (*chain, current)));
    Ok(response)
}
