//! Tests of three replicas of which one has a spare node that claims blocks that do not exist.

use std::sync::Arc;

use super::mock_clock_node::{Behaviour, MockClockNode};
use super::monitor::{MAX_GAP, ReadStats};
use super::redis::Redis;
use super::replica::Replica;
use super::{BLOCK_TIME, CHAIN_ID, Harness, chain_section, redis_section, wait_until};

/// Replicas of a chain and the liar.
struct Attack {
    harness: Harness,
    liar: MockClockNode,
}

impl Attack {
    async fn start(name: &str, lead: u64) -> Self {
        let redis = Redis::start();
        let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
        let liar = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
        liar.set_behaviour(Behaviour::Ahead(lead));
        let urls = format!("{}\", \"{}", node.url(), liar.url());
        let replicas: Vec<_> = (0..3)
            .map(|index| {
                let url = if index == 0 { urls.clone() } else { node.url() };
                let chain = chain_section("a", CHAIN_ID, &url, "");
                let config = redis_section(&redis.url(0)) + &chain;
                Arc::new(Replica::start(&format!("lies-{name}-{index}"), &config))
            })
            .collect();
        Self { harness: Harness::from_replicas(redis, node, &replicas).await, liar }
    }

    /// Waits until the replica with two nodes calls the liar, then for this many blocks.
    async fn wait_for_liar(&self, blocks: u64) {
        wait_until("a call of the liar", async || self.liar.progress().calls > 0).await;
        self.harness.wait_for_blocks(blocks).await;
    }

    /// Checks that no replica served a block that does not exist, and that all follow the chain.
    async fn check(&self) {
        self.harness.wait_for_blocks(4).await;
        self.harness.check_no_failures();
        let _: ReadStats = self.harness.take_stats();
        self.harness.wait_for_blocks(10).await;
        self.harness.check_no_failures();
        let stats = self.harness.take_stats();
        assert!(stats.max_lag() <= MAX_GAP, "{stats:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lying_spare_of_one_replica_is_not_believed_after_an_outage() {
    for (lead, outage) in [(1_000_000, 4), (8, 4), (3, 1)] {
        let attack = Attack::start(&format!("outage-{lead}"), lead).await;
        attack.harness.node.set_behaviour(Behaviour::Failing);
        attack.wait_for_liar(outage).await;
        attack.harness.node.set_behaviour(Behaviour::Healthy);
        attack.check().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lying_spare_of_one_replica_is_not_believed_after_late_blocks() {
    for lead in [1_000_000, 8] {
        let attack = Attack::start(&format!("late-{lead}"), lead).await;
        attack.harness.node.pause(BLOCK_TIME * 5);
        attack.harness.wait_for_blocks(1).await;
        attack.check().await;
    }
}
