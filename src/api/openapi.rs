//! The OpenAPI document of the public routes, and where it is served.
//!
//! It is made from the handlers and the types of their bodies, for one configuration: it has the chains that
//! there are, the base path, and no route that is switched off.

mod configured;
mod examples;
mod upstreams;
mod verification;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::{Components, InfoBuilder, License, RefOr, Server, Tag};

use super::described::{
    Document, IfNoneMatch, OfEveryRoute, PageNotModified, headers, problems, schemas, tag,
};
use super::{chains, chart, delegation, health, history, market, pages, rpc, stream, suggestion};
use crate::config::{Config, DelegationSource};
use crate::etag;

const TAGS: [(&str, &str); 6] = [
    (
        tag::GAS,
        "What to pay for gas, and what stands behind it. All amounts are wei, as decimal strings.",
    ),
    (tag::RPC, "Reads of chain state, passed on to the chain's nodes."),
    (tag::DELEGATION, "Who may act for a vault, and transactions that change it."),
    (tag::VERIFICATION, verification::ABOUT),
    (tag::PAGES, "What people look at in a browser. What these pages load is not listed."),
    (
        tag::OPERATION,
        "For orchestrators and for tools. Prometheus reads `/metrics`, which is on the admin listener alone.",
    ),
];

const ABOUT: &str = "Tells wallets and dApps what to pay for gas on EVM networks.

Every route that answers GET answers HEAD too. Any web page may read the answers unless `cors.allowed_origins` \
names those that may (every answer has `Vary: origin` then). Every answer has an `X-Request-Id`, which is the request's where it has a plain one. Errors \
are `application/problem+json` (RFC 9457) with a `code` to switch on.";

#[derive(OpenApi)]
#[openapi(
    paths(
        suggestion::of_chain,
        suggestion::all,
        stream::of_chain,
        stream::of_all,
        market::of_chain,
        history::of_chain,
        chart::of_chain,
        chains::list,
        rpc::call,
        pages::dashboard,
        pages::docs,
        health::live,
        health::ready,
        serve,
    ),
    components(schemas(
        crate::wire::SuggestionBody,
        chains::Entry,
        market::FeeMarket,
        history::FeeHistory,
        super::problem::Body,
        schemas::RpcCall,
        schemas::RpcOutcome,
        schemas::RpcRequest,
        schemas::SuggestionEvent,
    ))
)]
struct Always;

#[derive(OpenApi)]
#[openapi(
    paths(
        delegation::list,
        delegation::check_all,
        delegation::check_contract,
        delegation::check_erc721,
        delegation::check_erc20,
        delegation::check_erc1155,
        delegation::transaction::prepare,
    ),
    components(schemas(
        crate::registry::Delegation,
        delegation::unsigned::Transaction,
        schemas::Address,
        schemas::Rights,
        schemas::Uint256,
        schemas::TransactionRequest,
    ))
)]
struct OfDelegations;

#[derive(OpenApi)]
#[openapi(paths(pages::verify))]
struct OfVerification;

/// The document of what the public listener answers with `config`.
pub(crate) fn document(config: &Config) -> utoipa::openapi::OpenApi {
    let mut document = Always::openapi();
    if config.delegation.source != DelegationSource::Off {
        document.merge(OfDelegations::openapi());
    }
    if config.verification.url.is_some() {
        document.paths.paths.extend(verification::paths());
        document.merge(OfVerification::openapi());
    }
    document.info = InfoBuilder::new()
        .title(env!("CARGO_PKG_NAME"))
        .description(Some(ABOUT))
        .version(env!("CARGO_PKG_VERSION"))
        .license(Some(License::new(env!("CARGO_PKG_LICENSE"))))
        .build();
    let url = match config.server.base_path.as_str() {
        "" => "/",
        path => path,
    };
    document.servers = Some(vec![Server::new(url)]);
    let components = document.components.get_or_insert_with(Components::new);
    components.headers = headers::all();
    components.responses = problems::all();
    let source = config.delegation.source;
    let asks_api = matches!(source, DelegationSource::Api | DelegationSource::ApiThenChain);
    if asks_api || config.verification.url.is_some() {
        components.responses.extend(upstreams::all());
    }
    if asks_api {
        let look_ups = document.paths.paths.iter_mut();
        let look_ups = look_ups.filter(|(path, _)| path.starts_with("/registry/"));
        look_ups.filter_map(|(_, item)| item.get.as_mut()).for_each(upstreams::admit_api);
    }
    document.tags = Some(tags(&mut document));
    let call = document.paths.paths.get_mut("/rpc/{chain}").and_then(|item| item.post.as_mut());
    if let Some(RefOr::T(body)) = call.and_then(|call| call.request_body.as_mut()) {
        // Its absence is answered like anything else that is no call.
        body.required = None;
    }
    configured::share(&mut document, config);
    examples::write(&mut document, config);
    drop_unnamed(&mut document);
    document
}

/// Leaves out what no operation of this configuration refers to.
fn drop_unnamed(document: &mut utoipa::openapi::OpenApi) {
    let Some(mut components) = document.components.take() else { return };
    let named = |paths: &str, kind: &str, name: &str| {
        paths.contains(&format!("\"#/components/{kind}/{name}\""))
    };
    let paths = serde_json::to_string(&document.paths).expect("paths of strings serialise");
    components.responses.retain(|name, _| named(&paths, "responses", name));
    let answers = serde_json::to_string(&components.responses).expect("they serialise, too");
    components.headers.retain(|name, _| named(&(paths.clone() + &answers), "headers", name));
    document.components = Some(components);
}

/// Those that an operation has.
fn tags(document: &mut utoipa::openapi::OpenApi) -> Vec<Tag> {
    let used = operations(document).filter_map(|operation| operation.tags.clone()).flatten();
    let used: Vec<String> = used.collect();
    let tag = |(name, about)| {
        let mut tag = Tag::new(name);
        tag.description = Some(String::from(about));
        tag
    };
    TAGS.into_iter().filter(|(name, _)| used.iter().any(|tag| tag == name)).map(tag).collect()
}

/// All operations of the document.
fn operations(document: &mut utoipa::openapi::OpenApi) -> impl Iterator<Item = &mut Operation> {
    let items = document.paths.paths.values_mut();
    items.flat_map(|PathItem { get, post, .. }| [get, post].into_iter().flatten())
}

/// Answers with the document.
pub(super) fn route(document: &utoipa::openapi::OpenApi) -> MethodRouter {
    let body = Bytes::from(document.to_json().expect("a document of strings serialises"));
    let tag = etag::of(&body);
    get(move |request: HeaderMap| {
        let (body, tag) = (body.clone(), tag.clone());
        async move { serve(body, &tag, &request) }
    })
}

/// This document
///
/// It has the chains that are configured, and no route that is switched off.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getOpenApi",
    tag = tag::OPERATION,
    params(IfNoneMatch),
    responses(OfEveryRoute, Document, PageNotModified)
)]
fn serve(body: Bytes, tag: &HeaderValue, request: &HeaderMap) -> Response {
    let mut response = if etag::is_named(tag, request) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(CONTENT_TYPE, "application/json")], body).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, tag.clone());
    // Asked for each time and sent when it has changed: a new configuration shows at once.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
