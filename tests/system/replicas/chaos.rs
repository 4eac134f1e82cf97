//! Chaos test: of eight replicas, about one per second is killed or frozen.
//!
//! `tests/replicas.sh` runs it for five minutes with a random seed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::mock_clock_node::{MockClockNode, PricingSettings};
use super::monitor::{MAX_GAP, Monitor, ReadStats};
use super::redis::Redis;
use super::replica::Replica;
use super::{BLOCK_TIME, chain_section, redis_section, wait_until};

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

/// A pseudo-random number generator (xorshift64*).
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Self {
        // The state must not be 0.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

/// A replica and its monitors, one for each chain.
struct Member {
    replica: Arc<Replica>,
    monitors: Vec<Monitor>,
    /// The next action and its time; `None` while the replica runs.
    next: Option<(Instant, Next)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Start,
    /// Resume the monitors when the started replica is ready.
    Read,
    Thaw,
}

impl Member {
    fn kill(&mut self) {
        self.monitors.iter().for_each(Monitor::pause);
        self.replica.kill();
        self.next = Some((Instant::now() + RESTART_DELAY, Next::Start));
    }

    fn freeze(&mut self, time: Duration) {
        self.monitors.iter().for_each(Monitor::pause);
        self.replica.freeze();
        self.next = Some((Instant::now() + time, Next::Thaw));
    }

    /// Performs the action that is due. Returns the start-up time if the replica has just become ready.
    async fn advance(&mut self) -> Option<Duration> {
        let (at, next) = self.next.filter(|(at, _)| Instant::now() >= *at)?;
        match next {
            Next::Start => {
                self.replica.start_again();
                self.next = Some((Instant::now(), Next::Read));
                None
            }
            Next::Read => {
                let timeout = Duration::from_millis(100);
                let ready = self.replica.try_get("/readyz", timeout).await;
                assert!(!self.replica.has_exited(), "{}", self.replica.log());
                assert!(
                    at.elapsed() < crate::raw_client::TIMEOUT,
                    "{ready:?}: {}",
                    self.replica.log()
                );
                if ready.is_ok_and(|ready| ready.status == 200) {
                    self.monitors.iter().for_each(Monitor::resume);
                    self.next = None;
                    return Some(at.elapsed());
                }
                None
            }
            Next::Thaw => {
                self.replica.thaw();
                self.monitors.iter().for_each(|monitor| monitor.resume_after_thaw(GRACE));
                self.next = None;
                None
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_or_freezing_one_of_eight_replicas_causes_no_gap() {
    let (seed, seconds) = (variable("REPLICAS_SEED", SEED), variable("REPLICAS_SECONDS", SECONDS));
    println!("seed {seed}, {seconds} s, {REPLICAS} replicas, {} chains", CHAINS.len());
    let mut rng = Rng::new(seed);
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
    let mut members = Vec::new();
    for index in 0..REPLICAS {
        let replica = Arc::new(Replica::start(&format!("chaos-{index}"), &config));
        members.push(Member { replica, monitors: Vec::new(), next: None });
    }
    for member in &mut members {
        member.replica.wait_until_ready().await;
    }
    wait_until("all share", async || {
        for member in &members {
            for (key, _) in CHAINS {
                let counts = member.replica.counts(key).await;
                if counts.claimed + counts.yielded < 2 {
                    return false;
                }
            }
        }
        true
    })
    .await;
    for member in &mut members {
        for ((key, _), node) in CHAINS.iter().zip(&nodes) {
            let (clock, settings) = (node.clock(), PricingSettings::default());
            member.monitors.push(Monitor::start(
                &member.replica,
                key,
                clock,
                settings,
                READ_INTERVAL,
            ));
        }
    }

    let before: Vec<_> = nodes.iter().map(MockClockNode::progress).collect();
    let (started, mut next_action) = (Instant::now(), Instant::now() + Duration::from_millis(500));
    let (mut kills, mut freezes, mut slowest_start) = (0, 0, Duration::ZERO);
    while started.elapsed() < Duration::from_secs(seconds) {
        if Instant::now() >= next_action {
            // The jitter varies the time within a slot, because slots begin at a fixed time within each second.
            next_action += Duration::from_millis(500 + rng.below(1001));
            let mut running: Vec<_> =
                members.iter_mut().filter(|member| member.next.is_none()).collect();
            let index = usize::try_from(rng.below(running.len() as u64)).unwrap();
            let time = Duration::from_millis(1000 + rng.below(4000));
            if rng.below(2) == 0 {
                running[index].kill();
                kills += 1;
            } else {
                running[index].freeze(time);
                freezes += 1;
            }
        }
        for member in &mut members {
            slowest_start = slowest_start.max(member.advance().await.unwrap_or_default());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let after: Vec<_> = nodes.iter().map(MockClockNode::progress).collect();

    let mut all = ReadStats::default();
    for ((((key, _), node), before), after) in CHAINS.iter().zip(&nodes).zip(&before).zip(&after) {
        let (blocks, methods) = (after.head - before.head, node.calls_by_method(before.calls));
        println!("chain {key}: {blocks} blocks, {methods:?}");
    }
    for member in &members {
        for monitor in &member.monitors {
            all = all.merge(monitor.stats());
        }
    }
    let shown = |counts: &BTreeMap<u64, u64>| format!("{counts:?}");
    println!("{kills} killed, {freezes} frozen; ready again within {slowest_start:?}");
    println!("{} reads, {} failures", all.reads, all.failures.len());
    println!("lag (blocks: reads): {}, at most {}", shown(&all.lags), all.max_lag());
    println!("jump (blocks: reads): {}, at most {}", shown(&all.jumps), all.max_jump());
    println!("caught up after being frozen within {:?}", all.catching_up);

    assert_eq!(all.failures, [""; 0]);
    assert!(kills > 0 && freezes > 0 && kills + freezes >= seconds * 3 / 4);
    assert!(all.max_jump() <= MAX_GAP, "a jump of {} blocks", all.max_jump());
    assert!(all.max_lag() <= MAX_GAP, "{} blocks behind", all.max_lag());
    assert!(all.catching_up <= GRACE, "{:?}", all.catching_up);
    for (node, (before, after)) in nodes.iter().zip(before.iter().zip(&after)) {
        let (blocks, polls) = (after.head - before.head, node.polls(before.calls).len() as u64);
        let allowed = MIN_POLLS * blocks..=MAX_POLLS * blocks;
        assert!(allowed.contains(&(100 * polls)), "{polls} polls, {blocks} blocks");
    }
}

#[test]
fn generator_is_uniform_and_reproducible() {
    let draw = |seed| {
        let mut rng = Rng::new(seed);
        (0..1000).map(|_| rng.below(8)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    for value in 0..8 {
        let count = draw(0).into_iter().filter(|found| *found == value).count();
        assert!((80..180).contains(&count), "{value}: {count} times");
    }
}
