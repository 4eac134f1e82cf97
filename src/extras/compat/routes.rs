//! The suggestion in the formats of other gas services, each at the path that its clients know.
//!
//! These routes accept any query parameter, because clients send some that mean nothing here, such as `apikey`.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{
    BlockPrices, Document, EtherscanError, FlatPrices, Format, Formats, GasEstimate, GasOracle,
    GasPrices, GasStation, ProxyResult, SuggestedGasFees, SupportedChain,
};
use crate::api::freshness::revalidated_json;
use crate::api::openapi::components::{
    ApiKeyPath, BlocknativeQuery, ChainIdParam, CommonErrors, EtherscanQuery, FeesUnavailable,
    IfNoneMatch, NotModified, PageNotModified, UnknownChain,
};
use crate::api::route_table::decoded;
use crate::api::suggestion;
use crate::http::extractors::{ChainParam, find_chain};
use crate::http::parameters::invalid_parameter;
use crate::http::problem::{Problem, ProblemCode};
use crate::store::{ChainStore, StoredChain};

/// Tag of these routes in the OpenAPI document.
pub(crate) const TAG: &str = "Drop-in formats";

const METAMASK_FEES: &str = "/networks/{chain_id}/suggestedGasFees";
const METAMASK_FEES_WITH_KEY: &str = "/v3/{key}/networks/{chain_id}/suggestedGasFees";
const METAMASK_PRICES: &str = "/networks/{chain_id}/gasPrices";

/// Returns the routes of these formats.
pub(crate) fn routes(formats: Formats) -> OpenApiRouter<ChainStore> {
    let mut all = OpenApiRouter::new();
    let mut add = |format, routes: OpenApiRouter<ChainStore>| {
        if formats.has(format) {
            all = std::mem::take(&mut all).merge(routes);
        }
    };
    add(
        Format::Metamask,
        OpenApiRouter::new()
            .routes(routes!(metamask_fees))
            .routes(routes!(metamask_fees_with_key))
            .routes(routes!(metamask_prices)),
    );
    add(Format::Etherscan, OpenApiRouter::new().routes(routes!(etherscan)));
    add(Format::Safe, OpenApiRouter::new().routes(routes!(safe)));
    add(
        Format::Blocknative,
        OpenApiRouter::new()
            .routes(routes!(blocknative_prices))
            .routes(routes!(blocknative_chains)),
    );
    add(Format::Rrelayer, OpenApiRouter::new().routes(routes!(rrelayer)));
    add(Format::Polygon, OpenApiRouter::new().routes(routes!(polygon)));
    add(Format::Flat, OpenApiRouter::new().routes(routes!(flat)));
    all
}

/// Returns the routes that also exist at the root if a base path is configured: one of MetaMask's readers, Komodo,
/// replaces the whole path of its URL.
pub(crate) fn root_routes(formats: Formats) -> Router<ChainStore> {
    if !formats.has(Format::Metamask) {
        return Router::new();
    }
    Router::new()
        .route(METAMASK_FEES, get(metamask_fees))
        .route(METAMASK_FEES_WITH_KEY, get(metamask_fees_with_key))
        .route(METAMASK_PRICES, get(metamask_prices))
}

/// Builds the response with a prepared document.
fn respond(chain: &StoredChain, document: Document) -> Result<Response, Problem> {
    let current =
        chain.servable_snapshot().map_err(|reason| Problem::unavailable(chain, reason))?;
    let prepared = current.snapshot.documents.get(document);
    let (json, etag) = prepared.ok_or_else(|| Problem::without_rewards(chain))?;
    let headers = suggestion::headers_of(chain, &current, &etag);
    Ok((headers, json).into_response())
}

