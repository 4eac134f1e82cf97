//! When the next poll of a chain is due: just after each block, learnt from when earlier blocks arrived.
//!
//! Pure: instants in, the next instant out. A fixed interval would find blocks half an interval late on average. All
//! that the schedule learns of a block is between which two polls it arrived, by the times at which they were sent. The
//! latency of the node is part of these times, so it need not be known.
//!
//! From these bounds the schedule keeps a window in which the next block arrives: the bounds of the last block, one
//! `period` later, widened by the `jitter` of the blocks. Each poll narrows it.
//!
//! - A wide window, as after a start, is divided evenly by all polls that a block may cost. Five blocks suffice to
//!   narrow it from a whole period to a hundredth.
//! - A narrow window gets one poll after three fifths of it, and a second one at its end if the first finds nothing. So
//!   about one first poll in three is too early, which shows that the others are not late. After several hits in a
//!   row the window opens earlier and earlier, until a poll misses.
//! - If a block is not there at the end of its window, retries follow after pauses that double. Blocks that arrive late
//!   raise the jitter, blocks within their window lower it slowly. The first pause grows after a block that the retries
//!   did not find.
//! - A block that arrives half a period late or later may follow a missed one, or be late itself. So the next window
//!   reaches from where a late block leads to expect the next one to where a missed block does. Its first poll is sent
//!   near the start.
//! - While the jitter is above a fiftieth of the period, the window follows each block only part of the way.
//! - At most `max_polls_per_block` polls are sent in any block time. Three block times after the end of a window,
//!   there is one poll per block time.
//! - A poll is due one and a half block times after the last one at the latest, so that the data does not look stale.
//! - After a failed poll the next one is due after a block time, or after the caller's retry interval (5 s) if that is
//!   shorter, however many polls have failed. The limit on polls does not delay it.
//! - A chain that is at least 1.75 times as fast as configured is polled about once per configured block time.
//!
//! The announcement of a block (`newHeads`) makes a poll due at once. If the polled node does not have the block yet,
//! retries follow after short pauses, and the schedule learns how long to wait after the next announcement. One poll
//! per block time is left for the expected arrival. After three announcements in vain, announcements are only watched,
//! until a block is found within half a period of one. After three announced blocks in a row the poll at the expected
//! arrival waits for another half period, so that each block costs one poll. If announcements stop, the schedule
//! continues with what it has learnt.
//!
//! Replicas that share polls do not use this schedule: their slots start at fixed times, with one poll each.

mod announcements;
mod window;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use announcements::Announcements;
use window::{Arrival, Arrivals, ExpectedWindow, Punctuality, Window, part_way};

/// Poll schedule of one chain.
#[derive(Debug)]
pub struct PollSchedule {
    /// Configured block time.
    block_time: Duration,
    /// Maximum number of polls in any block time.
    max_polls: usize,
    /// Time between two blocks, as learnt.
    period: Duration,
    /// How much earlier or later than a period after the last one a block may arrive, as learnt.
    jitter: Duration,
    /// First pause after the end of a window, as learnt from late blocks.
    retry_pause: Duration,
    window: Window,
    /// Blocks in a row that their first poll found.
    hits: u32,
    /// Newest known block, and when the last successful poll was sent.
    head: Option<(u64, Instant)>,
    /// The last blocks.
    arrivals: Arrivals,
    /// Send times of the last polls, at most `max_polls`.
    recent_polls: VecDeque<Instant>,
    /// When the next poll is due after a failed one.
    retry_at: Option<Instant>,
    announcements: Announcements,
}

impl PollSchedule {
    /// Number of hits of the first poll in a row after which the window opens earlier.
    const MAX_HITS: u32 = 3;
    /// A chain is assumed to be at most this many times faster than configured.
    const MAX_SPEED_UP: u32 = 100;

