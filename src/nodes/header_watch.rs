//! The watch of the newest header at one URL. No other place reads it.
//!
//! Polls say since when they want it to have been read. A call goes on when a poll no longer waits for it, and does not hold
//! up the next one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{JsonRpcClient, NodeEndpoint, newest_header};
use crate::fees::{BlockAge, HeadReading};
use crate::observe::clock;

/// Newest header at one URL, and the calls that read it.
#[derive(Debug)]
pub(super) struct HeaderWatch {
    newest: watch::Sender<Newest>,
    calls: Mutex<Calls>,
    /// Age of the newest block above which the node is behind; `None`: every block is young enough.
    max_age: Option<Duration>,
}

/// Result of the calls that have ended.
#[derive(Debug, Clone, Copy, Default)]
struct Newest {
    reading: HeadReading,
    /// When the last of them was sent, also a failed one.
    sent_at: Option<Instant>,
}

/// The calls that have not ended. They end with the watch.
#[derive(Debug, Default)]
struct Calls {
    tasks: JoinSet<()>,
    /// When the last one was sent.
    sent_at: Option<Instant>,
}

impl HeaderWatch {
    /// Time between two readings for a node in use.
    pub(super) const INTERVAL: Duration = Duration::from_secs(30);

    /// Most calls at a time of a node that has fallen silent.
    const MAX_CALLS: usize = 4;

    pub(super) fn new(max_age: Option<Duration>) -> Self {
        Self { newest: watch::Sender::default(), calls: Mutex::default(), max_age }
    }

    /// Returns what the node last said of its newest block.
    pub(super) fn reading(&self) -> HeadReading {
        self.newest.borrow().reading
    }

    /// Returns true if the newest block was old when it was last read, or if the node was syncing.
    pub(super) fn is_old(&self) -> bool {
        self.reading().block_age(self.max_age) == BlockAge::Old
    }

    /// Returns the time since which the header must have been read to use a reply at `now`, of a node that last failed at
    /// `failed_at`: it is needed at the first use, after an error, while the head is old, and after a standstill of the
    /// machine, when the reading is long overdue. `None`: headers are not read.
    pub(super) fn needed_since(&self, now: Instant, failed_at: Option<Instant>) -> Option<Instant> {
        let overdue = Self::INTERVAL + self.max_age? / 6;
        if self.is_old() { Some(now) } else { now.checked_sub(overdue).max(failed_at) }
    }

    /// Returns the time since which the header of a node in use must have been read. `None`: headers are not read.
    pub(super) fn due_since(&self) -> Option<Instant> {
        self.max_age.and_then(|_| clock::now().checked_sub(Self::INTERVAL))
    }

    /// Makes a call unless one was sent since `since`, and does not wait for it. It ends within `deadline`.
    pub(super) fn request(
        &self,
        client: &JsonRpcClient,
        node: &Arc<NodeEndpoint>,
        since: Instant,
        deadline: Duration,
    ) {
        let mut calls = self.calls.lock();
        while calls.tasks.try_join_next().is_some() {}
        if calls.sent_at >= Some(since) || calls.tasks.len() >= Self::MAX_CALLS {
            return;
        }
        let sent_at = clock::now();
        calls.sent_at = Some(sent_at);
        let (client, node, newest) = (client.clone(), Arc::clone(node), self.newest.clone());
        calls.tasks.spawn(async move {
            let reading =
                timeout(deadline, newest_header::read(&client, &node)).await.ok().flatten();
            newest.send_modify(|newest| newest.record(reading, sent_at));
        });
    }

    /// Waits for a requested call that was sent since `since`, at most for `patience`. If it brings no header, an earlier one
    /// says nothing any more, unless it is old.
    pub(super) async fn wait(&self, since: Instant, patience: Duration) {
        let mut newest = self.newest.subscribe();
        let is_read = newest.wait_for(|newest| newest.sent_at >= Some(since));
        drop(timeout(patience, is_read).await);
        self.newest.send_if_modified(|newest| {
            let is_earlier = newest.reading.header().is_some_and(|header| header.read_at < since);
            if is_earlier && newest.reading.block_age(self.max_age) != BlockAge::Old {
                newest.reading = HeadReading::Unread;
            }
            false
        });
    }
}

impl Newest {
    /// Records what a call told, unless a later one has ended before it. A failed one, `None`, keeps the last reading. So does
    /// one that says nothing, if the node has returned a header before: it has the method.
    fn record(&mut self, reading: Option<HeadReading>, sent_at: Instant) {
        if self.sent_at > Some(sent_at) {
            return;
        }
        let has_headers = self.reading.header().is_some();
        let told = reading.filter(|told| *told != HeadReading::Unknown || !has_headers);
        self.reading = told.unwrap_or(self.reading);
        self.sent_at = Some(sent_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fees::HeaderTime;

    const MAX_AGE: Duration = Duration::from_mins(1);
    const SECOND: Duration = Duration::from_secs(1);

    /// A header that was read now, of a block of this age.
    fn header(now: Instant, age: Duration) -> HeadReading {
        let since_1970 = Duration::from_hours(10_000);
        let seconds = since_1970.saturating_sub(age).as_secs();
        HeadReading::Header(HeaderTime::new(7, seconds, now, since_1970))
    }

    #[test]
    fn a_call_that_tells_nothing_keeps_the_last_header() {
        let (mut now, mut newest) = (Instant::now(), Newest::default());
        newest.record(Some(HeadReading::Unknown), now);
        assert_eq!(newest.reading, HeadReading::Unknown);
        for reading in [HeadReading::Syncing, header(now, SECOND)] {
            newest.record(Some(reading), now);
            now += SECOND;
            newest.record(None, now);
            assert_eq!((newest.reading, newest.sent_at), (reading, Some(now)));
        }
        let known = newest.reading;
        newest.record(Some(HeadReading::Unknown), now);
        // The reply to an earlier call may come later.
        newest.record(Some(HeadReading::Syncing), now.checked_sub(SECOND).unwrap());
        assert_eq!(newest.reading, known);
    }

    #[tokio::test]
    async fn only_an_old_head_outlasts_a_header_that_does_not_come() {
        let now = Instant::now();
        for (age, is_kept) in [(SECOND, false), (61 * SECOND, true)] {
            let (watch, reading) = (HeaderWatch::new(Some(MAX_AGE)), header(now, age));
            watch.newest.send_modify(|newest| newest.record(Some(reading), now));
            watch.wait(now, Duration::ZERO).await;
            assert_eq!(watch.reading(), reading);
            watch.wait(now + SECOND, Duration::ZERO).await;
            assert_eq!(watch.reading() == reading, is_kept);
        }
    }

    #[test]
    fn errors_standstills_and_old_heads_need_a_header() {
        let (watch, read_at) = (HeaderWatch::new(Some(MAX_AGE)), Instant::now());
        let now = read_at + 39 * SECOND;
        let is_needed =
            |now, failed_at| watch.newest.borrow().sent_at < watch.needed_since(now, failed_at);
        let record = |age| {
            watch.newest.send_modify(|newest| newest.record(Some(header(read_at, age)), read_at));
        };
        assert!(is_needed(now, None), "it was never read");
        record(SECOND);
        assert!(!is_needed(now, Some(read_at)));
        assert!(is_needed(now, Some(read_at + SECOND)));
        assert!(is_needed(now + 2 * SECOND, None));
        record(61 * SECOND);
        assert!(is_needed(now, None));
    }
}
