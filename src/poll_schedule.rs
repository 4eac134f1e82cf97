//! When the next poll of a chain is due: just after each block, learnt from when earlier blocks arrived.
//!
//! Pure: instants in, the next instant out. A fixed interval would find blocks half an interval late on average. All
//! that the schedule learns of a block is between which two polls it arrived, by the times at which they were sent. The
//! latency of the node is part of these times, so it need not be known. The schedule derives three values from them:
//! the expected arrival of the next block, the error of earlier expectations (`spread`), and the time between blocks
//! (`period`).
//!
//! - The first poll for a block is sent at its expected arrival. If it finds the block, the next first poll is sent a
//!   little earlier, and earlier still after several such hits in a row. If it does not, retries follow after pauses
//!   that double. So about one first poll in three is too early, which shows that the others are not late.
//! - At most `max_polls_per_block` polls are sent in any block time. If that many polls miss a block, it counts as
//!   missed, and the next poll is sent when the block after it is expected. After three missed blocks in a row there is
//!   one poll per block time.
//! - A missed block may only have been late. A few early polls for the following blocks find out.
//! - After a start, or after a chain was reset, the next block may arrive at any moment of the period. Each early poll
//!   halves the uncertainty, until it is an eighth of the period.
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

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Poll schedule of one chain.
#[derive(Debug)]
pub struct PollSchedule {
    /// Configured block time.
    block_time: Duration,
    /// Maximum number of polls in any block time.
    max_polls: usize,
    /// Time between two blocks, as learnt.
    period: Duration,
    /// Smoothed error of the expected arrivals.
    spread: Duration,
    /// When the next block is expected and the first poll for it is due.
    expected_at: Instant,
    /// Polls for that block that did not find it.
    early_misses: usize,
    /// Expected blocks in a row that did not arrive.
    missed_blocks: u32,
    /// Blocks found since the last missed one.
    regular_streak: u32,
    /// Blocks in a row that their first poll found.
    on_time_streak: u32,
    /// Set while the next block may arrive earlier than expected, e.g. because a block assumed missed was only late:
    /// the earliest possible arrival, and how far past it the next poll may probe.
    late_block_window: Option<(Instant, Duration)>,
    /// Time of the announcement of a block that no poll has found yet.
    announced_at: Option<Instant>,
    /// Polls for the announced block that did not find it.
    early_polls: usize,
    /// Announcements in a row for which the polls found no block.
    failed_announcements: u32,
    /// Time from an announcement until the polled node has the block, as learnt.
    announcement_lead: Duration,
    /// Blocks in a row that were found by a poll for their announcement.
    announced_streak: u32,
    /// When the next poll is due after a failed one.
    retry_at: Option<Instant>,
    /// Send times of the last polls, at most `max_polls`.
    recent_polls: VecDeque<Instant>,
    /// Newest known block.
    head: Option<u64>,
    /// When the last successful poll was sent: the last one that did not see the block after `head`.
    last_poll_without_head: Instant,
    /// Numbers and arrival times of the last blocks, oldest first.
    arrivals: VecDeque<(u64, Instant)>,
}

impl PollSchedule {
    /// Number of arrivals from whose 16 intervals the period is computed.
    const MAX_ARRIVALS: usize = 17;
    /// Number of missed blocks in a row after which each further block gets one poll.
    const MAX_MISSED_BLOCKS: u32 = 3;
    /// A missed block counts as an exception after more than this many blocks in a row.
    const MIN_REGULAR_STREAK: u32 = 4;
    /// Number of hits of the first poll in a row after which the early margin grows.
    const MIN_ON_TIME_STREAK: u32 = 4;
    /// Number of announced blocks in a row after which the schedule waits for the next announcement.
    const MIN_ANNOUNCED_STREAK: u32 = 3;
    /// Number of announcements in vain in a row after which none triggers a poll until one proves right.
    const MAX_FAILED_ANNOUNCEMENTS: u32 = 3;
    /// A chain is assumed to be at most this many times faster than configured.
    const MAX_SPEED_UP: u32 = 100;

