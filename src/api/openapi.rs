//! The OpenAPI document of the public routes, and the route that serves it.
//!
//! It is built from the handlers and their body types for one configuration: it lists the configured chains, has the
//! base path, and omits disabled routes.

pub(crate) mod components;
pub(crate) mod examples;
pub(crate) mod schemas;

use crate::extras::verification::openapi as verification;
use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Value, json};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder};
use utoipa::openapi::{
    Components, Content, Header, ObjectBuilder, OpenApi, Ref, RefOr, Required,
    Response as ResponseObject, Schema, Server, Type,
};
use utoipa::{IntoParams, OpenApi as _};

use super::etag;
use super::wire::Delegation;
use crate::config::{Chain, Config, DelegationSource};
use crate::extras::compat::EtherscanError;
pub(crate) use crate::extras::verification::openapi::TAG as VERIFICATION_TAG;
use crate::http::response_body::StaticBody;
use components::{CommonErrors, CommonParameters, IfNoneMatch, PageNotModified, ResponseHeaders};
use schemas::{Uint256, schema_ref};

const PROBLEM: &str = "application/problem+json";

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
        (name = crate::extras::compat::routes::TAG, description = "The same suggestion in the formats of other gas services, whose clients need only another URL. `[compat] formats` selects them."),
        (name = "JSON-RPC", description = "Reads of chain state, forwarded to the chain's nodes."),
        (name = "Delegation", description = "Delegations of a vault, and transactions that change them."),
        (name = verification::TAG, description = verification::DESCRIPTION),
        (name = "Pages", description = "Web pages for people. The resources that these pages load are not listed."),
        (name = "Operation", description = "Health checks and the API description. `/metrics` is on the admin listener only."),
    ),
    components(schemas(
        crate::http::problem::ProblemBody,
        schemas::Address,
        schemas::Rights,
        schemas::Uint256,
        schemas::RpcCall,
    ))
)]
struct SharedDescription;

/// Builds the document of the public listener with `config`.
pub(crate) fn document(config: &Config) -> OpenApi {
    build_document(config, &config.chains, config.chains.first())
}

/// Builds the document without the configured chains. Its examples are of a sample chain.
pub(crate) fn generic_document(config: &Config) -> OpenApi {
    const SAMPLE: &str = "[chains.ethereum]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1\"]";
    let sample = Config::from_toml(SAMPLE).ok();
    build_document(config, &[], sample.as_ref().and_then(|sample| sample.chains.first()))
}

/// Builds a document that lists `chains` and has examples of `example_chain`.
fn build_document(config: &Config, chains: &[Chain], example_chain: Option<&Chain>) -> OpenApi {
    let mut document = SharedDescription::openapi().merge_from(super::described_routes(config));
    if config.verification.url.is_some() {
        document.paths.paths.extend(verification::paths());
    }
    let url = match config.server.base_path.as_str() {
        "" => "/",
        path => path,
    };
    document.servers = Some(vec![Server::new(url)]);
    let mut components = document.components.take().unwrap_or_default();
    components.headers = ResponseHeaders::into_params(|| None).into_iter().map(header).collect();
    let source = config.delegation.source;
    let uses_api = matches!(source, DelegationSource::Api | DelegationSource::ApiThenChain);
    let mut used_tags = vec![];
    for (path, item) in &mut document.paths.paths {
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            used_tags.extend(operation.tags.iter().flatten().cloned());
            let parameters = operation.parameters.get_or_insert_default();
            parameters.extend(CommonParameters::into_params(|| None).into_iter().map(RefOr::T));
            if !chains.is_empty() {
                let parameters = parameters.iter_mut().filter_map(as_object);
                parameters.for_each(|parameter| apply_config(parameter, chains));
            }
            complete_responses(operation);
            if path.starts_with("/verification") {
                add_upstream_responses(operation, &["200", "2XX", "3XX", "4XX", "5XX"]);
            } else if uses_api && path.starts_with("/registry/") {
                add_upstream_responses(operation, &["4XX", "5XX"]);
            }
            share_components(operation, &mut components);
            if let Some(RefOr::T(body)) = &mut operation.request_body
                && path == "/rpc/{chain}"
            {
                // A missing body gets the same error as any other invalid one.
                body.required = None;
            }
        }
    }
    document.tags.iter_mut().for_each(|tags| tags.retain(|tag| used_tags.contains(&tag.name)));
    remove_unused(&document, &mut components);
    document.components = Some(components);
    if let Some(chain) = example_chain {
        examples::write_examples(&mut document, config, chain);
    }
    document
}

/// Converts a description of a response header. utoipa has no field for `required`.
fn header(parameter: Parameter) -> (String, RefOr<Header>) {
    let required = parameter.required == Required::True;
    let example = json!(parameter).get("example").cloned();
    let header = HeaderBuilder::new()
        .description(parameter.description)
        .schema(parameter.schema)
        .example(example)
        .extensions(required.then(|| Extensions::from_iter([("required", true)])));
    (parameter.name, header.build().into())
}