    /// Creates the schedule of a chain about which nothing is known but its configured `block_time`. The first poll is
    /// due `now`.
    #[must_use]
    pub fn new(block_time: Duration, max_polls: usize, now: Instant) -> Self {
        let mut schedule = Self {
            block_time,
            max_polls: max_polls.max(1),
            period: block_time,
            jitter: Duration::ZERO,
            retry_pause: block_time / 32,
            window: Window::new(now, now, Punctuality::OnTime),
            hits: 0,
            head: None,
            arrivals: Arrivals::default(),
            recent_polls: VecDeque::new(),
            retry_at: None,
            announcements: Announcements::default(),
        };
        schedule.jitter = schedule.min_jitter();
        schedule
    }

    /// Returns when the next poll is due.
    #[must_use]
    pub fn next(&self) -> Instant {
        // The limit on polls does not delay a retry, which may be the first poll to return data.
        if let Some(again) = self.retry_at {
            return again;
        }
        // An announced block is polled for when its announcement arrives.
        let grace =
            if self.announcements.are_reliable() { self.period / 2 } else { Duration::ZERO };
        let due = self.window_poll_at() + grace;
        let announced = self.announcements.poll_at(self.max_polls, self.step());
        let due = announced.map_or(due, |at| at.min(due));
        let Some(last) = self.recent_polls.back() else { return due };
        // The data must not look stale, even if no block is expected for long.
        let due = due.min(*last + self.block_time * 3 / 2);
        let oldest_poll =
            self.recent_polls.front().filter(|_| self.recent_polls.len() == self.max_polls);
        oldest_poll.map_or(due, |first| due.max(*first + self.block_time))
    }

    /// Returns when to poll for the block of the window.
    fn window_poll_at(&self) -> Instant {
        let Window { start, end, after, misses, .. } = self.window;
        let last = self.recent_polls.back().copied().unwrap_or(start);
        if last >= end + 3 * self.block_time {
            return last + self.block_time;
        }
        let late_polls = self.recent_polls.iter().filter(|sent| **sent >= end).count();
        if late_polls > 0 {
            let pause = self.retry_pause.max(2 * self.jitter);
            return end + pause.saturating_mul(pauses(late_polls));
        }
        let width = end.saturating_duration_since(start);
        let polls_left = self.max_polls.saturating_sub(misses).max(1);
        if after == Punctuality::VeryLate && misses == 0 {
            // If the last block was late, this one is expected at the start of the window, else at the end.
            return (start + self.retry_pause.max(2 * self.jitter)).min(end);
        }
        let is_wide = width > (self.period / 16).max(10 * self.jitter);
        match u32::try_from(polls_left) {
            Ok(1) => end,
            Ok(polls_left) if is_wide => start + width / polls_left,
            _ if misses > 0 => end,
            _ => start + width * 3 / 5,
        }
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
        self.announcements.end_streak();
        self.retry_at = Some(sent + self.block_time.min(retry));
    }

    /// Records a successful poll, sent at `sent`, after which `head` is the newest known block.
    pub fn record_poll(&mut self, sent: Instant, head: u64) {
        self.retry_at = None;
        match self.head {
            Some((last, _)) if head == last => self.on_same_head(sent),
            Some((last, last_poll)) if head > last => {
                self.on_new_head(sent, last_poll, head, head - last);
            }
            // The first poll, or a chain that was reset: the next block may arrive at any moment of the period.
            _ => {
                self.arrivals.clear();
                self.hits = 0;
                self.announcements.forget();
                self.window = Window::new(sent, sent + self.period, Punctuality::OnTime);
            }
        }
        self.head = Some((head, sent));
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
        if self.announcements.poll_at(self.max_polls, self.step()).is_some_and(|at| sent >= at) {
            self.announcements.record_miss(self.max_polls);
        }
        let window = &mut self.window;
        if sent >= window.end {
            self.announcements.end_streak();
        }
        if sent >= window.start {
            window.start = sent;
            window.misses = window.misses.saturating_add(1);
            self.hits = 0;
        }
    }

