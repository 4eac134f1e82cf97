//! `GET /v1/{chain}/fee-history`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::described::{InvalidParameter, NoFees, OfEveryRoute, RecentBlocks, UnknownChain, tag};
use super::extract::{BlockCount, OfChain};
use super::freshness::{Freshness, X_NEWEST_BLOCK};
use super::problem::Problem;
use crate::book::{Chain, Excerpt};
use crate::fees::Rewards;
use crate::wire::Wei;

/// Per-block facts, oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct FeeHistory<'a> {
    chain_name: &'a str,
    chain_id: u64,
    #[schema(value_type = Vec<f64>)]
    reward_percentiles: &'a [serde_json::Number],
    blocks: Vec<Block>,
    /// That of the block after these; `null` when the node did not tell it.
    #[schema(required)]
    next_base_fee_per_gas: Option<Wei>,
}

/// One mined block.
#[derive(Serialize, ToSchema)]
#[schema(as = FeeHistoryBlock)]
struct Block {
    number: u64,
    base_fee_per_gas: Wei,
    /// `null` when the node gave nothing credible.
    #[schema(required, minimum = 0, maximum = 1)]
    gas_used_ratio: Option<f64>,
    /// One for each percentile; `null` when the node gave no usable ones.
    #[schema(required)]
    rewards: Option<Vec<Wei>>,
}

/// The fees of the last blocks of one chain
///
/// They are those that the service remembers.
#[utoipa::path(
    get,
    path = "/v1/{chain}/fee-history",
    operation_id = "getFeeHistory",
    tag = tag::GAS,
    params(OfChain, BlockCount),
    responses(OfEveryRoute, RecentBlocks, InvalidParameter, UnknownChain, NoFees)
)]
pub(super) async fn of_chain(
    OfChain(chain): OfChain,
    count: BlockCount,
) -> Result<Response, Problem> {
    let count = count.up_to(chain.config().history_blocks.get())?;
    let (reading, excerpt) =
        chain.read_blocks(count).map_err(|why| Problem::unavailable(&chain, why))?;
    let mut response = Json(FeeHistory::of(&chain, &excerpt)).into_response();
    let headers = response.headers_mut();
    headers.insert(X_NEWEST_BLOCK, excerpt.newest_block.into());
    Freshness::of(&chain, &reading).write_headers(headers);
    Ok(response)
}

impl<'a> FeeHistory<'a> {
    pub(super) fn of(chain: &'a Chain, excerpt: &Excerpt) -> Self {
        let config = chain.config();
        // The newest block is the last, and no block lies below 0, so this counts up to it.
        let numbers = (0..=excerpt.newest_block).rev();
        let mut blocks: Vec<Block> = numbers
            .zip(excerpt.blocks.iter().rev())
            .map(|(number, block)| Block {
                number,
                base_fee_per_gas: Wei(block.base_fee),
                gas_used_ratio: block.gas_used_ratio,
                rewards: block.rewards.map(columns),
            })
            .collect();
        blocks.reverse();
        Self {
            chain_name: config.name(),
            chain_id: config.chain_id,
            reward_percentiles: config.pricing.percentiles().as_slice(),
            blocks,
            next_base_fee_per_gas: excerpt.next_base_fee.map(Wei),
        }
    }
}

fn columns(rewards: Rewards) -> Vec<Wei> {
    [Some(rewards.medium), rewards.high].into_iter().flatten().map(Wei).collect()
}
