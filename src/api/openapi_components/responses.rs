//! Success responses, each described once.

use std::collections::BTreeMap;

use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{Content, ObjectBuilder, OneOfBuilder, Ref, RefOr, Response, Schema, Type};
use utoipa::{IntoResponses, ToSchema};

use super::headers::{self, FRESHNESS};
use super::problems::{
    BadGateway, BadRequest, GatewayTimeout, HeadersTooLarge, InternalError, InvalidParameter,
    MethodNotAllowed, Overloaded, PayloadTooLarge, RateLimited, RequestTimeout,
    UnsupportedMediaType, UriTooLong,
};
use super::schemas::{RpcOutcome, SuggestionEvent, Uint256};
use crate::wire::{Delegation, SuggestionBody};

const JSON: &str = "application/json";
const HTML: &str = "text/html";
/// Headers of a page and of the OpenAPI document.
const PAGE_HEADERS: [&str; 2] = ["ETag", "Cache-Control"];
const LOOKUP_HEADERS: [&str; 4] = ["X-Delegation-Source", "Cache-Control", "Age", "Vary"];

/// Declares success responses: status and description.
macro_rules! responses {
    ($($name:ident $status:literal $response:expr;)*) => {
        $(
            pub(in crate::api) struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    BTreeMap::from([($status.to_owned(), $response.into())])
                }
            }
        )*
    };
}

responses! {
    SuggestionResponse "200" response_with_body(
        "The suggestion.", JSON, schema_ref::<SuggestionBody>(), &[&FRESHNESS[..], &["ETag"]].concat(),
    );
    SuggestionsResponse "200" response_with_body(
        "One suggestion for each chain that has one, in ascending order of chain id.",
        JSON, array_schema(schema_ref::<SuggestionBody>()), &["Cache-Control", "Age", "X-Stale"],
    );
    SuggestionStreamResponse "200" response_with_body(
        "An endless stream of server-sent events. `retry` is sent once, and a comment line after 15 s without an event. The schema describes one event.",
        "text/event-stream", schema_ref::<SuggestionEvent>(), &["Cache-Control", "X-Stale", "X-Accel-Buffering"],
    );
    FeeMarketResponse "200" response_with_body("The fee market.", JSON, schema_ref_by_name("FeeMarket"), &FRESHNESS);
    FeeHistoryResponse "200" response_with_body(
        "The available blocks, oldest first.", JSON, schema_ref_by_name("FeeHistory"), &FRESHNESS,
    );
    ChartResponse "200" response_with_body(
        "An SVG document that follows the reader's light or dark colour scheme.", "image/svg+xml", string_schema(),
        &[&FRESHNESS[..], &["ETag"]].concat(),
    );
    ChainsResponse "200" response_with_body(
        "The chains, in ascending order of chain id.", JSON, array_schema(schema_ref_by_name("Chain")), &["Cache-Control"],
    );
    NotModified "304" bodyless_response(
        "Not modified: `If-None-Match` contains the current `ETag`.", &[&FRESHNESS[..], &["ETag"]].concat(),
    );
    PageNotModified "304" bodyless_response("Not modified: `If-None-Match` contains the current `ETag`.", &PAGE_HEADERS);
    RpcOk "200" response_with_body(
        "A JSON-RPC response, also for errors; for a batch a list of responses.", JSON,
        OneOfBuilder::new().item(schema_ref::<RpcOutcome>()).item(array_schema(schema_ref::<RpcOutcome>())).into(), &[],
    );
    RpcNoContent "204" bodyless_response("All calls were notifications.", &[]);
    DelegationsResponse "200" response_with_body("The delegations.", JSON, array_schema(schema_ref::<Delegation>()), &LOOKUP_HEADERS);
    CheckResponse "200" response_with_body(
        "True if `to` may act for `from`.", JSON, ObjectBuilder::new().schema_type(Type::Boolean).into(),
        &LOOKUP_HEADERS,
    );
    AmountResponse "200" response_with_body(
        "The amount of the token for which `to` may act for `from`; the registry contract's amount is a decimal string.",
        JSON, schema_ref::<Uint256>(), &LOOKUP_HEADERS,
    );
    TransactionResponse "200" response_with_body(
        "The transaction, in the format of `eth_sendTransaction`.", JSON, schema_ref_by_name("Transaction"), &FRESHNESS,
    );
    DashboardPage "200" page_response("The dashboard.");
    VerificationFormPage "200" page_response("The form.");
    DocsPage "200" page_response("The page.");
    OpenApiDocument "200" response_with_body(
        "The document.", JSON, ObjectBuilder::new().schema_type(Type::Object).into(), &PAGE_HEADERS,
    );
    HealthResponse "200" response_with_body("The check succeeded.", JSON, health_schema(), &["Cache-Control"]);
}

/// Declares groups of responses.
macro_rules! response_groups {
    ($($(#[$about:meta])* $name:ident: $($member:ident),*;)*) => {
        $(
            $(#[$about])*
            pub(in crate::api) struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    [$($member::responses()),*].into_iter().flatten().collect()
                }
            }
        )*
    };
}

response_groups! {
    /// Errors that every route can return.
    CommonErrors: BadRequest, MethodNotAllowed, RequestTimeout, UriTooLong, RateLimited, HeadersTooLarge,
        InternalError, Overloaded;
    /// Errors of routes with a request body.
    BodyErrors: PayloadTooLarge, UnsupportedMediaType;
    /// Errors of delegation look-ups.
    LookupErrors: InvalidParameter, BadGateway, GatewayTimeout;
    RpcResponses: RpcOk, RpcNoContent;
}

fn response_with_body(
    description: &str,
    content_type: &str,
    schema: RefOr<Schema>,
    headers: &[&str],
) -> Response {
    let mut response = bodyless_response(description, headers);
    response.content.insert(content_type.to_owned(), Content::new(Some(schema)).into());
    response
}

fn bodyless_response(description: &str, headers: &[&str]) -> Response {
    let mut response = Response::new(description);
    response.headers = headers::references(headers);
    response
}

fn page_response(description: &str) -> Response {
    response_with_body(
        description,
        HTML,
        string_schema(),
        &[&PAGE_HEADERS[..], &["Content-Security-Policy"]].concat(),
    )
}

/// Returns a reference to the schema of this type.
fn schema_ref<T: ToSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(T::name()).into()
}

/// Returns a reference to the schema with this name.
fn schema_ref_by_name(schema: &str) -> RefOr<Schema> {
    Ref::from_schema_name(schema).into()
}

fn array_schema(items: RefOr<Schema>) -> RefOr<Schema> {
    ArrayBuilder::new().items(items).into()
}

fn string_schema() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).into()
}

fn health_schema() -> RefOr<Schema> {
    let status =
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["live", "ready"]));
    ObjectBuilder::new().property("status", status).required("status").into()
}
