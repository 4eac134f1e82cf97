//! Writes docs/openapi.json: its paths and schemas come from the annotations of the handlers, the rest stays.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::{Components, Content, OpenApi, PathItem, Ref, RefOr, Response, Schema};
use utoipa_axum::router::OpenApiRouter;

use super::*;
use crate::api::openapi::ALL_ROUTES;
use crate::api::routes::Routes;
use crate::http::problem::ProblemBody;

/// Schemas of errors.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(ProblemBody)))]
struct SharedSchemas;

/// Parts of the committed document whose order counts.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    paths: IndexMap<&'a str, &'a RawValue>,
    components: WrittenComponents,
}

#[derive(Deserialize)]
struct WrittenComponents {
    responses: BTreeMap<String, RefOr<Response>>,
}

/// Headers of every response with `Age` and `X-Stale`.
const FRESHNESS_HEADERS: [&str; 3] = ["CDN-Cache-Control", "Last-Modified", "X-Doubt"];

#[test]
fn the_document_of_all_routes_is_current() {
    let config = include_str!("../../../config/default.toml");
    let config = Config::from_toml(config, &sections()).unwrap();
    let document = document(assemble(&config).unwrap().routes) + "\n";
    if document != ALL_ROUTES {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
        std::fs::write(path, document).unwrap();
        panic!("docs/openapi.json was out of date, and is written anew; review it");
    }
}

/// Describes the routes of the heart and of the extras. What they do not say comes from the committed document.
fn document(extras: Routes) -> String {
    let written: Value = serde_json::from_str(ALL_ROUTES).unwrap();
    let in_order: Written<'_> = serde_json::from_str(ALL_ROUTES).unwrap();
    let mut forwarded = in_order.paths.clone();
    forwarded.retain(|path, _| extras.forwarded.iter().any(|prefix| path.starts_with(prefix)));
    let mut rest = written.clone();
    rest["paths"] = json!({});
    rest["components"]["schemas"] = json!({});
    let mut document: OpenApi = serde_json::from_value(rest).unwrap();
    env!("CARGO_PKG_VERSION").clone_into(&mut document.info.version);
    let mut components = document.components.take().unwrap();
    components.responses = in_order.components.responses;
    let (mut paths, schemas) = described(extras);
    components.schemas = schemas;
    for path in in_order.paths.into_keys() {
        let described = paths.shift_remove(path);
        let item = described.or_else(|| forwarded.get(path).map(|_| PathItem::default()));
        document.paths.paths.extend(item.map(|item| (path.to_owned(), item)));
    }
    document.paths.paths.extend(paths);
    let mut parameters = BTreeMap::new();
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in [("get", &mut item.get), ("post", &mut item.post)] {
            let Some(operation) = operation else { continue };
            complete(operation, &components);
            keep_examples(operation, &written["paths"][path][method]);
            share_parameters(operation, &mut parameters);
        }
    }
    components.parameters.extend(parameters);
    restore_required(&mut components, &written);
    document.components = Some(components);
    let forwarded_text: String = forwarded.values().map(|item| item.get()).collect();
    remove_unused(&mut document, &forwarded_text);
    let json = document.to_pretty_json().unwrap();
    forwarded.iter().fold(json, |json, (path, item)| {
        json.replace(&format!("\"{path}\": {{}}"), &format!("\"{path}\": {}", item.get()))
    })
}

/// Returns the paths and the schemas that the annotations of the handlers describe.
fn described(extras: Routes) -> (IndexMap<String, PathItem>, Schemas) {
    let heart = [
        <SharedSchemas as utoipa::OpenApi>::openapi(),
        api::heart_routes().into_openapi(),
        api::probes().into_openapi(),
    ];
    let extra_routes = extras.timed.into_iter().chain(extras.untimed);
    let (mut paths, mut schemas) = (IndexMap::new(), Schemas::new());
    for api in heart.into_iter().chain(extra_routes.map(OpenApiRouter::into_openapi)) {
        paths.extend(api.paths.paths);
        for (name, schema) in api.components.unwrap_or_default().schemas {
            add_schema(&mut schemas, name, schema);
        }
    }
    (paths, schemas)
}

