//! The OpenAPI document of the public routes, and the route that serves it.
//!
//! It is built from the handlers and their body types for one configuration: it lists the configured chains, has the
//! base path, and omits disabled routes.

mod configured_parameters;
mod examples;
mod upstream_responses;
mod verification;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::{Components, InfoBuilder, License, RefOr, Server, Tag};

use super::openapi_components::{
    CommonErrors, IfNoneMatch, OpenApiDocument, PageNotModified, headers, problems, schemas, tag,
};
use super::{
    chains, delegation, fee_history, fee_history_chart, fee_market, health, pages, rpc, stream,
    suggestion,
};
use crate::config::{Config, DelegationSource};
use crate::etag;

const TAGS: [(&str, &str); 6] = [
    (
        tag::GAS,
        "Gas suggestions and the market data behind them. All amounts are wei, as decimal strings.",
    ),
    (tag::RPC, "Reads of chain state, forwarded to the chain's nodes."),
    (tag::DELEGATION, "Delegations of a vault, and transactions that change them."),
    (tag::VERIFICATION, verification::DESCRIPTION),
    (tag::PAGES, "Web pages for people. The resources that these pages load are not listed."),
    (
        tag::OPERATION,
        "Health checks and the API description. `/metrics` is on the admin listener only.",
    ),
];

const DESCRIPTION: &str = "Gas price suggestions for wallets and dApps on EVM networks.

Every GET route also supports HEAD. Any web page may read the responses unless `cors.allowed_origins` restricts \
the origins (then every response has `Vary: origin`). Every response has an `X-Request-Id`: the request's own if it \
is valid. Errors are `application/problem+json` (RFC 9457) with a `code` to switch on.";

#[derive(OpenApi)]
#[openapi(
    paths(
        suggestion::get_suggestion,
        suggestion::list_suggestions,
        stream::stream_suggestion,
        stream::stream_all_suggestions,
        fee_market::get_fee_market,
        fee_history::get_fee_history,
        fee_history_chart::get_chart,
        chains::list_chains,
        rpc::call_rpc,
        pages::dashboard,
        pages::docs,
        health::get_liveness,
        health::get_readiness,
        document_response,
    ),
    components(schemas(
        crate::wire::SuggestionBody,
        chains::ChainSummary,
        fee_market::FeeMarketBody,
        fee_history::FeeHistoryBody,
        super::problem::ProblemBody,
        schemas::RpcCall,
        schemas::RpcOutcome,
        schemas::RpcRequest,
        schemas::SuggestionEvent,
    ))
)]
struct CommonDocument;

#[derive(OpenApi)]
#[openapi(
    paths(
        delegation::list_delegations,
        delegation::check_all,
        delegation::check_contract,
        delegation::check_erc721,
        delegation::check_erc20,
        delegation::check_erc1155,
        delegation::transaction::prepare_transaction,
    ),
    components(schemas(
        crate::wire::Delegation,
        delegation::unsigned_transaction::UnsignedTransaction,
        schemas::Address,
        schemas::Rights,
        schemas::Uint256,
        schemas::TransactionRequest,
    ))
)]
struct DelegationDocument;

#[derive(OpenApi)]
#[openapi(paths(pages::verification_form))]
struct VerificationDocument;

