//! Tests of replicas that share one poll per chain and block over Redis. They use service processes, a real Redis, and
//! mock nodes whose heads follow the clock.

mod access;
mod chaos;
mod controlled_process;
mod faults;
mod isolation;
mod lies;
mod mock_clock_node;
mod monitor;
mod nodes;
mod publish_script;
mod readings;
pub(crate) mod redis;
mod replica;
mod webhooks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mock_clock_node::{MockClockNode, PricingSettings};
use monitor::{Monitor, ReadStats};
use redis::Redis;
use replica::{Counts, Replica};

use crate::test_server::wait_until;

/// Configured and real block time of the chain in most tests.
const BLOCK_TIME: Duration = Duration::from_secs(1);
const CHAIN_ID: u64 = 7;

/// Maximum time until all replicas share polls again after Redis is back.
const REJOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two reads of a monitor.
const READ_INTERVAL: Duration = Duration::from_millis(50);

/// Returns the `[redis]` section.
fn redis_section(url: &str) -> String {
    format!("[redis]\nurl = \"{url}\"\n")
}

/// Returns the section of a chain with a block time of 1 s, followed by `more`.
fn chain_section(key: &str, id: u64, node: &str, more: &str) -> String {
    format!(
        "[chains.{key}]\nchain_id = {id}\nblock_time = \"1s\"\nchain_parameters = \"off\"\nmax_block_age = \"0s\"\nrpc_urls = [\"{node}\"]\n{more}"
    )
}

/// Returns the configuration of replicas that share this Redis and serve the chain `a` of this node.
fn shared_chain(redis: &Redis, node: &str, more: &str) -> String {
    redis_section(&redis.url(0)) + &chain_section("a", CHAIN_ID, node, more)
}

/// Reads `chain`, which has the default pricing, of a replica that is ready.
fn start_monitor(replica: &Arc<Replica>, chain: &str, node: &MockClockNode) -> Monitor {
    Monitor::start(replica, chain, node.clock(), PricingSettings::default(), READ_INTERVAL)
}

/// Replicas that serve one chain, `a`, and share one Redis, each with a monitor that reads it.
#[derive(Debug)]
struct Harness {
    redis: Redis,
    node: MockClockNode,
    monitors: Vec<Monitor>,
}

impl Harness {
    /// Starts `count` replicas and waits until they share polls.
    async fn start(name: &str, count: usize, redis: Redis) -> Self {
        let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
        let config = shared_chain(&redis, &node.url(), "");
        let replicas: Vec<_> = (0..count)
            .map(|index| Arc::new(Replica::start(&format!("{name}-{index}"), &config)))
            .collect();
        Self::from_replicas(redis, node, &replicas).await
    }

    /// Monitors these running replicas and waits until they share polls.
    async fn from_replicas(redis: Redis, node: MockClockNode, replicas: &[Arc<Replica>]) -> Self {
        let mut monitors = Vec::new();
        for replica in replicas {
            replica.wait_until_ready().await;
            monitors.push(start_monitor(replica, "a", &node));
        }
        let harness = Self { redis, node, monitors };
        wait_until("all replicas share", async || {
            let counts = harness.counts().await;
            counts.iter().all(|one| one.redis_up == 1 && one.claimed + one.yielded >= 2)
        })
        .await;
        harness
    }

    fn replicas(&self) -> impl Iterator<Item = &Replica> {
        self.monitors.iter().map(|monitor| &*monitor.replica)
    }

    async fn counts(&self) -> Vec<Counts> {
        counts(self.replicas()).await
    }

    /// Returns the statistics of all monitors since the last call.
    fn take_stats(&self) -> ReadStats {
        self.monitors.iter().map(Monitor::take_stats).fold(ReadStats::default(), ReadStats::merge)
    }

