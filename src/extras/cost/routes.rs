//! `GET` and `POST /v1/{chain}/cost`, and `GET /v1/cheapest`.

use alloy_primitives::hex;
use axum::Json;
use axum::extract::{FromRef, Request, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use utoipa::openapi::OpenApi;
use utoipa::{IntoParams, ToSchema};

use super::data_fee::{DataFeeKindName, DataFeeReason, DataFees, ReadAttributes};
use super::op_stack::fast_lz_length;
use super::sum::{Cost, DataFeeAmounts, Order, Size, TierCost};
use super::transaction::Transaction;
use crate::api::extractors::{ChainParam, charge_for_list};
use crate::api::freshness::{
    write_list_headers, write_snapshot_headers, write_uncached_snapshot_headers,
};
use crate::api::openapi::components::{
    CommonErrors, FeesUnavailable, PayloadTooLarge, UnknownChain, UnsupportedMediaType,
};
use crate::api::openapi::examples::{ExampleChain, set_request_example, set_response_example};
use crate::api::problems;
use crate::api::wire::Wei;
use crate::config::{Chain, DataFeeKind};
use crate::fees::Market;
use crate::http::client_limits::ClientHandle;
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::{ValidQuery, invalid_parameter};
use crate::http::request_body;
use crate::observe::memory_budget::MemoryBudget;
use crate::store::{ChainStore, ServableSnapshot, StoredChain};

pub(super) const COST_PATH: &str = "/v1/{chain}/cost";

/// Gas of a transfer: the least that a transaction needs.
const MIN_GAS: u64 = 21_000;

/// Bytes of a signed transfer.
const TRANSFER_BYTES: u64 = 120;

/// Largest transaction that nodes take.
const MAX_BYTES: u64 = 131_072;

/// Bytes that a signature adds to a transaction, and to its FastLZ length (OP Stack specification, "Fjord").
const SIGNATURE_BYTES: u64 = 68;
const SIGNATURE_FAST_LZ: u64 = 72;

const MAX_BLOBS: u64 = 21;

/// State of the routes. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct CostState {
    store: ChainStore,
    fees: DataFees,
    /// Bodies are charged to it.
    memory: MemoryBudget,
}

impl CostState {
    pub(super) fn new(store: &ChainStore, fees: &DataFees, memory: &MemoryBudget) -> Self {
        Self { store: store.clone(), fees: fees.clone(), memory: memory.clone() }
    }
}

impl FromRef<CostState> for ChainStore {
    fn from_ref(state: &CostState) -> Self {
        state.store.clone()
    }
}

/// A transaction, as far as it is known.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CostQuery {
    /// Gas limit, from 21,000 to what the chain allows.
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
}

/// Cost of a transaction in all.
#[derive(Serialize, ToSchema)]
#[schema(as = Cost)]
struct CostBody<'a> {
    chain_name: &'a str,
    chain_id: u64,
    /// Symbol of the coin that pays; `null` if it is not configured.
    #[schema(required)]
    currency: Option<&'a str>,
    newest_block: u64,
    /// Gas limit.
    gas: Wei,
    /// Size of the signed transaction.
    bytes: u64,
    /// Fee that the transaction pays beside its gas; `null`: unknown, see `data_fee_reason`.
    #[schema(required)]
    data_fee: Option<DataFeeBody>,
    /// `null` without blobs.
    #[schema(required)]
    blob_fee: Option<ExpectedAndMax>,
    tiers: CostTiers,
    /// Why `data_fee` is `null`; `old` beside a fee: `max_send` is `null`, because the parameters are more than 60 s old.
    #[schema(required)]
    data_fee_reason: Option<DataFeeReason>,
    /// Reserved for amounts in dollars.
    #[schema(required, value_type = Option<Object>)]
    usd: Option<()>,
}

/// Fee for the data of a transaction, in wei.
#[derive(Serialize, ToSchema)]
#[schema(as = DataFee)]
struct DataFeeBody {
    #[schema(value_type = DataFeeKindName)]
    kind: DataFeeKind,
    /// False: a bound that the exact fee never exceeds.
    exact: bool,
    fee: Wei,
    /// With room for two full blocks of the chain below.
    max: Wei,
    operator_fee: ExpectedAndMax,
    /// Block of the chain below that the parameters come from.
    #[schema(required)]
    l1_block: Option<u64>,
    /// Time at which they were read.
    #[schema(required, format = DateTime)]
    observed_at: Option<String>,
}

