//! Etherscan's gas oracle and the two calls of its proxy module that gas reporters use.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use super::content::DocumentContent;
use super::documents::{Document, Documents, json};
use super::gwei::Gwei;
use super::lenient_query::LenientQuery;
use super::openapi::{EtherscanAction, EtherscanModule};
use super::{Format, TAG};
use crate::api::routes::routes;
use crate::fees::Tiers;
use crate::http::problem::{PassThroughError, Problem, ProblemCode};

/// Etherscan's gas oracle, and its `eth_gasPrice` by GET.
pub(crate) const FORMAT: Format = Format {
    // The second path is that of the second version of Etherscan's API.
    others: || OpenApiRouter::new().routes(routes!(etherscan)).route("/v2/api", get(etherscan)),
    ..Format::new("etherscan")
};

pub(super) static ORACLE: Document =
    Document { name: "etherscan_oracle", render: |content| Some(json(&GasOracle::new(content))) };
pub(super) static GAS_PRICE: Document = Document {
    name: "etherscan_gas_price",
    render: |content| Some(json(&ProxyResult::gas_price(content))),
};
pub(super) static BLOCK: Document = Document {
    name: "etherscan_block",
    render: |content| Some(json(&ProxyResult::newest_block(content))),
};

/// Response of the gas oracle.
#[derive(Serialize, ToSchema)]
#[schema(as = EtherscanOracle)]
pub(crate) struct GasOracle {
    /// `1`: success.
    status: &'static str,
    message: &'static str,
    #[schema(inline)]
    result: OracleResult,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
struct OracleResult {
    /// Number of the newest block.
    last_block: String,
    safe_gas_price: Gwei,
    propose_gas_price: Gwei,
    fast_gas_price: Gwei,
    #[serde(rename = "suggestBaseFee")]
    suggest_base_fee: Gwei,
    /// Gas used divided by gas limit of the newest five blocks of which it is known, oldest first, between commas.
    #[serde(rename = "gasUsedRatio")]
    gas_used_ratio: String,
}

impl GasOracle {
    /// Etherscan's meaning: prices of one number, and the base fee of the next block.
    pub(crate) fn new(content: &DocumentContent) -> Self {
        Self::with_prices(content, content.prices.tiers, content.next_base_fee())
    }

    /// Safe's meaning. Safe offers `FastGasPrice` as max fee, and the difference from `suggestBaseFee` as tip. So that its
    /// transaction has the fees of the high tier, the prices are the max fees over the suggested base fee.
    pub(crate) fn for_safe(content: &DocumentContent) -> Self {
        let max_fees = content.tiers().map(|tier| tier.max_fee_per_gas);
        Self::with_prices(content, max_fees, content.market.suggestion.base_fee_per_gas)
    }

    fn with_prices(content: &DocumentContent, prices: Tiers<u128>, base_fee: u128) -> Self {
        const RATIOS: usize = 5;
        let known = content.blocks.iter().rev().filter_map(|block| block.gas_used_ratio);
        let mut ratios: Vec<_> = known.take(RATIOS).map(|ratio| ratio.to_string()).collect();
        ratios.reverse();
        let prices = prices.map(Gwei);
        Self {
            status: "1",
            message: "OK",
            result: OracleResult {
                last_block: content.newest_block.to_string(),
                safe_gas_price: prices.low,
                propose_gas_price: prices.medium,
                fast_gas_price: prices.high,
                suggest_base_fee: Gwei(base_fee),
                gas_used_ratio: ratios.join(","),
            },
        }
    }
}

/// Response of the proxy module: a JSON-RPC response with the id that Etherscan's has.
#[derive(Serialize, ToSchema)]
#[schema(as = EtherscanProxyResult)]
pub(crate) struct ProxyResult {
    jsonrpc: &'static str,
    id: u32,
    result: ProxyValue,
}

#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = EtherscanProxyValue)]
enum ProxyValue {
    /// Wei per gas as `0x` and hex digits.
    GasPrice(String),
    Block(NewestBlock),
}

/// The newest block, as far as the service knows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EtherscanBlock)]
struct NewestBlock {
    #[schema(pattern = "^0x(0|[1-9a-f][0-9a-f]*)$")]
    number: String,
    #[schema(pattern = "^0x(0|[1-9a-f][0-9a-f]*)$")]
    base_fee_per_gas: String,
}

impl ProxyResult {
    /// Answer to `eth_gasPrice`.
    pub(crate) fn gas_price(content: &DocumentContent) -> Self {
        let gas_price = format!("{:#x}", content.prices.tiers.medium);
        Self { jsonrpc: "2.0", id: 73, result: ProxyValue::GasPrice(gas_price) }
    }