    /// Creates the schedule of a chain about which nothing is known but its configured `block_time`. The first poll is
    /// due `now`.
    #[must_use]
    pub fn new(block_time: Duration, max_polls: usize, now: Instant) -> Self {
        Self {
            block_time,
            max_polls: max_polls.max(1),
            period: block_time,
            spread: block_time / 8,
            expected_at: now,
            early_misses: 0,
            missed_blocks: 0,
            regular_streak: 0,
            on_time_streak: 0,
            late_block_window: None,
            announced_at: None,
            early_polls: 0,
            failed_announcements: 0,
            announcement_lead: Duration::ZERO,
            announced_streak: 0,
            retry_at: None,
            recent_polls: VecDeque::new(),
            head: None,
            last_poll_without_head: now,
            arrivals: VecDeque::new(),
        }
    }

    /// Returns when the next poll is due.
    #[must_use]
    pub fn next(&self) -> Instant {
        // The limit on polls does not delay a retry, which may be the first poll to return data.
        if let Some(again) = self.retry_at {
            return again;
        }
        let expected_at = self.expected_at + self.retry_delay();
        // An announced block is polled for when its announcement arrives.
        let announcement_grace = if self.announced_streak >= Self::MIN_ANNOUNCED_STREAK {
            self.period / 2
        } else {
            Duration::ZERO
        };
        let due =
            self.probe_at().map_or(expected_at, |look| look.min(expected_at)) + announcement_grace;
        let due = self.announcement_poll_at().map_or(due, |at| at.min(due));
        let Some(last) = self.recent_polls.back() else { return due };
        // The data must not look stale, even if no block is expected for long.
        let due = due.min(*last + self.block_time * 3 / 2);
        let oldest_poll =
            self.recent_polls.front().filter(|_| self.recent_polls.len() == self.max_polls);
        oldest_poll.map_or(due, |first| due.max(*first + self.block_time))
    }

    /// Records an announcement of a block above the newest one.
    pub fn record_announcement(&mut self, now: Instant) {
        self.announced_at.get_or_insert(now);
    }

    /// Records a failed poll, sent at `sent`. The next one is due after a block time, or after `retry` if that is
    /// shorter.
    pub fn record_failure(&mut self, sent: Instant, retry: Duration) {
        self.remember_poll(sent);
        self.forget_announcement();
        self.announced_streak = 0;
        self.retry_at = Some(sent + self.block_time.min(retry));
    }

    /// Records a successful poll, sent at `sent`, after which `head` is the newest known block.
    pub fn record_poll(&mut self, sent: Instant, head: u64) {
        self.remember_poll(sent);
        self.retry_at = None;
        match self.head {
            Some(last) if head == last => self.on_same_head(sent),
            Some(last) if head > last => self.on_new_head(sent, head, head - last),
            // The first poll, or a chain that was reset.
            _ => {
                self.arrivals.clear();
                self.spread = self.period / 8;
                self.regular_streak = 0;
                self.forget_announcement();
                self.schedule_after(sent);
                // The next block may arrive at any moment of the period.
                self.late_block_window = Some((sent, self.period));
            }
        }
        self.head = Some(head);
        self.last_poll_without_head = sent;
    }

    fn remember_poll(&mut self, sent: Instant) {
        if self.recent_polls.len() == self.max_polls {
            self.recent_polls.pop_front();
        }
        self.recent_polls.push_back(sent);
    }

    /// Handles a poll that found no new block.
    fn on_same_head(&mut self, sent: Instant) {
        if self.announcement_poll_at().is_some_and(|at| sent >= at) {
            self.early_polls += 1;
            // One poll is left for the expected arrival.
            if self.early_polls + 1 >= self.max_polls {
                self.failed_announcements = self.failed_announcements.saturating_add(1);
            }
        }
        if self.probe_at().is_some_and(|look| sent >= look) {
            self.late_block_window =
                self.late_block_window.map(|(_, reach)| (sent, reach.saturating_mul(8)));
            self.close_late_block_window();
        }
        if sent < self.expected_at {
            return;
        }
        self.late_block_window = None;
        self.announced_streak = 0;
        self.early_misses += 1;
        if self.early_misses >= self.max_polls || self.missed_blocks >= Self::MAX_MISSED_BLOCKS {
            self.early_misses = 0;
            self.missed_blocks = self.missed_blocks.saturating_add(1);
            self.expected_at = self.last_expected_at(sent) + self.polled_interval();
        }
    }

