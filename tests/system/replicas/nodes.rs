//! Polls of a node that real replicas share over a real Redis. The simulator has faults of nodes, replicas and Redis.

use serde_json::Value;

use super::mock_clock_node::MockClockNode;
use super::redis::Redis;
use super::{BLOCK_TIME, CHAIN_ID, Harness, shared_chain, start_replicas, wait_until};
use crate::chain_model::Window;
use crate::fixtures::wei;

/// Settings of a chain that is polled so rarely that a test sees one slot.
const LONG_SLOTS: &str = "block_time = \"10m\"\nmax_age = \"40m\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_started_together_poll_once_and_each_has_its_own_pricing() {
    let redis = Redis::start();
    // All replicas start within one slot.
    let node = MockClockNode::start(CHAIN_ID, 10 * BLOCK_TIME).await;
    let expensive = "pricing.base_fee_multiplier = 3\npricing.priority_fee_floor = \"500 gwei\"\n";
    let config = |index: usize| {
        let more = format!("{LONG_SLOTS}{}", if index == 0 { expensive } else { "" });
        shared_chain(&redis.url(0), &node.url(), &more)
    };
    for (index, replica) in start_replicas("together", 6, config).await.iter().enumerate() {
        let response = replica.suggestion().await;
        let window = Window::ending_with(response.newest_block()).body("a");
        if index > 0 {
            assert_eq!(response.body, window);
            continue;
        }
        let [own, default] =
            [&response.body, &window].map(|body| serde_json::from_str::<Value>(body).unwrap());
        let [own_base, base] = [&own, &default].map(|body| wei(&body["base_fee_per_gas"]));
        assert_eq!(own_base * 2, base * 3);
        assert_eq!(own["medium"]["max_priority_fee_per_gas"], "500000000000");
    }
    let calls = ["eth_chainId", "eth_feeHistory"].map(|method| node.calls_of(method, 0).len());
    assert_eq!(calls, [1, 1], "{:?}", node.calls());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poll_result_reaches_the_other_replicas_at_once() {
    const POLLS: usize = 5;
    let redis = Redis::start();
    let harness = Harness::start("reaching-all", 3, &redis).await;
    let (node, replicas) = (&harness.node, harness.replicas());
    let mut delays = Vec::new();
    while delays.len() < POLLS {
        let calls_before = node.progress().calls;
        wait_until("a poll", async || node.response_count(calls_before) >= 1).await;
        let (head, at) = node.last_response().unwrap();
        for replica in &replicas {
            wait_until("its block at a replica", async || {
                replica.suggestion().await.newest_block() >= head
            })
            .await;
        }
        delays.push(at.elapsed());
    }
    delays.sort_unstable();
    // Without messages, a replica would find the value an eighth of a slot later, when it tries to claim the slot. A
    // busy machine may delay some messages, but hardly all of them.
    assert!(delays[0] < BLOCK_TIME / 8, "{delays:?}");
    harness.check_no_failures();
}
