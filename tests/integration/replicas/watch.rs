//! Reads a replica's suggestion again and again and holds each against what happened on the chain.
//!
//! What is measured of a read:
//!
//! - *lag*: the node's head just before the request was sent, less the served one. One block of it is always
//!   under way: it was made after the last poll was due. So a replica that misses nothing has a lag of 0 or 1,
//!   and each further one is a block that it should have served by now.
//! - *jump*: the served head less the one of the read before. Of a jump of 3, two blocks were never served.
//!
//! A gap of two blocks is thus a lag or a jump of 3, [`MOST`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::clock_node::{Clock, Terms};
use super::replica::Replica;
use crate::service::Answer;

/// The lag and the jump that a gap of two blocks makes.
pub(crate) const MOST: u64 = 3;

/// No answer takes this long, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads one chain of one replica in the background, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) replica: Arc<Replica>,
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    record: Record,
    /// Is another after each thing that is done to the process.
    life: u64,
    /// From when on its answers count; `None`: it cannot answer.
    counts_from: Option<Instant>,
    /// When it was let go on, until it has caught up.
    thawed: Option<Instant>,
    /// The head of the read before, where both count.
    last: Option<u64>,
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) reads: u64,
    /// What must not be: no answer, another than 200, wrong numbers, a head that went back.
    pub(crate) failures: Vec<String>,
    /// The highest head that was ever served.
    pub(crate) newest: u64,
    /// How many reads had this lag.
    pub(crate) lags: BTreeMap<u64, u64>,
    /// How many reads had this jump.
    pub(crate) jumps: BTreeMap<u64, u64>,
    /// The longest time from when it was let go on until it had caught up.
    pub(crate) catching_up: Duration,
}

impl Record {
    pub(crate) fn max_lag(&self) -> u64 {
        self.lags.keys().next_back().copied().unwrap_or_default()
    }

    pub(crate) fn max_jump(&self) -> u64 {
        self.jumps.keys().next_back().copied().unwrap_or_default()
    }

    /// Both together.
    pub(crate) fn and(mut self, other: Self) -> Self {
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

impl Watch {
    /// Reads `chain`, whose configuration has these terms, so often. The replica is ready.
    pub(crate) fn start(
        replica: &Arc<Replica>,
        chain: &str,
        clock: Clock,
        terms: Terms,
        every: Duration,
    ) -> Self {
        let shared = Arc::new(Mutex::new(Shared {
            record: Record::default(),
            life: 0,
            counts_from: Some(Instant::now()),
            thawed: None,
            last: None,
        }));
        let reading = Reading {
            replica: Arc::clone(replica),
            shared: Arc::clone(&shared),
            path: format!("/v1/{chain}/gas-suggestion"),
            chain: chain.to_owned(),
            clock,
            terms,
        };
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                reading.read().await;
            }
        });
        Self { replica: Arc::clone(replica), shared, task }
    }

    /// Before its process is killed or frozen.
    pub(crate) fn is_gone(&self) {
        let mut shared = self.shared();
        shared.life += 1;
        (shared.counts_from, shared.last, shared.thawed) = (None, None, None);
    }

    /// After its process was started again and is ready.
    pub(crate) fn is_back(&self) {
        let mut shared = self.shared();
        shared.life += 1;
        (shared.counts_from, shared.last) = (Some(Instant::now()), None);
    }

    /// After its chain was seen to start over.
    pub(crate) fn starts_over(&self) {
        self.shared().record.newest = 0;
        self.is_back();
    }

    /// After its process was let go on: it serves what it had when it was frozen, for as long as it needs to
    /// catch up, at most `grace`.
    pub(crate) fn is_thawed(&self, grace: Duration) {
        let mut shared = self.shared();
        shared.life += 1;
        let now = Instant::now();
        (shared.counts_from, shared.last, shared.thawed) = (Some(now + grace), None, Some(now));
    }

    /// What was seen so far.
    pub(crate) fn record(&self) -> Record {
        self.shared().record.clone()
    }

    /// The same, and begins anew; heads go on from where they are.
    pub(crate) fn take(&self) -> Record {
        let mut shared = self.shared();
        let newest = shared.record.newest;
        std::mem::replace(&mut shared.record, Record { newest, ..Record::default() })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
        if std::thread::panicking() {
            eprintln!("{} logged:\n{}", self.replica.name, self.replica.log());
        }
    }
}

struct Reading {
    replica: Arc<Replica>,
    shared: Arc<Mutex<Shared>>,
    path: String,
    chain: String,
    clock: Clock,
    terms: Terms,
}

impl Reading {
    async fn read(&self) {
        let life = {
            let shared = self.shared.lock().unwrap();
            if shared.counts_from.is_none() {
                return;
            }
            shared.life
        };
        let (asked, head) = (Instant::now(), self.clock.head());
        let answer = self.replica.try_get(&self.path, PATIENCE).await;
        let mut shared = self.shared.lock().unwrap();
        let is_of_this_life = shared.life == life;
        if !is_of_this_life && answer.is_err() {
            // It was killed or frozen meanwhile.
            return;
        }
        let counts = is_of_this_life && shared.counts_from.is_some_and(|from| asked >= from);
        shared.record.reads += 1;
        let judged = answer.and_then(|answer| {
            let newest = self.judge(&answer)?;
            let before = shared.record.newest;
            if newest < before {
                return Err(format!("{newest} after {before}"));
            }
            // A value that nobody may have seen yet has an age, too.
            if counts { self.clock.is_age(newest, asked, age(&answer)?) } else { Ok(()) }?;
            Ok(newest)
        });
        let newest = match judged {
            Ok(newest) => newest,
            Err(failure) => {
                let failure = format!("{} {}: {failure}", self.replica.name, self.chain);
                // The first ones tell it all, and there may be hundreds.
                if shared.record.failures.len() < 10 {
                    eprintln!("{failure}");
                    shared.record.failures.push(failure);
                }
                return;
            }
        };
        shared.record.newest = newest;
        let lag = head.saturating_sub(newest);
        if is_of_this_life
            && lag <= MOST
            && let Some(thawed) = shared.thawed.take()
        {
            shared.record.catching_up = shared.record.catching_up.max(thawed.elapsed());
        }
        if counts {
            *shared.record.lags.entry(lag).or_default() += 1;
            if let Some(last) = shared.last.replace(newest) {
                *shared.record.jumps.entry(newest - last).or_default() += 1;
            }
        }
    }

    /// The served head, of an answer that is right by itself.
    fn judge(&self, answer: &Answer) -> Result<u64, String> {
        if answer.status != 200 {
            return Err(format!("{answer:?}"));
        }
        let newest: u64 = answer.header("x-newest-block").parse().map_err(|_| "no newest block")?;
        if newest > self.clock.head() {
            return Err(format!("{newest} is no block yet"));
        }
        let expected = self.terms.suggestion(&self.chain, newest);
        if answer.body == expected {
            Ok(newest)
        } else {
            Err(format!("{} is served at {newest}, not {expected}", answer.body))
        }
    }
}

fn age(answer: &Answer) -> Result<u64, String> {
    answer.header("age").parse().map_err(|_| format!("no age: {answer:?}"))
}
