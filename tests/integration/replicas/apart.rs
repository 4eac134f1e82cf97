//! Replicas that must not share: of other configurations, and in another database.

use std::sync::Arc;

use super::clock_node::{ClockNode, Terms};
use super::redis::Redis;
use super::replica::Replica;
use super::watch::Watch;
use super::{BLOCK, ID, READING, at, chain, counts, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_of_other_configurations_do_not_take_each_others_values() {
    let redis = Redis::start();
    let node = ClockNode::start(ID, BLOCK).await;
    let table = |more: &str| chain("a", ID, &node.url(), more);
    let terms = |window, percentiles: &[u64]| Terms { window, percentiles: percentiles.to_vec() };
    let configurations = [
        (table(""), terms(20, &[60])),
        (table("pricing.window_blocks = 10\n"), terms(10, &[60])),
        (table("pricing.reward_percentiles = [50]\n"), terms(20, &[50])),
        (table("pricing.reward_percentiles = [60, 100]\n"), terms(20, &[60, 100])),
        (table("").replace("\"1s\"", "\"1500ms\""), terms(20, &[60])),
    ];
    let mut watches = Vec::new();
    for (place, (chain, terms)) in configurations.into_iter().enumerate() {
        let config = at(&redis.url(0)) + &chain;
        let replica = Arc::new(Replica::start(&format!("apart-{place}"), &config));
        replica.is_ready().await;
        watches.push(Watch::start(&replica, "a", node.clock(), terms, READING));
    }
    let replicas = || watches.iter().map(|watch| &*watch.replica);
    // Alone with its configuration each has every turn, and nothing is news that it has not polled itself.
    until("some turns", async || counts(replicas()).await.iter().all(|counts| counts.claimed >= 6))
        .await;
    for (watch, counts) in watches.iter().zip(counts(replicas()).await) {
        let name = &watch.replica.name;
        assert_eq!(watch.record().failures, [""; 0], "{name}");
        assert_eq!((counts.adopted, counts.left, counts.alone), (0, 0, 0), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_change_what_is_asked_does_not_keep_replicas_apart() {
    let redis = Redis::start();
    let node = ClockNode::start(ID, BLOCK).await;
    // Each its own rules for the same blocks, and its own key and name for the chain.
    let of = |key: &str, more: &str| at(&redis.url(0)) + &chain(key, ID, &node.url(), more);
    let configurations = [
        ("a", of("a", "")),
        ("b", of("b", "name = \"b\"\nmax_age = \"40s\"\nhistory_blocks = 100\n")),
    ];
    let mut watches = Vec::new();
    for (key, config) in configurations {
        let replica = Arc::new(Replica::start(&format!("together-{key}"), &config));
        replica.is_ready().await;
        watches.push(Watch::start(&replica, key, node.clock(), Terms::default(), READING));
    }
    until("turns that are left", async || {
        let (a, b) = (watches[0].replica.counts("a").await, watches[1].replica.counts("b").await);
        a.left + b.left >= 4 && a.adopted + b.adopted >= 4
    })
    .await;
    let before = node.tally();
    until("blocks", async || node.head() >= before.head + 4).await;
    let (blocks, calls) = node.tally().since(before);
    assert!(calls <= blocks + 1, "{calls} calls, {blocks} blocks");
    for watch in &watches {
        assert_eq!(watch.record().failures, [""; 0], "{}", watch.replica.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_in_two_databases_do_not_share() {
    let redis = Redis::start();
    // The same chain by its id, but not the same blocks: whoever took the other's would go back or leap.
    let nodes = [ClockNode::start(ID, BLOCK).await, ClockNode::start(ID, BLOCK).await];
    nodes[1].start_over_at(nodes[0].head() + 3);
    let mut watches = Vec::new();
    for (database, node) in nodes.iter().enumerate() {
        let url = redis.url(u8::try_from(database).unwrap());
        let config = at(&url) + &chain("a", ID, &node.url(), "");
        for place in 0..2 {
            let name = format!("database-{database}-{place}");
            let replica = Arc::new(Replica::start(&name, &config));
            replica.is_ready().await;
            watches.push(Watch::start(&replica, "a", node.clock(), Terms::default(), READING));
        }
    }
    let replicas = || watches.iter().map(|watch| &*watch.replica);
    until("turns with the other one", async || {
        let counts = counts(replicas()).await;
        counts.chunks(2).all(|two| two.iter().map(|one| one.left).sum::<u64>() >= 6)
    })
    .await;
    for (watch, counts) in watches.iter().zip(counts(replicas()).await) {
        let name = &watch.replica.name;
        assert_eq!(watch.record().failures, [""; 0], "{name}");
        assert!(watch.record().max_lag() <= 2, "{name}: {:?}", watch.record());
        assert_eq!(counts.alone, 0, "{name}");
    }
    for node in &nodes {
        let before = node.tally();
        until("blocks", async || node.head() >= before.head + 4).await;
        let (blocks, calls) = node.tally().since(before);
        assert!((blocks - 1..=blocks + 1).contains(&calls), "{calls} in {blocks} blocks");
    }
}
