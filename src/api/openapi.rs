//! The OpenAPI document of the public routes, and the route that serves it.
//!
//! It is built from the handlers and their body types. It has the base path of the configuration, and omits disabled routes.

pub(crate) mod components;
pub(crate) mod examples;
pub(crate) mod schemas;
pub(crate) mod upstream_responses;

use std::collections::{BTreeMap, HashSet};

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::json;
use utoipa::IntoParams;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::{
    Components, ContentBuilder, Header, OpenApi, Ref, RefOr, Required, Response as ResponseObject,
    Schema, Server,
};

use super::public_routes::PublicRoutes;
use crate::config::Config;
use crate::http::address::AddressText;
use crate::http::problem::ProblemBody;
use crate::http::static_body::StaticBody;
use crate::store::etag;
use components::{CommonParameters, IfNoneMatch, PageNotModified, ResponseHeaders};
use schemas::schema_ref;

pub(crate) const PROBLEM: &str = "application/problem+json";

/// Headers of every response with `Age` and `X-Stale`.
const FRESHNESS_HEADERS: [&str; 3] = ["CDN-Cache-Control", "Last-Modified", "X-Doubt"];

const DESCRIPTION: &str = "Gas price suggestions for wallets and dApps on EVM networks.

Every GET route also supports HEAD. Any web page may read the responses unless `cors.allowed_origins` restricts \
the origins (then every response has `Vary: origin`). Every response has an `X-Request-Id`: the request's own if it \
is valid. Errors are `application/problem+json` (RFC 9457) with a `code` to switch on.";

/// Parts of the document that no route describes: the tags, and the schemas of errors and parameters.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(description = DESCRIPTION),
    tags(
        (name = "Gas", description = "Gas suggestions and the market data behind them. All amounts are wei, as decimal strings."),
        (name = "Operation", description = "Health checks and the API description. `/metrics` is on the admin listener only."),
    ),
    components(schemas(ProblemBody, AddressText))
)]
pub(super) struct SharedDescription;

/// Builds the document of the public listener. The routes of other rooms are `described`.
pub(crate) fn document(config: &Config, described: OpenApi, others: &PublicRoutes) -> OpenApi {
    let mut document = super::heart_routes().into_openapi();
    document.merge(super::probes().into_openapi());
    document.merge(described);
    for change in &others.document_changes {
        change(&mut document);
    }
    // Features come before it.
    if let Some(tags) = &mut document.tags {
        tags.sort_by_key(|tag| tag.name == "Operation");
    }
    let url = match config.server.base_path.as_str() {
        "" => "/",
        path => path,
    };
    document.servers = Some(vec![Server::new(url)]);
    // No route asks for credentials.
    document.security = Some(Vec::new());
    let mut components = document.components.take().unwrap_or_default();
    let headers = ResponseHeaders::into_params(|| None).into_iter().map(header);
    components.headers = headers.chain(others.headers.iter().cloned()).collect();
    add_market_members(&mut components, others);
    let mut used_tags = vec![];
    for (path, item) in &mut document.paths.paths {
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            used_tags.extend(operation.tags.iter().flatten().cloned());
            let parameters = operation.parameters.get_or_insert_default();
            parameters.extend(CommonParameters::into_params(|| None).into_iter().map(RefOr::T));
            complete_responses(operation);
            for change in &others.operation_changes {
                change(path, operation);
            }
            share_components(operation, &mut components);
        }
    }
    document.tags.iter_mut().for_each(|tags| tags.retain(|tag| used_tags.contains(&tag.name)));
    remove_unused(&document, &mut components, &others.kept_schemas);
    document.components = Some(components);
    examples::write_examples(&mut document, others);
    document
}

/// Adds the members of other rooms to the schema of the fee market.
fn add_market_members(components: &mut Components, others: &PublicRoutes) {
    for member in &others.market_members.0 {
        let mut referenced = Vec::new();
        (member.referenced)(&mut referenced);
        components.schemas.extend(referenced);
        let market = components.schemas.get_mut("FeeMarket").and_then(as_object);
        if let (Some(Schema::Object(market)), RefOr::T(Schema::Object(members))) =
            (market, (member.schema)())
        {
            market.properties.extend(members.properties);
            market.required.extend(members.required);
        }
    }
}

/// Converts a description of a response header. utoipa has no field for `required`.
pub(crate) fn header(parameter: Parameter) -> (String, RefOr<Header>) {
    let required = parameter.required == Required::True;
    let example = json!(parameter).get("example").cloned();
    let header = HeaderBuilder::new()
        .description(parameter.description)
        .schema(parameter.schema)
        .example(example)
        .extensions(required.then(|| Extensions::from_iter([("required", true)])));
    (parameter.name, header.build().into())
}

