//! Alerts: when a webhook is called, and what it says.

use std::time::Duration;

use alloy_primitives::hex;
use ring::hmac;
use serde_json::json;

use crate::history_rows::Directory;
use crate::mock_node::{MockNode, Reply};
use crate::test_server::{Response, TestServer, wait_until};
use crate::webhook_receiver::WebhookReceiver;

/// Short blocks.
const CHAIN: &str = "block_time = \"50ms\"\nmax_age = \"5s\"\nstall_after = \"0s\"";

/// Starts a node whose price is 43 gwei, and a service of this chain with an alert of the receiver.
async fn start(receiver: &WebhookReceiver, alert: &str, chain: &str) -> (MockNode, TestServer) {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let service = start_with(&node, receiver, alert, chain).await;
    (node, service)
}

async fn start_with(
    node: &MockNode,
    receiver: &WebhookReceiver,
    alert: &str,
    chain: &str,
) -> TestServer {
    let url = receiver.url("/hook?chat_id=7");
    let alert = format!("[[alerts]]\nchain = \"a\"\nurl = \"{url}\"\n{alert}\n");
    TestServer::start(&(alert + &node.chain("a", chain))).await
}

/// Waits until the receiver has taken exactly these states.
async fn wait_for_states(receiver: &WebhookReceiver, states: &[&str]) {
    wait_until(&format!("{states:?}"), async || receiver.taken_states() == states).await;
}

/// Publishes blocks from `first` on with a price of so many gwei, until the condition is met.
async fn publish_until(node: &MockNode, first: u64, gwei: u64, condition: impl Fn() -> bool) {
    let mut blocks = first..;
    wait_until("a webhook", async || {
        node.set_reply(Reply::history(blocks.next().unwrap(), 3, gwei - 3));
        condition()
    })
    .await;
}

/// Publishes a price of so many gwei at a new block.
async fn publish(node: &MockNode, service: &TestServer, block: u64, gwei: u64) {
    node.set_reply(Reply::history(block, 3, gwei - 3));
    service.wait_for_block("/v1/a/gas-suggestion", block).await;
}

#[tokio::test]
async fn a_webhook_tells_of_each_crossing_and_its_end() {
    let receiver = WebhookReceiver::start().await;
    let alert = "below = \"30 gwei\"\nsecret = \"c4n4ry-key\"\npause = \"1s\"";
    let (node, service) = start(&receiver, alert, CHAIN).await;
    for (block, gwei) in [(1000, 43), (1001, 31), (1002, 30), (1003, 25), (1004, 30)] {
        publish(&node, &service, block, gwei).await;
    }
    wait_for_states(&receiver, &["reached"]).await;
    // Not before the pause is over.
    publish_until(&node, 1005, 31, || receiver.taken_states() == ["reached", "over"]).await;
    let webhooks = receiver.webhooks();
    let first = &webhooks[0];
    assert!(webhooks[1].at - first.at >= Duration::from_millis(900), "{webhooks:?}");
    let expected = json!({
        "chain": "a", "chain_name": "a", "state": "reached", "limit": "30000000000",
        "price_per_gas": "30000000000", "newest_block": 1002, "observed_at": first.json()["observed_at"],
        "doubts": [],
    });
    assert_eq!((first.json(), first.uri.as_str()), (expected, "/hook?chat_id=7"));
    assert!(humantime::parse_rfc3339(first.json()["observed_at"].as_str().unwrap()).is_ok());
    assert_eq!(first.headers["content-type"], "application/json");
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"c4n4ry-key");
    let signature = format!("sha256={}", hex::encode(hmac::sign(&key, &first.body)));
    assert_eq!(first.headers["x-signature-256"], signature);
    let delivered = "gas_suggestion_webhooks_total{chain=\"a\",outcome=\"delivered\"}";
    assert_eq!(service.count(delivered).await, 2);
}

#[tokio::test]
async fn a_failed_webhook_is_repeated_until_it_is_taken_or_replaced() {
    let receiver = WebhookReceiver::start().await;
    receiver.refuse(1);
    let alert = "above = \"40 gwei\"\npause = \"1s\"";
    let (node, service) = start(&receiver, alert, CHAIN).await;
    wait_for_states(&receiver, &["reached"]).await;
    let webhooks = receiver.webhooks();
    assert!(webhooks[0].was_refused && webhooks[0].body == webhooks[1].body, "{webhooks:?}");
    assert!(webhooks[0].headers.get("x-signature-256").is_none());
    // The price comes back while the receiver refuses: the newer state replaces the older one.
    receiver.refuse(usize::MAX);
    publish_until(&node, 1001, 20, || receiver.webhooks().len() > 2).await;
    let newest_state = || receiver.webhooks().last().unwrap().json()["state"].clone();
    publish_until(&node, 2001, 50, || newest_state() == "reached").await;
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

#[tokio::test]
async fn a_price_in_doubt_reaches_no_limit() {
    let receiver = WebhookReceiver::start().await;
    let (node, service) = start(&receiver, "above = \"100 gwei\"", CHAIN).await;
    service.wait_for_block("/v1/a/gas-suggestion", 1000).await;
    let Reply::Result(mut leap) = Reply::history(1001, 3, 40) else { unreachable!() };
    leap["reward"][19][0] = json!(format!("{:#x}", 80_000_000_000_000_u64));
    node.set_reply(Reply::Result(leap));
    let doubt = service.wait_for_block("/v1/a/fee-market", 1001).await;
    assert_eq!(doubt.header("x-doubt"), "reward_leap");
    node.set_reply(Reply::history(1002, 3, 200));
    wait_for_states(&receiver, &["reached"]).await;
    let reached = receiver.webhooks()[0].json();
    assert_eq!((&reached["newest_block"], &reached["doubts"]), (&json!(1002), &json!([])));
}

#[tokio::test]
async fn a_state_survives_a_restart_with_a_history_database() {
    let (receiver, directory) = (WebhookReceiver::start().await, Directory::new("webhooks"));
    let history = format!("[history]\nrefill = false\npath = \"{}\"", directory.file().display());
    let alert = format!("below = \"50 gwei\"\npause = \"1s\"\n{history}");
    let (node, service) = start(&receiver, &alert, CHAIN).await;
    wait_for_states(&receiver, &["reached"]).await;
    service.stop().await.unwrap();
    let service = start_with(&node, &receiver, &alert, CHAIN).await;
    service.wait_for_block("/v1/a/gas-suggestion", 1000).await;
    publish(&node, &service, 1001, 43).await;
    service.stop().await.unwrap();
    // The next start sends what has changed meanwhile.
    node.set_reply(Reply::history(1002, 3, 60));
    let _service = start_with(&node, &receiver, &alert, CHAIN).await;
    publish_until(&node, 1003, 63, || receiver.taken_states() == ["reached", "over"]).await;
}
