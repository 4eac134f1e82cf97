//! Announcements of blocks (`newHeads`), and how long after one the polled node has the block.

use std::time::{Duration, Instant};

use super::pauses;

/// State of a schedule about the announcements of its chain.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    /// Time of the announcement of a block that no poll has found yet.
    announced_at: Option<Instant>,
    /// Polls for that block that did not find it.
    misses: usize,
    /// Time from an announcement until the polled node has the block, as learnt.
    lead: Duration,
    /// Announcements in a row for which the polls found no block.
    failed: u32,
    /// Blocks in a row that were found by a poll for their announcement.
    streak: u32,
}

impl Announcements {
    /// Number of announcements in vain in a row after which none makes a poll due until one proves right.
    const MAX_FAILED: u32 = 3;
    /// Number of announced blocks in a row after which the schedule waits for the next announcement.
    const MIN_STREAK: u32 = 3;

    /// Records the announcement of a block above the newest one.
    pub(crate) fn record(&mut self, now: Instant) {
        self.announced_at.get_or_insert(now);
    }

    /// Forgets the announced block.
    pub(crate) fn forget(&mut self) {
        (self.announced_at, self.misses) = (None, 0);
    }

    /// Ends the streak of announced blocks.
    pub(crate) fn end_streak(&mut self) {
        self.streak = 0;
    }

    /// Returns true if each block is announced, so that no other poll is needed.
    pub(crate) fn are_reliable(&self) -> bool {
        self.streak >= Self::MIN_STREAK
    }

    /// Returns when the next poll for an announced block is due. `None`: no block is announced, or polls for
    /// announcements were in vain. `step` is the shortest useful pause between two polls.
    pub(crate) fn poll_at(&self, max_polls: usize, step: Duration) -> Option<Instant> {
        let is_followed = self.failed < Self::MAX_FAILED && self.misses + 1 < max_polls.max(2);
        let announced_at = self.announced_at.filter(|_| is_followed)?;
        let pause = step.max(self.lead / 8);
        Some(announced_at + self.lead + pause.saturating_mul(pauses(self.misses)))
    }

    /// Records that a poll for an announcement found no block. One poll is left for the expected arrival.
    pub(crate) fn record_miss(&mut self, max_polls: usize) {
        self.misses += 1;
        if self.misses + 1 >= max_polls {
            self.failed = self.failed.saturating_add(1);
        }
    }

    /// Records that the poll sent at `sent` found a block, which the poll sent at `last_poll` had not. `is_due`: that
    /// poll was for an announcement.
    pub(crate) fn record_block(
        &mut self,
        sent: Instant,
        last_poll: Instant,
        is_due: bool,
        period: Duration,
        step: Duration,
    ) {
        if let Some(announced_at) = self.announced_at {
            let min_lead = last_poll.saturating_duration_since(announced_at);
            let max_lead = sent.saturating_duration_since(announced_at);
            if is_due && self.misses == 0 {
                // Slightly less each time, so that polls do not stay too late.
                self.lead = (self.lead * 31 / 32).saturating_sub(step / 16);
                self.failed = 0;
            } else if max_lead < period / 2 {
                self.lead = min_lead + max_lead.saturating_sub(min_lead) * 3 / 4;
                self.failed = 0;
            }
        }
        self.streak = if is_due { self.streak.saturating_add(1) } else { 0 };
        self.forget();
    }
}
