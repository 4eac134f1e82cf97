//! Response headers, each described once.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::{Header, Object, ObjectBuilder, Ref, RefOr, Type};

/// Headers of every response.
pub(in crate::api) const EVERY_RESPONSE: [&str; 1] = ["X-Request-Id"];
/// Headers about the age of the data.
pub(in crate::api) const FRESHNESS: [&str; 4] =
    ["Cache-Control", "Age", "X-Newest-Block", "X-Stale"];

/// Returns all headers by name.
pub(in crate::api) fn components() -> BTreeMap<String, RefOr<Header>> {
    let string_schema = || ObjectBuilder::new().schema_type(Type::String);
    let integer_schema =
        |minimum: u8| ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(minimum));
    let string_enum = |values: &[&str]| string_schema().enum_values(Some(values.iter().copied()));
    let required =
        |name, about, schema: ObjectBuilder, example| (name, about, schema.build(), example, true);
    let optional =
        |name, about, schema: ObjectBuilder, example| (name, about, schema.build(), example, false);
    let headers = [
        required(
            "X-Request-Id",
            "The request's own id if it is valid, else a generated unique id.",
            string_schema().pattern(Some("^[A-Za-z0-9._:-]{1,64}$")),
            json!("3f0c7a52b1d94e68-17"),
        ),
        required(
            "Cache-Control",
            "How long the response may be cached.",
            string_schema(),
            json!("public, max-age=1, stale-while-revalidate=28, stale-if-error=28"),
        ),
        required(
            "ETag",
            "Changes with the content.",
            string_schema().pattern(Some("^\"[0-9a-f]{16}\"$")),
            json!("\"5ff6bd9d1a3df1f1\""),
        ),
        required(
            "Allow",
            "The methods that the route supports.",
            string_schema().pattern(Some("^[A-Z]+(,[A-Z]+)*$")),
            json!("GET,HEAD"),
        ),
        optional(
            "Age",
            "Age of the data in whole seconds, since it was read from a node or from the API.",
            integer_schema(0),
            json!(0),
        ),
        optional(
            "X-Newest-Block",
            "The newest block that the response was computed from.",
            integer_schema(0),
            json!(43_447_700),
        ),
        optional(
            "X-Stale",
            "Present if the data is older than two block times, or the chain's head has stalled.",
            string_enum(&["true"]),
            json!("true"),
        ),
        optional(
            "X-Delegation-Source",
            "The source of the response: delegate.xyz's API or the registry contract.",
            string_enum(&["api", "chain"]),
            json!("chain"),
        ),
        optional(
            "Retry-After",
            "Whole seconds to wait before retrying.",
            integer_schema(1),
            json!(2),
        ),
        optional(
            "Vary",
            "Request headers that the response depends on.",
            string_schema(),
            json!("x-api-key"),
        ),
        optional(
            "X-Accel-Buffering",
            "Disables nginx's buffering of events.",
            string_enum(&["no"]),
            json!("no"),
        ),
        optional(
            "Content-Security-Policy",
            "Restricts the page to resources and requests of this service.",
            string_schema(),
            json!("default-src 'none'; script-src 'self'"),
        ),
    ];
    let components = headers.map(|(name, about, schema, example, is_required)| {
        (name.to_owned(), build_header(about, schema, example, is_required).into())
    });
    components.into()
}

fn build_header(description: &str, schema: Object, example: Value, is_required: bool) -> Header {
    // utoipa has no field for this member.
    let required = is_required.then(|| Extensions::from_iter([("required", true)]));
    let header = HeaderBuilder::new().description(Some(description)).schema(Some(schema));
    header.example(Some(example)).extensions(required).build()
}

/// Returns references to the headers with these names and to those of every response.
pub(in crate::api) fn references(names: &[&str]) -> BTreeMap<String, RefOr<Header>> {
    let reference = |name: &&str| {
        ((*name).to_owned(), RefOr::Ref(Ref::new(format!("#/components/headers/{name}"))))
    };
    names.iter().chain(&EVERY_RESPONSE).map(reference).collect()
}
