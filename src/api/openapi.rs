//! The OpenAPI document: docs/openapi.json without the paths that are not mounted.
//!
//! A test (`server::tests::document`) writes the paths and schemas of the file from the annotations of the handlers. The
//! rest of the file is written by hand: tags, response headers, examples, the order of the paths, and those that one route
//! forwards.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::Ref;

use super::route_table::Route;
use crate::http::static_body::StaticBody;
use crate::store::etag;

/// The description of all routes.
pub(crate) const ALL_ROUTES: &str = include_str!("../../docs/openapi.json");

/// The routes of a service.
#[derive(Debug)]
pub(crate) struct Description {
    /// The document, as indented JSON.
    pub(crate) json: String,
    /// In the order of the document.
    pub(crate) routes: Vec<Route>,
}

/// The document, of which most is left as it is written.
#[derive(Serialize, Deserialize)]
struct Document {
    openapi: Box<RawValue>,
    info: Box<RawValue>,
    servers: Value,
    paths: IndexMap<String, Box<RawValue>>,
    components: Box<RawValue>,
    security: Box<RawValue>,
    tags: Box<RawValue>,
}

#[derive(Deserialize)]
struct Operation {
    summary: String,
}

/// Describes the routes for whose paths `is_mounted` returns true. They lie below `base_path`.
pub(crate) fn describe(base_path: &str, is_mounted: impl Fn(&str) -> bool) -> Description {
    const VALID: &str = "a test compares the document with the routes";
    let mut document: Document = serde_json::from_str(ALL_ROUTES).expect(VALID);
    document.servers = json!([{ "url": if base_path.is_empty() { "/" } else { base_path } }]);
    document.paths.retain(|path, _| is_mounted(path));
    let mut routes = Vec::new();
    for (path, item) in &document.paths {
        let operations: IndexMap<String, Operation> =
            serde_json::from_str(item.get()).expect(VALID);
        routes.extend(operations.into_iter().map(|(method, Operation { summary })| Route {
            method: method.to_ascii_uppercase(),
            path: format!("{base_path}{path}"),
            summary,
        }));
    }
    Description { json: serde_json::to_string_pretty(&document).expect(VALID), routes }
}

/// The document and its entity tag. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ServedDocument {
    json: StaticBody,
    etag: HeaderValue,
}

impl ServedDocument {
    pub(crate) fn new(json: String) -> Self {
        Self { etag: etag::for_body(json.as_bytes()), json: StaticBody::new(json.into()) }
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
    responses(
        (status = 200, description = "The document.", body = Object, headers(("ETag"), ("Cache-Control"))),
    )
)]
pub(crate) async fn get_document(
    State(ServedDocument { json, etag }): State<ServedDocument>,
    request: HeaderMap,
) -> Response {
    // Clients revalidate every time, so a new configuration shows at once.
    let no_cache = HeaderValue::from_static("no-cache");
    let headers = [(ETAG, etag), (CACHE_CONTROL, no_cache)];
    ([(CONTENT_TYPE, "application/json")], headers, json.response(&request)).into_response()
}

/// Returns the reference to the schema of a type.
pub(crate) fn schema_ref<T: ToSchema>() -> Ref {
    Ref::from_schema_name(T::name())
}