/// Adds to all responses of the operation what they have in common. The routes and the derived responses name only the
/// headers and the codes that differ.
fn complete_responses(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        let mut headers: Vec<_> = std::mem::take(&mut response.headers).into_keys().collect();
        headers.push("X-Request-Id".to_owned());
        let has = |name: &str| headers.iter().any(|known| known == name);
        if has("Age") && has("X-Stale") {
            headers.extend(FRESHNESS_HEADERS.map(str::to_owned));
        }
        if status.starts_with(['4', '5']) {
            headers.push("Cache-Control".to_owned());
            let content = std::mem::take(&mut response.content).into_iter();
            let own_errors = RefOr::from(schema_ref::<EtherscanError>());
            let with_type = |(media_type, content): (String, RefOr<Content>)| match &content {
                RefOr::T(body) if body.schema.as_ref() == Some(&own_errors) => {
                    (media_type, content)
                }
                _ => (PROBLEM.to_owned(), content),
            };
            response.content = content.map(with_type).collect();
        }
        let reference = |name: String| {
            let reference = Ref::new(format!("#/components/headers/{name}"));
            (name, RefOr::Ref(reference))
        };
        response.headers = headers.into_iter().map(reference).collect();
        let contents = response.content.values_mut();
        for content in contents.filter_map(|content| as_object(content)) {
            for (code, example) in &mut content.examples {
                *example = RefOr::Ref(Ref::new(format!("#/components/examples/{code}")));
            }
        }
    }
}

/// Adds the upstream's responses to those of this service, whose status the upstream may also return: any with one of
/// these `statuses`, and for look-ups further members, and amounts as numbers.
fn add_upstream_responses(operation: &mut Operation, statuses: &[&str]) {
    let any_content = || ("*/*".to_owned(), RefOr::T(Content::default()));
    let responses = &mut operation.responses.responses;
    for response in responses.values_mut().filter_map(as_object) {
        if response.content.contains_key(PROBLEM) {
            response.description += " Or the upstream's response with this status.";
            response.headers.retain(|name, _| name == "X-Request-Id");
            response.content.extend([any_content()]);
        } else {
            for content in response.content.values_mut().filter_map(as_object) {
                content.schema = content.schema.take().map(relaxed_schema);
            }
        }
    }
    let mut response = ResponseObject::new("The upstream's response.");
    response.headers.insert(
        "X-Request-Id".to_owned(),
        RefOr::Ref(Ref::new("#/components/headers/X-Request-Id")),
    );
    response.content.extend([any_content()]);
    for status in statuses {
        responses.insert((*status).to_owned(), response.clone().into());
    }
}

fn relaxed_schema(schema: RefOr<Schema>) -> RefOr<Schema> {
    let amount = RefOr::from(schema_ref::<Uint256>());
    if schema == amount {
        let number = ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0));
        AnyOfBuilder::new().item(amount).item(number).into()
    } else if matches!(schema, RefOr::T(Schema::Array(_))) {
        let known = schema_ref::<Delegation>();
        let items = AnyOfBuilder::new().item(known).item(ObjectBuilder::new());
        ArrayBuilder::new().items(items).into()
    } else {
        schema
    }
}

/// Returns the object itself if it is no reference.
fn as_object<T>(object: &mut RefOr<T>) -> Option<&mut T> {
    match object {
        RefOr::T(object) => Some(object),
        RefOr::Ref(_) => None,
    }
}

/// Adds the values of the configuration that a parameter allows.
fn apply_config(parameter: &mut Parameter, chains: &[Chain]) {
    let Some(RefOr::T(Schema::Object(schema))) = &mut parameter.schema else { return };
    match (&parameter.parameter_in, parameter.name.as_str()) {
        (ParameterIn::Path, "chain") => {
            let names = |chain: &Chain| [chain.key.clone(), chain.chain_id.to_string()];
            schema.enum_values = Some(chains.iter().flat_map(names).map(Value::from).collect());
        }
        (ParameterIn::Path, "chain_id") | (ParameterIn::Query, "chainid") => {
            let ids = chains.iter().map(|chain| json!(chain.chain_id.to_string()));
            schema.enum_values = Some(ids.collect());
        }
        (ParameterIn::Query, "chainId") => {
            let ids = chains.iter().map(|chain| json!(chain.chain_id));
            schema.enum_values = Some(ids.collect());
        }
        (ParameterIn::Query, "blocks") => {
            let longest = chains.iter().map(|chain| chain.history_blocks.get()).max();
            schema.maximum = longest.map(Into::into);
        }
        _ => {}
    }
}

/// Moves the parameters and the error responses of an operation to the components.
fn share_components(operation: &mut Operation, components: &mut Components) {
    for slot in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = slot else { continue };
        let location = json!(parameter.parameter_in);
        let name = format!("{}.{}", location.as_str().unwrap_or_default(), parameter.name);
        share(slot, "parameters", name, &mut components.parameters);
    }
    for slot in operation.responses.responses.values_mut() {
        let RefOr::T(response) = slot else { continue };
        let Some(RefOr::T(content)) = response.content.get(PROBLEM) else {
            if response.content.contains_key("*/*") {
                share(slot, "responses", "upstream".to_owned(), &mut components.responses);
            }
            continue;
        };
        let codes = content.examples.keys().map(String::as_str);
        let upstream = response.content.contains_key("*/*").then_some("upstream");
        let name = codes.chain(upstream).collect::<Vec<_>>().join(".");
        share(slot, "responses", name, &mut components.responses);
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

/// Removes headers and schemas that nothing refers to, but not `RpcCall`, which only a description names.
fn remove_unused(document: &OpenApi, components: &mut Components) {
    loop {
        let count = components.headers.len() + components.schemas.len();
        let json = json!([document.paths, components]).to_string();
        let is_used =
            |kind: &str, name: &str| json.contains(&format!("\"#/components/{kind}/{name}\""));
        components.headers.retain(|name, _| is_used("headers", name));
        components.schemas.retain(|name, _| name == "RpcCall" || is_used("schemas", name));
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
        Self { etag: etag::for_body(&json), json: StaticBody::new(json) }
    }
}

/// This document
///
/// It lists the configured chains and omits disabled routes.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getOpenApi",
    tag = "Operation",
    params(IfNoneMatch),
    responses(
        CommonErrors, PageNotModified,
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
