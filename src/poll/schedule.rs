//! When the next poll of a chain is due: just after each block, learnt from when earlier blocks were found.
//!
//! Pure: instants in, the next instant out. A fixed interval would find blocks half an interval late on average. The
//! latency of the node is part of the times at which polls were sent, so it need not be known.
//!
//! The schedule learns a period (the time between two blocks) and a lateness (how long after it is expected a block may
//! arrive). The configured block time is where the period starts. The first poll for a block is sent when it is
//! expected, a period after the last one:
//!
//! - If it finds the block, the next one is expected a little earlier, and after many such blocks earlier and earlier.
//! - If not, a second one follows after the lateness, others after pauses that double, and the next block is expected later.
//!   The lateness grows if the second one does not find the block, and shrinks otherwise.
//! - If all fail, the chain may have missed the block, and the next poll is due a period after the first one.
//! - After several such periods the period is the block time at least.
//!
//! At the start and after a standstill a block may arrive at any moment of the period. The lateness is half of it then, and
//! each block halves the lateness.
//!
//! At most `max_polls_per_block` polls are sent in any block time: the configured one, or the period of a faster chain,
//! which is followed down to `min_poll_interval`. No two polls are closer than that. A poll is due one and a half block
//! times after the last one at the latest, so that the data does not look stale. After a failed poll the next one is due
//! after a block time, or after the caller's retry interval (5 s) if that is shorter, however many polls have failed. The
//! limit on polls per block does not delay it.
//!
//! Processes that share polls do not use this schedule: their slots start at fixed times, with one poll each.

mod announcements;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use announcements::Announcements;

/// Poll schedule of one chain.
#[derive(Debug)]
pub struct PollSchedule {
    /// Block time: the configured one, then the measured one.
    block_time: Duration,
    /// Shortest time between two polls.
    min_interval: Duration,
    /// Maximum number of polls in any block time.
    max_polls: usize,
    /// Time between two blocks: an exponentially weighted mean.
    period: Duration,
    /// The last times between two blocks. Two missed blocks among five do not change their median.
    intervals: [Duration; 5],
    /// How long after it is expected a block arrives, if it is not there by then.
    lateness: Duration,
    /// True while each block halves the lateness.
    is_searching: bool,
    /// When the next block is expected.
    expected: Instant,
    /// When the next poll is due: at that time, or after it.
    due: Instant,
    /// Polls since the block was expected that did not find it.
    misses: usize,
    /// Periods since then without a block.
    missed_periods: u32,
    /// Blocks in a row that their first poll found.
    hits: u32,
    /// Newest known block, and when the poll that found it was sent.
    head: Option<(u64, Instant)>,
    /// Send times of the last polls, at most `max_polls`.
    recent_polls: VecDeque<Instant>,
    /// When the next poll is due after a failed one.
    retry_at: Option<Instant>,
    announcements: Announcements,
}

impl PollSchedule {
    /// Number of hits of the first poll in a row after which the next block is expected earlier and earlier.
    const MAX_HITS: u32 = 6;
    /// Periods without a block after which the chain has stopped, or has become slower.
    const STANDSTILL: u32 = 2;

    /// Creates the schedule of a chain about which nothing is known but its configured `block_time`. Polls are at least
    /// `min_interval` apart. The first one is due `now`.
    #[must_use]
    pub fn new(
        block_time: Duration,
        min_interval: Duration,
        max_polls: usize,
        now: Instant,
    ) -> Self {
        Self {
            block_time,
            min_interval,
            max_polls: max_polls.max(1),
            period: block_time,
            intervals: [block_time; 5],
            lateness: block_time / 2,
            is_searching: true,
            expected: now,
            due: now,
            misses: 0,
            missed_periods: 0,
            hits: 0,
            head: None,
            recent_polls: VecDeque::new(),
            retry_at: None,
            announcements: Announcements::default(),
        }
    }

    /// Sets the block time to a measured one.
    pub fn set_block_time(&mut self, block_time: Duration) {
        self.block_time = block_time;
    }

