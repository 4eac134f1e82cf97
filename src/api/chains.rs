//! `GET /v1/chains`.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::freshness::{revalidated_json, rfc3339};
use crate::api::extractors::charge_for_list;
use crate::http::client_limits::ClientHandle;
use crate::http::problem::Problem;
use crate::store::{ChainStore, StoredChain};

/// A configured chain.
#[derive(Serialize, ToSchema)]
#[schema(as = Chain)]
pub(crate) struct ChainSummary<'a> {
    /// The key, which is the `{chain}` of the routes.
    chain: &'a str,
    /// Display name.
    chain_name: &'a str,
    chain_id: u64,
    #[schema(value_type = u64)]
    block_time_ms: u128,
    #[schema(value_type = ChainStatus)]
    status: &'static str,
    /// Why the chain is not fresh; `null`: it is.
    #[schema(required, value_type = Option<Reason>)]
    reason: Option<&'static str>,
    /// Newest block that was read, also while nothing is served; `null`: none yet.
    #[schema(required)]
    newest_block: Option<u64>,
    /// Time of that block: its own, or that of the reply which brought it first.
    #[schema(required, format = DateTime)]
    newest_block_at: Option<String>,
    /// Time of the last accepted reply.
    #[schema(required, format = DateTime)]
    observed_at: Option<String>,
}

/// Freshness of the chain's data, if there is any.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "it describes the names")]
enum ChainStatus {
    Fresh,
    Stale,
    Unavailable,
}

/// Reason why a chain is not fresh.
#[derive(ToSchema)]
#[schema(as = ChainStatusReason, rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes the names")]
enum Reason {
    /// No node was read since the start.
    NoData,
    /// No reply was accepted for two block times, or since the machine slept; with `unavailable`, for `max_age`.
    OldData,
    /// The newest block was too old when it was first read, or another node has a newer one: the node is syncing or
    /// lags.
    OldBlock,
    /// No block has followed for too long.
    StandingHead,
}

/// Configured chains with their state
#[utoipa::path(
    get,
    path = "/v1/chains",
    operation_id = "getChains",
    tag = "Gas",
    responses(
        (status = 200, description = "The chains, in ascending order of chain id.",
            body = Vec<ChainSummary>, headers(("ETag"), ("Cache-Control"))),
    )
)]
pub(crate) async fn list_chains(
    State(store): State<ChainStore>,
    client: ClientHandle,
) -> Result<Response, Problem> {
    const CHAINS_PER_REQUEST: usize = 8;
    charge_for_list(&client, store.chains().len(), CHAINS_PER_REQUEST)?;
    let summaries: Vec<ChainSummary> = store.chains().iter().map(ChainSummary::for_chain).collect();
    Ok(revalidated_json(&summaries))
}

impl<'a> ChainSummary<'a> {
    fn for_chain(chain: &'a StoredChain) -> Self {
        let config = chain.config();
        let state = chain.state();
        let newest = chain.newest_snapshot();
        let newest = newest.as_ref();
        Self {
            chain: &config.key,
            chain_name: config.name(),
            chain_id: config.chain_id,
            block_time_ms: chain.block_time().as_millis(),
            status: state.status(),
            reason: state.reason(),
            newest_block: newest.map(|newest| newest.newest_block),
            newest_block_at: newest.map(|newest| rfc3339(newest.block.last_modified)),
            observed_at: newest.map(|newest| rfc3339(newest.observed_time)),
        }
    }
}