    /// Handles a poll that found this many new blocks up to `head`.
    fn on_new_head(&mut self, sent: Instant, head: u64, blocks: u64) {
        let is_first = self.early_misses == 0;
        let is_announced = self.announcement_poll_at().is_some_and(|at| sent >= at);
        let last_expected_at = self.last_expected_at(sent);
        let missed =
            self.periods_after_expected(sent).saturating_add(u64::from(self.missed_blocks));
        let was_missed = blocks <= missed;
        let is_regular =
            self.spread < self.period / 6 && self.regular_streak > Self::MIN_REGULAR_STREAK;
        self.regular_streak = if was_missed { 0 } else { self.regular_streak.saturating_add(1) };
        let late_block_window = self.late_block_window.take();
        let between = sent.saturating_duration_since(self.last_poll_without_head);
        let mut uncertainty = Duration::ZERO;
        // When the block arrived, and the arrival from which the next block is scheduled.
        let (arrived_at, estimated_at) = if is_announced {
            self.on_time_streak = 0;
            let early = self.expected_at.saturating_duration_since(sent);
            self.update_spread(early.max(sent.saturating_duration_since(self.expected_at)));
            (sent, sent)
        } else if let Some((since, _)) =
            late_block_window.filter(|_| is_first && sent < self.expected_at)
        {
            // The block arrived before it was expected, and so will the following ones.
            self.on_time_streak = 0;
            let between = sent.saturating_duration_since(since);
            uncertainty = between;
            self.late_block_window = Some((since, between));
            (since + between / 2, sent)
        } else if is_first && (!was_missed || is_regular) {
            self.on_time_streak = self.on_time_streak.saturating_add(1);
            let came = last_expected_at.min(sent);
            self.late_block_window = match late_block_window {
                None if was_missed => {
                    Some((self.last_poll_without_head, self.min_retry_delay() * 4))
                }
                doubt => doubt,
            };
            (came, came.checked_sub(self.early_margin()).unwrap_or(came))
        } else {
            self.on_time_streak = 0;
            let came = if is_first {
                let came = self.last_poll_without_head + self.spread.min(between / 2);
                self.spread = self.spread * 3 / 2;
                came
            } else {
                self.last_poll_without_head + between * 3 / 4
            };
            if !is_first && !was_missed {
                // A single miss is normal, so it counts less; several mean that blocks arrive later than expected.
                let seen = if self.early_misses == 1 {
                    self.last_poll_without_head + between / 2
                } else {
                    came
                };
                self.update_spread(seen.saturating_duration_since(self.expected_at));
            }
            (came, came)
        };
        self.update_announcement_lead(sent, is_announced);
        self.announced_streak =
            if is_announced { self.announced_streak.saturating_add(1) } else { 0 };
        self.spread = self.spread.min(self.period / 4).max(self.min_spread());
        if uncertainty <= self.period / 8 {
            self.arrivals.push_back((head, arrived_at));
        }
        if self.arrivals.len() > Self::MAX_ARRIVALS {
            self.arrivals.pop_front();
        }
        self.update_period();
        self.schedule_after(estimated_at);
        let step = self.polled_interval();
        self.late_block_window = self.late_block_window.map(|(since, reach)| (since + step, reach));
        self.close_late_block_window();
    }

    /// Closes the window if at most an eighth of the period is uncertain, which the regular polls can resolve.
    fn close_late_block_window(&mut self) {
        let left = |since| self.expected_at.saturating_duration_since(since);
        self.late_block_window =
            self.late_block_window.filter(|(since, _)| left(*since) > self.period / 8);
    }

    /// Returns when to poll before the block is expected; `None`: it is not expected earlier.
    fn probe_at(&self) -> Option<Instant> {
        let half = |since| self.expected_at.saturating_duration_since(since) / 2;
        self.late_block_window.map(|(since, reach)| since + reach.min(half(since)))
    }

    /// Returns when the next poll for an announced block is due. `None`: no block is announced, or polls for
    /// announcements were in vain.
    fn announcement_poll_at(&self) -> Option<Instant> {
        let follows_announcements = self.failed_announcements < Self::MAX_FAILED_ANNOUNCEMENTS
            && self.early_polls + 1 < self.max_polls.max(2);
        let pause = (self.min_spread() * 2).max(self.announcement_lead / 8);
        let announced_at = self.announced_at.filter(|_| follows_announcements)?;
        Some(
            announced_at
                + self.announcement_lead
                + pause.saturating_mul(backoff_units(self.early_polls)),
        )
    }