    /// Returns when the next poll is due.
    #[must_use]
    pub fn next(&self) -> Instant {
        // The limit on polls per block does not delay a retry, which may be the first poll to return data.
        let next = self.retry_at.unwrap_or_else(|| self.next_of_block());
        self.recent_polls.back().map_or(next, |last| next.max(*last + self.min_interval))
    }

    fn next_of_block(&self) -> Instant {
        let due = self.due + self.grace();
        let due = self.announcements.poll_at().map_or(due, |at| at.min(due));
        let Some(last) = self.recent_polls.back() else { return due };
        // The data must not look stale, even if no block is expected for long.
        let due = due.min(*last + self.block_time * 3 / 2);
        // Of blocks at random times the period is an underestimate.
        let is_faster = !self.is_irregular() && self.period < self.block_time * 3 / 4;
        let limited_time = if is_faster { self.period } else { self.block_time };
        let oldest_poll =
            self.recent_polls.front().filter(|_| self.recent_polls.len() == self.max_polls);
        oldest_poll.map_or(due, |first| due.max(*first + limited_time))
    }

    /// Records an announcement of a block above the newest one.
    pub fn record_announcement(&mut self, now: Instant) {
        self.announcements.record(now);
    }

    /// Records a failed poll, sent at `sent`. The next one is due after a block time, or after `retry` if that is
    /// shorter.
    pub fn record_failure(&mut self, sent: Instant, retry: Duration) {
        self.remember_poll(sent);
        self.announcements.forget();
        self.retry_at = Some(sent + self.block_time.min(retry));
    }

    /// Records a successful poll, sent at `sent`, after which `head` is the newest known block.
    pub fn record_poll(&mut self, sent: Instant, head: u64) {
        let has_failed = self.retry_at.take().is_some();
        match self.head {
            Some((last, _)) if head == last => self.on_same_head(sent),
            Some((last, found_at)) if head > last => {
                let blocks = u32::try_from(head - last).unwrap_or(u32::MAX);
                if !has_failed {
                    self.learn_period(sent.saturating_duration_since(found_at) / blocks, blocks);
                }
                self.on_new_head(sent, blocks);
            }
            // The first poll, or a chain that was reset.
            _ => {
                self.announcements.forget();
                self.search(sent);
            }
        }
        if self.head.is_none_or(|(last, _)| last != head) {
            self.head = Some((head, sent));
        }
        self.remember_poll(sent);
    }

    fn remember_poll(&mut self, sent: Instant) {
        if self.recent_polls.len() == self.max_polls {
            self.recent_polls.pop_front();
        }
        self.recent_polls.push_back(sent);
    }

    /// Handles a poll that found no new block.
    fn on_same_head(&mut self, sent: Instant) {
        self.announcements.record_miss(sent, self.period);
        if sent < self.due {
            return;
        }
        if self.due < self.expected {
            // The last block was not late. Fewer polls are left for this one.
            self.misses = 1;
            self.due = self.expected + self.lateness;
            return;
        }
        if self.announcements.are_reliable() && sent >= self.due + self.grace() {
            self.announcements.end_streak();
        }
        self.hits = 0;
        self.misses += 1;
        let pauses = 1..self.misses;
        let pause = pauses.fold(self.lateness, |pause, _| (pause * 2).max(self.period / 12));
        let is_within = sent + pause < self.expected + self.period;
        if is_within && self.misses < self.max_polls && self.missed_periods < Self::STANDSTILL {
            self.due = sent + pause;
        } else {
            self.wait_for_next_period(sent);
        }
    }

    /// Gives up the block that was expected, and expects one after a period: the block time at least, after a standstill.
    fn wait_for_next_period(&mut self, sent: Instant) {
        self.misses = 0;
        self.missed_periods = self.missed_periods.saturating_add(1);
        if self.missed_periods > Self::STANDSTILL {
            self.period = self.period.max(self.block_time);
        }
        let next = self.expected + self.period;
        self.expected = if next > sent { next } else { sent + self.period };
        self.due = self.expected;
    }