/// Adds the response of errors, and to all responses what they have in common. The routes name only the headers that differ.
fn complete_responses(operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    let new = || ResponseObject::new("An error. `code` says which one.").into();
    if let RefOr::T(error) = responses.entry("default".to_owned()).or_insert_with(new) {
        let problem = ContentBuilder::new().schema(Some(schema_ref::<ProblemBody>())).build();
        error.content.insert(PROBLEM.to_owned(), problem.into());
        let names = ["Allow", "Cache-Control", "Retry-After"];
        error.headers.extend(names.map(|name| (name.to_owned(), RefOr::T(Header::default()))));
    }
    for response in responses.values_mut().filter_map(as_object) {
        let mut headers: Vec<_> = std::mem::take(&mut response.headers).into_keys().collect();
        headers.push("X-Request-Id".to_owned());
        let has = |name: &str| headers.iter().any(|known| known == name);
        if has("Age") && has("X-Stale") {
            headers.extend(FRESHNESS_HEADERS.map(str::to_owned));
        }
        let reference = |name: String| {
            let reference = Ref::new(format!("#/components/headers/{name}"));
            (name, RefOr::Ref(reference))
        };
        response.headers = headers.into_iter().map(reference).collect();
    }
}

/// Returns the object itself if it is no reference.
pub(crate) fn as_object<T>(object: &mut RefOr<T>) -> Option<&mut T> {
    match object {
        RefOr::T(object) => Some(object),
        RefOr::Ref(_) => None,
    }
}

/// Moves the parameters of an operation, and the responses that operations share, to the components.
fn share_components(operation: &mut Operation, components: &mut Components) {
    for slot in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = slot else { continue };
        let location = json!(parameter.parameter_in);
        let name = format!("{}.{}", location.as_str().unwrap_or_default(), parameter.name);
        share(slot, "parameters", name, &mut components.parameters);
    }
    for slot in operation.responses.responses.values_mut() {
        let RefOr::T(response) = slot else { continue };
        let has = |media_type| response.content.contains_key(media_type);
        let name = match (has(PROBLEM), has("*/*")) {
            (true, false) => "Error",
            (true, true) => "UpstreamError",
            (false, true) => "Upstream",
            (false, false) => continue,
        };
        share(slot, "responses", name.to_owned(), &mut components.responses);
    }
}

/// Replaces `slot` by a reference to the component with this name, unless that is a different one.
fn share<T: Clone + PartialEq>(
    slot: &mut RefOr<T>,
    kind: &str,
    name: String,
    components: &mut BTreeMap<String, RefOr<T>>,
) {
    let reference = Ref::new(format!("#/components/{kind}/{name}"));
    if components.entry(name).or_insert_with(|| slot.clone()) == slot {
        *slot = RefOr::Ref(reference);
    }
}

/// Removes headers and schemas that nothing refers to, but not those that only a text names.
fn remove_unused(document: &OpenApi, components: &mut Components, kept: &[&str]) {
    loop {
        let count = components.headers.len() + components.schemas.len();
        let json = json!([document.paths, components]).to_string();
        let references = json.split("\"#/components/").skip(1);
        let used: HashSet<_> = references.filter_map(|rest| rest.split('"').next()).collect();
        let is_used = |kind: &str, name: &str| used.contains(format!("{kind}/{name}").as_str());
        components.headers.retain(|name, _| is_used("headers", name));
        components
            .schemas
            .retain(|name, _| kept.contains(&name.as_str()) || is_used("schemas", name));
        if components.headers.len() + components.schemas.len() == count {
            return;
        }
    }
}

/// The serialised document and its entity tag. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SerializedDocument {
    json: StaticBody,
    etag: HeaderValue,
}

impl SerializedDocument {
    pub(crate) fn new(document: &OpenApi) -> Self {
        let json = Bytes::from(document.to_json().expect("a document of strings serialises"));
        Self { etag: etag::for_body(&json), json: StaticBody::new(json, false) }
    }
}

/// This document
///
/// It omits disabled routes.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getOpenApi",
    tag = "Operation",
    params(IfNoneMatch),
    responses(
        PageNotModified,
        (status = 200, description = "The document.", body = Object, headers(("ETag"), ("Cache-Control"))),
    )
)]
pub(crate) async fn get_document(
    State(SerializedDocument { json, etag }): State<SerializedDocument>,
    request: HeaderMap,
) -> Response {
    let mut response =
        ([(CONTENT_TYPE, "application/json")], json.response(&request)).into_response();
    let headers = response.headers_mut();
    headers.insert(ETAG, etag);
    // Clients revalidate every time, so a new configuration shows at once.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