    /// Handles a poll that found this many new blocks up to `head`, after one at `last_poll` that found none of them.
    fn on_new_head(&mut self, sent: Instant, last_poll: Instant, head: u64, blocks: u64) {
        let announced = self.announcements.poll_at(self.max_polls, self.step());
        let is_announced = announced.is_some_and(|at| sent >= at);
        let expected = self.window_after(blocks);
        if expected.is_none() {
            // A jump of the head says nothing about the time between blocks.
            self.arrivals.clear();
        }
        let arrival = if is_announced {
            let Window { start, end, .. } = self.window;
            let early = start.saturating_duration_since(sent);
            let deviation = early.max(sent.saturating_duration_since(end));
            let deviation = Some(deviation).filter(|deviation| !deviation.is_zero());
            self.update_jitter(deviation.map(|deviation| deviation.max(self.jitter * 2)));
            let punctuality = Punctuality::OnTime;
            Arrival { number: head, earliest: sent, latest: sent, punctuality }
        } else {
            self.locate_arrival(sent, last_poll, head, expected)
        };
        let (period, step) = (self.period, self.step());
        self.announcements.record_block(sent, last_poll, is_announced, period, step);
        let is_hit = self.window.misses == 0 && !is_announced;
        self.hits = if is_hit { self.hits.saturating_add(1) } else { 0 };
        self.arrivals.push(arrival);
        self.update_period();
        self.schedule_after(sent, arrival, expected.filter(|_| !is_announced));
    }

    /// Opens the window one interval after this arrival. If the blocks are irregular, the window follows each of them
    /// only part of the way, because most chains keep to a grid.
    fn schedule_after(
        &mut self,
        sent: Instant,
        arrival: Arrival,
        expected: Option<ExpectedWindow>,
    ) {
        let Arrival { earliest, latest, punctuality, .. } = arrival;
        let is_irregular = self.jitter * 50 > self.period;
        let smoothed = expected.filter(|window| {
            let width = window.end.saturating_duration_since(window.opened_at);
            is_irregular && width <= self.jitter * 20
        });
        let (start, end, margin) = match smoothed {
            Some(window) => {
                let start = part_way(window.opened_at, earliest);
                (start, part_way(window.end, latest), self.jitter / 3)
            }
            None => (earliest, latest, self.jitter),
        };
        let interval = self.period.saturating_mul(self.blocks_per_interval());
        let start = (start + interval).checked_sub(self.early_margin(margin)).unwrap_or(sent);
        let start = start.max(sent);
        self.window = Window::new(start, (end + interval + margin).max(start), punctuality);
    }

    /// Returns when the newest block arrived, which the poll sent at `sent` found and that at `last_poll` did not. It
    /// was `expected` within a window. Updates the jitter.
    fn locate_arrival(
        &mut self,
        sent: Instant,
        last_poll: Instant,
        number: u64,
        expected: Option<ExpectedWindow>,
    ) -> Arrival {
        let on_time = |earliest, latest| {
            let punctuality = Punctuality::OnTime;
            Arrival { number, earliest, latest, punctuality }
        };
        let Some(ExpectedWindow { start, end, is_next, .. }) = expected else {
            return on_time(last_poll, sent);
        };
        if start > sent {
            // More blocks than could be expected by now.
            let period_ago = sent.checked_sub(self.period).unwrap_or(sent);
            return on_time(last_poll.max(period_ago), sent);
        }
        // A successful poll after the window did not find the block.
        let is_overdue = self.window.misses > 0 && self.window.start >= self.window.end;
        let late = sent.saturating_duration_since(end);
        let is_very_late = late >= if is_overdue { self.period / 2 } else { self.period };
        if is_very_late {
            let earliest = end.min(last_poll);
            return Arrival { punctuality: Punctuality::VeryLate, ..on_time(earliest, sent) };
        }
        let (mut earliest, mut latest) = (start.max(last_poll), end.min(sent));
        if earliest > latest {
            (earliest, latest) = (last_poll, sent);
        }
        let arrival = on_time(earliest, latest);
        let early = end.saturating_duration_since(sent);
        if is_overdue {
            // A single late block is an exception, unless little is known yet. The second in a row shows how irregular
            // the blocks are.
            let middle = earliest + latest.saturating_duration_since(earliest) / 2;
            let deviation = middle.saturating_duration_since(self.window.end);
            let is_exception = self.window.after != Punctuality::Late && !self.arrivals.are_few();
            self.update_jitter(Some(if is_exception {
                self.jitter * 3 / 2
            } else {
                deviation.max(self.jitter * 2)
            }));
            return Arrival { punctuality: Punctuality::Late, ..arrival };
        }
        let was_late = self.window.after == Punctuality::VeryLate && early > self.jitter * 4;
        self.update_retry_pause(was_late);
        if was_late {
            // No block was missed before the last one, so this one arrived before the end of its window.
            let fraction = if self.arrivals.are_few() { 20 } else { 200 };
            self.update_jitter(Some((early / fraction).max(self.jitter * 2)));
        } else if is_next {
            self.update_jitter(None);
        }
        arrival
    }