/// Builds the document of the public listener with `config`.
pub(crate) fn document(config: &Config) -> utoipa::openapi::OpenApi {
    let mut document = CommonDocument::openapi();
    if config.delegation.source != DelegationSource::Off {
        document.merge(DelegationDocument::openapi());
    }
    if config.verification.url.is_some() {
        document.paths.paths.extend(verification::paths());
        document.merge(VerificationDocument::openapi());
    }
    document.info = InfoBuilder::new()
        .title(env!("CARGO_PKG_NAME"))
        .description(Some(DESCRIPTION))
        .version(env!("CARGO_PKG_VERSION"))
        .license(Some(License::new(env!("CARGO_PKG_LICENSE"))))
        .build();
    let url = match config.server.base_path.as_str() {
        "" => "/",
        path => path,
    };
    document.servers = Some(vec![Server::new(url)]);
    let components = document.components.get_or_insert_with(Components::new);
    components.headers = headers::components();
    components.responses = problems::all();
    let source = config.delegation.source;
    let uses_api = matches!(source, DelegationSource::Api | DelegationSource::ApiThenChain);
    if uses_api || config.verification.url.is_some() {
        components.responses.extend(upstream_responses::components());
    }
    if uses_api {
        let path_items = document.paths.paths.iter_mut();
        let lookups = path_items.filter(|(path, _)| path.starts_with("/registry/"));
        lookups
            .filter_map(|(_, item)| item.get.as_mut())
            .for_each(upstream_responses::allow_upstream_responses);
    }
    document.tags = Some(used_tags(&mut document));
    let rpc_operation =
        document.paths.paths.get_mut("/rpc/{chain}").and_then(|item| item.post.as_mut());
    if let Some(RefOr::T(body)) = rpc_operation.and_then(|call| call.request_body.as_mut()) {
        // A missing body gets the same error as any other invalid one.
        body.required = None;
    }
    configured_parameters::deduplicate_parameters(&mut document, config);
    examples::write_examples(&mut document, config);
    prune_unused(&mut document);
    document
}

/// Removes components that no operation of this configuration refers to.
fn prune_unused(document: &mut utoipa::openapi::OpenApi) {
    let Some(mut components) = document.components.take() else { return };
    let is_referenced = |paths: &str, kind: &str, name: &str| {
        paths.contains(&format!("\"#/components/{kind}/{name}\""))
    };
    let paths_json = serde_json::to_string(&document.paths).expect("paths of strings serialise");
    components.responses.retain(|name, _| is_referenced(&paths_json, "responses", name));
    let responses_json = serde_json::to_string(&components.responses).expect("they serialise, too");
    components
        .headers
        .retain(|name, _| is_referenced(&(paths_json.clone() + &responses_json), "headers", name));
    document.components = Some(components);
}

/// Returns the tags that operations have.
fn used_tags(document: &mut utoipa::openapi::OpenApi) -> Vec<Tag> {
    let used = operations(document).filter_map(|operation| operation.tags.clone()).flatten();
    let used: Vec<String> = used.collect();
    let tag = |(name, about)| {
        let mut tag = Tag::new(name);
        tag.description = Some(String::from(about));
        tag
    };
    TAGS.into_iter().filter(|(name, _)| used.iter().any(|tag| tag == name)).map(tag).collect()
}

/// Returns all operations of the document.
fn operations(document: &mut utoipa::openapi::OpenApi) -> impl Iterator<Item = &mut Operation> {
    let items = document.paths.paths.values_mut();
    items.flat_map(|PathItem { get, post, .. }| [get, post].into_iter().flatten())
}

/// Serves the document.
pub(super) fn document_route(document: &utoipa::openapi::OpenApi) -> MethodRouter {
    let body = Bytes::from(document.to_json().expect("a document of strings serialises"));
    let tag = etag::for_body(&body);
    get(move |request_headers: HeaderMap| {
        let (body, tag) = (body.clone(), tag.clone());
        async move { document_response(body, &tag, &request_headers) }
    })
}

/// This document
///
/// It lists the configured chains and omits disabled routes.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getOpenApi",
    tag = tag::OPERATION,
    params(IfNoneMatch),
    responses(CommonErrors, OpenApiDocument, PageNotModified)
)]
fn document_response(body: Bytes, tag: &HeaderValue, request: &HeaderMap) -> Response {
    let mut response = if etag::matches(tag, request) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(CONTENT_TYPE, "application/json")], body).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, tag.clone());
    // Clients revalidate every time, so a new configuration shows at once.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
