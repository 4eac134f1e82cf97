//! Reads a replica's suggestion at intervals and compares it with the mock chain.
//!
//! Measured for each read:
//!
//! - *lag*: the node's head just before the request, minus the served head. A block may be newer than the last
//!   poll, so a lag of 0 or 1 is normal. With a lag of 3, the replica should have served two more blocks.
//! - *jump*: the served head minus that of the previous read. With a jump of 3, two blocks were never served.
//!
//! A gap of two blocks is thus a lag or a jump of 3, [`MAX_GAP`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::mock_clock_node::{Clock, PricingSettings};
use super::replica::Replica;
use crate::test_server::Response;

/// Lag and jump of a gap of two blocks.
pub(crate) const MAX_GAP: u64 = 3;

/// Timeout of a read.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads one chain of one replica in the background until dropped.
#[derive(Debug)]
pub(crate) struct Monitor {
    pub(crate) replica: Arc<Replica>,
    state: Arc<Mutex<MonitorState>>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct MonitorState {
    stats: ReadStats,
    /// Incremented each time the process is killed, started, frozen or thawed.
    epoch: u64,
    /// Incremented each time the head of the chain is set back.
    resets: u64,
    /// Reads that begin at or after this time count. `None` while the process is down or frozen.
    counts_from: Option<Instant>,
    /// Time at which the process was thawed. `None` once it has caught up.
    thawed: Option<Instant>,
    /// The head of the previous read that counts.
    last: Option<u64>,
}

/// Results of the reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadStats {
    pub(crate) reads: u64,
    /// Reads without a response, with a status other than 200, with wrong numbers or with a lower head.
    pub(crate) failures: Vec<String>,
    /// The highest served head.
    pub(crate) newest: u64,
    /// Number of reads by lag.
    pub(crate) lags: BTreeMap<u64, u64>,
    /// Number of reads by jump.
    pub(crate) jumps: BTreeMap<u64, u64>,
    /// The longest time from a thaw until the replica had caught up.
    pub(crate) catching_up: Duration,
}

impl ReadStats {
    pub(crate) fn max_lag(&self) -> u64 {
        self.lags.keys().next_back().copied().unwrap_or_default()
    }

    pub(crate) fn max_jump(&self) -> u64 {
        self.jumps.keys().next_back().copied().unwrap_or_default()
    }

    /// Merges the statistics of another monitor into these.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.reads += other.reads;
        self.failures.extend(other.failures);
        self.newest = self.newest.max(other.newest);
        for (ours, theirs) in [(&mut self.lags, other.lags), (&mut self.jumps, other.jumps)] {
            for (blocks, count) in theirs {
                *ours.entry(blocks).or_default() += count;
            }
        }
        self.catching_up = self.catching_up.max(other.catching_up);
        self
    }
}

impl Monitor {
    /// Starts reading `chain`, which has these pricing `settings`, at this `interval`. The replica must be ready.
    pub(crate) fn start(
        replica: &Arc<Replica>,
        chain: &str,
        clock: Clock,
        settings: PricingSettings,
        interval: Duration,
    ) -> Self {
        let state = Arc::new(Mutex::new(MonitorState {
            stats: ReadStats::default(),
            epoch: 0,
            resets: 0,
            counts_from: Some(Instant::now()),
            thawed: None,
            last: None,
        }));
        let reader = Reader {
            replica: Arc::clone(replica),
            state: Arc::clone(&state),
            path: format!("/v1/{chain}/gas-suggestion"),
            chain: chain.to_owned(),
            clock,
            settings,
        };
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(interval);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                reader.read().await;
            }
        });
        Self { replica: Arc::clone(replica), state, task }
    }

    /// Pauses reading; called before the process is killed or frozen.
    pub(crate) fn pause(&self) {
        let mut state = self.state();
        state.epoch += 1;
        (state.counts_from, state.last, state.thawed) = (None, None, None);
    }

    /// Pauses reading; called before the head of the chain is set back. A read that this interrupts may still return the
    /// old head or the new one.
    pub(crate) fn pause_for_reset(&self) {
        self.state().resets += 1;
        self.pause();
    }

    /// Resumes reading; called when the restarted process is ready.
    pub(crate) fn resume(&self) {
        let mut state = self.state();
        state.epoch += 1;
        (state.counts_from, state.last) = (Some(Instant::now()), None);
    }

    /// Resumes reading after the head of the chain was set back.
    pub(crate) fn resume_after_reset(&self) {
        self.state().stats.newest = 0;
        self.resume();
    }

    /// Resumes reading after the process was thawed. It may serve its old head for at most `grace`.
    pub(crate) fn resume_after_thaw(&self, grace: Duration) {
        let mut state = self.state();
        state.epoch += 1;
        let now = Instant::now();
        (state.counts_from, state.last, state.thawed) = (Some(now + grace), None, Some(now));
    }

    /// Returns the statistics so far.
    pub(crate) fn stats(&self) -> ReadStats {
        self.state().stats.clone()
    }

    /// Returns and resets the statistics, except for the highest head.
    pub(crate) fn take_stats(&self) -> ReadStats {
        let mut state = self.state();
        let newest = state.stats.newest;
        std::mem::replace(&mut state.stats, ReadStats { newest, ..ReadStats::default() })
    }

    fn state(&self) -> MutexGuard<'_, MonitorState> {
        self.state.lock().unwrap()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.task.abort();
        if std::thread::panicking() {
            eprintln!("{} logged:\n{}", self.replica.name, self.replica.log());
        }
    }
}

