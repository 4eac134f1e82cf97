//! Eight replicas of which each second one is killed or frozen.
//!
//! `tests/replicas.sh` runs the same for five minutes, with another seed each time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clock_node::{ClockNode, Terms};
use super::redis::Redis;
use super::replica::Replica;
use super::watch::{MOST, Record, Watch};
use super::{BLOCK, at, chain, until};

/// The same for all changes, so that what fails is the change.
const SEED: &str = "20261122";
const SECONDS: &str = "20";
const REPLICAS: usize = 8;
const CHAINS: [(&str, u64); 2] = [("a", 7), ("b", 8)];

/// A node is as far away as this, so that some are struck in the middle of a poll.
const AWAY: Duration = Duration::from_millis(60);
/// How often each chain of each replica is read.
const READING: Duration = Duration::from_millis(150);
/// When a supervisor starts a process again after it has ended.
const STARTING: Duration = Duration::from_millis(300);
/// A process that was frozen has so long to catch up before what it serves counts again.
const GRACE: Duration = Duration::from_millis(1500);
/// The most calls of all methods to a node per hundred blocks.
const MOST_CALLS: u64 = 105;
/// A chain that is not polled would be well below that.
const LEAST_CALLS: u64 = 80;

/// A variable of the environment, or what counts without it.
fn variable(name: &str, otherwise: &str) -> u64 {
    let text = std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    text.parse().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Numbers that look like chance, from a seed (xorshift64*).
struct Dice(u64);

impl Dice {
    fn of(seed: u64) -> Self {
        // 0 would stay 0.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

/// A replica and those who read it.
struct Member {
    replica: Arc<Replica>,
    watches: Vec<Watch>,
    /// What is to be done with it next, and when; `None`: it runs.
    next: Option<(Instant, Next)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Start,
    /// It was started and is read again when it is ready.
    Read,
    Thaw,
}

impl Member {
    fn kill(&mut self) {
        self.watches.iter().for_each(Watch::is_gone);
        self.replica.kill();
        self.next = Some((Instant::now() + STARTING, Next::Start));
    }

    fn freeze(&mut self, time: Duration) {
        self.watches.iter().for_each(Watch::is_gone);
        self.replica.freeze();
        self.next = Some((Instant::now() + time, Next::Thaw));
    }

    /// Does what is due; gives how long it took to be ready where it just is.
    async fn go_on(&mut self) -> Option<Duration> {
        let (at, next) = self.next.filter(|(at, _)| Instant::now() >= *at)?;
        match next {
            Next::Start => {
                self.replica.start_again();
                self.next = Some((Instant::now(), Next::Read));
                None
            }
            Next::Read => {
                let asked = Duration::from_millis(100);
                let ready = self.replica.try_get("/readyz", asked).await;
                assert!(!self.replica.has_ended(), "{}", self.replica.log());
                assert!(at.elapsed() < crate::raw::PATIENCE, "{ready:?}: {}", self.replica.log());
                if ready.is_ok_and(|ready| ready.status == 200) {
                    self.watches.iter().for_each(Watch::is_back);
                    self.next = None;
                    return Some(at.elapsed());
                }
                None
            }
            Next::Thaw => {
                self.replica.thaw();
                self.watches.iter().for_each(|watch| watch.is_thawed(GRACE));
                self.next = None;
                None
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_eight_killed_or_frozen_each_second_leaves_no_gap_and_costs_no_call() {
    let (seed, seconds) = (variable("REPLICAS_SEED", SEED), variable("REPLICAS_SECONDS", SECONDS));
    println!("seed {seed}, {seconds} s, {REPLICAS} replicas, {} chains", CHAINS.len());
    let mut dice = Dice::of(seed);
    let redis = Redis::start();
    let mut nodes = Vec::new();
    for (_, id) in CHAINS {
        let node = ClockNode::start(id, BLOCK).await;
        node.takes(AWAY);
        nodes.push(node);
    }
    let chains =
        CHAINS.iter().zip(&nodes).map(|((key, id), node)| chain(key, *id, &node.url(), ""));
    let config = at(&redis.url(0)) + &chains.collect::<String>();
    let mut members = Vec::new();
    for place in 0..REPLICAS {
        let replica = Arc::new(Replica::start(&format!("chaos-{place}"), &config));
        members.push(Member { replica, watches: Vec::new(), next: None });
    }
    for member in &mut members {
        member.replica.is_ready().await;
    }
    until("all share", async || {
        for member in &members {
            for (key, _) in CHAINS {
                let counts = member.replica.counts(key).await;
                if counts.claimed + counts.left < 2 {
                    return false;
                }
            }
        }
        true
    })
    .await;
    for member in &mut members {
        for ((key, _), node) in CHAINS.iter().zip(&nodes) {
            let (clock, terms) = (node.clock(), Terms::default());
            member.watches.push(Watch::start(&member.replica, key, clock, terms, READING));
        }
    }

    let before: Vec<_> = nodes.iter().map(ClockNode::tally).collect();
    let (started, mut next_strike) = (Instant::now(), Instant::now() + Duration::from_millis(500));
    let (mut kills, mut freezes, mut slowest) = (0, 0, Duration::ZERO);
    while started.elapsed() < Duration::from_secs(seconds) {
        if Instant::now() >= next_strike {
            // At some time within the second: a turn begins at the same time in each.
            next_strike += Duration::from_millis(500 + dice.below(1001));
            let mut running: Vec<_> =
                members.iter_mut().filter(|member| member.next.is_none()).collect();
            let place = usize::try_from(dice.below(running.len() as u64)).unwrap();
            let time = Duration::from_millis(1000 + dice.below(4000));
            if dice.below(2) == 0 {
                running[place].kill();
                kills += 1;
            } else {
                running[place].freeze(time);
                freezes += 1;
            }
        }
        for member in &mut members {
            slowest = slowest.max(member.go_on().await.unwrap_or_default());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let after: Vec<_> = nodes.iter().map(ClockNode::tally).collect();

    let mut all = Record::default();
    for ((((key, _), node), before), after) in CHAINS.iter().zip(&nodes).zip(&before).zip(&after) {
        let (blocks, calls) = after.since(*before);
        println!("chain {key}: {blocks} blocks, {calls} calls: {:?}", node.methods(before.calls));
    }
    for member in &members {
        for watch in &member.watches {
            all = all.and(watch.record());
        }
    }
    let shown = |counts: &BTreeMap<u64, u64>| format!("{counts:?}");
    println!("{kills} killed, {freezes} frozen; ready again within {slowest:?}");
    println!("{} reads, {} failures", all.reads, all.failures.len());
    println!("lag (blocks: reads): {}, at most {}", shown(&all.lags), all.max_lag());
    println!("jump (blocks: reads): {}, at most {}", shown(&all.jumps), all.max_jump());
    println!("caught up after being frozen within {:?}", all.catching_up);

    assert_eq!(all.failures, [""; 0]);
    assert!(kills > 0 && freezes > 0 && kills + freezes >= seconds * 3 / 4);
    assert!(all.max_jump() <= MOST, "a jump of {} blocks", all.max_jump());
    assert!(all.max_lag() <= MOST, "{} blocks behind", all.max_lag());
    assert!(all.catching_up <= GRACE, "{:?}", all.catching_up);
    for (before, after) in before.iter().zip(&after) {
        let (blocks, calls) = after.since(*before);
        let allowed = LEAST_CALLS * blocks..=MOST_CALLS * blocks;
        assert!(allowed.contains(&(100 * calls)), "{calls} calls, {blocks} blocks");
    }
}

#[test]
fn the_dice_fall_on_every_side_and_the_same_again() {
    let throw = |seed| {
        let mut dice = Dice::of(seed);
        (0..1000).map(|_| dice.below(8)).collect::<Vec<_>>()
    };
    assert_eq!(throw(1), throw(1));
    assert_ne!(throw(1), throw(2));
    for side in 0..8 {
        let count = throw(0).into_iter().filter(|found| *found == side).count();
        assert!((80..180).contains(&count), "{side}: {count} times");
    }
}
