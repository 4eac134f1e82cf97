//! `GET /v1/{chain}/fee-market`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::described::{Market, NoFees, OfEveryRoute, UnknownChain, tag};
use super::extract::OfChain;
use super::freshness::{Freshness, X_NEWEST_BLOCK};
use super::problem::Problem;
use crate::book::{Chain, Reading};
use crate::config::RewardPercentiles;
use crate::fees::{CoveredBlocks, FloorsApplied, GasUsedRatio, PricingType, Rewards, Trend};
use crate::wire::{SuggestionBody, Wei};

/// What stands behind a suggestion.
#[derive(Serialize, ToSchema)]
pub(super) struct FeeMarket<'a> {
    chain_name: &'a str,
    chain_id: u64,
    r#type: PricingType,
    newest_block: u64,
    /// When the data was read from a node.
    #[schema(format = DateTime)]
    observed_at: String,
    /// As `X-Stale` says it.
    stale: bool,
    window: Window<'a>,
    average_base_fee_per_gas: Wei,
    /// `null` when the node did not tell it.
    #[schema(required)]
    next_base_fee_per_gas: Option<Wei>,
    /// One for each percentile; `null` where no block had a usable reward.
    average_reward_per_gas: Vec<Option<Wei>>,
    floors_applied: FloorsApplied,
    gas_used_ratio: GasUsedRatio,
    base_fee_trend: Trend,
    suggestion: SuggestionBody<'a>,
    covers_full_blocks: CoveredBlocks,
}

/// The blocks that the averages are of.
#[derive(Serialize, ToSchema)]
#[schema(as = FeeWindow)]
struct Window<'a> {
    oldest_block: u64,
    /// How many they are.
    blocks: usize,
    #[schema(value_type = Vec<f64>)]
    reward_percentiles: &'a [serde_json::Number],
}

/// What stands behind the suggestion of one chain
#[utoipa::path(
    get,
    path = "/v1/{chain}/fee-market",
    operation_id = "getFeeMarket",
    tag = tag::GAS,
    params(OfChain),
    responses(OfEveryRoute, Market, UnknownChain, NoFees)
)]
pub(super) async fn of_chain(OfChain(chain): OfChain) -> Result<Response, Problem> {
    let reading = chain.read().map_err(|why| Problem::unavailable(&chain, why))?;
    let mut response = Json(FeeMarket::of(&chain, &reading)).into_response();
    let headers = response.headers_mut();
    headers.insert(X_NEWEST_BLOCK, reading.observation.quote.newest_block().into());
    Freshness::of(&chain, &reading).write_headers(headers);
    Ok(response)
}

impl<'a> FeeMarket<'a> {
    pub(super) fn of(chain: &'a Chain, reading: &'a Reading) -> Self {
        let config = chain.config();
        let observation = &reading.observation;
        let market = &observation.market;
        let percentiles = config.pricing.percentiles();
        Self {
            chain_name: config.name(),
            chain_id: config.chain_id,
            r#type: market.suggestion.pricing_type,
            newest_block: observation.quote.newest_block(),
            observed_at: humantime::format_rfc3339_millis(observation.observed_at).to_string(),
            stale: reading.is_stale,
            window: Window {
                oldest_block: observation.oldest_block,
                blocks: observation.blocks,
                reward_percentiles: percentiles.as_slice(),
            },
            average_base_fee_per_gas: Wei(market.average_base_fee),
            next_base_fee_per_gas: market.next_base_fee.map(Wei),
            average_reward_per_gas: per_percentile(market.average_reward, percentiles),
            floors_applied: market.floors_applied,
            gas_used_ratio: market.gas_used_ratio,
            base_fee_trend: market.base_fee_trend,
            suggestion: SuggestionBody::new(config.name(), &market.suggestion),
            covers_full_blocks: market.covers_full_blocks,
        }
    }
}

/// One entry per percentile, `null` where there was no usable reward.
fn per_percentile(average: Option<Rewards>, percentiles: &RewardPercentiles) -> Vec<Option<Wei>> {
    let medium = average.map(|rewards| Wei(rewards.medium));
    let high = average.and_then(|rewards| rewards.high).map(Wei);
    if percentiles.has_high() { vec![medium, high] } else { vec![medium] }
}
