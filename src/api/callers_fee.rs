//! `GET /v1/{chain}/inclusion` and `GET /v1/{chain}/replacement`: what a caller asks of its own fee.

use axum::Json;
use axum::extract::RawQuery;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::freshness::write_snapshot_headers;
use super::openapi::components::{
    CommonErrors, FeeQuery, FeesUnavailable, ReplacementQuery, UnknownChain,
};
use super::problems;
use super::wire::TierBody;
use crate::api::extractors::ChainParam;
use crate::config::percentile_numbers;
use crate::fees::{self, Block, Market, Tier};
use crate::http::parameters::{Parameters, invalid_parameter, parse_wei};
use crate::http::problem::{Problem, ProblemCode};
use crate::store::{COMPARED_BLOCKS, StoredChain};

/// Returns the fee of the query. Its tip is not above its max fee.
fn offered_fee(parameters: &Parameters) -> Result<Tier, Problem> {
    let name = "max_priority_fee_per_gas";
    let max_fee_per_gas = parameters.required("max_fee_per_gas", parse_wei)?;
    let max_priority_fee_per_gas = parameters.required(name, parse_wei)?;
    if max_priority_fee_per_gas > max_fee_per_gas {
        return Err(invalid_parameter(name, "must not be above `max_fee_per_gas`"));
    }
    Ok(Tier { max_priority_fee_per_gas, max_fee_per_gas })
}

/// How a fee compares with the newest blocks.
#[derive(Serialize, ToSchema)]
#[schema(as = Inclusion)]
pub(crate) struct InclusionBody {
    /// Percentile of each block's rewards that the tip is compared with: 10, or the first one of the pricing if the service
    /// does not poll percentile 10.
    #[schema(value_type = f64)]
    percentile: Option<serde_json::Number>,
    /// Blocks that would have included the fee: the max fee covers the block's base fee, and the rest of it, at most the
    /// tip, reaches the reward. A block without transactions has no reward to reach.
    enough_in: usize,
    /// Blocks that were compared, at most 20.
    of: usize,
    /// True if the max fee is at least the base fee of the next block.
    covers_next_base_fee: bool,
    /// For how many of the coming blocks, all of them full, the max fee is enough; at most 100. `null`: how full blocks
    /// move the base fee is unknown.
    #[schema(required, maximum = 100)]
    covers_full_blocks: Option<u8>,
    /// How many empty blocks must come before the max fee covers the base fee; `null`: it cannot fall so far, or how empty
    /// blocks move it is unknown.
    #[schema(required)]
    not_before_blocks: Option<u32>,
}

/// In how many of the newest blocks a fee was enough
///
/// This is a count, not a forecast: it says nothing of what other users will offer.
#[utoipa::path(
    get,
    path = "/v1/{chain}/inclusion",
    operation_id = "getInclusion",
    tag = "Gas",
    params(ChainParam, FeeQuery),
    responses(
        CommonErrors, UnknownChain, FeesUnavailable,
        (status = 200, description = "The comparison.", body = InclusionBody,
            headers(("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(crate) async fn get_inclusion(
    ChainParam(chain): ChainParam,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let offered = offered_fee(&Parameters::from_query(query.as_deref())?)?;
    let (current, window) = chain
        .snapshot_with_blocks(COMPARED_BLOCKS)
        .map_err(|reason| problems::unavailable(&chain, reason))?;
    let market = &current.snapshot.market;
    let body = InclusionBody::new(&chain, market, &window.blocks, offered);
    let mut response = Json(body).into_response();
    write_snapshot_headers(response.headers_mut(), &chain, &current);
    Ok(response)
}

impl InclusionBody {
    pub(crate) fn new(
        chain: &StoredChain,
        market: &Market,
        blocks: &[Block],
        offered: Tier,
    ) -> Self {
        let pricing = &chain.config().pricing;
        let compared = fees::inclusion(
            blocks,
            market.newest_known_base_fee,
            offered,
            pricing,
            &market.chain_parameters,
        );
        let percentiles = percentile_numbers([pricing.inclusion_percentile()]);
        Self {
            percentile: percentiles.into_iter().next(),
            enough_in: compared.enough_in,
            of: compared.of,
            covers_next_base_fee: compared.covers_next_base_fee,
            covers_full_blocks: compared.covers_full_blocks,
            not_before_blocks: compared.not_before_blocks,
        }
    }
}

/// Fees of a transaction that replaces a pending one.
#[derive(Serialize, ToSchema)]
#[schema(as = Replacement)]
pub(crate) struct ReplacementBody {
    medium: TierBody,
    high: TierBody,
}

/// The fees that replace a pending transaction
///
/// They are the least that nodes accept in its place and that the market asks. The query has the fees of the pending
/// transaction. With `gas_price` both members of a tier are the new gas price.
#[utoipa::path(
    get,
    path = "/v1/{chain}/replacement",
    operation_id = "getReplacement",
    tag = "Gas",
    params(ChainParam, ReplacementQuery),
    responses(
        CommonErrors, UnknownChain, FeesUnavailable,
        (status = 200, description = "The new fees.", body = ReplacementBody,
            headers(("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(crate) async fn get_replacement(
    ChainParam(chain): ChainParam,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let pending = PendingFee::parse(&Parameters::from_query(query.as_deref())?)?;
    let current =
        chain.servable_snapshot().map_err(|reason| problems::unavailable(&chain, reason))?;
    let body = ReplacementBody::new(&current.snapshot.market, pending).ok_or_else(|| {
        Problem::new(ProblemCode::InvalidParameter, "the new fee would not be below 2^128 wei")
    })?;
    let mut response = Json(body).into_response();
    write_snapshot_headers(response.headers_mut(), &chain, &current);
    Ok(response)
}

/// The fee of the transaction to replace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PendingFee {
    Capped(Tier),
    GasPrice(u128),
}

impl PendingFee {
    /// Parses the gas price, if it was given alone, or the other two.
    fn parse(parameters: &Parameters) -> Result<Self, Problem> {
        let name = "gas_price";
        let Some(price) = parameters.optional(name, parse_wei)? else {
            return offered_fee(parameters).map(Self::Capped);
        };
        if ["max_fee_per_gas", "max_priority_fee_per_gas"].iter().any(|name| parameters.has(name)) {
            return Err(invalid_parameter(name, "must be given without the other two"));
        }
        Ok(Self::GasPrice(price))
    }
}

impl ReplacementBody {
    /// Returns the fees of both tiers; `None` if one exceeds 128 bits.
    pub(crate) fn new(market: &Market, pending: PendingFee) -> Option<Self> {
        let next_base_fee = market.newest_known_base_fee;
        let replace = |suggested: Tier| match pending {
            PendingFee::Capped(pending) => fees::replacement(pending, suggested, next_base_fee),
            PendingFee::GasPrice(price) => {
                let price = fees::gas_price_replacement(price, suggested, next_base_fee)?;
                Some(Tier { max_priority_fee_per_gas: price, max_fee_per_gas: price })
            }
        };
        let medium = replace(market.suggestion.medium)?;
        let high = replace(market.suggestion.high)?;
        Some(Self { medium: (&medium).into(), high: (&high).into() })
    }
}
