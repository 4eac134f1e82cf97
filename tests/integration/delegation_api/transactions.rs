//! Invalid requests for transactions are refused without a request to an upstream.

use serde_json::{Map, Value, json};

use super::refusal;
use crate::delegation_service::{CONTRACT, HOT, Harness, VAULT};
use crate::http_message::{Message, chunked, get, post, post_chunked};
use crate::mock_delegate_api::MockDelegateApi;
use crate::mock_node::Reply;

const PATH: &str = "/v1/2020/delegations/transactions";

async fn start() -> (MockDelegateApi, Harness) {
    let (api, harness) = Harness::with_api("api-then-chain", "api_key = \"k\"").await;
    // With known fees, only the request itself can be refused.
    harness.service.wait_for_ok("/v1/2020/gas-suggestion").await;
    (api, harness)
}

/// Returns a request of every action with its required members.
fn requests() -> [Map<String, Value>; 5] {
    let more = [
        ("delegate_all", json!({})),
        ("delegate_contract", json!({ "contract": CONTRACT })),
        ("delegate_erc721", json!({ "contract": CONTRACT, "token_id": "7" })),
        ("delegate_erc20", json!({ "contract": CONTRACT, "amount": "1000" })),
        ("delegate_erc1155", json!({ "contract": CONTRACT, "token_id": "7", "amount": "5" })),
    ];
    let request = |(action, more): (&str, Value)| {
        let mut request = json!({ "from": VAULT, "action": action, "to": HOT });
        let members = request.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        members.clone()
    };
    more.map(request)
}

impl Harness {
    async fn prepare(&self, body: &str) -> Message {
        self.send(post(PATH, "Content-Type: application/json\r\n", body.as_bytes())).await
    }
}

#[tokio::test]
async fn valid_requests_are_prepared_without_the_api() {
    let (api, harness) = start().await;
    let result = |json: &str| Reply::RawResult(json.into());
    let replies = [("eth_getCode", result("\"0x00\"")), ("eth_estimateGas", result("\"0x5208\""))];
    harness.node.set_read_reply(Reply::PerMethod(replies.into()));
    for request in requests() {
        let response = harness.prepare(&Value::from(request).to_string()).await;
        assert_eq!(response.status(), 200, "{response:#?}");
    }
    assert_eq!(api.request_count(), 0);
    assert!(harness.other.reads().is_empty() && harness.reads() > 0);
}

#[tokio::test]
async fn other_bodies_than_objects_of_valid_members_are_refused() {
    let (api, harness) = start().await;
    let valid = Value::from(requests()[0].clone()).to_string();
    let bodies = [
        "7".into(),
        format!("[{valid}]"),
        format!("{valid}}}"),
        format!("{valid}{valid}"),
        valid.replace('"', "'"),
        "from=0x0&action=delegate_all".into(),
        "[".repeat(10_000),
        "{\"from\":".repeat(1000),
    ];
    for body in bodies {
        let response = harness.prepare(&body).await;
        let body = &body[..body.len().min(300)];
        assert_eq!(response.outcome(), (400, "invalid_parameter".into()), "{body}: {response:#?}");
    }
    for request in requests() {
        for (name, _) in request.iter().filter(|(name, _)| *name != "action") {
            let mut request = Value::from(request.clone());
            request[name] = json!("0xg");
            let body = request.to_string();
            refusal(&harness.prepare(&body).await, name, &body, 400);
        }
    }
    let response = harness.send(post(PATH, "", b"{\"from\":\"\xff\xfe\"}")).await;
    assert_eq!(response.outcome(), (400, "invalid_parameter".into()));
    assert_eq!((api.request_count(), harness.reads()), (0, 0));
}

#[tokio::test]
async fn large_compressed_and_unknown_chain_requests_are_refused() {
    let (api, harness) = start().await;
    let valid = Value::from(requests()[0].clone()).to_string();
    let large = format!("{valid}{}", " ".repeat(16 * 1024));
    let in_chunks = post_chunked(PATH, "", &chunked(large.as_bytes(), 1000));
    for request in [post(PATH, "", large.as_bytes()), in_chunks] {
        assert_eq!(harness.send(request).await.outcome(), (413, "payload_too_large".into()));
    }
    let response = harness.send(post(PATH, "Content-Encoding: gzip\r\n", valid.as_bytes())).await;
    assert_eq!(response.outcome(), (415, "unsupported_media_type".into()));
    for chain in ["1", "none", "02020", "-1", "%ff", "0x7e6", "2020%20"] {
        let path = format!("/v1/{chain}/delegations/transactions");
        let response = harness.send(post(&path, "", valid.as_bytes())).await;
        assert_eq!(response.outcome(), (404, "unknown_chain".into()), "{chain}");
    }
    for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE"] {
        let request = get(PATH, "").replacen("GET", method, 1);
        let response = harness.send(request).await;
        assert_eq!((response.status(), response.header("allow")), (405, "POST"), "{method}");
        if method != "HEAD" {
            assert_eq!(response.outcome(), (405, "method_not_allowed".into()));
        }
    }
    assert_eq!((api.request_count(), harness.reads()), (0, 0));
}
