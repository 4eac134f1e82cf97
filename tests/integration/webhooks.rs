//! Alerts: when a webhook is called, and what it says.

use alloy_primitives::hex;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;

use crate::mock_node::{MockNode, Reply};
use crate::test_server::{Response, TestServer, wait_until};
use crate::webhook_receiver::WebhookReceiver;

/// Short blocks.
const CHAIN: &str = "block_time = \"50ms\"\nmax_age = \"5s\"\nstall_after = \"0s\"";

/// Starts a node whose price is 43 gwei, and a service of this chain with an alert of the receiver.
async fn start(receiver: &WebhookReceiver, alert: &str, chain: &str) -> (MockNode, TestServer) {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let url = receiver.url("/hook?chat_id=7");
    let alert = format!("[[alerts]]\nchain = \"a\"\nurl = \"{url}\"\n{alert}\n");
    let service = TestServer::start(&(alert + &node.chain("a", chain))).await;
    (node, service)
}

/// Waits until the receiver has taken exactly these states.
async fn wait_for_states(receiver: &WebhookReceiver, states: &[&str]) {
    wait_until(&format!("{states:?}"), async || receiver.taken_states() == states).await;
}

/// Publishes a price of so many gwei at a new block.
async fn publish(node: &MockNode, service: &TestServer, block: u64, gwei: u64) {
    node.set_reply(Reply::history(block, 3, gwei - 3));
    service.wait_for_block("/v1/a/gas-suggestion", block).await;
}

#[tokio::test]
async fn a_webhook_tells_of_each_crossing_and_its_end() {
    let receiver = WebhookReceiver::start().await;
    let alert = "below = \"30 gwei\"\nsecret = \"c4n4ry-key\"";
    let (node, service) = start(&receiver, alert, CHAIN).await;
    for (block, gwei) in [(1000, 43), (1001, 31), (1002, 30), (1003, 25), (1004, 30)] {
        publish(&node, &service, block, gwei).await;
    }
    wait_for_states(&receiver, &["reached"]).await;
    publish(&node, &service, 1005, 31).await;
    wait_for_states(&receiver, &["reached", "over"]).await;
    let webhooks = receiver.webhooks();
    let first = &webhooks[0];
    let expected = json!({
        "chain": "a", "chain_name": "a", "state": "reached", "limit": "30000000000",
        "price_per_gas": "30000000000", "newest_block": 1002, "observed_at": first.json()["observed_at"],
    });
    assert_eq!((first.json(), first.uri.as_str()), (expected, "/hook?chat_id=7"));
    assert!(humantime::parse_rfc3339(first.json()["observed_at"].as_str().unwrap()).is_ok());
    assert_eq!(first.headers["content-type"], "application/json");
    let mut mac = Hmac::<Sha256>::new_from_slice(b"c4n4ry-key").unwrap();
    mac.update(&first.body);
    let signature = format!("sha256={}", hex::encode(mac.finalize().into_bytes()));
    assert_eq!(first.headers["x-signature-256"], signature);
    let delivered = "gas_suggestion_webhooks_total{chain=\"a\",outcome=\"delivered\"}";
    assert_eq!(service.count(delivered).await, 2);
}

#[tokio::test]
async fn a_failed_webhook_is_repeated_until_it_is_taken_or_replaced() {
    let receiver = WebhookReceiver::start().await;
    receiver.refuse(1);
    let (node, service) = start(&receiver, "above = \"40 gwei\"", CHAIN).await;
    wait_for_states(&receiver, &["reached"]).await;
    let webhooks = receiver.webhooks();
    assert!(webhooks[0].was_refused && webhooks[0].body == webhooks[1].body, "{webhooks:?}");
    assert!(webhooks[0].headers.get("x-signature-256").is_none());
    // The price comes back while the receiver refuses: the newer state replaces the older one.
    receiver.refuse(usize::MAX);
    publish(&node, &service, 1001, 20).await;
    wait_until("a refusal", async || receiver.webhooks().len() > 2).await;
    publish(&node, &service, 1002, 50).await;
    let replaced = "gas_suggestion_webhooks_total{chain=\"a\",outcome=\"replaced\"}";
    service.wait_for_count(replaced, 1).await;
    receiver.refuse(0);
    wait_for_states(&receiver, &["reached", "reached"]).await;
}

#[tokio::test]
async fn a_stale_price_changes_no_state() {
    let receiver = WebhookReceiver::start().await;
    let chain = "block_time = \"50ms\"\nstall_after = \"500ms\"\nmax_block_age = \"0s\"";
    let (node, service) = start(&receiver, "above = \"100 gwei\"", chain).await;
    let is_stale = |response: &Response| response.header("x-stale") == "true";
    service.wait_for("/v1/a/gas-suggestion", is_stale).await;
    // The same block with another price is stale too: its head has not moved.
    node.set_reply(Reply::history(1000, 3, 200));
    let is_dear =
        |response: &Response| response.json()["expected_price_per_gas"]["medium"] == "203000000000";
    service.wait_for("/v1/a/fee-market", is_dear).await;
    assert_eq!(receiver.taken_states(), Vec::<String>::new());
    node.set_reply(Reply::history(1001, 3, 200));
    wait_for_states(&receiver, &["reached"]).await;
}
