//! `GET /v1/{chain}/inclusion` and `GET /v1/{chain}/replacement`: what a caller asks of its own fee.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::freshness::write_snapshot_headers;
use super::openapi::components::{CommonErrors, FeesUnavailable, UnknownChain};
use super::problems;
use super::wire::{TierBody, Wei};
use crate::api::extractors::ChainParam;
use crate::config::percentile_numbers;
use crate::fees::{self, Market, Tier};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::{ValidQuery, invalid_parameter};
use crate::store::{COMPARED_BLOCKS, EntryWindow, StoredChain};

/// The fee of a transaction.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FeeQuery {
    /// The max fee in wei, tip included.
    #[param(example = "22000000000")]
    max_fee_per_gas: Wei,
    /// The tip in wei.
    #[param(example = "1500000000")]
    max_priority_fee_per_gas: Wei,
}

/// The fee of a pending transaction: the gas price alone, or the other two.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReplacementQuery {
    /// The max fee in wei, tip included.
    #[param(nullable = false, example = "22000000000")]
    max_fee_per_gas: Option<Wei>,
    /// The tip in wei.
    #[param(nullable = false, example = "1500000000")]
    max_priority_fee_per_gas: Option<Wei>,
    /// The gas price in wei, of a transaction without a tip.
    #[param(nullable = false)]
    gas_price: Option<Wei>,
}

/// Returns the fee with these amounts. Its tip is not above its max fee.
fn offered_fee(Wei(max_fee): Wei, Wei(tip): Wei) -> Result<Tier, Problem> {
    if tip > max_fee {
        let requirement = "must not be above `max_fee_per_gas`";
        return Err(invalid_parameter("max_priority_fee_per_gas", requirement));
    }
    Ok(Tier { max_priority_fee_per_gas: tip, max_fee_per_gas: max_fee })
}

/// How a fee compares with the newest blocks.
#[derive(Serialize, ToSchema)]
#[schema(as = Inclusion)]
pub(crate) struct InclusionBody {
    /// Percentile of each block's rewards that the tip is compared with: 10, or the one of the medium tip if the service
    /// does not know percentile 10.
    #[schema(value_type = f64)]
    percentile: Option<serde_json::Number>,
    /// Blocks that would have included the fee: the max fee covers the block's base fee, and the rest of it, at most the
    /// tip, reaches the reward.
    enough_in: usize,
    /// Blocks that were compared: the newest ones with a reward above 0 at the percentile, at most 20.
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
    ValidQuery(query): ValidQuery<FeeQuery>,
) -> Result<Response, Problem> {
    let offered = offered_fee(query.max_fee_per_gas, query.max_priority_fee_per_gas)?;
    let (current, entries) = chain
        .snapshot_with_asks(COMPARED_BLOCKS)
        .map_err(|reason| problems::unavailable(&chain, reason))?;
    let body = InclusionBody::new(&chain, &current.snapshot.market, &entries, offered);
    let mut response = Json(body).into_response();
    write_snapshot_headers(response.headers_mut(), &chain, &current);
    Ok(response)
}

impl InclusionBody {
    pub(crate) fn new(
        chain: &StoredChain,
        market: &Market,
        entries: &EntryWindow,
        offered: Tier,
    ) -> Self {
        let compared = fees::inclusion(
            &entries.blocks,
            market.newest_known_base_fee,
            offered,
            &chain.config().pricing,
            &market.chain_parameters,
        );
        let percentiles = percentile_numbers([entries.percentile]);
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
    ValidQuery(query): ValidQuery<ReplacementQuery>,
) -> Result<Response, Problem> {
    let pending = PendingFee::new(&query)?;
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
    /// Returns the gas price, if it was given alone, or the other two.
    fn new(query: &ReplacementQuery) -> Result<Self, Problem> {
        let required = |name| Err(invalid_parameter(name, "is required"));
        match (query.gas_price, query.max_fee_per_gas, query.max_priority_fee_per_gas) {
            (Some(Wei(price)), None, None) => Ok(Self::GasPrice(price)),
            (Some(_), ..) => {
                Err(invalid_parameter("gas_price", "must be given without the other two"))
            }
            (None, Some(max_fee), Some(tip)) => offered_fee(max_fee, tip).map(Self::Capped),
            (None, None, _) => required("max_fee_per_gas"),
            (None, Some(_), None) => required("max_priority_fee_per_gas"),
        }
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
        let medium = replace(market.suggestion.tiers.medium)?;
        let high = replace(market.suggestion.tiers.high)?;
        Some(Self { medium: (&medium).into(), high: (&high).into() })
    }
}