/// Amounts in wei.
#[derive(Serialize, ToSchema)]
struct ExpectedAndMax {
    expected: Wei,
    max: Wei,
}

/// Costs with the fees of each tier.
#[derive(Serialize, ToSchema)]
struct CostTiers {
    low: TierCostBody,
    medium: TierCostBody,
    high: TierCostBody,
}

/// Fees of a tier, and what the transaction costs with them in wei.
#[derive(Serialize, ToSchema)]
#[schema(as = TierCost)]
struct TierCostBody {
    max_priority_fee_per_gas: Wei,
    max_fee_per_gas: Wei,
    /// Cost in the next block. `null` without a data fee.
    #[schema(required)]
    expected: Option<Wei>,
    /// Amount that a node demands of the sender's balance besides the value. `null` without a data fee.
    #[schema(required)]
    max: Option<Wei>,
    /// The balance less `max`. `null` without a balance.
    #[schema(required)]
    max_send: Option<Wei>,
}

/// Cost of a transaction in all, and the amount that can be sent beside it
///
/// The sum of gas, data fee, operator fee and blob fee, from what the service knows: the request causes no call to a node.
/// A balance is enough for a value of `max_send` with the fees of the tier, for two block times of the chain below.
#[utoipa::path(
    get,
    path = "/v1/{chain}/cost",
    operation_id = "getCost",
    tag = "Gas",
    params(ChainParam, CostQuery),
    responses(
        CommonErrors, UnknownChain, FeesUnavailable,
        (status = 200, description = "The cost.", body = CostBody,
            headers(("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(super) async fn get_cost(
    State(state): State<CostState>,
    ChainParam(chain): ChainParam,
    ValidQuery(query): ValidQuery<CostQuery>,
) -> Result<Response, Problem> {
    let order = query.order(chain.config())?;
    let (current, cost) = state.cost(&chain, &order)?;
    let mut response = Json(CostBody::new(&chain, &current, &order, &cost)).into_response();
    write_snapshot_headers(response.headers_mut(), &chain, &current);
    Ok(response)
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
        CommonErrors, PayloadTooLarge, UnsupportedMediaType, UnknownChain, FeesUnavailable,
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
    let order = parse_request(&body, chain.config())?;
    let (current, cost) = state.cost(&chain, &order)?;
    let mut response = Json(CostBody::new(&chain, &current, &order, &cost)).into_response();
    write_uncached_snapshot_headers(response.headers_mut(), &chain, &current);
    Ok(response)
}

impl CostState {
    fn cost(
        &self,
        chain: &StoredChain,
        order: &Order,
    ) -> Result<(ServableSnapshot, Cost), Problem> {
        let current =
            chain.servable_snapshot().map_err(|reason| problems::unavailable(chain, reason))?;
        let market = &current.snapshot.market;
        let has_blobs = chain.config().data_fee == Some(DataFeeKind::None);
        if order.blobs > 0 && !(has_blobs && market.next_blob_base_fee.is_some()) {
            return Err(invalid_parameter("blobs", "must be 0: the fee of blobs is not known"));
        }
        let cost = Cost::new(order, market, self.fees.current(chain));
        Ok((current, cost))
    }
}

impl CostQuery {
    fn order(&self, chain: &Chain) -> Result<Order, Problem> {
        let bytes = self.bytes.unwrap_or(TRANSFER_BYTES);
        if !(1..=MAX_BYTES).contains(&bytes) {
            return Err(invalid_parameter("bytes", format_args!("must be from 1 to {MAX_BYTES}")));
        }
        let blobs = self.blobs.unwrap_or_default();
        if blobs > MAX_BLOBS {
            return Err(invalid_parameter("blobs", format_args!("must be from 0 to {MAX_BLOBS}")));
        }
        Ok(Order {
            gas: valid_gas(self.gas, chain)?,
            size: Size::Bytes(bytes),
            balance: self.balance.map(|Wei(balance)| balance),
            blobs,
        })
    }
}

fn valid_gas(gas: u64, chain: &Chain) -> Result<u64, Problem> {
    let most = chain.max_transaction_gas.map_or(u64::MAX, std::num::NonZeroU64::get);
    if (MIN_GAS..=most).contains(&gas) {
        return Ok(gas);
    }
    let requirement = match chain.max_transaction_gas {
        Some(most) => format!("must be from {MIN_GAS} to {most}"),
        None => format!("must be at least {MIN_GAS}"),
    };
    Err(invalid_parameter("gas", requirement))
}

/// Parses the body of a request about a transaction of `chain`.
fn parse_request(body: &[u8], chain: &Chain) -> Result<Order, Problem> {
    let request: CostRequest<'_> = serde_json::from_slice(body).map_err(|error| {
        Problem::new(ProblemCode::InvalidParameter, format!("the body is not as expected: {error}"))
    })?;
    let digits = |name: &str, value: &RawValue| {
        let text: Option<String> = serde_json::from_str(value.get()).ok();
        let number = text.and_then(|text| crate::config::units::parse_digits::<u128>(&text));
        let requirement = "must be a string of decimal digits below 2^128";
        number.ok_or_else(|| invalid_parameter(name, requirement))
    };
    let gas = u64::try_from(digits("gas", request.gas)?);
    let gas = gas.map_err(|_| invalid_parameter("gas", "must be below 2^64"))?;
    let balance = request.balance.map(|balance| digits("balance", balance)).transpose()?;
    let bytes = parse_transaction(request.transaction)?;
    let parsed = Transaction::parse(&bytes)
        .map_err(|requirement| invalid_parameter("transaction", requirement))?;
    if parsed.chain_id.is_some_and(|id| id != chain.chain_id) {
        let requirement = format!("must be of chain id {}", chain.chain_id);
        return Err(invalid_parameter("transaction", requirement));
    }
    if parsed.blobs > MAX_BLOBS {
        let requirement = format!("must have at most {MAX_BLOBS} blobs");
        return Err(invalid_parameter("transaction", requirement));
    }
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let fast_lz = fast_lz_length(&bytes);
    let size = if parsed.is_signed {
        Size::Compressed { bytes: length, fast_lz, is_exact: true }
    } else {
        Size::Compressed {
            bytes: length.saturating_add(SIGNATURE_BYTES),
            fast_lz: fast_lz.saturating_add(SIGNATURE_FAST_LZ),
            is_exact: false,
        }
    };
    Ok(Order { gas: valid_gas(gas, chain)?, size, balance, blobs: parsed.blobs })
}

/// Parses the bytes of a transaction.
fn parse_transaction(value: &RawValue) -> Result<Vec<u8>, Problem> {
    let requirement = "must be 0x and an even number of hex digits";
    let invalid = || invalid_parameter("transaction", requirement);
    let text: String = serde_json::from_str(value.get()).map_err(|_| invalid())?;
    let digits = text.strip_prefix("0x").ok_or_else(invalid)?;
    let bytes = hex::decode(digits).map_err(|_| invalid())?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BYTES {
        let requirement = format!("must have at most {MAX_BYTES} bytes");
        return Err(invalid_parameter("transaction", requirement));
    }
    Ok(bytes)
}

impl<'a> CostBody<'a> {
    fn new(chain: &'a StoredChain, current: &ServableSnapshot, order: &Order, cost: &Cost) -> Self {
        let config = chain.config();
        let old = cost.is_data_fee_old.then_some(DataFeeReason::Old);
        let [low, medium, high] = cost.tiers.map(TierCostBody::from);
        Self {
            chain_name: config.name(),
            chain_id: config.chain_id,
            currency: config.currency.as_deref(),
            newest_block: current.snapshot.newest_block,
            gas: Wei(order.gas.into()),
            bytes: order.size.bytes(),
            data_fee: cost.data_fee.as_ref().ok().map(DataFeeBody::new),
            blob_fee: cost.blob_fee.map(|fee| ExpectedAndMax::new(fee.expected, fee.max)),
            tiers: CostTiers { low, medium, high },
            data_fee_reason: cost.data_fee.err().or(old),
            usd: None,
        }
    }
}

impl DataFeeBody {
    fn new(fee: &DataFeeAmounts) -> Self {
        Self {
            kind: fee.kind,
            exact: fee.is_exact,
            fee: Wei(fee.fee),
            max: Wei(fee.max),
            operator_fee: ExpectedAndMax::new(fee.operator_fee, fee.operator_fee),
            l1_block: fee.read.map(|read| read.attributes.l1_block),
            observed_at: fee.read.as_ref().map(ReadAttributes::observed_at),
        }
    }
}

impl ExpectedAndMax {
    fn new(expected: u128, max: u128) -> Self {
        Self { expected: Wei(expected), max: Wei(max) }
    }
}

impl From<TierCost> for TierCostBody {
    fn from(cost: TierCost) -> Self {
        Self {
            max_priority_fee_per_gas: Wei(cost.tier.max_priority_fee_per_gas),
            max_fee_per_gas: Wei(cost.tier.max_fee_per_gas),
            expected: cost.expected.map(Wei),
            max: cost.max.map(Wei),
            max_send: cost.max_send.map(Wei),
        }
    }
}

/// How much gas is compared.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CheapestQuery {
    /// Gas of the transaction.
    #[param(value_type = Option<Wei>, nullable = false, example = "21000")]
    gas: Option<u64>,
}

