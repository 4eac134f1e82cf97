//! Reads a replica's suggestion at intervals and compares it with the mock chain.
//!
//! Measured for each read:
//!
//! - *lag*: the node's head just before the request, minus the served head. A block may be newer than the last
//!   poll, so a lag of 0 or 1 is normal. With a lag of 3, the replica should have served two more blocks.
//! - *jump*: the served head minus that of the previous read. With a jump of 3, two blocks were never served.
//!
//! A gap of two blocks is thus a lag or a jump of 3, [`MAX_GAP`].

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::mock_clock_node::Clock;
use super::replica::{Counts, Replica};
use crate::chain_model::Window;
use crate::test_server::Response;

/// Lag and jump of a gap of two blocks.
pub(crate) const MAX_GAP: u64 = 3;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads one chain of one replica in the background until dropped.
pub(crate) struct Monitor {
    pub(crate) replica: Arc<Replica>,
    reader: Arc<Reader>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct MonitorState {
    stats: ReadStats,
    /// Incremented each time the process is killed, started, frozen or thawed.
    epoch: u64,
    /// Reads that begin at or after this time count. `None` while the process is down or frozen.
    counts_from: Option<Instant>,
    /// The highest served head.
    newest: u64,
    /// The head of the previous read that counts.
    last: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct ReadStats {
    pub(crate) reads: u64,
    /// Reads without a response, with a status other than 200, with wrong numbers or with a lower head.
    pub(crate) failures: Vec<String>,
    pub(crate) max_lag: u64,
    pub(crate) max_jump: u64,
}

impl ReadStats {
    /// Checks that no read failed, and that no lag or jump was larger.
    pub(crate) fn check(&self, max_gap: u64) {
        assert_eq!(self.failures, [""; 0]);
        assert!(self.max_lag <= max_gap && self.max_jump <= max_gap, "{self:#?}");
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.reads += other.reads;
        self.failures.extend(other.failures);
        self.max_lag = self.max_lag.max(other.max_lag);
        self.max_jump = self.max_jump.max(other.max_jump);
        self
    }
}

impl Monitor {
    /// Starts reading `chain` at this `interval`. `window` returns the blocks that it prices. The replica must be ready.
    pub(crate) fn start(
        replica: &Arc<Replica>,
        chain: &str,
        clock: Clock,
        window: fn(u64) -> Window,
        interval: Duration,
    ) -> Self {
        let (replica, chain) = (Arc::clone(replica), chain.to_owned());
        let state = MonitorState { counts_from: Some(Instant::now()), ..MonitorState::default() };
        let shared = Arc::clone(&replica);
        let reader = Reader { replica: shared, state: Mutex::new(state), chain, clock, window };
        let reader = Arc::new(reader);
        let task = tokio::spawn(Arc::clone(&reader).run(interval));
        Self { replica, reader, task }
    }

    /// Begins an epoch, in which reads count from this time on.
    fn begin_epoch(&self, counts_from: Option<Instant>) {
        let mut state = self.reader.state.lock().unwrap();
        state.epoch += 1;
        (state.counts_from, state.last) = (counts_from, None);
    }

    /// Pauses reading; called before the process is killed or frozen.
    pub(crate) fn pause(&self) {
        self.begin_epoch(None);
    }

    /// Resumes reading; called when the process is ready again or thawed. It may serve its old head for at most `grace`.
    pub(crate) fn resume(&self, grace: Duration) {
        self.begin_epoch(Some(Instant::now() + grace));
    }

    /// Returns the metrics of the replica for the chain.
    pub(crate) async fn counts(&self) -> Counts {
        self.replica.counts(&self.reader.chain).await
    }

    /// Returns and resets the statistics.
    pub(crate) fn take_stats(&self) -> ReadStats {
        std::mem::take(&mut self.reader.state.lock().unwrap().stats)
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
    state: Mutex<MonitorState>,
    chain: String,
    clock: Clock,
    window: fn(u64) -> Window,
}

impl Reader {
    async fn run(self: Arc<Self>, interval: Duration) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.read().await;
        }
    }

    async fn read(&self) {
        let epoch = {
            let state = self.state.lock().unwrap();
            if state.counts_from.is_none() {
                return;
            }
            state.epoch
        };
        let (requested, head) = (Instant::now(), self.clock.head());
        let path = format!("/v1/{}/gas-suggestion", self.chain);
        let response = self.replica.try_get(&path, TIMEOUT).await;
        let mut state = self.state.lock().unwrap();
        let is_same_epoch = state.epoch == epoch;
        if !is_same_epoch && response.is_err() {
            // The process was killed or frozen during the read.
            return;
        }
        let counts = is_same_epoch && state.counts_from.is_some_and(|from| requested >= from);
        state.stats.reads += 1;
        let checked = response.and_then(|response| {
            let newest = self.check(&response)?;
            if newest < state.newest {
                return Err(format!("{newest} after {}", state.newest));
            }
            // After a restart the age need not match yet.
            if counts {
                let age = response.header("age").parse().map_err(|_| format!("{response:?}"))?;
                self.clock.check_age(newest, requested, age)?;
            }
            Ok(newest)
        });
        match checked {
            Ok(newest) => {
                state.newest = newest;
                if counts {
                    let last = state.last.replace(newest).unwrap_or(newest);
                    let ReadStats { max_lag, max_jump, .. } = &mut state.stats;
                    *max_lag = head.saturating_sub(newest).max(*max_lag);
                    *max_jump = (newest - last).max(*max_jump);
                }
            }
            // There may be hundreds of failures, of which the first ones suffice.
            Err(failure) if state.stats.failures.len() < 10 => {
                let failure = format!("{} {}: {failure}", self.replica.name, self.chain);
                eprintln!("{failure}");
                state.stats.failures.push(failure);
            }
            Err(_) => {}
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
        let expected = (self.window)(newest).body(&self.chain);
        if response.body == expected {
            Ok(newest)
        } else {
            Err(format!("{} is served at {newest}, not {expected}", response.body))
        }
    }
}
