//! The OpenAPI document: validity, completeness, and agreement with the service.

mod examples;
pub(crate) mod harness;

use std::collections::BTreeSet;
use std::process::Command;

use gas_suggestion::config::Config;
use gas_suggestion::extras::sections;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::fixtures;
use crate::http_client;
use crate::process::{File, output};
use crate::programs;
use crate::registry::VAULT;
use crate::test_server::{Response, TestServer};
use harness::Harness;

/// A chain whose node does not listen, and all services.
pub(crate) const CHAIN: &str = "[verification]\nurl = \"http://127.0.0.1:9\"\n[delegation]\nsource = \"api\"\n\
     [chains.ronin]\nchain_id = 2020\njson_rpc = true\nrpc_urls = [\"http://127.0.0.1:9\"]\n";
const CHAIN_ALONE: &str =
    "[chains.ronin]\nchain_id = 2020\njson_rpc = true\nrpc_urls = [\"http://127.0.0.1:9\"]\n";
const ANOTHER: &str =
    "[chains.b-2]\nchain_id = 7\nrpc_urls = [\"http://127.0.0.1:9\"]\nhistory_blocks = 5\n";

fn document_text(configuration: &str) -> String {
    let config = Config::from_toml(configuration, &sections()).unwrap();
    gas_suggestion::server::document(&config).unwrap()
}

fn document(configuration: &str) -> Value {
    serde_json::from_str(&document_text(configuration)).unwrap()
}

/// Runs the command with this configuration, which has to succeed, and returns its output.
fn print_document(options: &[&str], configuration: &str) -> String {
    let file = File::new("openapi", configuration);
    let arguments = [&["openapi", "--config", file.path()], options].concat();
    let (code, stdout, stderr) = output(&arguments, &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    stdout
}

fn paths(document: &Value) -> &Map<String, Value> {
    document["paths"].as_object().unwrap()
}

#[tokio::test]
async fn openapi_command_prints_the_served_document() {
    for base in ["", "/proxy/public"] {
        let section = format!("base_path = \"{base}\"");
        let chains = format!("{CHAIN}{ANOTHER}");
        let printed = print_document(&[], &format!("[server]\n{section}\n{chains}"));
        let service = TestServer::with_server(&section, &chains).await;
        let path = format!("{base}/openapi.json");
        let served = service.get(&path).await;
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), served.json());
        let headers = ["content-type", "cache-control", "access-control-allow-origin"];
        let headers = headers.map(|name| served.header(name));
        assert_eq!((served.status, headers), (200, ["application/json", "no-cache", "*"]));
        let url = if base.is_empty() { "/" } else { base };
        assert_eq!(served.json()["servers"], json!([{ "url": url }]));
        // Each instance renders the same bytes, hence the same ETag.
        let other = TestServer::with_server(&section, &chains).await;
        assert_eq!(other.get(&path).await.header("etag"), served.header("etag"));
    }
}

#[test]
fn openapi_command_fails_without_a_usable_configuration() {
    let (code, stdout, stderr) = output(&["openapi", "--config", "/none.toml"], &[]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.starts_with("error: cannot read the file /none.toml"), "{stderr}");
}

#[test]
fn document_is_the_committed_one_without_disabled_routes() {
    let committed: Value = fixtures::json("docs/openapi.json");
    for configuration in [CHAIN, CHAIN_ALONE, ANOTHER] {
        let document = document(configuration);
        assert_eq!(document["openapi"], "3.1.0");
        assert_eq!(document["info"], committed["info"]);
        for (path, item) in paths(&document) {
            assert_eq!(item, &committed["paths"][path], "{path}");
        }
        assert_eq!(document["components"], committed["components"]);
    }
}

#[test]
fn disabled_routes_are_omitted() {
    for (configuration, counts) in [(CHAIN, [25, 6, 17, 1]), (CHAIN_ALONE, [0, 0, 17, 1])] {
        let document = document(configuration);
        let prefixes = ["/verif", "/registry/", "/v1/", "/rpc/"];
        let found = prefixes
            .map(|prefix| paths(&document).keys().filter(|path| path.starts_with(prefix)).count());
        assert_eq!(found, counts, "{configuration}");
    }
}

/// Writes the document to a file and returns its path. Members stay in order: the generated client uses the first media
/// type of a response.
fn write_document(name: &str) -> String {
    let path = format!("{}/{name}.json", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, document_text(CHAIN)).unwrap();
    path
}

/// Returns a Python command with these arguments, in the repository's root.
fn python(arguments: &[&str]) -> Command {
    let mut command = programs::python_tool("python");
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments);
    command
}

#[tokio::test]
async fn document_is_valid_and_examples_match_their_schemas() {
    let path = write_document("all");
    let command = python(&["-m", "openapi_spec_validator", "--schema", "3.1", &path]);
    let stdout = programs::expect_success(command).await;
    assert!(stdout.ends_with(": OK"), "{stdout}");
    let command = python(&["tests/python/examples.py", &path]);
    let count: usize = programs::expect_success(command).await.parse().unwrap();
    // The count includes examples of headers, responses and requests.
    assert!(count > 35, "{count}");
}