/// Suggested fees in MetaMask's format
///
/// Also at the root if a base path is configured.
#[utoipa::path(
    get,
    path = METAMASK_FEES,
    operation_id = "getMetamaskFees",
    tag = TAG,
    params(ChainIdParam, IfNoneMatch),
    responses(
        CommonErrors, NotModified, UnknownChain, FeesUnavailable,
        (status = 200, description = "The fees.", body = SuggestedGasFees,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn metamask_fees(ChainParam(chain): ChainParam) -> Result<Response, Problem> {
    respond(&chain, Document::MetamaskFees)
}

/// Suggested fees in MetaMask's format, with an API key in the path
///
/// The key is ignored. Also at the root if a base path is configured.
#[utoipa::path(
    get,
    path = METAMASK_FEES_WITH_KEY,
    operation_id = "getMetamaskFeesWithKey",
    tag = TAG,
    params(ApiKeyPath, ChainIdParam, IfNoneMatch),
    responses(
        CommonErrors, NotModified, UnknownChain, FeesUnavailable,
        (status = 200, description = "The fees.", body = SuggestedGasFees,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn metamask_fees_with_key(
    State(store): State<ChainStore>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, Problem> {
    let id = path.map_or_else(|_| String::new(), |Path((_, id))| id);
    let chain = find_chain(&store, &id)?;
    respond(chain, Document::MetamaskFees)
}

/// Gas prices in MetaMask's format, for networks without EIP-1559
///
/// Also at the root if a base path is configured.
#[utoipa::path(
    get,
    path = METAMASK_PRICES,
    operation_id = "getMetamaskPrices",
    tag = TAG,
    params(ChainIdParam, IfNoneMatch),
    responses(
        CommonErrors, NotModified, UnknownChain, FeesUnavailable,
        (status = 200, description = "The prices.", body = GasPrices,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn metamask_prices(ChainParam(chain): ChainParam) -> Result<Response, Problem> {
    respond(&chain, Document::MetamaskPrices)
}

#[derive(utoipa::ToSchema)]
#[schema(as = EtherscanResponse)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the derived description is used")]
enum EtherscanResponse {
    Oracle(GasOracle),
    Proxy(ProxyResult),
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
    params(EtherscanQuery, IfNoneMatch),
    responses(
        CommonErrors, NotModified,
        (status = 400, description = "A parameter is given twice.", body = EtherscanError),
        (status = 404, description = "Unknown chain, module or action.", body = EtherscanError),
        (status = 503, description = "No data for the chain, or only data that is too old to serve.",
            body = EtherscanError, headers(("Retry-After"))),
        (status = 200, description = "The oracle's or the proxy's answer.", body = EtherscanResponse,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn etherscan(State(store): State<ChainStore>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let response = etherscan_document(&query).and_then(|document| {
        let id = parameter(&query, "chainid")?;
        respond(chain_or_lowest(&store, id)?, document)
    });
    response.unwrap_or_else(|problem| etherscan_error(&problem))
}

/// Returns the document that the module, the action and the tag of the query name.
fn etherscan_document(query: &str) -> Result<Document, Problem> {
    let value = |name| Ok::<_, Problem>(parameter(query, name)?.unwrap_or_default());
    let call = [value("module")?, value("action")?, value("tag")?];
    match call.each_ref().map(String::as_str) {
        ["gastracker", "gasoracle", _] => Ok(Document::EtherscanOracle),
        ["proxy", "eth_gasPrice", _] => Ok(Document::EtherscanGasPrice),
        ["proxy", "eth_getBlockByNumber", "latest"] => Ok(Document::EtherscanBlock),
        _ => {
            let detail = "supported are module=gastracker with action=gasoracle, and \
                          module=proxy with action=eth_gasPrice or \
                          action=eth_getBlockByNumber&tag=latest";
            Err(Problem::new(ProblemCode::NotFound, detail))
        }
    }
}

/// Returns the response with Etherscan's error body.
fn etherscan_error(problem: &Problem) -> Response {
    let body = Json(EtherscanError::new(problem.detail())).into_response();
    problem.with_body(body)
}

/// High tier in Etherscan's format, for Safe
///
/// Safe computes from it exactly the fees of the high tier.
#[utoipa::path(
    get,
    path = "/compat/safe/{chain_id}",
    operation_id = "getSafeOracle",
    tag = TAG,
    params(ChainIdParam, IfNoneMatch),
    responses(
        CommonErrors, NotModified,
        (status = 404, description = "Unknown chain.", body = EtherscanError),
        (status = 503, description = "No data for the chain, or only data that is too old to serve.",
            body = EtherscanError, headers(("Retry-After"))),
        (status = 200, description = "The oracle's answer.", body = GasOracle,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn safe(chain: Result<ChainParam, Problem>) -> Response {
    let response = chain.and_then(|ChainParam(chain)| respond(&chain, Document::Safe));
    response.unwrap_or_else(|problem| etherscan_error(&problem))
}

/// Prices of the next block in Blocknative's format
///
/// Always the three tiers, whatever levels the request names.
#[utoipa::path(
    get,
    path = "/gasprices/blockprices",
    operation_id = "getBlocknativePrices",
    tag = TAG,
    params(BlocknativeQuery, IfNoneMatch),
    responses(
        CommonErrors, NotModified, UnknownChain, FeesUnavailable,
        (status = 200, description = "The prices.", body = BlockPrices,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn blocknative_prices(
    State(store): State<ChainStore>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = query.unwrap_or_default();
    let id = parameter(&query, "chainid")?;
    for name in ["system", "network"] {
        if id.is_none() && parameter(&query, name)?.is_some() {
            return Err(invalid_parameter(name, "names no chain here; use `chainid`"));
        }
    }
    respond(chain_or_lowest(&store, id)?, Document::Blocknative)
}

/// Configured chains in Blocknative's format
#[utoipa::path(
    get,
    path = "/chains",
    operation_id = "getBlocknativeChains",
    tag = TAG,
    params(IfNoneMatch),
    responses(
        CommonErrors, PageNotModified,
        (status = 200, description = "The chains, in ascending order of chain id.",
            body = Vec<SupportedChain>, headers(("ETag"), ("Cache-Control"))),
    )
)]
async fn blocknative_chains(State(store): State<ChainStore>) -> Response {
    let chains = store.chains().iter().map(|chain| SupportedChain::new(chain.config()));
    revalidated_json(&chains.collect::<Vec<_>>())
}

/// Fees by speed in the format of rrelayer's custom gas provider
#[utoipa::path(
    get,
    path = "/compat/rrelayer/{chain_id}",
    operation_id = "getRrelayerFees",
    tag = TAG,
    params(ChainIdParam, IfNoneMatch),
    responses(
        CommonErrors, NotModified, UnknownChain, FeesUnavailable,
        (status = 200, description = "The fees.", body = GasEstimate,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn rrelayer(ChainParam(chain): ChainParam) -> Result<Response, Problem> {
    respond(&chain, Document::Rrelayer)
}

/// Fees by speed in the format of Polygon's gas station
#[utoipa::path(
    get,
    path = "/compat/polygon/{chain_id}/v2",
    operation_id = "getPolygonFees",
    tag = TAG,
    params(ChainIdParam, IfNoneMatch),
    responses(
        CommonErrors, NotModified, UnknownChain, FeesUnavailable,
        (status = 200, description = "The fees.", body = GasStation,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn polygon(ChainParam(chain): ChainParam) -> Result<Response, Problem> {
    respond(&chain, Document::Polygon)
}

/// Prices by speed in one object
#[utoipa::path(
    get,
    path = "/compat/flat/{chain_id}",
    operation_id = "getFlatPrices",
    tag = TAG,
    params(ChainIdParam, IfNoneMatch),
    responses(
        CommonErrors, NotModified, UnknownChain, FeesUnavailable,
        (status = 200, description = "The prices.", body = FlatPrices,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn flat(ChainParam(chain): ChainParam) -> Result<Response, Problem> {
    respond(&chain, Document::Flat)
}

/// Returns the chain with this id, or the one with the lowest id.
fn chain_or_lowest(store: &ChainStore, id: Option<String>) -> Result<&StoredChain, Problem> {
    match (id, store.chains()) {
        (None, [lowest, ..]) => Ok(lowest),
        (id, _) => find_chain(store, &id.unwrap_or_default()),
    }
}

/// Returns the value of this parameter. Its name may be written in any case, and with underscores. All other parameters are
/// ignored, whatever they contain.
fn parameter(query: &str, name: &str) -> Result<Option<String>, Problem> {
    let is_name = |text: &str| decoded(text).replace('_', "").eq_ignore_ascii_case(name);
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut values = pairs.filter(|(known, _)| is_name(known)).map(|(_, value)| decoded(value));
    let value = values.next();
    match values.next() {
        Some(_) => Err(invalid_parameter(name, "must be given once")),
        None => Ok(value),
    }
}
