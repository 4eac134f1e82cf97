//! `GET /v1/{chain}/gas-suggestion` and `GET /v1/gas-suggestions`.

use axum::extract::State;
use axum::http::header;
use axum::response::Response;
use enum_map::{Enum, EnumMap};

use super::freshness::{JSON, list_response, snapshot_response, tagged_json};
use super::problems;
use crate::api::extractors::{ChainParam, charge_for_list};
use crate::http::client_limits::ClientHandle;
use crate::http::problem::Problem;
use crate::observe::metrics::{FreshnessLabels, Metrics, RequestCounter, counters};
use crate::store::wire::SuggestionBody;
use crate::store::{ChainStore, ServableSnapshot, Snapshot, StaleReason, StoredChain, Unavailable};

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

    /// Returns the counter of responses with this result.
    pub(crate) fn counter(
        &self,
        result: &Result<ServableSnapshot, Unavailable>,
    ) -> &RequestCounter {
        let reason = result.as_ref().map(|current| current.stale_reason);
        let freshness = match reason {
            Err(_) => ResponseFreshness::Unavailable,
            Ok(None) => ResponseFreshness::Fresh,
            Ok(Some(StaleReason::OldData)) => ResponseFreshness::Old,
            Ok(Some(StaleReason::OldBlock)) => ResponseFreshness::OldBlock,
            Ok(Some(StaleReason::StandingHead)) => ResponseFreshness::Stalled,
        };
        &self.0[freshness]
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
    params(ChainParam),
    responses(
        (status = 200, description = "The suggestion.", body = SuggestionBody,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(crate) async fn get_suggestion(
    State(metrics): State<Metrics>,
    ChainParam(chain): ChainParam,
) -> Result<Response, Problem> {
    let result = chain.servable_snapshot();
    FreshnessCounters::new(&chain, &metrics).counter(&result).increment();
    let current = result.map_err(|reason| problems::unavailable(&chain, reason))?;
    let Snapshot { etag, body, .. } = &*current.snapshot;
    let headers = [(header::CONTENT_TYPE, JSON), (header::ETAG, etag.clone())];
    Ok(snapshot_response(&chain, &current, (headers, body.clone())))
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
            body = Vec<SuggestionBody>,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Stale"))),
    )
)]
pub(crate) async fn list_suggestions(
    State(store): State<ChainStore>,
    client: ClientHandle,
) -> Result<Response, Problem> {
    const CHAINS_PER_REQUEST: usize = 32;
    charge_for_list(&client, store.chains().len(), CHAINS_PER_REQUEST)?;
    let available = store.servable_snapshots();
    let bodies: Vec<&[u8]> = available.iter().map(|(_, it)| it.snapshot.body.as_ref()).collect();
    let body = [&b"["[..], &bodies.join(&b","[..]), b"]"].concat();
    let members = available.iter().map(|(chain, current)| (*chain, current));
    Ok(list_response(members, tagged_json(body.into())))
}
