//! Tests that replicas with different pricing windows or Redis databases do not share polls, and that other differences
//! do not matter.

use super::mock_clock_node::MockClockNode;
use super::monitor::Monitor;
use super::redis::Redis;
use super::{
    BLOCK_TIME, CHAIN_ID, Harness, READ_INTERVAL, chain_section, redis_section, shared_chain,
    start_monitor, start_replicas, wait_until,
};
use crate::chain_model::Window;

/// Returns the blocks that a suggestion of this newest block is made from.
type ToWindow = fn(u64) -> Window;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_with_different_pricing_windows_do_not_share() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let settings: [(&str, ToWindow); 5] = [
        ("", |newest| Window::new(newest, 20, &[60])),
        ("pricing.window_blocks = 10\n", |newest| Window::new(newest, 10, &[60])),
        ("pricing.reward_percentiles = [50]\n", |newest| Window::new(newest, 20, &[50])),
        ("pricing.reward_percentiles = [60, 100]\n", |newest| Window::new(newest, 20, &[60, 100])),
        ("block_time = \"1500ms\"\n", |newest| Window::new(newest, 20, &[60])),
    ];
    let config = |index: usize| shared_chain(&redis.url(0), &node.url(), settings[index].0);
    let replicas = start_replicas("apart", settings.len(), config).await;
    let start = |(replica, (_, window)): (_, &(_, _))| {
        Monitor::start(replica, "a", node.clock(), *window, READ_INTERVAL)
    };
    let monitors = replicas.iter().zip(&settings).map(start).collect();
    let harness = Harness { node, monitors };
    // Each replica claims every slot and adopts nothing.
    wait_until("claimed slots", async || {
        harness.counts().await.iter().all(|counts| counts.claimed >= 6)
    })
    .await;
    harness.check_no_failures();
    for (replica, counts) in replicas.iter().zip(harness.counts().await) {
        let of_others = (counts.adopted, counts.yielded, counts.standalone);
        assert_eq!(of_others, (0, 0, 0), "{}", replica.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_despite_settings_that_do_not_affect_polls() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    // The replicas have different chain keys, names and serving rules for the same blocks.
    let chains = [("a", ""), ("b", "name = \"b\"\nmax_age = \"40s\"\nhistory_blocks = 100\n")];
    let config = |index: usize| {
        let (key, more) = chains[index];
        redis_section(&redis.url(0)) + &chain_section(key, CHAIN_ID, &node.url(), more)
    };
    let replicas = start_replicas("alike", chains.len(), config).await;
    let monitors = [0, 1].map(|index| start_monitor(&replicas[index], chains[index].0, &node));
    wait_until("yielded slots", async || {
        let (a, b) = (replicas[0].counts("a").await, replicas[1].counts("b").await);
        a.yielded + b.yielded >= 4 && a.adopted + b.adopted >= 4
    })
    .await;
    node.check_one_call_per_block(4).await;
    for monitor in &monitors {
        assert_eq!(monitor.stats().failures, [""; 0], "{}", monitor.replica.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_in_two_databases_do_not_share() {
    let redis = Redis::start();
    // The two chains have the same id but different heads, so an adopted value would show as a lower head or a jump.
    let nodes = [
        MockClockNode::start(CHAIN_ID, BLOCK_TIME).await,
        MockClockNode::start(CHAIN_ID, BLOCK_TIME).await,
    ];
    nodes[1].reset_head(nodes[0].head() + 3);
    let mut databases = Vec::new();
    for (database, node) in (0..).zip(nodes) {
        let config = shared_chain(&redis.url(database), &node.url(), "");
        let replicas = start_replicas(&format!("database-{database}"), 2, |_| config.clone()).await;
        databases.push(Harness::new(node, &replicas));
    }
    for harness in &databases {
        wait_until("yielded slots", async || {
            harness.counts().await.iter().map(|counts| counts.yielded).sum::<u64>() >= 6
        })
        .await;
    }
    for harness in &databases {
        harness.check_no_failures();
        for (monitor, counts) in harness.monitors.iter().zip(harness.counts().await) {
            let (name, stats) = (&monitor.replica.name, monitor.stats());
            assert!(stats.max_lag() <= 2 && counts.standalone == 0, "{name}: {stats:?}");
        }
        harness.node.check_one_call_per_block(4).await;
    }
}
