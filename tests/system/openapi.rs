//! The OpenAPI document: validity, completeness, and agreement with the service.

mod examples;
pub(crate) mod harness;

use std::collections::BTreeSet;

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
const CHAIN: &str = "[verification]\nurl = \"http://127.0.0.1:9\"\n[delegation]\nsource = \"api\"\n\
     [chains.ronin]\nchain_id = 2020\njson_rpc = true\nrpc_urls = [\"http://127.0.0.1:9\"]\n";
const CHAIN_ALONE: &str =
    "[chains.ronin]\nchain_id = 2020\njson_rpc = true\nrpc_urls = [\"http://127.0.0.1:9\"]\n";
const ANOTHER: &str =
    "[chains.b-2]\nchain_id = 7\nrpc_urls = [\"http://127.0.0.1:9\"]\nhistory_blocks = 5\n";

fn document(configuration: &str) -> Value {
    let config = Config::from_toml(configuration, &sections()).unwrap();
    serde_json::from_str(&gas_suggestion::server::document(&config).unwrap()).unwrap()
}

fn paths(document: &Value) -> &Map<String, Value> {
    document["paths"].as_object().unwrap()
}

#[tokio::test]
async fn openapi_command_prints_the_served_document() {
    for base in ["", "/proxy/public"] {
        let section = format!("base_path = \"{base}\"");
        let file = File::new("openapi", &format!("[server]\n{section}\n{CHAIN}{ANOTHER}"));
        let (code, stdout, stderr) = output(&["openapi", "--config", file.path()], &[]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        let service = TestServer::with_server(&section, &format!("{CHAIN}{ANOTHER}")).await;
        let path = format!("{base}/openapi.json");
        let served = service.get(&path).await;
        assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap(), served.json());
        let headers = ["content-type", "cache-control", "access-control-allow-origin"];
        let headers = headers.map(|name| served.header(name));
        assert_eq!((served.status, headers), (200, ["application/json", "no-cache", "*"]));
        let condition = [("if-none-match", served.header("etag"))];
        let same = service.send(Method::GET, &path, &condition).await;
        assert_eq!((same.status, same.body.as_str()), (304, ""));
        assert_eq!(same.header("etag"), served.header("etag"));
        let url = if base.is_empty() { "/" } else { base };
        assert_eq!(served.json()["servers"], json!([{ "url": url }]));
        // Each instance renders the same bytes, hence the same ETag.
        let other = TestServer::with_server(&section, &format!("{CHAIN}{ANOTHER}")).await;
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
fn document_states_version_chains_and_history_length() {
    let document = document(&format!("{CHAIN}{ANOTHER}"));
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let parameters = &document["components"]["parameters"];
    let names = json!(["b-2", "7", "ronin", "2020"]);
    assert_eq!(parameters["path.chain"]["schema"]["enum"], names);
    assert_eq!(parameters["query.chainId"]["schema"]["enum"], json!([7, 2020]));
    assert_eq!(parameters["query.blocks"]["schema"]["maximum"], 1024);
    let periods = |history: &str| {
        let document = self::document(&format!("[history]\n{history}\n{CHAIN}"));
        document["components"]["parameters"]["query.period"]["schema"]["enum"].clone()
    };
    assert_eq!(periods(""), json!(["1h", "24h", "7d"]));
    assert_eq!(periods("days = 6"), json!(["1h", "24h"]));
    assert_eq!(periods("days = 30\npath = \"a\""), json!(["1h", "24h", "7d", "30d"]));
}

#[test]
fn generic_document_does_not_depend_on_the_configured_chains() {
    let generic = |chains: &str| {
        let file = File::new("generic", &format!("[server]\nbase_path = \"/a\"\n{chains}"));
        let (code, stdout, stderr) =
            output(&["openapi", "--generic", "--config", file.path()], &[]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        stdout
    };
    let other = CHAIN.replace("ronin", "other").replace("2020", "7");
    let text = generic(&other);
    assert!(text == generic(CHAIN), "the document differs");
    let generic: Value = serde_json::from_str(&text).unwrap();
    let parameters = &generic["components"]["parameters"];
    assert_eq!(parameters["path.chain"]["schema"], json!({ "type": "string" }));
    assert!(parameters["query.chainId"]["schema"]["enum"].is_null());
    assert!(parameters["query.blocks"]["schema"]["maximum"].is_null());
    let configured = document(&format!("[server]\nbase_path = \"/a\"\n{CHAIN}"));
    assert_eq!(
        paths(&generic).keys().collect::<Vec<_>>(),
        paths(&configured).keys().collect::<Vec<_>>()
    );
    assert_eq!(generic["servers"], configured["servers"]);
    assert_eq!(generic["components"]["schemas"], configured["components"]["schemas"]);
}

#[test]
fn disabled_routes_are_omitted() {
    let paths_and_tags = |configuration: &str, prefixes: &[&str]| {
        let document = document(configuration);
        let found = prefixes
            .iter()
            .map(|prefix| paths(&document).keys().filter(|path| path.starts_with(prefix)).count());
        let tags = document["tags"].as_array().unwrap().iter();
        let tags: Vec<_> = tags.map(|tag| tag["name"].as_str().unwrap().to_owned()).collect();
        (found.collect::<Vec<_>>(), tags)
    };
    let prefixes = ["/verif", "/registry/", "/v1/{chain}/delegations/", "/v1/", "/rpc/"];
    let (counts, tags) = paths_and_tags(CHAIN, &prefixes);
    assert_eq!(counts, [25, 6, 1, 19, 1]);
    assert_eq!(
        tags,
        ["Gas", "Drop-in formats", "JSON-RPC", "Delegation", "Verification", "Pages", "Operation"]
    );
    let (counts, tags) = paths_and_tags(CHAIN_ALONE, &prefixes);
    assert_eq!(counts, [0, 0, 0, 18, 1]);
    assert_eq!(tags, ["Gas", "Drop-in formats", "JSON-RPC", "Pages", "Operation"]);
}

#[tokio::test]
async fn document_is_valid_and_examples_match_their_schemas() {
    let both = "[chains.b-2.pricing]\nreward_percentiles = [60, 100]\n";
    for (name, configuration) in [
        ("all", CHAIN.to_owned()),
        ("off", CHAIN_ALONE.to_owned()),
        ("based", format!("[server]\nbase_path = \"/a/b\"\n{CHAIN}{ANOTHER}{both}")),
    ] {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
        std::fs::write(&path, document(&configuration).to_string()).unwrap();
        let mut command = programs::python_tool("python");
        command.args(["-m", "openapi_spec_validator", "--schema", "3.1"]).arg(&path);
        let stdout = programs::expect_success(command).await;
        assert!(stdout.ends_with(": OK"), "{stdout}");
        let mut command = programs::python_tool("python");
        command.arg(fixtures::path("tests/python/examples.py")).arg(&path);
        let count: usize = programs::expect_success(command).await.parse().unwrap();
        // The count includes examples of problems, headers, responses and requests.
        assert!(count > 35, "{name}: {count}");
    }
}

#[tokio::test]
async fn generated_client_parses_every_example_response() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let api = CHAIN.replace("\"api\"", "\"api-then-chain\"");
    for (name, configuration) in [
        ("client-all", CHAIN.to_owned()),
        ("client-api", api),
        ("client-off", CHAIN_ALONE.to_owned()),
    ] {
        let (path, client) = (directory.join(format!("{name}.json")), directory.join(name));
        // Not as a `Value`, which sorts members: the client uses the first media type of a response.
        let config = Config::from_toml(&configuration, &sections()).unwrap();
        std::fs::write(&path, gas_suggestion::server::document(&config).unwrap()).unwrap();
        let mut command = programs::python_tool("openapi-python-client");
        command.args(["generate", "--fail-on-warning", "--overwrite", "--config"]);
        command.arg(fixtures::path("tests/python/client.yaml"));
        command.arg("--path").arg(&path).arg("--output-path").arg(&client);
        programs::expect_success(command).await;
        let mut command = programs::python_tool("python");
        command.arg(fixtures::path("tests/python/client.py")).args([&path, &client]);
        let count: usize = programs::expect_success(command).await.parse().unwrap();
        assert!(count > 130, "{name}: {count}");
    }
}

#[test]
fn lookups_document_upstream_responses_where_the_api_is_used() {
    let operation = |source: &str, path: &str| {
        let document = document(&CHAIN.replace("\"api\"", &format!("\"{source}\"")));
        paths(&document)[path]["get"]["responses"].clone()
    };
    let amount = "/registry/v2/check/erc20";
    let schema =
        |responses: &Value| responses["200"]["content"]["application/json"]["schema"].clone();
    let number = json!({ "$ref": "#/components/schemas/Uint256" });
    let problem = |name: &str| json!({ "$ref": format!("#/components/responses/{name}") });
    let from_chain = operation("chain", amount);
    assert_eq!(schema(&from_chain), number);
    assert_eq!(from_chain["400"], problem("bad_request.invalid_parameter"));
    assert!(from_chain["4XX"].is_null());
    for source in ["api", "api-then-chain"] {
        let from_api = operation(source, amount);
        let any = json!({ "type": "number", "minimum": 0 });
        assert_eq!(schema(&from_api), json!({ "anyOf": [number, any] }));
        assert_eq!(from_api["400"], problem("bad_request.invalid_parameter.upstream"));
        assert_eq!([&from_api["4XX"], &from_api["5XX"]], [&problem("upstream"); 2]);
        let list = schema(&operation(source, "/registry/v2/{address}"));
        let known = json!({ "$ref": "#/components/schemas/Delegation" });
        assert_eq!(list["items"], json!({ "anyOf": [known, { "type": "object" }] }));
        let check = schema(&operation(source, "/registry/v2/check/all"));
        assert_eq!(check, json!({ "type": "boolean" }));
    }
}

#[test]
fn only_these_routes_are_not_in_the_document() {
    // `routes!` adds a route to the router and to the document, `.route` to the router only.
    let mut undocumented = BTreeSet::new();
    let mut folders = vec![fixtures::path("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                let routes = code.split(".route(").skip(1);
                let name =
                    |rest: &str| rest.split_once(',').unwrap().0.trim_matches('"').to_owned();
                undocumented.extend(routes.map(name));
            }
        }
    }
    let expected = [
        // The node of `demo`.
        "/{chain}",
        // Disabled features, files of pages, and the paths of the verification service, which the document lists one by
        // one.
        "path",
        // MetaMask's paths are described beside their handlers.
        "FEES_PATH",
        "FEES_PATH_WITH_KEY",
        "PRICES_PATH",
        // Other spellings of a described path.
        "PATH_WITH_SLASH",
        "/v2/api",
        // The dashboard, and redirects.
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
    assert_eq!(paths(&document).len(), 67);
}

/// Sends the operation's request with the document's example body and the required parameters.
async fn send_request(
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
        // A replacement needs a fee, but which of its parameters have it is up to the caller.
        let is_required = parameter["required"] == true || name == "gas_price";
        if !is_required {
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
            "tokenId" | "max_fee_per_gas" | "max_priority_fee_per_gas" | "gas_price" => "1",
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
    let request = http_client::new().request(method, target);
    let example = &operation["requestBody"]["content"]["application/json"]["example"];
    let response = request.body(example.to_string()).send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    if headers["content-type"] == "text/event-stream" {
        return Response { status, headers, body: String::new() };
    }
    Response { status, headers, body: response.text().await.unwrap() }
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
    assert_eq!(count, 68);
}