    /// Updates the lead after a poll has found a block, if the block was announced.
    fn update_announcement_lead(&mut self, sent: Instant, is_announced: bool) {
        if let Some(announced) = self.announced_at {
            let min_lead = self.last_poll_without_head.saturating_duration_since(announced);
            let max_lead = sent.saturating_duration_since(announced);
            if is_announced && self.early_polls == 0 {
                // Slightly less each time, so that polls do not stay too late.
                let least_spread = self.min_spread();
                self.announcement_lead = (self.announcement_lead * 31 / 32)
                    .checked_sub(least_spread / 8)
                    .unwrap_or_default();
                self.failed_announcements = 0;
            } else if max_lead < self.period / 2 {
                self.announcement_lead = min_lead + (max_lead.saturating_sub(min_lead)) * 3 / 4;
                self.failed_announcements = 0;
            }
        }
        self.forget_announcement();
    }

    fn forget_announcement(&mut self) {
        self.announced_at = None;
        self.early_polls = 0;
    }

    /// Schedules the next block after one that arrived at `arrived_at`.
    fn schedule_after(&mut self, arrived_at: Instant) {
        self.early_misses = 0;
        self.missed_blocks = 0;
        self.expected_at = arrived_at + self.polled_interval();
    }

    /// Returns the last time up to `now` at which a block was expected, assuming one per period since `expected_at`.
    fn last_expected_at(&self, now: Instant) -> Instant {
        let periods = u32::try_from(self.periods_after_expected(now)).unwrap_or(u32::MAX);
        self.expected_at + self.period.saturating_mul(periods)
    }

    fn periods_after_expected(&self, now: Instant) -> u64 {
        let late = now.saturating_duration_since(self.expected_at);
        u64::try_from(late.as_nanos() / self.period.as_nanos().max(1)).unwrap_or(u64::MAX)
    }

    /// Time between two blocks that are polled for: as many periods as fit into a block time and a quarter period, but
    /// at least one.
    fn polled_interval(&self) -> Duration {
        let time = self.block_time + self.period / 4;
        let periods = time.as_nanos() / self.period.as_nanos().max(1);
        self.period.saturating_mul(u32::try_from(periods).unwrap_or(u32::MAX).max(1))
    }

    /// Delay of the next poll after the expected arrival, by the polls that have missed the block.
    fn retry_delay(&self) -> Duration {
        self.min_retry_delay().saturating_mul(backoff_units(self.early_misses))
    }

    fn min_retry_delay(&self) -> Duration {
        self.spread.max(self.min_spread() * 2)
    }

    /// Smallest spread: the error of timers and networks.
    fn min_spread(&self) -> Duration {
        (self.block_time / 1000).max(Duration::from_millis(1))
    }

    /// Time by which the next first poll is earlier after a hit. It grows with the number of hits in a row.
    fn early_margin(&self) -> Duration {
        let (mut lead, most) = (self.spread * 7 / 20, self.period / 4);
        for _ in Self::MIN_ON_TIME_STREAK..self.on_time_streak {
            if lead >= most {
                break;
            }
            lead = lead * 3 / 2;
        }
        lead.min(most)
    }

    /// Moves the spread two fifths of the way to `observed`.
    fn update_spread(&mut self, observed: Duration) {
        self.spread = (self.spread * 3 + observed * 2) / 5;
    }

    /// Sets the period to the median of the last intervals, which missed blocks do not change. If the median is not
    /// between 75 and 100 % of the mean, the mean is used.
    fn update_period(&mut self) {
        let blocks =
            |from: u64, to: u64| u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
        let between = |first: &(u64, Instant), last: &(u64, Instant)| {
            let time = last.1.saturating_duration_since(first.1);
            time.checked_div(blocks(first.0, last.0))
        };
        let (Some(first), Some(last)) = (self.arrivals.front(), self.arrivals.back()) else {
            return;
        };
        let Some(mean) = between(first, last) else { return };
        if self.arrivals.len() < 3 {
            return;
        }
        let pairs = self.arrivals.iter().zip(self.arrivals.iter().skip(1));
        let mut times: Vec<_> = pairs.filter_map(|(one, next)| between(one, next)).collect();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or(mean);
        let is_exact = (mean * 3 / 4..=mean).contains(&median);
        let period = if is_exact { median } else { mean };
        self.period = period.max(self.block_time / Self::MAX_SPEED_UP);
    }
}

/// Returns the sum of all pauses after this many misses, in units of the first pause. Each pause is twice the last.
fn backoff_units(early_misses: usize) -> u32 {
    let exponent = u32::try_from(early_misses).unwrap_or(u32::MAX).min(16);
    2_u32.saturating_pow(exponent) - 1
}

#[cfg(test)]
mod tests;