    /// Checks that no monitor has recorded a failure.
    fn check_no_failures(&self) {
        for monitor in &self.monitors {
            assert_eq!(monitor.stats().failures, [""; 0], "{}", monitor.replica.name);
        }
    }

    async fn share_again(&self, returned: Instant) -> Duration {
        share_again(&self.monitors, &self.node, returned).await
    }

    /// Waits until a replica polls. Returns the index of the call and the monitor of the replica. If the node has a
    /// delay, the call is still in flight.
    async fn next_poll(&self) -> (usize, &Monitor) {
        loop {
            let first = self.node.progress().calls;
            let before = self.counts().await;
            wait_until("a poll", async || self.node.progress().calls > first).await;
            let now = self.counts().await;
            let mut claims = self.monitors.iter().zip(before.iter().zip(&now));
            if let Some((monitor, _)) =
                claims.find(|(_, (before, now))| now.claimed > before.claimed)
            {
                return (first, monitor);
            }
            // The slot was claimed before the counts were read, so wait for the next poll.
        }
    }

    /// Waits for `count` blocks.
    async fn wait_for_blocks(&self, count: u64) {
        let last = self.node.head() + count;
        wait_until("blocks", async || self.node.head() >= last).await;
    }
}

async fn counts(replicas: impl Iterator<Item = &Replica>) -> Vec<Counts> {
    let mut all = Vec::new();
    for replica in replicas {
        all.push(replica.counts("a").await);
    }
    all
}

/// Checks that all replicas share polls within [`REJOIN_TIMEOUT`] after `returned` and then continue to do so, with one
/// call per block and no standalone polls. Returns the time until all shared again.
async fn share_again(monitors: &[Monitor], node: &MockClockNode, returned: Instant) -> Duration {
    const SLOTS: usize = 4;
    let replicas = || monitors.iter().map(|monitor| &*monitor.replica);
    let at_first = counts(replicas()).await;
    let rejoined = loop {
        let now = counts(replicas()).await;
        let mut pairs = now.iter().zip(&at_first);
        let shares = |(now, first): (&Counts, &Counts)| {
            now.redis_up == 1 && now.claimed + now.yielded > first.claimed + first.yielded
        };
        if pairs.all(shares) {
            break returned.elapsed();
        }
        let details = || format!("{at_first:#?}, then {now:#?}");
        assert!(returned.elapsed() < REJOIN_TIMEOUT, "not all replicas share again: {}", details());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    // Compare the counts right after two calls that are `SLOTS` apart.
    let call = async |number| wait_until("a call", async || node.progress().calls > number).await;
    let first = node.progress().calls;
    call(first).await;
    let counts_before = counts(replicas()).await;
    call(first + SLOTS).await;
    let counts_after = counts(replicas()).await;
    let calls = node.calls();
    let took = calls[first + SLOTS].at - calls[first].at;
    let details = || format!("{counts_before:#?}, then {counts_after:#?}, {:#?}", &calls[first..]);
    let (expected, min_slots) = (u32::try_from(SLOTS).unwrap() * BLOCK_TIME, SLOTS as u64 - 1);
    // Replicas that did not poll last claim the next slot a little later.
    let tolerance = BLOCK_TIME / 2;
    assert!(
        took + tolerance >= expected && took <= expected + tolerance,
        "{took:?}: {}",
        details()
    );
    let slots = min_slots..=min_slots + 2;
    for (before, after) in counts_before.iter().zip(&counts_after) {
        assert_eq!((after.redis_up, after.standalone), (1, before.standalone), "{}", details());
        let count = after.claimed + after.yielded - before.claimed - before.yielded;
        assert!(slots.contains(&count), "{count} slots: {}", details());
    }
    let claimed = |counts: &[Counts]| counts.iter().map(|counts| counts.claimed).sum::<u64>();
    let claimed = claimed(&counts_after) - claimed(&counts_before);
    assert!(slots.contains(&claimed), "{claimed} claimed: {}", details());
    rejoined
}