    /// Returns the window in which the newest of `blocks` new blocks was expected. `None`: so many tell nothing.
    fn window_after(&self, blocks: u64) -> Option<ExpectedWindow> {
        let Window { opened_at, start, end, .. } = self.window;
        let next = u64::from(self.blocks_per_interval());
        let periods = u32::try_from(blocks.abs_diff(next)).ok();
        let shift = self.period * periods.filter(|periods| *periods <= Self::MAX_SPEED_UP)?;
        let shifted = |at: Instant| {
            if blocks >= next { at.checked_add(shift) } else { at.checked_sub(shift) }
        };
        Some(ExpectedWindow {
            opened_at: shifted(opened_at)?,
            start: shifted(start)?,
            end: shifted(end)?,
            is_next: blocks == next,
        })
    }

    /// Sets the jitter, within bounds; `None`: lowers it.
    fn update_jitter(&mut self, jitter: Option<Duration>) {
        let jitter = jitter.unwrap_or(self.jitter * 49 / 50);
        self.jitter = jitter.min(self.period / 4).max(self.min_jitter());
    }

    /// Doubles the pause after a late block that the retries of its window did not find; else lowers it slowly.
    fn update_retry_pause(&mut self, was_late: bool) {
        let pause = if was_late { self.retry_pause * 2 } else { self.retry_pause * 255 / 256 };
        self.retry_pause = pause.min(self.period / 4).max(self.period / 32);
    }

    /// Number of blocks between two that are polled for: as many as fit into a block time and a quarter period, but at
    /// least one.
    fn blocks_per_interval(&self) -> u32 {
        let time = self.block_time + self.period / 4;
        let periods = time.as_nanos() / self.period.as_nanos().max(1);
        u32::try_from(periods).unwrap_or(u32::MAX).max(1)
    }

    /// Smallest jitter: the error of timers and networks.
    fn min_jitter(&self) -> Duration {
        self.step() / 2
    }

    /// Shortest useful pause between two polls.
    fn step(&self) -> Duration {
        (self.block_time / 1000).max(Duration::from_millis(1))
    }

    /// Returns `margin`, or more after several hits in a row.
    fn early_margin(&self, mut margin: Duration) -> Duration {
        let most = self.period / 4;
        for _ in Self::MAX_HITS..self.hits {
            if margin >= most {
                break;
            }
            margin = margin * 3 / 2;
        }
        margin.min(most)
    }

    /// Moves the period into the bounds that the last arrivals set to it.
    fn update_period(&mut self) {
        if let Some((shortest, longest)) = self.arrivals.interval() {
            let least = self.block_time / Self::MAX_SPEED_UP;
            self.period = self.period.min(longest).max(shortest).max(least);
        }
    }
}

/// Returns the sum of all pauses after this many misses, in units of the first pause. Each pause is twice the last.
fn pauses(misses: usize) -> u32 {
    let exponent = u32::try_from(misses).unwrap_or(u32::MAX).min(16);
    2_u32.saturating_pow(exponent) - 1
}

#[cfg(test)]
mod tests;