    /// Handles a poll that found this many new blocks.
    fn on_new_head(&mut self, sent: Instant, blocks: u32) {
        if self.announcements.record_block(sent) {
            (self.is_searching, self.hits) = (false, 0);
            let deviation = sent.max(self.expected) - sent.min(self.expected);
            self.lateness = (self.lateness * 7 + deviation * 2) / 8;
            self.expect(sent + self.period, sent);
        } else if self.missed_periods >= Self::STANDSTILL
            || (self.due < self.expected && blocks == 1)
        {
            // In the latter case the last block was late, and not the one after a missed one.
            self.search(sent);
        } else {
            let arrival = (self.expected + self.period * (blocks - 1)).min(sent);
            let wait = self.wait_after_block();
            let may_be_late = self.missed_periods == 1 && !self.is_irregular();
            self.expect(arrival + wait, sent);
            if may_be_late {
                self.due = (arrival + wait.saturating_sub(self.period / 4)).max(sent);
            }
        }
    }

    /// Returns the time from when a block was expected, or was found before that, until the next one is expected. Learns the
    /// lateness.
    fn wait_after_block(&mut self) -> Duration {
        let (period, lateness) = (self.period, self.lateness);
        let was_searching = std::mem::replace(&mut self.is_searching, false);
        if was_searching && self.misses < 2 {
            self.lateness = lateness / 2;
            self.is_searching = self.lateness > self.min_lateness();
            let has_come = self.misses == 0;
            let lateness = self.lateness;
            return if has_come { period.saturating_sub(lateness) } else { period + lateness };
        }
        if self.missed_periods > 0 {
            self.hits = Self::MAX_HITS;
            self.lateness = lateness * 5 / 4;
            return period;
        }
        // Most chains keep to a grid, so that an irregular block says little about the next one.
        let is_irregular = self.is_irregular();
        if self.misses == 0 {
            self.hits = self.hits.saturating_add(1);
            self.lateness = lateness * 31 / 32;
            let doublings = self.hits.saturating_sub(Self::MAX_HITS).min(24) / 2;
            let earlier = lateness / if is_irregular { 8 } else { 20 };
            return period.saturating_sub((earlier * 2_u32.pow(doublings)).min(period / 4));
        }
        if self.misses > 1 {
            self.lateness = lateness * 2;
        }
        period + if is_irregular { lateness * 3 / 8 } else { lateness }
    }

    /// Expects the next block at any moment of the period after this time.
    fn search(&mut self, start: Instant) {
        (self.is_searching, self.hits) = (true, 0);
        self.lateness = self.period / 2;
        self.expect(start + self.period / 2, start);
    }

    /// Expects the next block at this time, but not before `earliest`.
    fn expect(&mut self, at: Instant, earliest: Instant) {
        self.lateness = self.lateness.min(self.period / 2).max(self.min_lateness());
        self.expected = at.max(earliest);
        self.due = self.expected;
        self.misses = 0;
        self.missed_periods = 0;
    }

    /// Learns the period from `blocks` new ones, each this time after the one before. A single unusual time, as of a missed
    /// block, counts as the median of the last five.
    fn learn_period(&mut self, interval: Duration, blocks: u32) {
        let [_, second, third, fourth, fifth] = self.intervals;
        self.intervals = [second, third, fourth, fifth, interval];
        let mut sorted = self.intervals;
        sorted.sort_unstable();
        let [_, _, median, _, _] = sorted;
        let is_usual = interval.abs_diff(median) < self.period / 4;
        let interval = if is_usual { interval } else { median };
        // The times at which blocks are found during a search are too rough for slight changes.
        if self.is_searching && interval.abs_diff(self.period) < self.period / 3 {
            return;
        }
        for _ in 0..blocks.min(100) {
            self.period = (self.period * 15 + interval) / 16;
        }
        let longest = (self.block_time * 100).max(self.min_interval);
        self.period = self.period.clamp(self.min_interval, longest);
    }

    /// Returns true if blocks arrive so irregularly that a late one looks like a missed one.
    fn is_irregular(&self) -> bool {
        !self.is_searching && self.lateness > self.period / 16
    }

    /// Smallest lateness: tens of milliseconds, or a small part of a short period.
    fn min_lateness(&self) -> Duration {
        (self.period / 100).clamp(Duration::from_millis(1), Duration::from_millis(20))
    }

    /// How long a poll waits for an announcement if each block is announced.
    fn grace(&self) -> Duration {
        if self.announcements.are_reliable() { self.period / 2 } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests;