#[tokio::test]
async fn generated_client_parses_every_example_response() {
    let path = write_document("client");
    let client = path.trim_end_matches(".json");
    let mut command = programs::python_tool("openapi-python-client");
    command.args(["generate", "--fail-on-warning", "--overwrite", "--config"]);
    command.arg(fixtures::path("tests/python/client.yaml"));
    command.args(["--path", &path, "--output-path", client]);
    programs::expect_success(command).await;
    let command = python(&["tests/python/client.py", &path, client]);
    let count: usize = programs::expect_success(command).await.parse().unwrap();
    assert!(count > 20, "{count}");
}

#[test]
fn forwarded_operations_document_upstream_responses() {
    let document = document(CHAIN);
    let error = |name: &str| json!({ "$ref": format!("#/components/responses/{name}") });
    let operation = |path: &str| &paths(&document)[path]["get"]["responses"];
    let schema = |path: &str| &operation(path)["200"]["content"]["application/json"]["schema"];
    for (path, name) in [
        ("/registry/v2/check/erc20", "UpstreamError"),
        ("/verification/chains", "UpstreamError"),
        ("/v1/chains", "Error"),
    ] {
        assert_eq!(operation(path)["default"], error(name), "{path}");
    }
    let number = json!({ "$ref": "#/components/schemas/Uint256" });
    let any = json!({ "type": "number", "minimum": 0 });
    assert_eq!(schema("/registry/v2/check/erc20"), &json!({ "anyOf": [number, any] }));
    let known = json!({ "$ref": "#/components/schemas/Delegation" });
    let items = &schema("/registry/v2/{address}")["items"];
    assert_eq!(items, &json!({ "anyOf": [known, { "type": "object" }] }));
    assert_eq!(schema("/registry/v2/check/all"), &json!({ "type": "boolean" }));
}

#[test]
fn only_these_routes_are_not_in_the_document() {
    // `routes!` adds a route to the router and to the document, `.route` to the router only.
    let mut undocumented = BTreeSet::new();
    let mut paths_left = vec![fixtures::path("src")];
    while let Some(path) = paths_left.pop() {
        if path.is_dir() {
            paths_left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let name = |rest: &str| rest.split_once(',').unwrap().0.trim_matches('"').to_owned();
            undocumented.extend(code.split(".route(").skip(1).map(name));
        }
    }
    let expected = [
        // The node of `demo`.
        "/{chain}",
        // Disabled features, and the paths of the verification service, which the document lists one by
        // one.
        "path",
        // Other spellings of a described path.
        "PATH_WITH_SLASH",
        "/v2/api",
        // A file of a page, the dashboard, and redirects.
        "file.path",
        "&root",
        "/docs/",
        "/verify/",
        // The admin listener.
        "/",
        "/metrics",
    ];
    assert_eq!(undocumented, expected.map(str::to_owned).into());
    let document = document(CHAIN);
    let is_forwarded = |path: &&String| path.starts_with("/verification/") && path.len() > 14;
    // The tests of `verification` check that these paths are forwarded.
    assert_eq!(paths(&document).keys().filter(is_forwarded).count(), 23);
    assert_eq!(paths(&document).len(), 65);
}

/// Sends the operation's request with the document's example body and the required parameters.
pub(crate) async fn send_request(
    service: &TestServer,
    document: &Value,
    path: &str,
    verb: &str,
    operation: &Value,
) -> Response {
    let mut target = path.to_owned();
    let mut query = vec![];
    for reference in operation["parameters"].as_array().unwrap() {
        let parameter = match reference["$ref"].as_str() {
            Some(pointer) => document.pointer(pointer.trim_start_matches('#')).unwrap(),
            None => reference,
        };
        let name = parameter["name"].as_str().unwrap();
        // A replacement needs a fee, but which of its parameters have it is up to the caller. A wait is to be short.
        if parameter["required"] != true && !["gas_price", "timeout"].contains(&name) {
            continue;
        }
        let value = match name {
            "chain" => "ronin",
            "chainId" | "chain_id" => "2020",
            "key" => "any",
            "gas" => "21000",
            // No price is above it.
            "below" => "340282366920938463463374607431768211455",
            "module" => "gastracker",
            "action" => "gasoracle",
            "verificationId" => "00000000-0000-4000-8000-000000000000",
            "timeout"
            | "tokenId"
            | "max_fee_per_gas"
            | "max_priority_fee_per_gas"
            | "gas_price" => "1",
            "address" | "from" | "to" | "contract" => VAULT,
            name => panic!("unexpected parameter {name}"),
        };
        target = target.replace(&format!("{{{name}}}"), value);
        if parameter["in"] == "query" {
            query.push(format!("{name}={value}"));
        }
    }
    let method = if verb == "post" { Method::POST } else { Method::GET };
    // None of these values needs percent-encoding.
    let target = service.url(&format!("{target}?{}", query.join("&")));
    let example = &operation["requestBody"]["content"]["application/json"]["example"];
    let request = http_client::new().request(method, target).body(example.to_string());
    let response = request.send().await.unwrap();
    if response.headers()["content-type"] == "text/event-stream" {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        return Response { status, headers, body: String::new() };
    }
    Response::read(response).await
}

#[tokio::test]
async fn every_documented_operation_succeeds() {
    let harness = Harness::start().await;
    let document = harness.service.get("/openapi.json").await.json();
    let mut count = 0;
    for (path, item) in paths(&document) {
        for (verb, operation) in item.as_object().unwrap() {
            let response = send_request(&harness.service, &document, path, verb, operation).await;
            assert_eq!(response.status, 200, "{verb} {path}: {response:?}");
            count += 1;
        }
    }
    assert_eq!(count, 66);
}
