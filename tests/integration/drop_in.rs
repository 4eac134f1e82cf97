//! The suggestion in the formats of other gas services.

use std::fmt::Write;

use reqwest::Method;
use serde_json::{Value, json};

use crate::fixtures::{self, wei};
use crate::http::{VARYING, preflight};
use crate::mock_node::{MockNode, Reply, fee_history, read_chain, wait_until_polled};
use crate::test_server::{Response, TestServer};

/// Documents of chain 2020 that are made of the suggestion.
const DOCUMENTS: [&str; 11] = [
    "/networks/2020/suggestedGasFees",
    "/v3/any-key/networks/2020/suggestedGasFees",
    "/networks/2020/gasPrices",
    "/api?module=gastracker&action=gasoracle&chainid=2020&apikey=any",
    "/api?module=proxy&action=eth_gasPrice&chainid=2020",
    "/api?module=proxy&action=eth_getBlockByNumber&tag=latest&boolean=false&chainid=2020",
    "/compat/safe/2020",
    "/gasprices/blockprices?chainid=2020&confidenceLevels=99&confidenceLevels=90&withBaseFees=true",
    "/compat/rrelayer/2020",
    "/compat/polygon/2020/v2",
    "/compat/flat/2020",
];

async fn node() -> MockNode {
    MockNode::start(2020, Reply::history(1000, 1, 20)).await
}

/// Starts a service with these lines of its chain, and waits for its first poll.
async fn serve(node: &MockNode, more: &str) -> TestServer {
    let service = TestServer::start(&read_chain(&[node], more)).await;
    wait_until_polled(&service).await;
    service
}

/// The documents and their headers, each with the market's amounts: none is whole, and all differ.
#[tokio::test]
async fn every_document_has_the_suggestion_in_its_format_and_its_freshness() {
    let base_fee = |number| if number == 1020 { 2_987_654_321 } else { 3_000_000_007 };
    let rewards = |number: u64| vec![21_000_000_001 + u128::from(number - 1000) * 1_234_567_891];
    let window = fixtures::computed_history(1000..=1019, base_fee, rewards);
    let node = MockNode::start(2020, Reply::Result(window)).await;
    let service = serve(&node, "").await;
    let mut documents = String::new();
    for path in DOCUMENTS.iter().chain(&["/v1/ronin/fee-market"]) {
        let response = service.get(path).await;
        assert!(response.header("age").parse::<u64>().is_ok(), "{path}");
        let more = ["content-length", "etag", "msSinceLastBlock", "observed_at"];
        // Blocks an hour apart make an hour known, or not, by the minute of their time.
        let level = ["level", "level_deviation"];
        let text = response.text(&[&VARYING[..], &more, &level].concat());
        writeln!(documents, "{path}\n{text}\n").unwrap();
    }
    fixtures::assert_snapshot("drop-in", &documents);
    let allowed = service.send(Method::OPTIONS, DOCUMENTS[0], &preflight("x-client-id")).await;
    let names = allowed.header("access-control-allow-headers");
    assert!(names.split(',').any(|name| name == "x-client-id"), "{names}");
}

fn assert_error(path: &str, response: &Response, status: u16, code: &str) {
    assert_eq!(response.status, status, "{path}: {}", response.body);
    assert_eq!(response.header("cache-control"), "no-store", "{path}");
    assert!(!response.header("x-request-id").is_empty(), "{path}");
    assert_eq!(response.header("retry-after").is_empty(), status != 503, "{path}");
    let body = response.json();
    if path.starts_with("/api") || path.starts_with("/compat/safe") {
        // The path has Etherscan's error body.
        assert_eq!(response.header("content-type"), "application/json", "{path}");
        assert_eq!((&body["status"], &body["message"]), (&json!("0"), &json!("NOTOK")), "{path}");
        assert!(body["result"].is_string(), "{path}: {body}");
    } else {
        assert_eq!(response.header("content-type"), "application/problem+json", "{path}");
        assert_eq!(body["code"], code, "{path}");
        // rrelayer and TokenBridge look for this member, whatever the status.
        assert!(body.get("fast").is_none(), "{path}: {body}");
    }
}

