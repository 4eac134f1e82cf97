//! What operations answer when they do what is asked, each described once.

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
use crate::registry::Delegation;
use crate::wire::SuggestionBody;

const JSON: &str = "application/json";
const HTML: &str = "text/html";
/// Of a page, and of what is served as one.
const PAGE: [&str; 2] = ["ETag", "Cache-Control"];
const LOOK_UP: [&str; 4] = ["X-Delegation-Source", "Cache-Control", "Age", "Vary"];

/// Names answers with their status and what they are.
macro_rules! answers {
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

answers! {
    OneSuggestion "200" answer(
        "The suggestion.", JSON, of::<SuggestionBody>(), &[&FRESHNESS[..], &["ETag"]].concat(),
    );
    AllSuggestions "200" answer(
        "One for each chain that has a suggestion to serve, in ascending order of chain id.",
        JSON, list(of::<SuggestionBody>()), &["Cache-Control", "Age", "X-Stale"],
    );
    SuggestionStream "200" answer(
        "Server-sent events without end. `retry` comes once, and a comment line when nothing else was sent \
         for 15 s. The schema is that of one event.",
        "text/event-stream", of::<SuggestionEvent>(), &["Cache-Control", "X-Stale", "X-Accel-Buffering"],
    );
    Market "200" answer("The market.", JSON, named("FeeMarket"), &FRESHNESS);
    RecentBlocks "200" answer(
        "The blocks, oldest first, as many as there are.", JSON, named("FeeHistory"), &FRESHNESS,
    );
    Chart "200" answer(
        "An SVG document, light or dark as its reader prefers.", "image/svg+xml", text(),
        &[&FRESHNESS[..], &["ETag"]].concat(),
    );
    ListedChains "200" answer(
        "The chains, in ascending order of chain id.", JSON, list(named("Chain")), &["Cache-Control"],
    );
    NotModified "304" without_body(
        "The client has it: `If-None-Match` names its `ETag`.", &[&FRESHNESS[..], &["ETag"]].concat(),
    );
    PageNotModified "304" without_body("The client has it: `If-None-Match` names its `ETag`.", &PAGE);
    RpcSomething "200" answer(
        "A JSON-RPC answer, errors included; for a batch a list of them.", JSON,
        OneOfBuilder::new().item(of::<RpcOutcome>()).item(list(of::<RpcOutcome>())).into(), &[],
    );
    RpcNothing "204" without_body("All that came were notifications.", &[]);
    Delegations "200" answer("The delegations.", JSON, list(of::<Delegation>()), &LOOK_UP);
    Check "200" answer(
        "Whether `to` may act for `from`.", JSON, ObjectBuilder::new().schema_type(Type::Boolean).into(),
        &LOOK_UP,
    );
    Amount "200" answer(
        "Up to how much of the token `to` may act for `from`: from the chain as a string of decimal digits.",
        JSON, of::<Uint256>(), &LOOK_UP,
    );
    Transaction "200" answer(
        "The transaction, as `eth_sendTransaction` takes it.", JSON, named("Transaction"), &FRESHNESS,
    );
    DashboardPage "200" page("The dashboard.");
    FormPage "200" page("The form.");
    DocumentPage "200" page("The page.");
    Document "200" answer(
        "The document.", JSON, ObjectBuilder::new().schema_type(Type::Object).into(), &PAGE,
    );
    Alive "200" answer("It is.", JSON, status(), &["Cache-Control"]);
}

/// Names answers that belong together.
macro_rules! groups {
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

groups! {
    /// What every route may answer, whatever is asked.
    OfEveryRoute: BadRequest, MethodNotAllowed, RequestTimeout, UriTooLong, RateLimited, HeadersTooLarge,
        InternalError, Overloaded;
    /// What a route with a body may answer.
    OfRequestBodies: PayloadTooLarge, UnsupportedMediaType;
    /// What a look-up of delegations may answer where it fails.
    OfLookUps: InvalidParameter, BadGateway, GatewayTimeout;
    RpcAnswer: RpcSomething, RpcNothing;
}

fn answer(about: &str, content_type: &str, schema: RefOr<Schema>, headers: &[&str]) -> Response {
    let mut response = without_body(about, headers);
    response.content.insert(content_type.to_owned(), Content::new(Some(schema)).into());
    response
}

fn without_body(about: &str, headers: &[&str]) -> Response {
    let mut response = Response::new(about);
    response.headers = headers::named(headers);
    response
}

fn page(about: &str) -> Response {
    answer(about, HTML, text(), &[&PAGE[..], &["Content-Security-Policy"]].concat())
}

/// A reference to the schema of this type.
fn of<T: ToSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(T::name()).into()
}

/// A reference to the schema of a body that a route has for itself.
fn named(schema: &str) -> RefOr<Schema> {
    Ref::from_schema_name(schema).into()
}

fn list(items: RefOr<Schema>) -> RefOr<Schema> {
    ArrayBuilder::new().items(items).into()
}

fn text() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).into()
}

fn status() -> RefOr<Schema> {
    let status =
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["live", "ready"]));
    ObjectBuilder::new().property("status", status).required("status").into()
}
