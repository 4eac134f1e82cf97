//! The OpenAPI document: that it is one, and that it says what there is.

mod examples;
pub(crate) mod world;

use std::collections::BTreeSet;

use gas_suggestion::config::Config;
use reqwest::{Client, Method};
use serde_json::{Map, Value, json};

use crate::command::{File, output};
use crate::fixtures;
use crate::programs;
use crate::registry::VAULT;
use crate::service::{Answer, Service};
use world::World;

/// A chain that nobody reads.
const CHAIN: &str = "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"http://127.0.0.1:9\"]\n";
const ANOTHER: &str =
    "[chains.b-2]\nchain_id = 7\nrpc_urls = [\"http://127.0.0.1:9\"]\nhistory_blocks = 5\n";
const SWITCHED_OFF: &str = "[verification]\nurl = \"\"\n[delegation]\nsource = \"off\"\n";

fn document(configuration: &str) -> Value {
    let config = Config::from_toml(configuration).unwrap();
    serde_json::from_str(&gas_suggestion::api::document(&config).unwrap()).unwrap()
}

fn paths(document: &Value) -> &Map<String, Value> {
    document["paths"].as_object().unwrap()
}

#[tokio::test]
async fn the_command_prints_what_the_service_serves() {
    for base in ["", "/proxy/public"] {
        let section = format!("base_path = \"{base}\"");
        let file = File::new("openapi", &format!("[server]\n{section}\n{CHAIN}{ANOTHER}"));
        let (code, told, complaints) = output(&["openapi", "--config", file.path()], &[]);
        assert_eq!((code, complaints.as_str()), (Some(0), ""));
        let service = Service::with_server(&section, &format!("{CHAIN}{ANOTHER}")).await;
        let path = format!("{base}/openapi.json");
        let served = service.get(&path).await;
        assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), served.json());
        let headers = ["content-type", "cache-control", "access-control-allow-origin"];
        let headers = headers.map(|name| served.header(name));
        assert_eq!((served.status, headers), (200, ["application/json", "no-cache", "*"]));
        let condition = [("if-none-match", served.header("etag"))];
        let same = service.send(Method::GET, &path, &condition).await;
        assert_eq!((same.status, same.body.as_str()), (304, ""));
        assert_eq!(same.header("etag"), served.header("etag"));
        let url = if base.is_empty() { "/" } else { base };
        assert_eq!(served.json()["servers"], json!([{ "url": url }]));
        // Another process says the same in the same bytes, so that its tag is the same.
        let other = Service::with_server(&section, &format!("{CHAIN}{ANOTHER}")).await;
        assert_eq!(other.get(&path).await.header("etag"), served.header("etag"));
    }
}

#[test]
fn without_a_usable_configuration_there_is_no_document() {
    let (code, told, complaints) = output(&["openapi", "--config", "/none.toml"], &[]);
    assert_eq!((code, told.as_str()), (Some(2), ""));
    assert!(complaints.starts_with("error: cannot read the file /none.toml"), "{complaints}");
}

#[test]
fn it_has_the_version_the_chains_and_how_many_blocks_they_remember() {
    let document = document(&format!("{CHAIN}{ANOTHER}"));
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let parameters = &document["components"]["parameters"];
    let names = json!(["b-2", "7", "ronin", "2020"]);
    assert_eq!(parameters["path.chain"]["schema"]["enum"], names);
    assert_eq!(parameters["query.chainId"]["schema"]["enum"], json!([7, 2020]));
    assert_eq!(parameters["query.blocks"]["schema"]["maximum"], 1024);
}

