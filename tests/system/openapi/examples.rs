//! Compares the document's examples with real responses.

use reqwest::Method;
use serde_json::{Value, json};

use super::CHAIN_ALONE;
use crate::http_message::get;
use crate::mock_node::{self, MockNode};
use crate::raw_client::RawClient;
use crate::registry::{self, Registry};
use crate::test_server::TestServer;

/// Returns the example response of the operation at `path`.
fn example(document: &Value, verb: &str, path: &str) -> Value {
    let content = &document["paths"][path][verb]["responses"]["200"]["content"];
    let content = content.as_object().unwrap_or_else(|| panic!("no content at {path}"));
    let example = content.values().next().unwrap()["example"].clone();
    assert!(!example.is_null(), "no example at {path}");
    example
}

/// Returns the example request body of the operation at `path`.
fn example_request(document: &Value, path: &str) -> Value {
    let body = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"];
    assert!(!body["example"].is_null(), "no example at {path}");
    body["example"].clone()
}

/// Starts a service with `pricing` whose node has the blocks of the examples.
async fn start(pricing: &str) -> (MockNode, TestServer) {
    let mut history = mock_node::fee_history(43_447_700, 1, 20);
    let mut ratios = [0.25; 20];
    ratios[19] = 0.5;
    history["gasUsedRatio"] = json!(ratios);
    let has_high = pricing.contains("60, 100");
    if has_high {
        history["reward"] = json!(vec![vec!["0x4a817c800", "0x59682f000"]; 20]);
    }
    let percentiles = if has_high { json!([60, 100]) } else { json!([60]) };
    let reply = mock_node::Reply::Result(history);
    let node = MockNode::with_percentiles(2020, percentiles, reply).await;
    let more = format!("stall_after = \"0s\"\n[chains.ronin.pricing]\n{pricing}\n");
    let services = "[verification]\nurl = \"http://127.0.0.1:9\"\n[delegation]\nsource = \"api\"\n";
    let chain = node.chain("ronin", &format!("json_rpc = true\n{more}"));
    let service = TestServer::start(&format!("{services}{chain}")).await;
    service.wait_for_ok("/readyz").await;
    (node, service)
}

#[tokio::test]
async fn fee_examples_match_real_responses() {
    for pricing in ["", "reward_percentiles = [60, 100]\npriority_fee_floor = \"1 gwei\""] {
        let (_node, service) = start(pricing).await;
        let document = service.get("/openapi.json").await.json();
        for (path, target) in [
            ("/v1/{chain}/gas-suggestion", "/v1/ronin/gas-suggestion"),
            ("/v1/gas-suggestions", "/v1/gas-suggestions"),
            ("/v1/{chain}/fee-market", "/v1/2020/fee-market"),
            ("/v1/fee-markets", "/v1/fee-markets"),
            ("/v1/{chain}/fee-history", "/v1/ronin/fee-history?blocks=2"),
            ("/v1/chains", "/v1/chains"),
            ("/livez", "/livez"),
            ("/readyz", "/readyz"),
        ] {
            let mut expected = example(&document, "get", path);
            let response = service.get(target).await.json();
            let (expected_item, item) = match (&mut expected, &response) {
                (Value::Array(expected), Value::Array(items)) => (&mut expected[0], &items[0]),
                both => both,
            };
            // The time differs; its length does not.
            for name in ["observed_at", "newest_block_at"] {
                let Some(time) = expected_item.get_mut(name) else { continue };
                assert_eq!(time.as_str().unwrap().len(), item[name].as_str().unwrap().len());
                *time = item[name].clone();
            }
            // The example knows a day of prices, and the service none.
            for (name, known) in [("level", json!("normal")), ("level_deviation", json!(0.0))] {
                let Some(value) = expected_item.get_mut(name) else { continue };
                assert_eq!(value.take(), known);
            }
            // The example's chain has no data fee, and the node of the service does not return that of Ronin.
            if let Some(data_fee) = expected_item.get_mut("data_fee") {
                assert_eq!(data_fee.take()["kind"], "none");
                expected_item["data_fee_reason"] = json!("not_read");
            }
            assert_eq!(response, expected, "{path}");
        }
        for (path, target) in [
            ("/v1/{chain}/gas-suggestion/stream", "/v1/ronin/gas-suggestion/stream"),
            ("/v1/gas-suggestions/stream", "/v1/gas-suggestions/stream"),
        ] {
            let event = example(&document, "get", path);
            let text = |name: &str| format!("{name}: {}\n", event[name].as_str().unwrap());
            let expected = ["event", "id", "data"].map(text).concat();
            let mut connection = RawClient::connect(service.address()).await;
            connection.send(get(target, "")).await;
            let received = connection.read_bytes_until(b"}}\n\n", 1).await;
            let received = String::from_utf8(received).unwrap();
            assert!(received.contains(&expected), "{expected} in {received}");
        }
    }
}

#[tokio::test]
async fn problem_examples_match_real_responses() {
    let service =
        TestServer::start(&format!("[delegation]\nsource = \"chain\"\n{CHAIN_ALONE}")).await;
    let document = service.get("/openapi.json").await.json();
    let examples = document["components"]["examples"].as_object().unwrap();
    let long = format!("/{}", "a".repeat(9000));
    for (code, method, path) in [
        ("unknown_chain", Method::GET, "/v1/none/fee-market"),
        ("not_found", Method::GET, "/none"),
        ("no_data", Method::GET, "/v1/ronin/gas-suggestion"),
        ("method_not_allowed", Method::POST, "/v1/chains"),
        ("invalid_parameter", Method::GET, "/registry/v2/check/all"),
        ("uri_too_long", Method::GET, &long),
        ("not_ready", Method::GET, "/readyz"),
    ] {
        let response = service.send(method, path, &[]).await;
        let mut expected = examples[code]["value"].clone();
        expected["request_id"] = json!(response.header("x-request-id"));
        assert_eq!(response.json(), expected, "{path}");
        assert_eq!(json!(response.status), expected["status"], "{path}");
    }
}

#[tokio::test]
async fn chain_examples_match_real_responses() {
    let registry = Registry::start().await;
    let document = registry.service.get("/openapi.json").await.json();
    let call = example_request(&document, "/rpc/{chain}");
    let response = registry.service.post("/rpc/ronin", call.to_string()).await;
    assert_eq!(response.json(), example(&document, "post", "/rpc/{chain}"));

    let (from, to) = (registry::VAULT, registry::DELEGATE);
    registry.execute(&registry::request("delegate_all", json!({}))).await;
    let listed = registry.service.get(&format!("/registry/v2/{from}")).await.json();
    assert_eq!(listed, example(&document, "get", "/registry/v2/{address}"));
    let check = format!("/registry/v2/check/all?from={from}&to={to}");
    let allowed = registry.service.get(&check).await.json();
    assert_eq!(allowed, example(&document, "get", "/registry/v2/check/all"));
}