/// Cost of some gas on a chain.
#[derive(Serialize, ToSchema)]
struct CheapestChain<'a> {
    /// Key of the chain.
    chain: &'a str,
    chain_name: &'a str,
    /// With the medium fees, in wei of the chain's coin.
    expected: Wei,
    /// Reserved for the amount in dollars.
    #[schema(required)]
    usd: Option<String>,
    stale: bool,
}

/// The chains by what some gas costs now, the cheapest first
///
/// Chains whose cost is not known are left out. Coins of different chains are compared by their numbers.
#[utoipa::path(
    get,
    path = "/v1/cheapest",
    operation_id = "listCheapestChains",
    tag = "Gas",
    params(CheapestQuery),
    responses(
        CommonErrors,
        (status = 200, description = "The chains.", body = Vec<CheapestChain>,
            headers(("Cache-Control"), ("Age"), ("X-Stale"))),
    )
)]
pub(super) async fn list_cheapest(
    State(state): State<CostState>,
    ValidQuery(query): ValidQuery<CheapestQuery>,
    client: ClientHandle,
) -> Result<Response, Problem> {
    const CHAINS_PER_REQUEST: usize = 16;
    charge_for_list(&client, state.store.chains().len(), CHAINS_PER_REQUEST)?;
    let gas = query.gas.unwrap_or(MIN_GAS);
    if gas < MIN_GAS {
        return Err(invalid_parameter("gas", format_args!("must be at least {MIN_GAS}")));
    }
    let size = Size::Bytes(TRANSFER_BYTES);
    let order = Order { gas, size, balance: None, blobs: 0 };
    let available = state.store.servable_snapshots();
    let costs = available.iter().filter_map(|(chain, current)| {
        let market: &Market = &current.snapshot.market;
        let [_, medium, _] = Cost::new(&order, market, state.fees.current(chain)).tiers;
        let config = chain.config();
        Some(CheapestChain {
            chain: &config.key,
            chain_name: config.name(),
            expected: Wei(medium.expected?),
            usd: None,
            stale: current.is_stale(),
        })
    });
    let mut costs: Vec<_> = costs.collect();
    costs.sort_by_key(|cost| cost.expected.0);
    let mut response = Json(costs).into_response();
    let headers = response.headers_mut();
    write_list_headers(headers, available.iter().map(|(chain, current)| (*chain, current)));
    Ok(response)
}

/// Writes the cost of a transfer on the example's chain.
pub(super) fn write_examples(document: &mut OpenApi, example: &ExampleChain) {
    let (chain, current) = (example.chain, example.current);
    let order = Order {
        gas: MIN_GAS,
        size: Size::Bytes(TRANSFER_BYTES),
        balance: Some(1_000_000_000_000_000_000),
        blobs: 0,
    };
    let market = &current.snapshot.market;
    let cost = Cost::new(&order, market, Ok(super::data_fee::DataFee::Zero(DataFeeKind::None)));
    let body = json!(CostBody::new(chain, current, &order, &cost));
    set_response_example(document, COST_PATH, body);
    let request = json!({ "gas": "21000", "transaction": "0xc6808080808080" });
    set_request_example(document, COST_PATH, request);
    let config = chain.config();
    let [_, medium, _] = cost.tiers;
    let cheapest = json!([CheapestChain {
        chain: &config.key,
        chain_name: config.name(),
        expected: Wei(medium.expected.unwrap_or_default()),
        usd: None,
        stale: false,
    }]);
    set_response_example(document, "/v1/cheapest", cheapest);
}
