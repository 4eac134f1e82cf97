//! Webhooks: one for all replicas.

use std::time::Duration;

use super::mock_clock_node::MockClockNode;
use super::redis::Redis;
use super::{CHAIN_ID, shared_chain, start_replicas, wait_until};
use crate::webhook_receiver::WebhookReceiver;

#[tokio::test(flavor = "multi_thread")]
async fn one_replica_tells_of_a_crossing() {
    let (redis, receiver) = (Redis::start(), WebhookReceiver::start().await);
    let node = MockClockNode::start(CHAIN_ID, Duration::from_millis(250)).await;
    let url = receiver.url("/hook");
    let alert = format!("[[alerts]]\nchain = \"a\"\nabove = \"0 wei\"\nurl = \"{url}\"\n");
    let config = alert + &shared_chain(&redis.url(0), &node.url(), "block_time = \"250ms\"\n");
    let _replicas = start_replicas("webhook", 3, |_| config.clone()).await;
    wait_until("a webhook", async || !receiver.webhooks().is_empty()).await;
    node.wait_for_blocks(10).await;
    assert_eq!(receiver.taken_states(), ["reached"]);
}
