//! Chaos test: of eight replicas, about one per second is killed or frozen, each third one during its poll, the others
//! between polls: two lost polls in a row would be a gap.
//!
//! `tests/replicas.sh` runs it for five minutes with a random seed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};
use tokio::task::JoinSet;

use super::mock_clock_node::MockClockNode;
use super::monitor::{MAX_GAP, Monitor, ReadStats};
use super::redis::Redis;
use super::replica::Replica;
use super::{BLOCK_TIME, Harness, chain_section, redis_section, start_replicas};
use crate::chain_model::Window;
use crate::programs::variable_or;

/// A fixed seed, so that a new failure is caused by the change under test.
const SEED: &str = "20261122";
const SECONDS: &str = "20";
const REPLICAS: usize = 8;
const CHAINS: [(&str, u64); 2] = [("a", 7), ("b", 8)];

/// Response delay of the nodes, so that replicas are stopped during a poll.
const NODE_DELAY: Duration = Duration::from_millis(60);
/// Read interval per chain and replica.
const READ_INTERVAL: Duration = Duration::from_millis(150);
/// Time until a killed process is started again.
const RESTART_DELAY: Duration = Duration::from_millis(300);
/// Time that a thawed process gets to catch up before its reads count.
const GRACE: Duration = Duration::from_millis(1500);
/// Maximum number of polls per hundred blocks.
const MAX_POLLS: u64 = 110;
/// Minimum number of polls per hundred blocks. A chain that is not polled is far below.
const MIN_POLLS: u64 = 80;

/// Kills the process of a replica and starts it again, or freezes it for `frozen`. Returns the start-up time.
async fn strike(monitors: &[&Monitor], frozen: Option<Duration>) -> Duration {
    let replica = &monitors[0].replica;
    for monitor in monitors {
        monitor.pause();
    }
    let (took, grace) = if let Some(frozen) = frozen {
        replica.process.freeze();
        tokio::time::sleep(frozen).await;
        replica.process.thaw();
        (Duration::ZERO, GRACE)
    } else {
        replica.process.kill();
        tokio::time::sleep(RESTART_DELAY).await;
        replica.start_again();
        (replica.wait_until_ready().await, Duration::ZERO)
    };
    for monitor in monitors {
        monitor.resume(grace);
    }
    took
}

/// Returns the replicas whose poll may be in flight, or whose result may not be published yet.
fn pollers(harnesses: &[Harness]) -> Vec<String> {
    let calls = harnesses.iter().flat_map(|harness| harness.node.calls());
    calls.filter(|call| call.at.elapsed() < 2 * NODE_DELAY).map(|call| call.client).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_or_freezing_one_of_eight_replicas_causes_no_gap() {
    let [seed, seconds]: [u64; 2] = [("REPLICAS_SEED", SEED), ("REPLICAS_SECONDS", SECONDS)]
        .map(|(name, default)| variable_or(name, default).parse().unwrap());
    println!("seed {seed}, {seconds} s, {REPLICAS} replicas, {} chains", CHAINS.len());
    let seed_bytes = [seed.to_le_bytes(), *b"replicas"].concat();
    let mut rng = TestRng::from_seed(RngAlgorithm::XorShift, &seed_bytes);
    let redis = Redis::start();
    let mut nodes = Vec::new();
    for (_, id) in CHAINS {
        let node = MockClockNode::start(id, BLOCK_TIME).await;
        node.set_delay(NODE_DELAY);
        nodes.push(node);
    }
    let config = |index: usize| {
        let sections = CHAINS.iter().zip(&nodes).map(|((key, id), node)| {
            chain_section(key, *id, &node.url_for(&index.to_string()), "")
        });
        redis_section(&redis.url(0)) + &sections.collect::<String>()
    };
    let replicas = start_replicas("chaos", REPLICAS, config).await;
    let mut harnesses = Vec::new();
    for ((key, _), node) in CHAINS.iter().zip(nodes) {
        let start = |replica: &Arc<Replica>| {
            Monitor::start(replica, key, node.clock.clone(), Window::ending_with, READ_INTERVAL)
        };
        let monitors = replicas.iter().map(start).collect();
        let harness = Harness { node, monitors };
        harness.wait_until_sharing().await;
        harnesses.push(harness);
    }
    let harnesses = Arc::new(harnesses);
    let progress = || harnesses.iter().map(|harness| harness.node.progress()).collect::<Vec<_>>();

    let (before, started) = (progress(), Instant::now());
    let end = started + Duration::from_secs(seconds);
    let mut next_action = started + Duration::from_millis(500);
    let (mut running, mut struck) = ((0..REPLICAS).collect::<Vec<_>>(), JoinSet::new());
    let (mut kills, mut freezes, mut slowest_start) = (0, 0, Duration::ZERO);
    loop {
        tokio::time::sleep_until(next_action.min(end).into()).await;
        while let Some(done) = struck.try_join_next() {
            let (index, took) = done.unwrap();
            running.push(index);
            slowest_start = slowest_start.max(took);
        }
        if next_action >= end {
            break;
        }
        // The jitter varies the time within a slot, because slots begin at a fixed time within each second.
        next_action += Duration::from_millis(rng.random_range(500..=1500));
        let polling = pollers(&harnesses);
        let is_idle = |position: &usize| !polling.contains(&running[*position].to_string());
        let idle: Vec<_> = (0..running.len()).filter(is_idle).collect();
        if idle.is_empty() {
            continue;
        }
        let mut position = idle[rng.random_range(..idle.len())];
        if (kills + freezes) % 3 == 0 {
            // The replica that polls next is struck while its call is in flight.
            let node = &harnesses[0].node;
            let calls = node.progress().calls;
            node.wait_for_calls(calls + 1).await;
            let poller: usize = node.calls()[calls].client.parse().unwrap();
            position = running.iter().position(|index| *index == poller).unwrap_or(position);
        }
        let index = running.swap_remove(position);
        let time = Duration::from_millis(rng.random_range(1000..5000));
        let frozen = (!rng.random::<bool>()).then_some(time);
        *(if frozen.is_some() { &mut freezes } else { &mut kills }) += 1;
        let harnesses = Arc::clone(&harnesses);
        struck.spawn(async move {
            let monitors = harnesses.iter().map(|harness| &harness.monitors[index]);
            (index, strike(&monitors.collect::<Vec<_>>(), frozen).await)
        });
    }
    let after = progress();
    struck.shutdown().await;

    let stats = harnesses.iter().map(Harness::take_stats);
    let all = stats.fold(ReadStats::default(), ReadStats::merge);
    println!("{kills} killed, {freezes} frozen; ready again within {slowest_start:?}");
    println!("{all:?}");
    // A thawed replica whose time to catch up is over would be behind.
    all.check(MAX_GAP);
    assert!(kills > 0 && freezes > 0 && kills + freezes >= seconds * 3 / 4);
    for (harness, (before, after)) in harnesses.iter().zip(before.iter().zip(&after)) {
        let calls = harness.node.calls();
        let polls = calls[before.calls..].iter().filter(|call| call.method == "eth_feeHistory");
        let clients = polls.map(|call| call.client.as_str()).collect::<String>();
        let (polls, blocks) = (clients.len() as u64, after.head - before.head);
        let allowed = MIN_POLLS * blocks..=MAX_POLLS * blocks;
        assert!(allowed.contains(&(100 * polls)), "{polls} polls by {clients}, {blocks} blocks");
    }
}
