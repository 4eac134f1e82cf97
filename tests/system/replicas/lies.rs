//! Tests of three replicas of which one has a spare node that claims blocks that do not exist.

use super::mock_clock_node::{Behaviour, MockClockNode};
use super::monitor::MAX_GAP;
use super::redis::Redis;
use super::{BLOCK_TIME, CHAIN_ID, Harness, shared_chain, start_replicas};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lying_spare_of_one_replica_is_not_believed() {
    // How many blocks more the spare claims, and for how many the node fails. `None`: its blocks are late.
    for (lead, outage) in
        [(1_000_000, Some(4)), (8, Some(4)), (3, Some(1)), (1_000_000, None), (8, None)]
    {
        let redis = Redis::start();
        let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
        let liar = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
        liar.set_behaviour(Behaviour::Ahead(lead));
        let with_spare = format!("{}\", \"{}", node.url(), liar.url());
        let urls = [with_spare, node.url(), node.url()];
        let config = |index: usize| shared_chain(&redis.url(0), &urls[index], "");
        let name = format!("liar-{lead}-{}", outage.unwrap_or_default());
        let replicas = start_replicas(&name, urls.len(), config).await;
        let harness = Harness::sharing(node, &replicas).await;
        let node = &harness.node;
        if let Some(blocks) = outage {
            node.set_behaviour(Behaviour::Failing);
            liar.wait_for_calls(1).await;
            node.wait_for_blocks(blocks).await;
            node.set_behaviour(Behaviour::Healthy);
        } else {
            node.continue_from(node.clock.head(), BLOCK_TIME * 5);
            node.wait_for_blocks(1).await;
        }
        node.wait_for_blocks(4).await;
        assert_eq!(harness.take_stats().failures, [""; 0], "{name}");
        node.wait_for_blocks(10).await;
        let stats = harness.take_stats();
        assert_eq!(stats.failures, [""; 0], "{name}");
        assert!(stats.max_lag <= MAX_GAP, "{name}: {stats:?}");
    }
}
