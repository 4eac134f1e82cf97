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
//! - If all fail, the chain may have missed the block, and the next poll is due a period after the first one. Before the
//!   block after that there is one more, because the block may have been late instead.
//! - After several such periods the pauses double up to the block time.
//!
//! At the start and after a standstill a block may arrive at any moment of the period. Polls in the middle and at the
//! end of the time in which it is expected halve this time with each block.
//!
//! At most `max_polls_per_block` polls are sent in any block time: the configured one, or the period of a faster chain,
//! which is followed down to `min_poll_interval`. No two polls are closer than that. A poll is due one and a half block
//! times after the last one at the latest, so that the data does not look stale. After a failed poll the next one is due
//! after a block time, or after the caller's retry interval (5 s) if that is shorter, however many polls have failed. The
//! limit on polls per block does not delay it.
//!
//! Replicas that share polls do not use this schedule: their slots start at fixed times, with one poll each.

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
    /// When the next block is expected.
    expected: Instant,
    /// When the next poll is due: at that time, before it to see whether the last block was late, or after it.
    due: Instant,
    /// Polls since the block was expected that did not find it.
    misses: usize,
    /// Periods since then without a block.
    missed_periods: u32,
    /// Blocks in a row that their first poll found.
    hits: u32,
    /// Number of blocks until which the time in which the next one may arrive is halved with each.
    searches: u32,
    /// The next block does not arrive before.
    earliest: Instant,
    /// Newest known block, and when the poll that found it was sent.
    head: Option<(u64, Instant)>,
    /// Send times of the last polls, at most `max_polls`.
    recent_polls: VecDeque<Instant>,
    /// When the next poll is due after a failed one.
    retry_at: Option<Instant>,
    announcements: Announcements,
}

impl PollSchedule {
    /// Number of halvings until the time in which a block is expected is a small part of the period.
    const SEARCHES: u32 = 6;
    /// Number of hits of the first poll in a row after which the next block is expected earlier and earlier.
    const MAX_HITS: u32 = 7;
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
            expected: now,
            due: now,
            misses: 0,
            missed_periods: 0,
            hits: 0,
            searches: Self::SEARCHES,
            earliest: now,
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
        let is_faster = self.period < self.block_time * 3 / 4;
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
                self.searches = Self::SEARCHES;
                self.search(sent, self.period);
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
        self.earliest = self.earliest.max(sent);
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

    /// Gives up the block that was expected, and expects one after a period: twice as long a time each time after a
    /// standstill, up to the block time.
    fn wait_for_next_period(&mut self, sent: Instant) {
        self.misses = 0;
        self.missed_periods = self.missed_periods.saturating_add(1);
        if self.missed_periods > Self::STANDSTILL {
            self.period = self.period.max(self.block_time);
        }
        let doublings = self.missed_periods.saturating_sub(Self::STANDSTILL).min(16);
        let pause = (self.period * 2_u32.pow(doublings)).min(self.block_time.max(self.period));
        let next = self.expected + pause;
        self.expected = if next > sent { next } else { sent + pause };
        self.due = self.expected;
    }

    /// Handles a poll that found this many new blocks.
    fn on_new_head(&mut self, sent: Instant, blocks: u32) {
        if self.announcements.record_block(sent) {
            (self.searches, self.hits) = (0, 0);
            let deviation = sent.max(self.expected) - sent.min(self.expected);
            self.lateness = (self.lateness * 7 + deviation * 2) / 8;
            self.expect_in(self.period, sent, sent);
            return;
        }
        let was_late = self.due < self.expected && sent < self.expected && blocks == 1;
        let has_stopped = self.missed_periods >= Self::STANDSTILL && !self.is_irregular();
        if was_late || has_stopped {
            self.searches = Self::SEARCHES;
        }
        if self.searches == 0 {
            self.adjust(sent, blocks);
            return;
        }
        let width = sent.saturating_duration_since(self.earliest).min(self.period);
        let is_narrow = width <= 2 * self.min_lateness();
        self.searches = if is_narrow { 0 } else { self.searches - 1 };
        self.search(sent + self.period.saturating_sub(width), width);
    }

