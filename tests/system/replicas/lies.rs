//! Tests of three replicas of which one has a spare node that claims blocks that do not exist.

use super::mock_clock_node::{Behaviour, MockClockNode};
use super::monitor::MAX_GAP;
use super::redis::Redis;
use super::{BLOCK_TIME, CHAIN_ID, Harness, shared_chain, start_replicas};

/// Starts replicas, of which the first has a spare that claims `lead` more blocks. After `fault`, checks that no replica
/// has served a block that does not exist, and that all follow the chain.
async fn check_liar(
    name: &str,
    lead: u64,
    fault: impl AsyncFnOnce(&MockClockNode, &MockClockNode),
) {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let liar = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    liar.set_behaviour(Behaviour::Ahead(lead));
    let with_spare = format!("{}\", \"{}", node.url(), liar.url());
    let urls = [with_spare, node.url(), node.url()];
    let config = |index: usize| shared_chain(&redis.url(0), &urls[index], "");
    let replicas = start_replicas(&format!("{name}-{lead}"), urls.len(), config).await;
    let harness = Harness::sharing(node, &replicas).await;
    fault(&harness.node, &liar).await;
    harness.node.wait_for_blocks(4).await;
    assert_eq!(harness.take_stats().failures, [""; 0]);
    harness.node.wait_for_blocks(10).await;
    let stats = harness.take_stats();
    assert_eq!(stats.failures, [""; 0]);
    assert!(stats.max_lag() <= MAX_GAP, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lying_spare_of_one_replica_is_not_believed_after_an_outage() {
    for (lead, outage) in [(1_000_000, 4), (8, 4), (3, 1)] {
        check_liar("outage", lead, async |node, liar| {
            node.set_behaviour(Behaviour::Failing);
            liar.wait_for_calls(1).await;
            node.wait_for_blocks(outage).await;
            node.set_behaviour(Behaviour::Healthy);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lying_spare_of_one_replica_is_not_believed_after_late_blocks() {
    for lead in [1_000_000, 8] {
        check_liar("late-blocks", lead, async |node, _| {
            node.pause(BLOCK_TIME * 5);
            node.wait_for_blocks(1).await;
        })
        .await;
    }
}