#[test]
fn routes_that_are_switched_off_are_left_out() {
    let of = |configuration: &str, beginnings: &[&str]| {
        let document = document(configuration);
        let found = beginnings.iter().map(|beginning| {
            paths(&document).keys().filter(|path| path.starts_with(beginning)).count()
        });
        let tags = document["tags"].as_array().unwrap().iter();
        let tags: Vec<_> = tags.map(|tag| tag["name"].as_str().unwrap().to_owned()).collect();
        (found.collect::<Vec<_>>(), tags)
    };
    let beginnings = ["/verif", "/registry/", "/v1/{chain}/delegations/", "/v1/", "/rpc/"];
    let (found, tags) = of(CHAIN, &beginnings);
    assert_eq!(found, [26, 6, 1, 9, 1]);
    assert_eq!(tags, ["Gas", "JSON-RPC", "Delegation", "Verification", "Pages", "Operation"]);
    let (found, tags) = of(&format!("{SWITCHED_OFF}{CHAIN}"), &beginnings);
    assert_eq!(found, [0, 0, 0, 8, 1]);
    assert_eq!(tags, ["Gas", "JSON-RPC", "Pages", "Operation"]);
}

#[tokio::test]
async fn it_is_a_valid_document_whatever_is_configured_and_its_examples_fit_their_schemas() {
    let both = "[chains.b-2.pricing]\nreward_percentiles = [60, 100]\n";
    for (name, configuration) in [
        ("all", CHAIN.to_owned()),
        ("off", format!("{SWITCHED_OFF}{CHAIN}")),
        ("based", format!("[server]\nbase_path = \"/a/b\"\n{CHAIN}{ANOTHER}{both}")),
    ] {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
        std::fs::write(&path, document(&configuration).to_string()).unwrap();
        let mut command = programs::of_python("python");
        command.args(["-m", "openapi_spec_validator", "--schema", "3.1"]).arg(&path);
        let told = programs::success(command).await;
        assert!(told.ends_with(": OK"), "{told}");
        let mut command = programs::of_python("python");
        command.arg(fixtures::path("tests/python/examples.py")).arg(&path);
        let count: usize = programs::success(command).await.parse().unwrap();
        // Those of problems, of headers, of answers and of requests.
        assert!(count > 35, "{name}: {count}");
    }
}

#[test]
fn what_the_api_may_answer_to_a_look_up_is_said_where_it_is_asked() {
    let operation = |source: &str, path: &str| {
        let document = document(&format!("[delegation]\nsource = \"{source}\"\n{CHAIN}"));
        paths(&document)[path]["get"]["responses"].clone()
    };
    let amount = "/registry/v2/check/erc20";
    let schema =
        |responses: &Value| responses["200"]["content"]["application/json"]["schema"].clone();
    let number = json!({ "$ref": "#/components/schemas/Uint256" });
    let problem = |name: &str| json!({ "$ref": format!("#/components/responses/{name}") });
    let of_chain = operation("chain", amount);
    assert_eq!(schema(&of_chain), number);
    assert_eq!(of_chain["400"], problem("InvalidParameter"));
    assert!(of_chain["4XX"].is_null());
    for source in ["api", "api-then-chain"] {
        let of_api = operation(source, amount);
        let any = json!({ "type": "number", "minimum": 0 });
        assert_eq!(schema(&of_api), json!({ "anyOf": [number, any] }));
        assert_eq!(of_api["400"], problem("InvalidParameterOrOfUpstream"));
        assert_eq!([&of_api["4XX"], &of_api["5XX"]], [&problem("OfUpstream"); 2]);
        let list = schema(&operation(source, "/registry/v2/{address}"));
        let known = json!({ "$ref": "#/components/schemas/Delegation" });
        assert_eq!(list["items"], json!({ "anyOf": [known, { "type": "object" }] }));
        let check = schema(&operation(source, "/registry/v2/check/all"));
        assert_eq!(check, json!({ "type": "boolean" }));
    }
}

