//! `GET /v1/{chain}/inclusion` and `GET /v1/{chain}/replacement`: what a caller asks of its own fee.

use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::inclusion::{Inclusion, inclusion};
use super::replacement::{gas_price_replacement, replacement};
use crate::api::extractors::ChainParam;
use crate::api::freshness::{snapshot_response, tagged_json};
use crate::api::problems;
use crate::api::render_cache::json_bytes;
use crate::fees::{Tier, Tiers, Wei};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::{ValidQuery, invalid_parameter};
use crate::store::COMPARED_BLOCKS;

/// The fee of a transaction.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FeeQuery {
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
pub(super) struct ReplacementQuery {
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
        (status = 200, description = "The comparison.", body = Inclusion,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(super) async fn get_inclusion(
    ChainParam(chain): ChainParam,
    ValidQuery(query): ValidQuery<FeeQuery>,
) -> Result<Response, Problem> {
    let offered = offered_fee(query.max_fee_per_gas, query.max_priority_fee_per_gas)?;
    let (current, entries) = chain
        .read_together(|blocks| {
            Ok((chain.servable_snapshot()?, blocks.newest_asks(COMPARED_BLOCKS)))
        })
        .map_err(|reason| problems::unavailable(&chain, reason))?;
    let market = &current.snapshot.market;
    let (next_base_fee, parameters) = (market.newest_known_base_fee, &market.chain_parameters);
    let body = inclusion(&entries, next_base_fee, offered, &chain.config().pricing, parameters);
    Ok(snapshot_response(&chain, &current, tagged_json(json_bytes(&body))))
}

/// Fees of a transaction that replaces a pending one.
#[derive(Serialize, ToSchema)]
#[schema(as = Replacement)]
pub(super) struct ReplacementBody {
    medium: Tier,
    high: Tier,
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
        (status = 200, description = "The new fees.", body = ReplacementBody,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(super) async fn get_replacement(
    ChainParam(chain): ChainParam,
    ValidQuery(query): ValidQuery<ReplacementQuery>,
) -> Result<Response, Problem> {
    let required = |name| invalid_parameter(name, "is required");
    let pending = match (query.gas_price, query.max_fee_per_gas, query.max_priority_fee_per_gas) {
        (Some(Wei(price)), None, None) => PendingFee::GasPrice(price),
        (Some(_), ..) => {
            return Err(invalid_parameter("gas_price", "must be given without the other two"));
        }
        (None, Some(max_fee), Some(tip)) => PendingFee::Capped(offered_fee(max_fee, tip)?),
        (None, None, _) => return Err(required("max_fee_per_gas")),
        (None, Some(_), None) => return Err(required("max_priority_fee_per_gas")),
    };
    let current =
        chain.servable_snapshot().map_err(|reason| problems::unavailable(&chain, reason))?;
    let market = &current.snapshot.market;
    let (tiers, next_base_fee) = (market.suggestion.tiers, market.newest_known_base_fee);
    let body = tiers.try_map(|suggested| match pending {
        PendingFee::Capped(pending) => replacement(pending, suggested, next_base_fee),
        PendingFee::GasPrice(price) => gas_price_replacement(price, suggested, next_base_fee),
    });
    let Tiers { medium, high, .. } = body.ok_or_else(|| {
        Problem::new(ProblemCode::InvalidParameter, "the new fee would not be below 2^128 wei")
    })?;
    let body = ReplacementBody { medium, high };
    Ok(snapshot_response(&chain, &current, tagged_json(json_bytes(&body))))
}

/// The fee of the transaction to replace.
enum PendingFee {
    Capped(Tier),
    GasPrice(u128),
}