type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Adds a schema. Objects with the same name are parts of one: extras add members to the fee market.
fn add_schema(schemas: &mut Schemas, name: String, schema: RefOr<Schema>) {
    match (schemas.get_mut(&name), schema) {
        (Some(RefOr::T(Schema::Object(known))), RefOr::T(Schema::Object(part))) => {
            known.properties.extend(part.properties);
            let required = part.required.into_iter().filter(|it| !known.required.contains(it));
            let required: Vec<_> = required.collect();
            known.required.extend(required);
        }
        (Some(_), _) => {}
        (None, schema) => {
            schemas.insert(name, schema);
        }
    }
}

/// Adds what all operations have in common. The routes name only the headers that differ.
fn complete(operation: &mut Operation, components: &Components) {
    let responses = &mut operation.responses.responses;
    let parameters = operation.parameters.get_or_insert_default();
    if let Some(RefOr::T(tagged)) = responses.get("200")
        && tagged.headers.contains_key("ETag")
    {
        parameters.push(reference("parameters", "header.If-None-Match"));
        let description = "Not modified: `If-None-Match` contains the current `ETag`.";
        let mut not_modified = Response::new(description);
        not_modified.headers = tagged.headers.clone();
        not_modified.headers.remove("Content-Security-Policy");
        responses.insert("304".to_owned(), not_modified.into());
    }
    parameters.push(reference("parameters", "header.X-Request-Id"));
    let error = responses.entry("default".to_owned());
    if let RefOr::T(own) = error.or_insert_with(|| reference("responses", "Error")) {
        let Some(RefOr::T(shared)) = components.responses.get("Error") else {
            panic!("no `Error`")
        };
        own.content.extend(shared.content.clone());
        own.headers.extend(shared.headers.clone());
    }
    for response in responses.values_mut() {
        let RefOr::T(response) = response else { continue };
        let mut names: Vec<_> = response.headers.keys().cloned().collect();
        names.push("X-Request-Id".to_owned());
        if ["Age", "X-Stale"].iter().all(|name| response.headers.contains_key(*name)) {
            names.extend(FRESHNESS_HEADERS.map(str::to_owned));
        }
        let headers = names.into_iter().map(|name| (name.clone(), reference("headers", &name)));
        response.headers = headers.collect();
    }
}

fn reference<T>(kind: &str, name: &str) -> RefOr<T> {
    RefOr::Ref(Ref::new(format!("#/components/{kind}/{name}")))
}

/// Keeps the examples of bodies that are `written` for an operation.
fn keep_examples(operation: &mut Operation, written: &Value) {
    let keep = |(media_type, content): (&String, &mut RefOr<Content>), written: &Value| {
        let RefOr::T(content) = content else { return };
        let example = written["content"][media_type].get("example");
        content.example = content.example.take().or_else(|| example.cloned());
    };
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        body.content.iter_mut().for_each(|content| keep(content, &written["requestBody"]));
    }
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        let written = &written["responses"][status];
        response.content.iter_mut().for_each(|content| keep(content, written));
    }
}

/// Moves the parameters of an operation to those that operations share, unless there is another one with the same name.
fn share_parameters(operation: &mut Operation, shared: &mut BTreeMap<String, RefOr<Parameter>>) {
    for slot in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = slot else { continue };
        let location = serde_json::to_value(&parameter.parameter_in).unwrap();
        let name = format!("{}.{}", location.as_str().unwrap(), parameter.name);
        if shared.entry(name.clone()).or_insert_with(|| slot.clone()) == slot {
            *slot = reference("parameters", &name);
        }
    }
}

/// Writes `required` of response headers, which utoipa does not read.
fn restore_required(components: &mut Components, written: &Value) {
    for (name, header) in &mut components.headers {
        let RefOr::T(header) = header else { continue };
        let required = written["components"]["headers"][name].get("required");
        header.extensions =
            required.map(|value| [("required", value.clone())].into_iter().collect());
    }
}

/// Removes schemas and parameters that nothing refers to, the `forwarded` paths included. A schema that only a text names
/// stays.
fn remove_unused(document: &mut OpenApi, forwarded: &str) {
    loop {
        let json = document.to_json().unwrap() + forwarded;
        let is_used = |kind: &str, name: &str| json.contains(&format!("/{kind}/{name}\""));
        let components = document.components.as_mut().unwrap();
        let count = components.schemas.len() + components.parameters.len();
        components.parameters.retain(|name, _| is_used("parameters", name));
        components
            .schemas
            .retain(|name, _| is_used("schemas", name) || json.contains(&format!("`{name}`")));
        if components.schemas.len() + components.parameters.len() == count {
            return;
        }
    }
}