/// The paths in the route table, whose text is read, and of the pages.
fn routes() -> BTreeSet<String> {
    /// Those that stand there by a name.
    const NAMED: [(&str, &str); 4] = [
        ("Ledger::SUGGESTION,", "/v1/{chain}/gas-suggestion"),
        ("list,", "/registry/v2/{address}"),
        ("prepare,", "/v1/{chain}/delegations/transactions"),
        ("&format!(\"{path}/\"),", "/"),
    ];
    let text = |path| String::from_utf8(fixtures::read(path)).unwrap();
    let quoted = |rest: &str| rest.split_once('"').unwrap().0.to_owned();
    let api = text("src/api.rs");
    let named = |rest: &str| {
        let named = NAMED.iter().find(|(name, _)| rest.starts_with(name));
        named.unwrap_or_else(|| panic!("a route by another name: {rest:.60}")).1.to_owned()
    };
    let of_table = api.split(".route(").skip(1);
    let of_table = of_table.map(|rest| rest.strip_prefix('"').map_or_else(|| named(rest), quoted));
    let pages = text("src/api/pages.rs");
    let of_pages = pages.split("File::html(\"").skip(1).map(quoted);
    of_table.chain(of_pages).collect()
}

#[test]
fn the_document_has_every_route_and_no_other() {
    // What pages load is not in the document either; it is no HTML.
    let exceptions = BTreeSet::from([
        // It is on the admin listener.
        "/metrics",
        // It says that look-ups are switched off.
        "/registry/v2/check/{scope}",
        // What it passes on is in the document path by path.
        "/verification/{*path}",
    ]);
    let routes = routes();
    let mut expected: BTreeSet<&str> = routes.iter().map(String::as_str).collect();
    for path in &exceptions {
        assert!(expected.remove(path), "{path} is no route");
    }
    let document = document(CHAIN);
    let is_passed_on =
        |path: &&str| path.starts_with("/verification/") && path.len() > "/verification/".len();
    let (passed_on, documented): (BTreeSet<_>, BTreeSet<_>) =
        paths(&document).keys().map(String::as_str).partition(is_passed_on);
    assert_eq!(documented, expected);
    // That they are passed on is a test of that module.
    assert_eq!(passed_on.len(), 23);
}

/// Asks for the operation with what the document gives as examples, or requires.
async fn ask(service: &Service, document: &Value, path: &str, verb: &str, what: &Value) -> Answer {
    let mut target = path.to_owned();
    let mut query = vec![];
    for reference in what["parameters"].as_array().unwrap() {
        let pointer = reference["$ref"].as_str().unwrap().trim_start_matches('#');
        let parameter = document.pointer(pointer).unwrap();
        let name = parameter["name"].as_str().unwrap();
        if parameter["required"] != true {
            continue;
        }
        let value = match name {
            "chain" => "ronin",
            "chainId" => "2020",
            "verificationId" => "00000000-0000-4000-8000-000000000000",
            "tokenId" => "1",
            "address" | "from" | "to" | "contract" => VAULT,
            name => panic!("{name} is a parameter that nobody expects"),
        };
        target = target.replace(&format!("{{{name}}}"), value);
        if parameter["in"] == "query" {
            query.push(format!("{name}={value}"));
        }
    }
    let method = if verb == "post" { Method::POST } else { Method::GET };
    // Nothing in these needs to be encoded.
    let target = service.url(&format!("{target}?{}", query.join("&")));
    let request = Client::new().request(method, target);
    let example = &what["requestBody"]["content"]["application/json"]["example"];
    let response = request.body(example.to_string()).send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    if headers["content-type"] == "text/event-stream" {
        return Answer { status, headers, body: String::new() };
    }
    Answer { status, headers, body: response.text().await.unwrap() }
}

#[tokio::test]
async fn every_operation_of_the_document_is_answered() {
    let world = World::start().await;
    let document = world.service.get("/openapi.json").await.json();
    let mut count = 0;
    for (path, item) in paths(&document) {
        for (verb, what) in item.as_object().unwrap() {
            let answer = ask(&world.service, &document, path, verb, what).await;
            assert_eq!(answer.status, 200, "{verb} {path}: {answer:?}");
            count += 1;
        }
    }
    assert_eq!(count, 47);
}
