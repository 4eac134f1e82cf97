//! `GET /v1/chains`.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::freshness::revalidated_json;
use super::openapi::components::{CommonErrors, IfNoneMatch, PageNotModified};
use crate::store::{ChainStore, StoredChain};

/// A configured chain.
#[derive(Serialize, ToSchema)]
#[schema(as = Chain)]
pub(super) struct ChainSummary<'a> {
    /// The key, which is the `{chain}` of the routes.
    chain: &'a str,
    /// Display name.
    chain_name: &'a str,
    chain_id: u64,
    #[schema(value_type = u64)]
    block_time_ms: u128,
    status: ChainStatus,
    /// `null` without data that may be served.
    #[schema(required)]
    newest_block: Option<u64>,
}

/// Freshness of the chain's data, if there is any.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ChainStatus)]
enum ChainStatus {
    Fresh,
    Stale,
    Unavailable,
}

/// Configured chains with their state
#[utoipa::path(
    get,
    path = "/v1/chains",
    operation_id = "getChains",
    tag = "Gas",
    params(IfNoneMatch),
    responses(
        CommonErrors, PageNotModified,
        (status = 200, description = "The chains, in ascending order of chain id.",
            body = Vec<ChainSummary>, headers(("ETag"), ("Cache-Control"))),
    )
)]
pub(super) async fn list_chains(State(store): State<ChainStore>) -> Response {
    let summaries: Vec<ChainSummary> = store.chains().iter().map(ChainSummary::for_chain).collect();
    revalidated_json(&summaries)
}

impl<'a> ChainSummary<'a> {
    pub(super) fn for_chain(chain: &'a StoredChain) -> Self {
        let config = chain.config();
        let current = chain.servable_snapshot().ok();
        Self {
            chain: &config.key,
            chain_name: config.name(),
            chain_id: config.chain_id,
            block_time_ms: config.block_time.as_millis(),
            status: match &current {
                Some(reading) if reading.is_stale() => ChainStatus::Stale,
                Some(_) => ChainStatus::Fresh,
                None => ChainStatus::Unavailable,
            },
            newest_block: current.map(|reading| reading.snapshot.newest_block),
        }
    }
}
