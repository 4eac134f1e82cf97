//! Chaos test: of eight replicas, about one per second is killed or frozen.
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
use super::{BLOCK_TIME, chain_section, redis_section, start_replicas, wait_until};
use crate::chain_model::Window;

/// A fixed seed, so that a new failure is caused by the change under test.
const SEED: &str = "20261122";
const SECONDS: &str = "20";
const REPLICAS: usize = 8;
const CHAINS: [(&str, u64); 2] = [("a", 7), ("b", 8)];

/// Response delay of the nodes, so that some replicas are stopped during a poll.
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

/// Returns the number in an environment variable, or the `default`.
fn variable(name: &str, default: &str) -> u64 {
    let text = std::env::var(name).unwrap_or_else(|_| default.to_owned());
    text.parse().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A replica and its monitors, one for each chain.
struct Member {
    replica: Arc<Replica>,
    monitors: Vec<Monitor>,
}

impl Member {
    /// Kills the process and starts it again. Returns the start-up time.
    async fn kill(&self) -> Duration {
        self.monitors.iter().for_each(Monitor::pause);
        self.replica.process.kill();
        tokio::time::sleep(RESTART_DELAY).await;
        self.replica.start_again();
        let took = self.replica.wait_until_ready().await;
        self.monitors.iter().for_each(Monitor::resume);
        took
    }

    async fn freeze(&self, time: Duration) {
        self.monitors.iter().for_each(Monitor::pause);
        self.replica.process.freeze();
        tokio::time::sleep(time).await;
        self.replica.process.thaw();
        self.monitors.iter().for_each(|monitor| monitor.resume_after_thaw(GRACE));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_or_freezing_one_of_eight_replicas_causes_no_gap() {
    let (seed, seconds) = (variable("REPLICAS_SEED", SEED), variable("REPLICAS_SECONDS", SECONDS));
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
    let chains =
        CHAINS.iter().zip(&nodes).map(|((key, id), node)| chain_section(key, *id, &node.url(), ""));
    let config = redis_section(&redis.url(0)) + &chains.collect::<String>();
    let replicas = start_replicas("chaos", REPLICAS, |_| config.clone()).await;
    wait_until("all share", async || {
        for replica in &replicas {
            for (key, _) in CHAINS {
                let counts = replica.counts(key).await;
                if counts.claimed + counts.yielded < 2 {
                    return false;
                }
            }
        }
        true
    })
    .await;
    let monitors_of = |replica: &Arc<Replica>| {
        let start = |((key, _), node): (&(&str, u64), &MockClockNode)| {
            Monitor::start(replica, key, node.clock(), Window::ending_with, READ_INTERVAL)
        };
        CHAINS.iter().zip(&nodes).map(start).collect()
    };
    let member = |replica: Arc<Replica>| {
        let monitors = monitors_of(&replica);
        Arc::new(Member { replica, monitors })
    };
    let members: Vec<_> = replicas.into_iter().map(member).collect();

    let before: Vec<_> = nodes.iter().map(MockClockNode::progress).collect();
    let started = Instant::now();
    let end = started + Duration::from_secs(seconds);
    let mut next_action = started + Duration::from_millis(500);
    let (mut running, mut struck) = (members.clone(), JoinSet::new());
    let (mut kills, mut freezes, mut slowest_start) = (0, 0, Duration::ZERO);
    loop {
        tokio::time::sleep_until(next_action.min(end).into()).await;
        while let Some(done) = struck.try_join_next() {
            let (member, took) = done.unwrap();
            running.push(member);
            slowest_start = slowest_start.max(took);
        }
        if next_action >= end {
            break;
        }
        // The jitter varies the time within a slot, because slots begin at a fixed time within each second.
        next_action += Duration::from_millis(rng.random_range(500..=1500));
        let member = running.swap_remove(rng.random_range(..running.len()));
        let time = Duration::from_millis(rng.random_range(1000..5000));
        let is_killed = rng.random();
        *(if is_killed { &mut kills } else { &mut freezes }) += 1;
        struck.spawn(async move {
            let took = if is_killed {
                member.kill().await
            } else {
                member.freeze(time).await;
                Duration::ZERO
            };
            (member, took)
        });
    }
    let after: Vec<_> = nodes.iter().map(MockClockNode::progress).collect();

    let monitors = members.iter().flat_map(|member| &member.monitors);
    let all = monitors.map(Monitor::stats).fold(ReadStats::default(), ReadStats::merge);
    println!("{kills} killed, {freezes} frozen; ready again within {slowest_start:?}");
    println!("{} reads, {} failures", all.reads, all.failures.len());
    println!("lag (blocks: reads): {:?}, at most {}", all.lags, all.max_lag());
    println!("jump (blocks: reads): {:?}, at most {}", all.jumps, all.max_jump());
    // A thawed replica whose time to catch up is over would be behind.
    all.check(MAX_GAP);
    assert!(kills > 0 && freezes > 0 && kills + freezes >= seconds * 3 / 4);
    for (node, (before, after)) in nodes.iter().zip(before.iter().zip(&after)) {
        let (blocks, polls) = (after.head - before.head, node.polls(before.calls).len() as u64);
        println!("{blocks} blocks, {:?}", node.calls_by_method(before.calls));
        let allowed = MIN_POLLS * blocks..=MAX_POLLS * blocks;
        assert!(allowed.contains(&(100 * polls)), "{polls} polls, {blocks} blocks");
    }
}
