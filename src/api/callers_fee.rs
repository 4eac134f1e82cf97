//! `GET /v1/{chain}/inclusion` and `GET /v1/{chain}/replacement`: what a caller asks of its own fee.

use axum::Json;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extractors::ChainParam;
use super::freshness::{Freshness, X_NEWEST_BLOCK};
use super::openapi::components::{
    CommonErrors, FeeQuery, FeesUnavailable, ReplacementQuery, UnknownChain,
};
use super::problem::{Problem, ProblemCode};
use crate::fees::{self, Suggestion, Tier};
use crate::store::{BlockWindow, ServableSnapshot, StoredChain};
use crate::wire::TierBody;

/// Number of blocks that a fee is compared with. More blocks say less of the next one.
const COMPARED_BLOCKS: usize = 20;

/// The parameters of both routes, not validated.
#[derive(Debug, Deserialize)]
pub(super) struct FeeParameters {
    max_fee_per_gas: Option<String>,
    max_priority_fee_per_gas: Option<String>,
    gas_price: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for FeeParameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<Self>::from_request_parts(parts, state).await {
            Ok(Query(parameters)) => Ok(parameters),
            Err(_) => Err(invalid("each parameter", "must be given once, in UTF-8")),
        }
    }
}

impl FeeParameters {
    /// Returns the fee. Its tip is not above its max fee.
    fn offered(&self) -> Result<Tier, Problem> {
        let max_fee_per_gas = amount("`max_fee_per_gas`", self.max_fee_per_gas.as_deref())?;
        let name = "`max_priority_fee_per_gas`";
        let max_priority_fee_per_gas = amount(name, self.max_priority_fee_per_gas.as_deref())?;
        if max_priority_fee_per_gas > max_fee_per_gas {
            return Err(invalid(name, "must not be above `max_fee_per_gas`"));
        }
        Ok(Tier { max_priority_fee_per_gas, max_fee_per_gas })
    }

    /// Returns the gas price if it was given, alone.
    fn gas_price(&self) -> Result<Option<u128>, Problem> {
        let name = "`gas_price`";
        let Some(price) = self.gas_price.as_deref() else { return Ok(None) };
        if self.max_fee_per_gas.is_some() || self.max_priority_fee_per_gas.is_some() {
            return Err(invalid(name, "must be given without the other two"));
        }
        amount(name, Some(price)).map(Some)
    }
}

/// Parses a decimal amount of wei that fits in 128 bits.
fn amount(name: &str, text: Option<&str>) -> Result<u128, Problem> {
    let text = text.ok_or_else(|| invalid(name, "is required"))?;
    // `parse` would accept a sign.
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    let amount = is_decimal.then(|| text.parse().ok()).flatten();
    amount.ok_or_else(|| invalid(name, "must be an amount in wei: a whole number below 2^128"))
}

fn invalid(name: &str, requirement: &str) -> Problem {
    Problem::new(ProblemCode::InvalidParameter, format!("{name} {requirement}"))
}

/// How a fee compares with the newest blocks.
#[derive(Serialize, ToSchema)]
#[schema(as = Inclusion)]
pub(super) struct InclusionBody {
    /// The tip is compared with each block's reward at this percentile.
    #[schema(value_type = f64)]
    percentile: Option<serde_json::Number>,
    /// Blocks in which the tip was enough: it reached the reward, or the block had no transactions.
    enough_in: usize,
    /// Blocks that were compared, at most 20.
    of: usize,
    /// True if the max fee is at least the base fee of the next block.
    covers_next_base_fee: bool,
    /// For how many of the coming blocks, all of them full, the max fee is enough; at most 100.
    #[schema(maximum = 100)]
    covers_full_blocks: u8,
    /// How many empty blocks must come before the max fee covers the base fee; `null`: it cannot fall so far.
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
pub(super) async fn get_inclusion(
    ChainParam(chain): ChainParam,
    parameters: FeeParameters,
) -> Result<Response, Problem> {
    let offered = parameters.offered()?;
    let (current, window) = chain
        .snapshot_with_blocks(COMPARED_BLOCKS)
        .map_err(|reason| Problem::unavailable(&chain, reason))?;
    let body = InclusionBody::new(&chain, &window, offered);
    Ok(with_freshness(Json(body).into_response(), &chain, &current))
}

impl InclusionBody {
    pub(super) fn new(chain: &StoredChain, window: &BlockWindow, offered: Tier) -> Self {
        let pricing = &chain.config().pricing;
        let next_base_fee = newest_known_base_fee(window);
        let compared = fees::inclusion(&window.blocks, next_base_fee, offered, pricing);
        let percentiles = crate::wire::percentile_numbers(pricing.percentiles().iter());
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
pub(super) struct ReplacementBody {
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
pub(super) async fn get_replacement(
    ChainParam(chain): ChainParam,
    parameters: FeeParameters,
) -> Result<Response, Problem> {
    let pending = match parameters.gas_price()? {
        Some(price) => PendingFee::GasPrice(price),
        None => PendingFee::Capped(parameters.offered()?),
    };
    let (current, window) =
        chain.snapshot_with_blocks(1).map_err(|reason| Problem::unavailable(&chain, reason))?;
    let body = ReplacementBody::new(&current.snapshot.market.suggestion, &window, pending)
        .ok_or_else(|| invalid("the new fee", "would not be below 2^128 wei"))?;
    Ok(with_freshness(Json(body).into_response(), &chain, &current))
}

/// The fee of the transaction to replace.
#[derive(Debug, Clone, Copy)]
pub(super) enum PendingFee {
    Capped(Tier),
    GasPrice(u128),
}

impl ReplacementBody {
    /// Returns the fees of both tiers; `None` if one exceeds 128 bits.
    pub(super) fn new(
        suggestion: &Suggestion,
        window: &BlockWindow,
        pending: PendingFee,
    ) -> Option<Self> {
        let next_base_fee = newest_known_base_fee(window);
        let replace = |suggested: Tier| match pending {
            PendingFee::Capped(pending) => fees::replacement(pending, suggested, next_base_fee),
            PendingFee::GasPrice(price) => {
                let price = fees::gas_price_replacement(price, suggested, next_base_fee)?;
                Some(Tier { max_priority_fee_per_gas: price, max_fee_per_gas: price })
            }
        };
        let medium = replace(suggestion.medium)?;
        let high = replace(suggestion.high)?;
        Some(Self { medium: (&medium).into(), high: (&high).into() })
    }
}

/// Returns the base fee of the next block, or of the newest one if that is unknown, in wei.
fn newest_known_base_fee(window: &BlockWindow) -> u128 {
    let newest_mined = window.blocks.last().map(|block| block.base_fee);
    window.next_base_fee.or(newest_mined).unwrap_or_default()
}

fn with_freshness(
    mut response: Response,
    chain: &StoredChain,
    current: &ServableSnapshot,
) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_NEWEST_BLOCK, current.snapshot.newest_block.into());
    Freshness::from_snapshot(chain, current).write_headers(headers);
    response
}
