//! `GET` and `POST /v1/{chain}/cost`.

use std::borrow::Cow;
use std::fmt::Display;

use alloy_primitives::hex;
use axum::extract::{FromRef, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::chain_keys::DataFeeKind;
use super::data_fee::DataFees;
use super::sum::{Cost, Order};
use super::transaction::Transaction;
use super::usd_feed::UsdPrices;
use super::wire::CostBody;
use crate::api::extractors::{ChainParam, charge_for_list};
use crate::api::freshness::{snapshot_response, tagged_json};
use crate::api::hold::Hold;
use crate::api::problems;
use crate::api::render_cache::json_bytes;
use crate::config::Chain;
use crate::fees::amount::parse_digits;
use crate::fees::{HeldBaseFee, Wei};
use crate::http::client_limits::ClientHandle;
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::{ValidQuery, invalid_parameter};
use crate::http::request_body;
use crate::observe::memory_budget::MemoryBudget;
use crate::store::{ChainStore, PerChain, ServableSnapshot, StoredChain, Unavailable};

pub(super) const COST_PATH: &str = "/v1/{chain}/cost";

/// Highest gas limit of a transaction (EIP-8037: 2³² − 1).
pub(super) const MAX_GAS: u64 = 4_294_967_295;

/// Largest transaction that nodes take.
const MAX_BYTES: u64 = 131_072;

/// Bytes that a signature adds to a transaction, and to its FastLZ length (OP Stack specification, "Fjord").
const SIGNATURE_BYTES: u64 = 68;
const SIGNATURE_FAST_LZ: u64 = 72;

const MAX_BLOBS: u64 = 21;

/// Probability in percent with which max fees hold, if none is asked for.
const HOLD_PERCENT: u8 = 99;

/// State of the routes. Cheap to clone.
#[derive(Debug, Clone, FromRef)]
pub(super) struct CostState {
    pub(super) store: ChainStore,
    pub(super) fees: DataFees,
    pub(super) prices: UsdPrices,
    /// Gas of a transfer, as the chain's node estimates it; `None`: it did not.
    pub(super) transfers: PerChain<Mutex<Option<u64>>>,
    /// Bodies are charged to it.
    pub(super) memory: MemoryBudget,
}

/// A transaction, as far as it is known.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CostQuery {
    /// Gas limit, from 1 to 4,294,967,295.
    #[param(value_type = Wei, example = "21000")]
    gas: u64,
    /// Size of the signed transaction.
    #[param(nullable = false, minimum = 1, maximum = 131_072, default = 120)]
    bytes: Option<u64>,
    /// Balance of the sender in wei.
    #[param(nullable = false, example = "1000000000000000000")]
    balance: Option<Wei>,
    /// Number of blobs.
    #[param(nullable = false, maximum = 21, default = 0)]
    blobs: Option<u64>,
    /// Time for which max fees have to cover the base fee with the probability, at most `10m`; `0` is none. Those that cover
    /// more become lower. Legacy pricing has no such time.
    #[param(nullable = false, pattern = "^(0|([0-9]+(ms|s|m))+)$", example = "30s")]
    hold: Option<String>,
    /// Share of cases in which the max fees cover the base fee for the time of `hold`.
    #[param(nullable = false, minimum = 0.5, maximum = 0.999, default = 0.99)]
    probability: Option<f64>,
}

/// A transaction.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CostRequest)]
struct CostRequest<'a> {
    /// Gas limit, as decimal digits.
    #[serde(borrow)]
    #[schema(value_type = Wei)]
    gas: &'a RawValue,
    /// The serialised transaction, signed or not, of type 0 to 4, at most 131,072 bytes.
    #[schema(value_type = String, pattern = "^0x([0-9a-fA-F]{2})+$")]
    transaction: &'a RawValue,
    /// Balance of the sender in wei.
    #[serde(default)]
    #[schema(value_type = Option<Wei>)]
    balance: Option<&'a RawValue>,
    /// As in the query of `GET`.
    #[serde(default)]
    #[schema(pattern = "^(0|([0-9]+(ms|s|m))+)$")]
    hold: Option<String>,
    /// As in the query of `GET`.
    #[serde(default)]
    #[schema(minimum = 0.5, maximum = 0.999)]
    probability: Option<f64>,
}