#[tokio::test]
async fn without_data_every_document_is_an_error() {
    let node = node().await;
    node.set_reply(Reply::Error(-32000));
    let service = TestServer::start(&read_chain(&[&node], "block_time = \"1s\"")).await;
    service.wait_for_admin("/readyz", |response| response.status == 503).await;
    for path in DOCUMENTS {
        assert_error(path, &service.get(path).await, 503, "no_data");
    }
    node.set_reply(Reply::history(1000, 1, 20));
    wait_until_polled(&service).await;
    for path in DOCUMENTS {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn unknown_names_are_errors_and_parameters_without_a_meaning_ignored() {
    let node = node().await;
    let service = serve(&node, "").await;
    for path in DOCUMENTS {
        let path = path.replace("2020", "7");
        assert_error(&path, &service.get(&path).await, 404, "unknown_chain");
        let known = path.replace('7', "ronin");
        assert_eq!(service.get(&known).await.status, 200, "{known}");
    }
    for query in [
        "",
        "?module=gastracker",
        "?module=account&action=balance",
        "?module=proxy&action=eth_getBlockByNumber&tag=0x1",
        "?module=proxy&action=eth_getBlockByNumber",
        "?module=proxy&action=eth_call",
    ] {
        let path = format!("/api{query}");
        assert_error(&path, &service.get(&path).await, 404, "");
    }
    for path in [
        "/gasprices/blockprices?chainid=2020&chainId=2",
        "/gasprices/blockprices?system=base&network=main",
        "/api?module=gastracker&action=gasoracle&chainid=2020&chain_id=2020",
    ] {
        assert_error(path, &service.get(path).await, 400, "invalid_parameter");
    }
    let many = "x=1&".repeat(100);
    for query in ["apikey=%ff%fe", "&&=", "a&b=", many.as_str()] {
        for path in DOCUMENTS {
            let separator = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{separator}{query}");
            assert_eq!(service.get(&path).await.status, 200, "{path}");
        }
    }
    for name in ["chainId", "CHAIN_ID", "%63hainid"] {
        let unknown = service.get(&format!("/gasprices/blockprices?{name}=7")).await;
        assert_error("", &unknown, 404, "unknown_chain");
    }
    for path in ["/v3/%ff/networks/2020/suggestedGasFees", "/v3/k/networks/%ff/suggestedGasFees"] {
        assert_error(path, &service.get(path).await, 404, "unknown_chain");
    }
}

#[tokio::test]
async fn a_request_without_a_chain_gets_the_one_with_the_lowest_id() {
    let [high, low] = [node().await, node().await];
    low.set_chain_id(7);
    low.set_reply(Reply::history(500, 3, 7));
    let other = low.chain("other", "");
    let service = TestServer::start(&format!("{}{other}", read_chain(&[&high], ""))).await;
    service.wait_for_ok("/v1/other/gas-suggestion").await;
    let oracle = service.get("/api?module=gastracker&action=gasoracle").await.json();
    assert_eq!(oracle["result"]["LastBlock"], "500");
    let prices = service.get("/gasprices/blockprices").await.json();
    assert_eq!(prices["currentBlockNumber"], 500);
    let chains = service.get("/chains").await;
    let expected = json!([
        { "chainId": 7, "system": "other", "network": "other" },
        { "chainId": 2020, "system": "ronin", "network": "ronin" },
    ]);
    assert_eq!((chains.status, chains.json()), (200, expected));
}

#[tokio::test]
async fn routes_lie_below_the_base_path_and_those_of_metamask_also_at_the_root() {
    let node = node().await;
    let base = "base_path = \"/gas\"";
    let service = TestServer::with_server(base, &read_chain(&[&node], "")).await;
    service.wait_for_ok("/gas/v1/ronin/gas-suggestion").await;
    for path in DOCUMENTS {
        assert_eq!(service.get(&format!("/gas{path}")).await.status, 200, "{path}");
        let is_metamask = path.contains("/networks/");
        assert_eq!(service.get(path).await.status == 200, is_metamask, "{path}");
    }
}

#[tokio::test]
async fn a_chain_without_rewards_has_all_documents_but_blocknatives() {
    let node = node().await;
    let mut history = fee_history(1000, 1, 20);
    history["reward"] = Value::Null;
    node.set_reply(Reply::Result(history));
    let service = serve(&node, "pricing.priority_fee_floor = \"3 gwei\"\n").await;
    for path in DOCUMENTS {
        let response = service.get(path).await;
        if path.starts_with("/gasprices") {
            assert_error(path, &response, 503, "no_data");
        } else {
            assert_eq!(response.status, 200, "{path}: {}", response.body);
        }
    }
    let fees = service.get(DOCUMENTS[0]).await.json();
    assert_eq!(fees["low"]["suggestedMaxPriorityFeePerGas"], "3");
    let speeds = service.get("/compat/rrelayer/2020").await;
    assert_eq!(speeds.json()["slow"]["maxWaitTimeEstimate"], Value::Null);
}

async fn call(service: &TestServer, body: Value) -> Value {
    service.post("/rpc/ronin", body.to_string()).await.json()
}

fn request(method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": [] })
}

#[tokio::test]
async fn fee_methods_are_answered_from_the_suggestion_if_configured() {
    let node = node().await;
    node.set_read_reply(Reply::Result(json!("0x7")));
    let forwarding = serve(&node, "").await;
    let reads = |method: &str| node.reads().iter().filter(|read| read.method == method).count();
    for method in ["eth_gasPrice", "eth_maxPriorityFeePerGas"] {
        assert_eq!(call(&forwarding, request(method)).await["result"], "0x7", "{method}");
        assert_eq!(reads(method), 1, "{method}");
    }
    let service = serve(&node, "answer_fee_methods = true\n").await;
    let batch = json!([request("eth_gasPrice"), request("eth_maxPriorityFeePerGas")]);
    let answers = call(&service, batch).await;
    let gwei = |amount: u64| json!(format!("{:#x}", amount * 1_000_000_000));
    assert_eq!((&answers[0]["result"], &answers[1]["result"]), (&gwei(21), &gwei(20)));
    assert_eq!(call(&service, request("eth_baseFee")).await["result"], gwei(1));
    assert_eq!(call(&service, request("rundler_maxPriorityFeePerGas")).await["result"], gwei(20));
    let market = service.get("/v1/ronin/fee-market").await.json();
    let hex = |amount: &Value| json!(format!("{:#x}", wei(amount)));
    for method in [
        "pimlico_getUserOperationGasPrice",
        "zd_getUserOperationGasPrice",
        "biconomy_getGasFeeValues",
    ] {
        let prices = call(&service, request(method)).await;
        for (name, tier) in [("standard", "medium"), ("fast", "high")] {
            let [fees, tier] = [&prices["result"][name], &market["suggestion"][tier]];
            assert_eq!(fees["maxFeePerGas"], hex(&tier["max_fee_per_gas"]), "{method}");
            assert_eq!(fees["maxPriorityFeePerGas"], hex(&tier["max_priority_fee_per_gas"]));
        }
        assert!(prices["result"]["slow"]["maxFeePerGas"].is_string(), "{prices}");
        assert_eq!(call(&forwarding, request(method)).await["error"]["code"], -32601);
    }
    let medium = &market["suggestion"]["medium"];
    let [max_fee, tip] =
        ["max_fee_per_gas", "max_priority_fee_per_gas"].map(|fee| hex(&medium[fee]));
    let expected = json!({ "maxFeePerGas": max_fee, "maxPriorityFeePerGas": tip });
    assert_eq!(call(&service, request("skandha_getGasPrice")).await["result"], expected);
    assert_eq!(call(&service, request("eth_blobBaseFee")).await["result"], "0x7");
    let mut wrong = request("eth_gasPrice");
    wrong["params"] = json!(["latest"]);
    assert_eq!(call(&service, wrong).await["error"]["code"], -32602);
    for method in ["eth_gasPrice", "eth_maxPriorityFeePerGas"] {
        assert_eq!(reads(method), 1, "{method}");
        // On Celo the fee is then in this token, so only the node can answer.
        let mut in_token = request(method);
        in_token["params"] = json!(["0x765DE816845861e75A25fCA122bb6898B8B1282a"]);
        assert_eq!(call(&service, in_token.clone()).await["result"], "0x7", "{method}");
        let read = node.reads().into_iter().rfind(|read| read.method == method).unwrap();
        assert_eq!(read.params, in_token["params"].to_string());
        assert_eq!(reads(method), 2, "{method}");
    }
}

#[tokio::test]
async fn without_current_data_fee_methods_are_those_of_the_node() {
    let node = node().await;
    node.set_reply(Reply::Error(-32000));
    node.set_read_reply(Reply::Result(json!("0x7")));
    let service = TestServer::start(&read_chain(&[&node], "answer_fee_methods = true\n")).await;
    for method in ["eth_gasPrice", "eth_maxPriorityFeePerGas", "eth_baseFee", "eth_blobBaseFee"] {
        assert_eq!(call(&service, request(method)).await["result"], "0x7", "{method}");
    }
    // A method that the node does not have.
    node.set_read_reply(Reply::Error(-32601));
    let mut in_token = request("eth_gasPrice");
    in_token["params"] = json!(["0x765DE816845861e75A25fCA122bb6898B8B1282a"]);
    assert_eq!(call(&service, in_token).await["error"]["code"], -32601);
    let answer = call(&service, request("pimlico_getUserOperationGasPrice")).await;
    let error = json!({
        "code": -32002, "message": "there is no current gas suggestion for this chain",
    });
    assert_eq!(answer["error"], error);
}
