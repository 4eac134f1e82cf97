//! Replicas that share one poll per chain and block over a real Redis, as processes, with mock nodes whose heads follow the
//! clock. The simulator has the faults; these have what a real Redis decides, and the chaos of kills, which is weekly.

mod access;
mod chaos;
pub(crate) mod controlled_process;
mod mock_clock_node;
mod monitor;
mod nodes;
mod publish_script;
mod readings;
pub(crate) mod redis;
mod replica;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use chain_model::Window;
use mock_clock_node::MockClockNode;
use monitor::{Monitor, ReadStats};
use redis::Redis;
use replica::{Counts, Replica};

use crate::chain_model;
use crate::test_server::wait_until;

/// Configured and real block time of the chain in most tests.
const BLOCK_TIME: Duration = Duration::from_secs(1);
const CHAIN_ID: u64 = 7;

/// Maximum time until all replicas share polls again after Redis is back.
const REJOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two reads of a monitor.
const READ_INTERVAL: Duration = Duration::from_millis(50);

fn redis_section(url: &str) -> String {
    format!("[redis]\nurl = \"{url}\"\n")
}

/// Returns the section of a chain, followed by `more`. The block time is 1 s unless `more` sets it.
fn chain_section(key: &str, id: u64, node: &str, more: &str) -> String {
    let block_time = if more.contains("block_time =") { "" } else { "block_time = \"1s\"\n" };
    let asks = if more.contains("ask_interval") { "" } else { "pricing.ask_interval = 0\n" };
    format!(
        "[chains.{key}]\nchain_id = {id}\n{block_time}max_block_age = \"0s\"\ndata_fee = \"off\"\nrpc_urls = [\"{node}\"]\n{asks}{more}"
    )
}

/// Returns the configuration of replicas that share this Redis and serve the chain `a` of this node.
fn shared_chain(redis_url: &str, node: &str, more: &str) -> String {
    redis_section(redis_url) + &chain_section("a", CHAIN_ID, node, more)
}

/// Starts `count` replicas, each with the configuration for its index, and waits until they are ready.
async fn start_replicas(
    name: &str,
    count: usize,
    config: impl Fn(usize) -> String,
) -> Vec<Arc<Replica>> {
    let start = |index| Arc::new(Replica::start(&format!("{name}-{index}"), &config(index), &[]));
    let replicas: Vec<_> = (0..count).map(start).collect();
    for replica in &replicas {
        replica.wait_until_ready().await;
    }
    replicas
}

/// Reads `chain`, which has the default pricing, of a replica that is ready.
fn start_monitor(replica: &Arc<Replica>, chain: &str, node: &MockClockNode) -> Monitor {
    Monitor::start(replica, chain, node.clock.clone(), Window::ending_with, READ_INTERVAL)
}

/// Replicas that serve one chain, `a`, of one node, each with a monitor that reads it.
struct Harness {
    node: MockClockNode,
    monitors: Vec<Monitor>,
}

impl Harness {
    /// Starts `count` replicas and waits until they share polls.
    async fn start(name: &str, count: usize, redis: &Redis) -> Self {
        let node = MockClockNode::start(CHAIN_ID, BLOCK_TIME).await;
        let config = shared_chain(&redis.url(0), &node.url(), "");
        let replicas = start_replicas(name, count, |_| config.clone()).await;
        Self::sharing(node, &replicas).await
    }

    /// Monitors these replicas, which are ready, and waits until they share polls.
    async fn sharing(node: MockClockNode, replicas: &[Arc<Replica>]) -> Self {
        let monitors = replicas.iter().map(|replica| start_monitor(replica, "a", &node)).collect();
        let harness = Self { node, monitors };
        harness.wait_until_sharing().await;
        harness
    }

    async fn wait_until_sharing(&self) {
        wait_until("all replicas share", async || {
            self.counts().await.iter().all(|one| one.redis_up == 1 && one.shared() >= 2)
        })
        .await;
    }

    fn replicas(&self) -> Vec<Arc<Replica>> {
        self.monitors.iter().map(|monitor| Arc::clone(&monitor.replica)).collect()
    }

    async fn counts(&self) -> Vec<Counts> {
        let mut all = Vec::new();
        for monitor in &self.monitors {
            all.push(monitor.counts().await);
        }
        all
    }

    /// Returns the statistics of all monitors since the last call.
    fn take_stats(&self) -> ReadStats {
        self.monitors.iter().map(Monitor::take_stats).fold(ReadStats::default(), ReadStats::merge)
    }

    fn check_no_failures(&self) {
        assert_eq!(self.take_stats().failures, [""; 0]);
    }
}
