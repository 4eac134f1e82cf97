//! Tests that replicas with different pricing windows or Redis databases do not share polls, and that other differences
//! do not matter.

use std::sync::Arc;

use super::mock_clock_node::{MockClockNode, PricingSettings};
use super::monitor::Monitor;
use super::redis::Redis;
use super::replica::Replica;
use super::{
    BLOCK_TIME, CHAIN_ID, READ_INTERVAL, chain_section, counts, redis_section, start_monitor,
    wait_until,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_with_different_pricing_windows_do_not_share() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let table = |more: &str| chain_section("a", CHAIN_ID, &node.url(), more);
    let settings =
        |window, percentiles: &[u64]| PricingSettings { window, percentiles: percentiles.to_vec() };
    let configurations = [
        (table(""), settings(20, &[60])),
        (table("pricing.window_blocks = 10\n"), settings(10, &[60])),
        (table("pricing.reward_percentiles = [50]\n"), settings(20, &[50])),
        (table("pricing.reward_percentiles = [60, 100]\n"), settings(20, &[60, 100])),
        (table("").replace("\"1s\"", "\"1500ms\""), settings(20, &[60])),
    ];
    let mut monitors = Vec::new();
    for (index, (chain, settings)) in configurations.into_iter().enumerate() {
        let config = redis_section(&redis.url(0)) + &chain;
        let replica = Arc::new(Replica::start(&format!("apart-{index}"), &config));
        replica.wait_until_ready().await;
        monitors.push(Monitor::start(&replica, "a", node.clock(), settings, READ_INTERVAL));
    }
    let replicas = || monitors.iter().map(|monitor| &*monitor.replica);
    // Each replica claims every slot and adopts nothing.
    wait_until("claimed slots", async || {
        counts(replicas()).await.iter().all(|counts| counts.claimed >= 6)
    })
    .await;
    for (monitor, counts) in monitors.iter().zip(counts(replicas()).await) {
        let name = &monitor.replica.name;
        assert_eq!(monitor.stats().failures, [""; 0], "{name}");
        assert_eq!((counts.adopted, counts.yielded, counts.standalone), (0, 0, 0), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_despite_settings_that_do_not_affect_polls() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    // The replicas have different chain keys, names and serving rules for the same blocks.
    let config = |key: &str, more: &str| {
        redis_section(&redis.url(0)) + &chain_section(key, CHAIN_ID, &node.url(), more)
    };
    let configurations = [
        ("a", config("a", "")),
        ("b", config("b", "name = \"b\"\nmax_age = \"40s\"\nhistory_blocks = 100\n")),
    ];
    let mut monitors = Vec::new();
    for (key, config) in configurations {
        let replica = Arc::new(Replica::start(&format!("together-{key}"), &config));
        replica.wait_until_ready().await;
        monitors.push(start_monitor(&replica, key, &node));
    }
    wait_until("yielded slots", async || {
        let (a, b) = (monitors[0].replica.counts("a").await, monitors[1].replica.counts("b").await);
        a.yielded + b.yielded >= 4 && a.adopted + b.adopted >= 4
    })
    .await;
    let before = node.progress();
    wait_until("blocks", async || node.head() >= before.head + 4).await;
    let (blocks, calls) = node.progress().since(before);
    assert!(calls <= blocks + 1, "{calls} calls, {blocks} blocks");
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
    let mut monitors = Vec::new();
    for (database, node) in nodes.iter().enumerate() {
        let url = redis.url(u8::try_from(database).unwrap());
        let config = redis_section(&url) + &chain_section("a", CHAIN_ID, &node.url(), "");
        for index in 0..2 {
            let name = format!("database-{database}-{index}");
            let replica = Arc::new(Replica::start(&name, &config));
            replica.wait_until_ready().await;
            monitors.push(start_monitor(&replica, "a", node));
        }
    }
    let replicas = || monitors.iter().map(|monitor| &*monitor.replica);
    wait_until("yielded slots", async || {
        let counts = counts(replicas()).await;
        counts.chunks(2).all(|two| two.iter().map(|one| one.yielded).sum::<u64>() >= 6)
    })
    .await;
    for (monitor, counts) in monitors.iter().zip(counts(replicas()).await) {
        let name = &monitor.replica.name;
        assert_eq!(monitor.stats().failures, [""; 0], "{name}");
        assert!(monitor.stats().max_lag() <= 2, "{name}: {:?}", monitor.stats());
        assert_eq!(counts.standalone, 0, "{name}");
    }
    for node in &nodes {
        let before = node.progress();
        wait_until("blocks", async || node.head() >= before.head + 4).await;
        let (blocks, calls) = node.progress().since(before);
        assert!((blocks - 1..=blocks + 1).contains(&calls), "{calls} in {blocks} blocks");
    }
}