    /// Expects the next block within `width` from `start` on: polls in the middle and at the end halve this time.
    fn search(&mut self, start: Instant, width: Duration) {
        self.hits = 0;
        self.lateness = width / 2;
        self.expect_in(width / 2, start, start);
    }

    /// Learns from the polls for the block that was found whether it was expected too early or too late.
    fn adjust(&mut self, sent: Instant, blocks: u32) {
        let lateness = self.lateness;
        let arrival = (self.expected + self.period * (blocks - 1)).min(sent);
        let mut wait = self.period;
        // Most chains keep to a grid, so an irregular block says little about the next one.
        let (earlier, later) = if self.is_irregular() {
            (lateness / 6, lateness / 3)
        } else {
            (lateness / 4, lateness)
        };
        // After a poll that is too early the next one comes this many times the lateness later, so it is dared less often.
        let cost = self.cost_of_miss();
        let earlier = earlier / cost;
        if self.missed_periods > 0 {
            self.hits = Self::MAX_HITS;
            self.lateness = lateness * 5 / 4;
        } else if self.misses > 0 {
            self.hits = 0;
            wait += later;
            self.lateness = match self.misses {
                1 if cost == 1 => lateness * 9 / 10,
                // The second poll came later than the lateness says.
                1 => lateness * 2,
                _ => lateness * 5 / 2,
            };
        } else {
            if cost > 1 {
                self.lateness = lateness * 9 / 10;
            }
            self.hits = self.hits.saturating_add(1);
            let growths = Self::MAX_HITS..self.hits.min(32);
            let margin = growths.fold(earlier, |margin, _| margin * 3 / 2);
            wait -= margin.min(self.period / 4);
        }
        self.expect_in(wait, arrival, sent);
    }

    /// Expects the next block in this time from `start` on, but not before `earliest`. After a period without a block
    /// the next poll comes earlier, because that block may have been late.
    fn expect_in(&mut self, wait: Duration, start: Instant, earliest: Instant) {
        self.lateness = self.lateness.min(self.period / 2).max(self.min_lateness());
        let may_be_late = self.missed_periods > 0 && self.searches == 0 && !self.is_irregular();
        let early = if may_be_late { self.period / 4 } else { Duration::ZERO };
        self.earliest = earliest;
        self.expected = (start + wait).max(earliest);
        self.due = (start + wait.saturating_sub(early)).max(earliest);
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
        let is_usual = self.is_irregular() || interval.abs_diff(median) < self.period / 4;
        let interval = if is_usual { interval } else { median };
        // The times at which blocks are found during a search are too rough for slight changes.
        let is_near = self.period * 2 / 3 < interval && interval <= self.period * 3 / 2;
        if self.searches > 0 && is_near {
            return;
        }
        for _ in 0..blocks.min(100) {
            self.period = (self.period * 15 + interval) / 16;
        }
        let longest = (self.block_time * 100).max(self.min_interval);
        self.period = self.period.clamp(self.min_interval, longest);
    }

    /// The shortest time between two polls, in latenesses.
    fn cost_of_miss(&self) -> u32 {
        let times = self.min_interval.as_nanos() / self.lateness.as_nanos().max(1);
        u32::try_from(times).unwrap_or(u32::MAX).clamp(1, 100)
    }

    /// Smallest lateness: tens of milliseconds, or a small part of a short period.
    fn min_lateness(&self) -> Duration {
        (self.period / 100).clamp(Duration::from_millis(1), Duration::from_millis(20))
    }

    /// Returns true if blocks arrive so irregularly that a late one looks like a missed one.
    fn is_irregular(&self) -> bool {
        self.searches == 0 && self.lateness > self.period / 16
    }

    /// How long a poll waits for an announcement if each block is announced.
    fn grace(&self) -> Duration {
        if self.announcements.are_reliable() { self.period / 2 } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests;
