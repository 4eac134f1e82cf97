//! The headers of answers, each described once.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::{Header, Object, ObjectBuilder, Ref, RefOr, Type};

/// What every answer has.
pub(in crate::api) const EVERY: [&str; 1] = ["X-Request-Id"];
/// How old the data of an answer is.
pub(in crate::api) const FRESHNESS: [&str; 4] =
    ["Cache-Control", "Age", "X-Newest-Block", "X-Stale"];

/// All headers by their names.
pub(in crate::api) fn all() -> BTreeMap<String, RefOr<Header>> {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let count = |least: u8| ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(least));
    let one_of = |values: &[&str]| text().enum_values(Some(values.iter().copied()));
    let always =
        |name, about, schema: ObjectBuilder, example| (name, about, schema.build(), example, true);
    let maybe =
        |name, about, schema: ObjectBuilder, example| (name, about, schema.build(), example, false);
    let headers = [
        always(
            "X-Request-Id",
            "The request's own id where that is plain, else one that no other request has.",
            text().pattern(Some("^[A-Za-z0-9._:-]{1,64}$")),
            json!("3f0c7a52b1d94e68-17"),
        ),
        always(
            "Cache-Control",
            "For how long the answer may be used again.",
            text(),
            json!("public, max-age=1, stale-while-revalidate=28, stale-if-error=28"),
        ),
        always(
            "ETag",
            "Changes with the content.",
            text().pattern(Some("^\"[0-9a-f]{16}\"$")),
            json!("\"5ff6bd9d1a3df1f1\""),
        ),
        always(
            "Allow",
            "The methods that the path answers.",
            text().pattern(Some("^[A-Z]+(,[A-Z]+)*$")),
            json!("GET,HEAD"),
        ),
        maybe(
            "Age",
            "Whole seconds since the data was read from a node, or from the API.",
            count(0),
            json!(0),
        ),
        maybe(
            "X-Newest-Block",
            "The newest block that the answer was computed from.",
            count(0),
            json!(43_447_700),
        ),
        maybe(
            "X-Stale",
            "There when the data is older than two block times, or the chain's head stands still.",
            one_of(&["true"]),
            json!("true"),
        ),
        maybe(
            "X-Delegation-Source",
            "Who answered: delegate.xyz's API or the registry contract.",
            one_of(&["api", "chain"]),
            json!("chain"),
        ),
        maybe("Retry-After", "Whole seconds until it is worth asking again.", count(1), json!(2)),
        maybe("Vary", "What the answer depends on beside its URL.", text(), json!("x-api-key")),
        maybe(
            "X-Accel-Buffering",
            "Keeps nginx from holding events back.",
            one_of(&["no"]),
            json!("no"),
        ),
        maybe(
            "Content-Security-Policy",
            "What the page may load and ask: this service alone.",
            text(),
            json!("default-src 'none'; script-src 'self'"),
        ),
    ];
    let described = headers.map(|(name, about, schema, example, is_required)| {
        (name.to_owned(), header(about, schema, example, is_required).into())
    });
    described.into()
}

fn header(about: &str, schema: Object, example: Value, is_required: bool) -> Header {
    // The crate has no place of its own for this member.
    let required = is_required.then(|| Extensions::from_iter([("required", true)]));
    let header = HeaderBuilder::new().description(Some(about)).schema(Some(schema));
    header.example(Some(example)).extensions(required).build()
}

/// References to the headers with these names.
pub(in crate::api) fn named(names: &[&str]) -> BTreeMap<String, RefOr<Header>> {
    let reference = |name: &&str| {
        ((*name).to_owned(), RefOr::Ref(Ref::new(format!("#/components/headers/{name}"))))
    };
    names.iter().chain(&EVERY).map(reference).collect()
}