struct Reader {
    replica: Arc<Replica>,
    state: Arc<Mutex<MonitorState>>,
    path: String,
    chain: String,
    clock: Clock,
    settings: PricingSettings,
}

impl Reader {
    async fn read(&self) {
        let (epoch, resets) = {
            let state = self.state.lock().unwrap();
            if state.counts_from.is_none() {
                return;
            }
            (state.epoch, state.resets)
        };
        let (requested, head) = (Instant::now(), self.clock.head());
        let response = self.replica.try_get(&self.path, TIMEOUT).await;
        let mut state = self.state.lock().unwrap();
        let is_same_epoch = state.epoch == epoch;
        if state.resets != resets || !is_same_epoch && response.is_err() {
            // The chain was reset, or the process was killed or frozen during the read.
            return;
        }
        let counts = is_same_epoch && state.counts_from.is_some_and(|from| requested >= from);
        state.stats.reads += 1;
        let checked = response.and_then(|response| {
            let newest = self.check(&response)?;
            let before = state.stats.newest;
            if newest < before {
                return Err(format!("{newest} after {before}"));
            }
            // After a restart the age need not match yet.
            if counts { self.clock.check_age(newest, requested, age(&response)?) } else { Ok(()) }?;
            Ok(newest)
        });
        let newest = match checked {
            Ok(newest) => newest,
            Err(failure) => {
                let failure = format!("{} {}: {failure}", self.replica.name, self.chain);
                // There may be hundreds of failures, of which the first ones suffice.
                if state.stats.failures.len() < 10 {
                    eprintln!("{failure}");
                    state.stats.failures.push(failure);
                }
                return;
            }
        };
        state.stats.newest = newest;
        let lag = head.saturating_sub(newest);
        if is_same_epoch
            && lag <= MAX_GAP
            && let Some(thawed) = state.thawed.take()
        {
            state.stats.catching_up = state.stats.catching_up.max(thawed.elapsed());
        }
        if counts {
            *state.stats.lags.entry(lag).or_default() += 1;
            if let Some(last) = state.last.replace(newest) {
                *state.stats.jumps.entry(newest - last).or_default() += 1;
            }
        }
    }

    /// Checks status, head and suggestion of a response, and returns its head.
    fn check(&self, response: &Response) -> Result<u64, String> {
        if response.status != 200 {
            return Err(format!("{response:?}"));
        }
        let newest: u64 =
            response.header("x-newest-block").parse().map_err(|_| "no newest block")?;
        if newest > self.clock.head() {
            return Err(format!("{newest} is no block yet"));
        }
        let expected = self.settings.expected_suggestion(&self.chain, newest);
        if response.body == expected {
            Ok(newest)
        } else {
            Err(format!("{} is served at {newest}, not {expected}", response.body))
        }
    }
}

fn age(response: &Response) -> Result<u64, String> {
    response.header("age").parse().map_err(|_| format!("no age: {response:?}"))
}
