//! Tests that replicas with different pricing windows or Redis databases do not share polls, and that other differences
//! do not matter.

use super::mock_clock_node::MockClockNode;
use super::monitor::Monitor;
use super::redis::Redis;
use super::{
    BLOCK_TIME, CHAIN_ID, Counts, Harness, READ_INTERVAL, chain_section, redis_section,
    shared_chain, start_monitor, start_replicas, wait_until,
};
use crate::chain_model::Window;

/// Returns the blocks that a suggestion of this newest block is made from.
type ToWindow = fn(u64) -> Window;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_with_different_windows_or_databases_do_not_share() {
    let redis = Redis::start();
    let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
    let default: ToWindow = Window::ending_with;
    let settings: [(u8, &str, ToWindow); 6] = [
        (0, "", default),
        (1, "", default),
        (0, "pricing.window_blocks = 10\n", |newest| Window::new(newest, 10, &[60])),
        (0, "pricing.reward_percentiles = [50]\n", |newest| Window::new(newest, 20, &[50])),
        (0, "pricing.reward_percentiles = [60, 100]\n", |newest| {
            Window::new(newest, 20, &[60, 100])
        }),
        (0, "block_time = \"1500ms\"\n", default),
    ];
    let config = |index: usize| {
        let (database, more, _) = settings[index];
        shared_chain(&redis.url(database), &node.url(), more)
    };
    let replicas = start_replicas("apart", settings.len(), config).await;
    let start = |(replica, (_, _, window)): (_, &(_, _, _))| {
        Monitor::start(replica, "a", node.clock.clone(), *window, READ_INTERVAL)
    };
    let monitors = replicas.iter().zip(&settings).map(start).collect();
    let harness = Harness { node, monitors };
    // Each replica claims every slot and adopts nothing.
    wait_until("claimed slots", async || {
        harness.counts().await.iter().all(|counts| counts.claimed >= 6)
    })
    .await;
    harness.check_no_failures();
    for ((_, more, _), counts) in settings.iter().zip(harness.counts().await) {
        assert_eq!((counts.adopted, counts.yielded), (0, 0), "{more}");
        // On a machine that stands still for half a second a command of Redis fails.
        assert!(counts.standalone <= counts.redis_failures, "{more}: {counts:?}");
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
        redis_section(&redis.url(1)) + &chain_section(key, CHAIN_ID, &node.url(), more)
    };
    let replicas = start_replicas("alike", chains.len(), config).await;
    let start = |(replica, (key, _)): (_, &(&str, _))| start_monitor(replica, key, &node);
    let monitors = replicas.iter().zip(&chains).map(start).collect();
    let harness = Harness { node, monitors };
    wait_until("yielded slots", async || {
        let counts = harness.counts().await;
        let sum = |count: fn(&Counts) -> u64| counts.iter().map(count).sum::<u64>();
        sum(|counts| counts.yielded) >= 4 && sum(|counts| counts.adopted) >= 4
    })
    .await;
    harness.node.check_one_poll_per_block(6).await;
    harness.check_no_failures();
}
