//! Webhooks: one for all replicas, and for all starts.

use std::time::{Duration, Instant};

use super::mock_clock_node::MockClockNode;
use super::redis::Redis;
use super::{CHAIN_ID, shared_chain, start_replicas, wait_until};
use crate::mock_node::{MockNode, Reply};
use crate::test_server::TestServer;
use crate::webhook_receiver::WebhookReceiver;

/// Block time of the chain.
const BLOCK_MILLIS: u128 = 250;

#[tokio::test(flavor = "multi_thread")]
async fn one_replica_tells_of_a_crossing() {
    let (redis, receiver) = (Redis::start(), WebhookReceiver::start().await);
    let node = MockClockNode::start(CHAIN_ID, Duration::from_millis(250)).await;
    let config = config(&redis, &receiver, &node.url(), "above = \"0 wei\"");
    let _replicas = start_replicas("webhook", 3, |_| config.clone()).await;
    wait_until("a webhook", async || !receiver.webhooks().is_empty()).await;
    node.wait_for_blocks(10).await;
    assert_eq!(receiver.taken_states(), ["reached"]);
}

/// Returns the configuration of such a chain with an alert of the receiver.
fn config(redis: &Redis, receiver: &WebhookReceiver, node: &str, alert: &str) -> String {
    let url = receiver.url("/hook");
    let alert = format!("[[alerts]]\nchain = \"a\"\nurl = \"{url}\"\n{alert}\n");
    alert + &shared_chain(&redis.url(0), node, "block_time = \"250ms\"\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_survives_a_restart_and_a_chain_that_is_reset() {
    let (redis, receiver) = (Redis::start(), WebhookReceiver::start().await);
    let node = MockNode::start(CHAIN_ID, Reply::history(1_000_000, 3, 17)).await;
    let config = config(&redis, &receiver, &node.url(), "below = \"25 gwei\"\npause = \"1s\"");
    let first = TestServer::start(&config).await;
    wait_until("a webhook", async || receiver.taken_states() == ["reached"]).await;
    first.stop().await.unwrap();
    let second = TestServer::start(&config).await;
    second.wait_for_ok("/v1/a/gas-suggestion").await;
    for (first_block, gwei, states) in
        [(1000, 47, &["reached", "over"][..]), (500, 17, &["reached", "over", "reached"])]
    {
        let started = Instant::now();
        wait_until(&format!("{states:?}"), async || {
            // At the pace of the chain: one that runs away is not believed.
            let blocks = u64::try_from(started.elapsed().as_millis() / BLOCK_MILLIS).unwrap();
            node.set_reply(Reply::history(first_block + blocks, 3, gwei));
            receiver.taken_states() == states
        })
        .await;
    }
}
