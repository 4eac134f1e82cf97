//! Announcements of blocks (`newHeads`). Each makes a poll due at once, or after a lead if the polled node is later.

use std::time::{Duration, Instant};

/// State of a schedule about the announcements of its chain.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    /// Time of the announcement of a block that no poll has found yet.
    announced_at: Option<Instant>,
    /// Time from an announcement until the polled node has the block, as learnt.
    lead: Duration,
    /// Blocks in a row that were found by a poll for their announcement.
    streak: u32,
}

impl Announcements {
    /// Number of announced blocks in a row after which the schedule waits for the next announcement.
    const MIN_STREAK: u32 = 3;

    /// Records the announcement of a block above the newest one.
    pub(crate) fn record(&mut self, now: Instant) {
        self.announced_at.get_or_insert(now);
    }

    /// Forgets the announced block, after which they may go on or not.
    pub(crate) fn forget(&mut self) {
        (self.announced_at, self.streak) = (None, 0);
    }

    /// Records that an expected block was not announced.
    pub(crate) fn end_streak(&mut self) {
        self.streak = 0;
    }

    /// Returns true if each block is announced, so that no other poll is needed.
    pub(crate) fn are_reliable(&self) -> bool {
        self.streak >= Self::MIN_STREAK
    }

    /// Returns when the poll for an announced block is due, if there is one.
    pub(crate) fn poll_at(&self) -> Option<Instant> {
        Some(self.announced_at? + self.lead)
    }

    /// Records a poll that found no new block. If it was for an announcement, the next one is sent later after it, up to a
    /// third of the `period`.
    pub(crate) fn record_miss(&mut self, sent: Instant, period: Duration) {
        if self.poll_at().is_none_or(|at| sent < at) {
            return;
        }
        self.lead = (self.lead * 5 / 4).max(self.lead + Duration::from_millis(2));
        if self.lead > period / 2 {
            self.lead = period / 2;
            self.announced_at = None;
        }
    }

    /// Records a poll that found a new block. Returns true if it was for an announcement.
    pub(crate) fn record_block(&mut self, sent: Instant) -> bool {
        let is_announced = self.poll_at().is_some_and(|at| sent >= at);
        self.announced_at = None;
        if is_announced {
            self.streak = self.streak.saturating_add(1);
            // Slightly less each time, so that polls do not stay too late.
            self.lead = (self.lead * 63 / 64).saturating_sub(Duration::from_micros(50));
        } else {
            self.streak = 0;
        }
        is_announced
    }
}
