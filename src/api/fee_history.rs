//! `GET /v1/{chain}/fee-history`.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use super::freshness::{snapshot_response, tagged_json};
use super::problems;
use super::render_cache::json_bytes;
use crate::api::extractors::{BlocksQuery, ChainParam};
use crate::fees::Wei;
use crate::fees::percentile_numbers;
use crate::http::client_limits::ClientHandle;
use crate::http::headers::X_NEWEST_BLOCK;
use crate::http::problem::Problem;
use crate::http::query::ValidQuery;
use crate::store::{BlockWindow, StoredChain};

/// Fees per block, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(as = FeeHistory)]
pub(crate) struct FeeHistoryBody<'a> {
    chain_name: &'a str,
    chain_id: u64,
    #[schema(value_type = Vec<f64>)]
    reward_percentiles: Vec<serde_json::Number>,
    blocks: Vec<FeeHistoryBlock>,
    /// Base fee of the block after these; `null` if the node did not return it.
    #[schema(required)]
    next_base_fee_per_gas: Option<Wei>,
}

/// One mined block.
#[derive(Serialize, ToSchema)]
#[schema(as = FeeHistoryBlock)]
struct FeeHistoryBlock {
    number: u64,
    base_fee_per_gas: Wei,
    /// `null` if the node returned no credible ratio.
    #[schema(required, minimum = 0, maximum = 1)]
    gas_used_ratio: Option<f64>,
    /// One per percentile; `null` if the node returned no usable rewards.
    #[schema(required)]
    rewards: Option<Vec<Wei>>,
}

/// Fees of the last blocks of one chain
///
/// The service keeps as many blocks as `history_blocks`.
#[utoipa::path(
    get,
    path = "/v1/{chain}/fee-history",
    operation_id = "getFeeHistory",
    tag = "Gas",
    params(ChainParam, BlocksQuery),
    responses(
        (status = 200, description = "The available blocks, oldest first.", body = FeeHistoryBody,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(crate) async fn get_fee_history(
    ChainParam(chain): ChainParam,
    ValidQuery(query): ValidQuery<BlocksQuery>,
    client: ClientHandle,
) -> Result<Response, Problem> {
    /// Long histories are serialized one at a time, aside from the serving threads.
    static LONG_HISTORIES: Semaphore = Semaphore::const_new(1);
    /// Blocks that take less than 2 ms.
    const MAX_INLINE_BLOCKS: usize = 4096;
    let count = query.validate_and_charge(chain.config().history_blocks.get(), &client)?;
    let is_long = count > MAX_INLINE_BLOCKS;
    // Taken before the blocks, so that requests that wait hold none. The semaphore is never closed.
    let permit = if is_long { LONG_HISTORIES.acquire().await.ok() } else { None };
    let (current, window) = chain
        .snapshot_with_blocks(count)
        .map_err(|reason| problems::unavailable(&chain, reason))?;
    let newest_block = window.newest_block;
    let serialized_chain = chain.clone();
    let serialize = move || {
        let history = FeeHistoryBody::from_window(&serialized_chain, &window);
        let response = tagged_json(json_bytes(&history));
        drop(permit);
        response
    };
    let response = if is_long {
        tokio::task::spawn_blocking(serialize)
            .await
            .map_err(|_| Problem::from_status(StatusCode::INTERNAL_SERVER_ERROR))?
    } else {
        serialize()
    };
    let mut response = snapshot_response(&chain, &current, response);
    response.headers_mut().insert(X_NEWEST_BLOCK, newest_block.into());
    Ok(response)
}

impl<'a> FeeHistoryBody<'a> {
    fn from_window(chain: &'a StoredChain, window: &BlockWindow) -> Self {
        let config = chain.config();
        let pricing = &config.pricing;
        let columns = pricing.percentiles().iter().count();
        // Block numbers, newest first.
        let block_numbers = (0..=window.newest_block).rev();
        let mut blocks: Vec<FeeHistoryBlock> = block_numbers
            .zip(window.blocks.iter().rev())
            .map(|(number, block)| FeeHistoryBlock {
                number,
                base_fee_per_gas: Wei(block.base_fee),
                gas_used_ratio: block.gas_used_ratio,
                rewards: (0..columns).map(|column| block.reward(column).map(Wei)).collect(),
            })
            .collect();
        blocks.reverse();
        Self {
            chain_name: config.name(),
            chain_id: config.chain_id,
            reward_percentiles: percentile_numbers(config.pricing.percentiles().iter()),
            blocks,
            next_base_fee_per_gas: window.next_base_fee.map(Wei),
        }
    }
}
