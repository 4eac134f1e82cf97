//! Webhooks: one for all replicas.

use super::mock_clock_node::MockClockNode;
use super::redis::Redis;
use super::replica::Replica;
use super::{BLOCK_TIME, CHAIN_ID, shared_chain, wait_until};
use crate::webhook_receiver::WebhookReceiver;

#[tokio::test(flavor = "multi_thread")]
async fn one_replica_tells_of_a_crossing() {
    let (redis, receiver) = (Redis::start(), WebhookReceiver::start().await);
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let url = receiver.url("/hook");
    let replica = |index: usize| {
        let name = format!("webhook-{index}");
        let chain = shared_chain(&redis, &node.url_for(&name), "");
        let alert = format!("[[alerts]]\nchain = \"a\"\nabove = \"0 wei\"\nurl = \"{url}\"\n");
        Replica::start(&name, &format!("{alert}{chain}"))
    };
    let replicas: Vec<_> = (0..3).map(replica).collect();
    for replica in &replicas {
        replica.wait_until_ready().await;
    }
    wait_until("a webhook", async || !receiver.webhooks().is_empty()).await;
    let started = node.head();
    wait_until("ten blocks", async || node.head() >= started + 10).await;
    assert_eq!(receiver.taken_states(), ["reached"]);
}