/// Cost of a transaction in all, and the amount that can be sent beside it
///
/// The sum of gas, data fee, operator fee and blob fee, from what the service knows: the request causes no call to a node.
/// A balance is enough for a value of `max_send` with the fees of the tier, for two block times of the chain below. With
/// `hold` less of it is left behind.
#[utoipa::path(
    get,
    path = "/v1/{chain}/cost",
    operation_id = "getCost",
    tag = "Gas",
    params(ChainParam, CostQuery),
    responses(
        (status = 200, description = "The cost.", body = CostBody,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(super) async fn get_cost(
    State(state): State<CostState>,
    ChainParam(chain): ChainParam,
    ValidQuery(query): ValidQuery<CostQuery>,
) -> Result<Response, Problem> {
    let hold = Hold::parse(query.hold.as_deref(), query.probability, HOLD_PERCENT)?;
    let (body, current) = state.body(&chain, &query.order()?, hold, ("blobs", "be 0"))?;
    Ok(snapshot_response(&chain, &current, tagged_json(body)))
}

/// Cost of a serialised transaction in all, and the amount that can be sent beside it
///
/// As with `GET`, but the data fee of a signed transaction is exact. The service does not send the transaction.
#[utoipa::path(
    post,
    path = "/v1/{chain}/cost",
    operation_id = "getCostOfTransaction",
    tag = "Gas",
    params(ChainParam),
    request_body = CostRequest,
    responses(
        (status = 200, description = "The cost.", body = CostBody,
            headers(("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(super) async fn post_cost(
    State(state): State<CostState>,
    ChainParam(chain): ChainParam,
    client: ClientHandle,
    request: Request,
) -> Result<Response, Problem> {
    /// The largest transaction as hex digits, and the rest of the object.
    const MAX_BODY_BYTES: usize = 264 * 1024;
    /// Bytes of a body that one request pays for.
    const BYTES_PER_REQUEST: usize = 16 * 1024;
    let body = request_body::read_body(request, MAX_BODY_BYTES, &state.memory).await?;
    charge_for_list(&client, body.len(), BYTES_PER_REQUEST)?;
    let (order, hold) = parse_request(&body, chain.config())?;
    let without_blobs = ("transaction", "have no blobs");
    let (body, current) = state.body(&chain, &order, hold, without_blobs)?;
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok(snapshot_response(&chain, &current, (headers, body)))
}

impl CostState {
    /// Serialises the cost of a transaction. `without_blobs` says which parameter must do what where the fee of blobs is not
    /// known.
    fn body(
        &self,
        chain: &StoredChain,
        order: &Order,
        hold: Option<Hold>,
        without_blobs: (&str, &str),
    ) -> Result<(Bytes, ServableSnapshot), Problem> {
        let (current, bound) =
            snapshot_held(chain, hold).map_err(|reason| problems::unavailable(chain, reason))?;
        let market = &current.snapshot.market;
        // Rollups have no blobs of their own, whatever their node returns.
        let may_have_blobs =
            matches!(self.fees.kind(chain), None | Some(DataFeeKind::None | DataFeeKind::Off));
        let has_blobs = market.blob_base_fees.is_some() && may_have_blobs;
        if order.blobs > 0 && !has_blobs {
            let (name, allowed) = without_blobs;
            let allowed = format_args!("must {allowed}: the fee of blobs is not known");
            return Err(invalid_parameter(name, allowed));
        }
        let cost = Cost::new(order, market, bound, self.fees.current(chain));
        let price = self.prices.current(chain).map(|price| price.price);
        let body = json_bytes(&CostBody::new(chain, &current, order, cost, price));
        Ok((body, current))
    }
}

/// Returns the servable snapshot, and the base fee that holds from it on.
fn snapshot_held(
    chain: &StoredChain,
    hold: Option<Hold>,
) -> Result<(ServableSnapshot, Option<HeldBaseFee>), Unavailable> {
    let Some(hold) = hold else { return Ok((chain.servable_snapshot()?, None)) };
    chain.read_together(|blocks| {
        let current = chain.servable_snapshot()?;
        let bound = hold.base_fee(chain.config(), &current.snapshot, blocks);
        Ok((current, bound))
    })
}

impl CostQuery {
    fn order(&self) -> Result<Order, Problem> {
        let bytes = self.bytes.unwrap_or(Order::TRANSFER_BYTES);
        if !(1..=MAX_BYTES).contains(&bytes) {
            return Err(invalid_parameter("bytes", format_args!("must be from 1 to {MAX_BYTES}")));
        }
        let blobs = self.blobs.unwrap_or_default();
        if blobs > MAX_BLOBS {
            return Err(invalid_parameter("blobs", format_args!("must be from 0 to {MAX_BLOBS}")));
        }
        let balance = self.balance.map(|Wei(balance)| balance);
        Ok(Order { balance, blobs, ..Order::new(valid_gas(self.gas)?, bytes) })
    }
}

pub(super) fn valid_gas(gas: u64) -> Result<u64, Problem> {
    if (1..=MAX_GAS).contains(&gas) {
        return Ok(gas);
    }
    Err(invalid_parameter("gas", format_args!("must be from 1 to {MAX_GAS}")))
}

/// Parses the body of a request about a transaction of `chain`, and how long its max fee has to hold.
fn parse_request(body: &[u8], chain: &Chain) -> Result<(Order, Option<Hold>), Problem> {
    let invalid = |error: &dyn Display| {
        let detail = format!("the body is not as expected: {error}");
        Problem::new(ProblemCode::InvalidParameter, detail)
    };
    // The parser would take an array of the values.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(invalid(&"it must be a JSON object"));
    }
    let request: CostRequest<'_> = serde_json::from_slice(body).map_err(|error| invalid(&error))?;
    let digits = |name: &str, value: &RawValue| {
        let text: Option<String> = serde_json::from_str(value.get()).ok();
        let number = text.and_then(|text| parse_digits::<u128>(&text));
        let requirement = "must be a string of decimal digits below 2^128";
        number.ok_or_else(|| invalid_parameter(name, requirement))
    };
    let gas = valid_gas(u64::try_from(digits("gas", request.gas)?).unwrap_or(u64::MAX))?;
    let balance = request.balance.map(|balance| digits("balance", balance)).transpose()?;
    let hold = Hold::parse(request.hold.as_deref(), request.probability, HOLD_PERCENT)?;
    let (bytes, parsed) = parse_transaction(request.transaction, chain)
        .map_err(|requirement| invalid_parameter("transaction", requirement))?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let fast_lz = u64::from(op_alloy_flz::flz_compress_len(&bytes));
    let is_exact = parsed.is_signed;
    let (added, added_fast_lz) =
        if is_exact { (0, 0) } else { (SIGNATURE_BYTES, SIGNATURE_FAST_LZ) };
    let order = Order {
        gas,
        bytes: length.saturating_add(added),
        fast_lz: fast_lz.saturating_add(added_fast_lz),
        is_exact,
        balance,
        blobs: parsed.blobs,
    };
    Ok((order, hold))
}

/// Parses a transaction of `chain`. Returns it after its bytes.
///
/// # Errors
///
/// Returns what is expected instead.
fn parse_transaction(
    value: &RawValue,
    chain: &Chain,
) -> Result<(Vec<u8>, Transaction), Cow<'static, str>> {
    let text: Option<String> = serde_json::from_str(value.get()).ok();
    let bytes = text.and_then(|text| hex::decode(text.strip_prefix("0x")?).ok());
    let bytes = bytes.ok_or("must be 0x and an even number of hex digits")?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BYTES {
        return Err(format!("must have at most {MAX_BYTES} bytes").into());
    }
    let parsed = Transaction::parse(&bytes)?;
    if parsed.chain_id.is_some_and(|id| id != chain.chain_id) {
        return Err(format!("must be of chain id {}", chain.chain_id).into());
    }
    if parsed.blobs > MAX_BLOBS {
        return Err(format!("must have at most {MAX_BLOBS} blobs").into());
    }
    Ok((bytes, parsed))
}
