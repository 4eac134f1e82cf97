//! Several instances that share one poll per chain per block over Redis: processes, a real Redis, and nodes
//! whose chains go on by the clock.

mod access;
mod apart;
mod chaos;
mod clock_node;
mod faults;
mod life;
mod nodes;
pub(crate) mod redis;
mod replica;
mod script;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clock_node::{ClockNode, Terms};
use redis::Redis;
use replica::{Counts, Replica};
use watch::{Record, Watch};

use crate::service::until;

/// The chain of most tests has a block so often, in the configuration and in fact.
const BLOCK: Duration = Duration::from_secs(1);
const ID: u64 = 7;

/// So long after Redis came back, everybody shares again.
const REJOINING: Duration = Duration::from_secs(5);

/// How often a watch reads.
const READING: Duration = Duration::from_millis(50);

/// The `[redis]` section.
fn at(url: &str) -> String {
    format!("[redis]\nurl = \"{url}\"\n")
}

/// A chain with a block a second, and more in its table.
fn chain(key: &str, id: u64, node: &str, more: &str) -> String {
    format!("[chains.{key}]\nchain_id = {id}\nblock_time = \"1s\"\nrpc_urls = [\"{node}\"]\n{more}")
}

/// Replicas of one chain, `a`, behind one Redis, each of which is read all the time.
#[derive(Debug)]
struct Group {
    redis: Redis,
    node: ClockNode,
    watches: Vec<Watch>,
}

impl Group {
    /// Starts so many, and waits until they share.
    async fn start(name: &str, count: usize, redis: Redis) -> Self {
        let node = ClockNode::start(ID, BLOCK).await;
        let config = at(&redis.url(0)) + &chain("a", ID, &node.url(), "");
        let replicas: Vec<_> = (0..count)
            .map(|place| Arc::new(Replica::start(&format!("{name}-{place}"), &config)))
            .collect();
        Self::of(redis, node, &replicas).await
    }

    /// These, which have this node and this Redis.
    async fn of(redis: Redis, node: ClockNode, replicas: &[Arc<Replica>]) -> Self {
        let mut watches = Vec::new();
        for replica in replicas {
            replica.is_ready().await;
            let (clock, terms) = (node.clock(), Terms::default());
            watches.push(Watch::start(replica, "a", clock, terms, READING));
        }
        let group = Self { redis, node, watches };
        until("all share", async || {
            let counts = group.counts().await;
            counts.iter().all(|one| one.redis_up == 1 && one.claimed + one.left >= 2)
        })
        .await;
        group
    }

    fn replicas(&self) -> impl Iterator<Item = &Replica> {
        self.watches.iter().map(|watch| &*watch.replica)
    }

    async fn counts(&self) -> Vec<Counts> {
        counts(self.replicas()).await
    }

    /// What all watches have seen since they were asked last.
    fn take(&self) -> Record {
        self.watches.iter().map(Watch::take).fold(Record::default(), Record::and)
    }

    /// Nothing that must not be was seen.
    fn is_well(&self) {
        for watch in &self.watches {
            assert_eq!(watch.record().failures, [""; 0], "{}", watch.replica.name);
        }
    }

    async fn share_again(&self, returned: Instant) -> Duration {
        share_again(&self.watches, &self.node, returned).await
    }

    /// Waits until somebody polls; the number of the call, which is under way if the node takes its time, and
    /// who that is.
    async fn next_poll(&self) -> (usize, &Watch) {
        loop {
            let first = self.node.tally().calls;
            let before = self.counts().await;
            until("a poll", async || self.node.tally().calls > first).await;
            let now = self.counts().await;
            let mut claims = self.watches.iter().zip(before.iter().zip(&now));
            if let Some((watch, _)) = claims.find(|(_, (before, now))| now.claimed > before.claimed)
            {
                return (first, watch);
            }
            // It was claimed before it was looked who did.
        }
    }

    /// Waits for so many blocks.
    async fn blocks(&self, count: u64) {
        let last = self.node.head() + count;
        until("blocks", async || self.node.head() >= last).await;
    }
}

async fn counts(replicas: impl Iterator<Item = &Replica>) -> Vec<Counts> {
    let mut all = Vec::new();
    for replica in replicas {
        all.push(replica.counts("a").await);
    }
    all
}

/// Within [`REJOINING`] after `returned` all share, and go on so: of each block one asks the node, and none
/// polls for itself. Gives when each had a turn with the others again.
async fn share_again(watches: &[Watch], node: &ClockNode, returned: Instant) -> Duration {
    const TURNS: usize = 4;
    let replicas = || watches.iter().map(|watch| &*watch.replica);
    let at_first = counts(replicas()).await;
    let rejoined = loop {
        let now = counts(replicas()).await;
        let mut pairs = now.iter().zip(&at_first);
        let shares = |(now, first): (&Counts, &Counts)| {
            now.redis_up == 1 && now.claimed + now.left > first.claimed + first.left
        };
        if pairs.all(shares) {
            break returned.elapsed();
        }
        let told = || format!("{at_first:#?}, then {now:#?}");
        assert!(returned.elapsed() < REJOINING, "they do not all share again: {}", told());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    // From one call to another, with what was counted right after each.
    let call = async |number| until("a call", async || node.tally().calls > number).await;
    let first = node.tally().calls;
    call(first).await;
    let counts_before = counts(replicas()).await;
    call(first + TURNS).await;
    let counts_after = counts(replicas()).await;
    let calls = node.calls();
    let took = calls[first + TURNS].at - calls[first].at;
    let told = || format!("{counts_before:#?}, then {counts_after:#?}, {:#?}", &calls[first..]);
    let (expected, least) = (u32::try_from(TURNS).unwrap() * BLOCK, TURNS as u64 - 1);
    // Those who did not have the last turn go for theirs a little later.
    let most = BLOCK / 2;
    assert!(took + most >= expected && took <= expected + most, "{took:?}: {}", told());
    let turns = least..=least + 2;
    for (before, after) in counts_before.iter().zip(&counts_after) {
        assert_eq!((after.redis_up, after.alone), (1, before.alone), "{}", told());
        let count = after.claimed + after.left - before.claimed - before.left;
        assert!(turns.contains(&count), "{count} turns: {}", told());
    }
    let claimed = |counts: &[Counts]| counts.iter().map(|counts| counts.claimed).sum::<u64>();
    let claimed = claimed(&counts_after) - claimed(&counts_before);
    assert!(turns.contains(&claimed), "{claimed} claimed: {}", told());
    rejoined
}