    /// Answer to `eth_getBlockByNumber` with the tag `latest`.
    pub(crate) fn newest_block(content: &DocumentContent) -> Self {
        let block = NewestBlock {
            number: format!("{:#x}", content.newest_block),
            base_fee_per_gas: format!("{:#x}", content.newest_base_fee()),
        };
        Self { jsonrpc: "2.0", id: 1, result: ProxyValue::Block(block) }
    }
}

/// An error as Etherscan reports it.
#[derive(Serialize, ToSchema)]
#[schema(as = EtherscanError)]
pub(crate) struct ErrorBody<'a> {
    /// `0`: failure.
    status: &'static str,
    message: &'static str,
    /// Description of the error.
    result: &'a str,
}

#[derive(utoipa::ToSchema)]
#[schema(as = EtherscanResponse)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the derived description is used")]
enum EtherscanResponse {
    Oracle(GasOracle),
    Proxy(ProxyResult),
}

/// Parameters that Etherscan's clients send. Others are ignored.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EtherscanQuery {
    #[param(value_type = EtherscanModule, required = true, inline, example = "gastracker")]
    module: Option<String>,
    /// `gasoracle` of `gastracker`, the others of `proxy`.
    #[param(value_type = EtherscanAction, required = true, inline, example = "gasoracle")]
    action: Option<String>,
    /// The chain's id. Default: the lowest configured one.
    #[param(nullable = false)]
    chainid: Option<String>,
    /// The block of `eth_getBlockByNumber`: `latest`.
    #[param(nullable = false)]
    tag: Option<String>,
}

/// Gas oracle, gas price or newest block in Etherscan's format
///
/// `module=gastracker&action=gasoracle`, `module=proxy&action=eth_gasPrice` or
/// `module=proxy&action=eth_getBlockByNumber&tag=latest`. Errors have Etherscan's body with a status of 400, 404 or 503.
#[utoipa::path(
    get,
    path = "/api",
    operation_id = "getEtherscanGas",
    tag = TAG,
    params(EtherscanQuery),
    responses(
        (status = "default", description = "An error.", body = ErrorBody),
        (status = 200, description = "The oracle's or the proxy's answer.", body = EtherscanResponse,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn etherscan(
    State(documents): State<Documents>,
    query: Result<LenientQuery<EtherscanQuery>, Problem>,
) -> Response {
    let response = query.and_then(|LenientQuery(query)| {
        let document = etherscan_document(&query)?;
        documents.respond(documents.chain_or_lowest(query.chainid)?, document)
    });
    response.unwrap_or_else(|problem| etherscan_error(&problem))
}

/// Returns the document that the module, the action and the tag of the query name.
fn etherscan_document(query: &EtherscanQuery) -> Result<&'static Document, Problem> {
    let call = [&query.module, &query.action, &query.tag];
    match call.map(|value| value.as_deref().unwrap_or_default()) {
        ["gastracker", "gasoracle", _] => Ok(&ORACLE),
        ["proxy", "eth_gasPrice", _] => Ok(&GAS_PRICE),
        ["proxy", "eth_getBlockByNumber", "latest"] => Ok(&BLOCK),
        _ => {
            let detail = "supported are module=gastracker with action=gasoracle, and \
                          module=proxy with action=eth_gasPrice or \
                          action=eth_getBlockByNumber&tag=latest";
            Err(Problem::new(ProblemCode::NotFound, detail))
        }
    }
}

/// Returns the response with Etherscan's error body.
pub(super) fn etherscan_error(problem: &Problem) -> Response {
    let body = ErrorBody { status: "0", message: "NOTOK", result: &problem.detail };
    let mut response = (problem.code.status(), Json(body)).into_response();
    response.extensions_mut().insert(PassThroughError);
    problem.write_headers(response.headers_mut());
    response
}
