//! Invalid requests for transactions are refused without a request to an upstream.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::refusal;
use crate::delegation_service::{CONTRACT, HOT, Harness, VAULT};
use crate::fixtures;
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

/// Returns the request with this member.
fn with(request: &Map<String, Value>, name: &str, value: &Value) -> Value {
    let mut request = Value::from(request.clone());
    request[name] = value.clone();
    request
}

impl Harness {
    async fn prepare(&self, body: &str) -> Message {
        self.send(post(PATH, "Content-Type: application/json\r\n", body.as_bytes())).await
    }

    /// Asserts that this request is refused with the name of the member. Returns the detail of the problem.
    async fn refuses_member(&self, name: &str, body: impl ToString) -> String {
        let body = body.to_string();
        refusal(&self.prepare(&body).await, name, &body, 400)
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
async fn missing_members_are_refused_by_name() {
    let (api, harness) = start().await;
    for request in requests() {
        for name in request.keys() {
            let mut some = request.clone();
            some.remove(name);
            let detail = harness.refuses_member(name, Value::from(some.clone())).await;
            let expected = [format!("`{name}` is required"), format!("missing field `{name}`")];
            assert!(expected.iter().any(|text| detail.contains(text)), "{some:?}: {detail}");
            some.insert(name.clone(), Value::Null);
            harness.refuses_member(name, Value::from(some)).await;
        }
    }
    assert_eq!((api.request_count(), harness.reads()), (0, 0));
}

#[tokio::test]
async fn invalid_members_are_refused_by_name() {
    let (api, harness) = start().await;
    let mut invalid: BTreeMap<String, Vec<Value>> =
        fixtures::json("tests/fixtures/delegation/invalid-members.json");
    invalid.get_mut("rights").unwrap().push(json!("a".repeat(1000)));
    let mut count = 0;
    for request in requests() {
        for (name, values) in &invalid {
            let is_needed =
                request.contains_key(name) || ["rights", "enable"].contains(&name.as_str());
            for value in values.iter().filter(|_| is_needed) {
                harness.refuses_member(name, with(&request, name, value)).await;
                count += 1;
            }
        }
    }
    assert!(count > 200, "{count}");
    assert_eq!((api.request_count(), harness.reads()), (0, 0));
}

#[tokio::test]
async fn superfluous_and_unknown_members_are_refused_by_name() {
    let (api, harness) = start().await;
    let superfluous =
        [("contract", json!(CONTRACT)), ("token_id", json!("7")), ("amount", json!("1"))];
    let unknown = ["tokenId", "From", "value", "gas", "chain_id", "data", "", "nonce"]
        .map(|name| (name, json!("0x0")));
    for request in requests() {
        let superfluous = superfluous.iter().filter(|(name, _)| !request.contains_key(*name));
        for (name, value) in superfluous.chain(&unknown) {
            harness.refuses_member(name, with(&request, name, value)).await;
        }
        let body = Value::from(request).to_string();
        for name in ["from", "action", "to"] {
            let twice = body.replacen('{', &format!("{{\"{name}\":\"{VAULT}\","), 1);
            harness.refuses_member(name, twice).await;
        }
    }
    let body = format!(
        "{{\"from\":\"{VAULT}\",\"action\":\"delegate_erc20\",\"to\":\"{HOT}\",\
         \"contract\":\"{CONTRACT}\",\"amount\":\"0\",\"enable\":true}}"
    );
    harness.refuses_member("amount", body).await;
    assert_eq!((api.request_count(), harness.reads()), (0, 0));
}

#[tokio::test]
async fn bodies_other_than_a_json_object_are_refused() {
    let (api, harness) = start().await;
    let valid = Value::from(requests()[0].clone()).to_string();
    let bodies = [
        String::new(),
        " ".into(),
        "null".into(),
        "true".into(),
        "7".into(),
        "\"delegate_all\"".into(),
        "[]".into(),
        format!("[{valid}]"),
        // The values of a request's members as an array.
        format!("[\"{VAULT}\",\"delegate_all\",\"{HOT}\",null,null,null,null,null]"),
        format!("[\"{VAULT}\",\"delegate_all\",\"{HOT}\"]"),
        "{".into(),
        valid[..valid.len() - 1].into(),
        format!("{valid}}}"),
        format!("{valid}{valid}"),
        format!("\u{feff}{valid}"),
        valid.replace('"', "'"),
        valid.replace(':', "="),
        "from=0x0&action=delegate_all".into(),
        "<from/>".into(),
        "[".repeat(10_000),
        "{\"from\":".repeat(1000),
    ];
    for body in bodies {
        let response = harness.prepare(&body).await;
        let body = &body[..body.len().min(300)];
        assert_eq!(response.outcome(), (400, "invalid_parameter".into()), "{body}: {response:#?}");
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
