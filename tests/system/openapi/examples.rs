//! Compares the document's examples with real responses.

use serde_json::{Value, json};

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

/// Starts a service whose node has the blocks of the examples.
async fn start() -> (MockNode, TestServer) {
    let mut history = mock_node::fee_history(43_447_700, 1, 20);
    let mut ratios = [0.25; 20];
    ratios[19] = 0.5;
    history["gasUsedRatio"] = json!(ratios);
    let node = MockNode::with_percentiles(1, json!([60]), mock_node::Reply::Result(history)).await;
    let services = "[verification]\nurl = \"http://127.0.0.1:9\"\n[delegation]\nsource = \"api\"\n";
    let chain = node.chain(
        "ethereum",
        "json_rpc = true\nstall_after = \"0s\"\n\
                 pricing.base_fee_change_denominator = 8\n",
    );
    let service = TestServer::start(&format!("{services}{chain}")).await;
    service.wait_for_ok("/readyz").await;
    (node, service)
}

#[tokio::test]
async fn fee_examples_match_real_responses() {
    let (_node, service) = start().await;
    let document = service.get("/openapi.json").await.json();
    for (path, target) in [
        ("/v1/{chain}/gas-suggestion", "/v1/ethereum/gas-suggestion"),
        ("/v1/gas-suggestions", "/v1/gas-suggestions"),
        ("/v1/{chain}/fee-market", "/v1/1/fee-market"),
        ("/v1/fee-markets", "/v1/fee-markets"),
        ("/v1/{chain}/fee-history", "/v1/ethereum/fee-history?blocks=2"),
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
        assert_eq!(response, expected, "{path}");
    }
    for (path, target) in [
        ("/v1/{chain}/gas-suggestion/stream", "/v1/ethereum/gas-suggestion/stream"),
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

#[tokio::test]
async fn chain_examples_match_real_responses() {
    let registry = Registry::start().await;
    let document = registry.service.get("/openapi.json").await.json();
    let call = example_request(&document, "/rpc/{chain}");
    let response = registry.service.post("/rpc/ronin", call.to_string()).await;
    let mut expected = example(&document, "post", "/rpc/{chain}");
    assert_eq!(expected["result"].take(), "0x1");
    // The registry is on another chain than the one of the examples.
    expected["result"] = json!("0x7e4");
    assert_eq!(response.json(), expected);

    let (from, to) = (registry::VAULT, registry::DELEGATE);
    registry.execute(&registry::request("delegate_all", json!({}))).await;
    let listed = registry.service.get(&format!("/registry/v2/{from}")).await.json();
    assert_eq!(listed, example(&document, "get", "/registry/v2/{address}"));
    let check = format!("/registry/v2/check/all?from={from}&to={to}");
    let allowed = registry.service.get(&check).await.json();
    assert_eq!(allowed, example(&document, "get", "/registry/v2/check/all"));
}
