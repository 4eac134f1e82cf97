//! When to poll: just after each block, as far as the blocks before it tell.
//!
//! Pure: instants in, the next instant out. What is known of a block is between which two polls it came, by the
//! moments at which these were sent; the way of a request to the node is part of that, so it need not be known.
//! The first poll for a block is sent when it is expected. Where it finds none, others follow after pauses that
//! grow; where it finds one, the next is sent a little earlier, so that about one in three is too early: that
//! tells how late the others are. How much earlier, and how long the pauses are, follows from how far off the
//! expectations were; the time between blocks from the last ones.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The expectations of one chain.
#[derive(Debug)]
pub struct PollSchedule {
    /// As configured.
    block_time: Duration,
    /// In any block time.
    max_polls: usize,
    /// Between two blocks, as far as is known.
    period: Duration,
    /// By how much expectations were too early.
    spread: Duration,
    /// When the first poll for the next block is due.
    expected_at: Instant,
    /// Polls that came too early for that block.
    early_misses: usize,
    /// Blocks in a row that were expected and did not come at all.
    missed_blocks: u32,
    /// Blocks that came since one did not.
    regular_streak: u32,
    /// First polls in a row that were not too early.
    on_time_streak: u32,
    /// Where what was taken for an absent block may have been a late one: the block is not there before this
    /// moment, and how far after it the next poll may look.
    late_block_window: Option<(Instant, Duration)>,
    /// Since when a block is said to be there, if nothing came of that yet.
    announced_at: Option<Instant>,
    /// Polls for what is announced that came too early.
    early_polls: usize,
    /// Announcements in a row that nothing came of at once.
    failed_announcements: u32,
    /// Lead of the announcement over the node, learnt.
    announcement_lead: Duration,
    /// Blocks in a row that were found because they were announced.
    announced_streak: u32,
    /// When to try again after a poll that failed.
    retry_at: Option<Instant>,
    /// The last polls, as many as there may be in a block time.
    recent_polls: VecDeque<Instant>,
    /// The newest block, and when the last poll that did not see it was sent.
    head: Option<u64>,
    last_poll_without_head: Instant,
    /// The last blocks and when they came, oldest first.
    arrivals: VecDeque<(u64, Instant)>,
}

impl PollSchedule {
    /// How many of the last blocks tell the time between two.
    const MAX_ARRIVALS: usize = 17;
    /// After how many absent blocks there is only one poll for each that follows.
    const MAX_MISSED_BLOCKS: u32 = 3;
    /// How many blocks must have come in a row for an absent one to be an exception.
    const MIN_REGULAR_STREAK: u32 = 4;
    /// After how many finds in a row the steps become larger.
    const MIN_ON_TIME_STREAK: u32 = 4;
    /// After how many blocks that were announced the next one is waited for.
    const MIN_ANNOUNCED_STREAK: u32 = 3;
    /// After how many announcements in vain none is followed until one proves right.
    const MAX_FAILED_ANNOUNCEMENTS: u32 = 3;
    /// A chain that is that much faster is polled as if it were not.
    const MAX_SPEED_UP: u32 = 100;

    /// Nothing known of a chain that should have a block every `block_time`; never more than `most_polls` in
    /// that time.
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

    /// When the next poll is due.
    #[must_use]
    pub fn next(&self) -> Instant {
        // Not held up by those before it: it may be the first that gives anything.
        if let Some(again) = self.retry_at {
            return again;
        }
        let expected_at = self.expected_at + self.retry_delay();
        // An announcement comes before the block can be read.
        let announcement_grace = if self.announced_streak >= Self::MIN_ANNOUNCED_STREAK {
            self.period / 2
        } else {
            Duration::ZERO
        };
        let due =
            self.probe_at().map_or(expected_at, |look| look.min(expected_at)) + announcement_grace;
        let due = self.announcement_poll_at().map_or(due, |at| at.min(due));
        let Some(last) = self.recent_polls.back() else { return due };
        // What is known must not grow old where blocks are far apart.
        let due = due.min(*last + self.block_time * 3 / 2);
        let oldest_poll =
            self.recent_polls.front().filter(|_| self.recent_polls.len() == self.max_polls);
        oldest_poll.map_or(due, |first| due.max(*first + self.block_time))
    }

    /// Records an announcement of a block above the newest one.
    pub fn record_announcement(&mut self, now: Instant) {
        self.announced_at.get_or_insert(now);
    }

    /// Takes note of a poll that was sent then and gave nothing. The next one follows after a block time, or
    /// after `retry` where that is less.
    pub fn record_failure(&mut self, sent: Instant, retry: Duration) {
        self.remember_poll(sent);
        self.forget_announcement();
        self.announced_streak = 0;
        self.retry_at = Some(sent + self.block_time.min(retry));
    }

    /// Takes note of a poll that was sent then, and of the newest block it has left behind.
    pub fn record_poll(&mut self, sent: Instant, head: u64) {
        self.remember_poll(sent);
        self.retry_at = None;
        match self.head {
            Some(last) if head == last => self.on_same_head(sent),
            Some(last) if head > last => self.on_new_head(sent, head, head - last),
            // A chain that starts, or starts over.
            _ => {
                self.arrivals.clear();
                self.spread = self.period / 8;
                self.regular_streak = 0;
                self.forget_announcement();
                self.schedule_after(sent);
                // The next block comes at any moment until then.
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

    /// A poll has found no block.
    fn on_same_head(&mut self, sent: Instant) {
        if self.announcement_poll_at().is_some_and(|at| sent >= at) {
            self.early_polls += 1;
            // One is left for when the block is expected.
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

    /// A poll has found this many blocks, of which `head` is the newest.
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
        // By how much the moment at which it came may be off.
        let mut uncertainty = Duration::ZERO;
        // When the block came, and when it is taken to have come.
        let (arrived_at, estimated_at) = if is_announced {
            self.on_time_streak = 0;
            let early = self.expected_at.saturating_duration_since(sent);
            self.update_spread(early.max(sent.saturating_duration_since(self.expected_at)));
            (sent, sent)
        } else if let Some((since, _)) =
            late_block_window.filter(|_| is_first && sent < self.expected_at)
        {
            // Earlier than it was taken for, and so are those that follow.
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
                // One miss is what there is to be; more are a sign.
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

    // The remaining uncertainty is resolved by later polls.
    fn close_late_block_window(&mut self) {
        let left = |since| self.expected_at.saturating_duration_since(since);
        self.late_block_window =
            self.late_block_window.filter(|(since, _)| left(*since) > self.period / 8);
    }

    /// When the next block may be there before it is expected.
    fn probe_at(&self) -> Option<Instant> {
        let half = |since| self.expected_at.saturating_duration_since(since) / 2;
        self.late_block_window.map(|(since, reach)| since + reach.min(half(since)))
    }

    /// When the next poll for what is announced is due; `None`: nothing is, or it is in vain.
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

    /// A poll has found a block: how long before that it was announced, if it was.
    fn update_announcement_lead(&mut self, sent: Instant, is_announced: bool) {
        if let Some(announced) = self.announced_at {
            let min_lead = self.last_poll_without_head.saturating_duration_since(announced);
            let max_lead = sent.saturating_duration_since(announced);
            if is_announced && self.early_polls == 0 {
                // A little less the next time, so that it does not stay too late.
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

    /// A block came then; the next one is expected.
    fn schedule_after(&mut self, arrived_at: Instant) {
        self.early_misses = 0;
        self.missed_blocks = 0;
        self.expected_at = arrived_at + self.polled_interval();
    }

    /// The last moment up to `now` at which a block was expected, or would have been after an absent one.
    fn last_expected_at(&self, now: Instant) -> Instant {
        let periods = u32::try_from(self.periods_after_expected(now)).unwrap_or(u32::MAX);
        self.expected_at + self.period.saturating_mul(periods)
    }

    fn periods_after_expected(&self, now: Instant) -> u64 {
        let late = now.saturating_duration_since(self.expected_at);
        u64::try_from(late.as_nanos() / self.period.as_nanos().max(1)).unwrap_or(u64::MAX)
    }

    /// Between two blocks that are polled for: as many periods as there are in a block time.
    fn polled_interval(&self) -> Duration {
        let time = self.block_time + self.period / 4;
        let periods = time.as_nanos() / self.period.as_nanos().max(1);
        self.period.saturating_mul(u32::try_from(periods).unwrap_or(u32::MAX).max(1))
    }

    /// Before the next poll for a block for which some came too early.
    fn retry_delay(&self) -> Duration {
        self.min_retry_delay().saturating_mul(backoff_units(self.early_misses))
    }

    fn min_retry_delay(&self) -> Duration {
        self.spread.max(self.min_spread() * 2)
    }

    /// Error of timers and networks.
    fn min_spread(&self) -> Duration {
        (self.block_time / 1000).max(Duration::from_millis(1))
    }

    /// How much earlier to poll after a find: more and more while there is nothing but finds.
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

    /// Two fifths of the way to what was seen last.
    fn update_spread(&mut self, observed: Duration) {
        self.spread = (self.spread * 3 + observed * 2) / 5;
    }

    /// The median of the last times between blocks, which absent blocks do not change, unless their mean says
    /// something else altogether.
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

/// How many of the least pause come before a poll after so many misses: each is twice as long as the last.
fn backoff_units(early_misses: usize) -> u32 {
    let exponent = u32::try_from(early_misses).unwrap_or(u32::MAX).min(16);
    2_u32.saturating_pow(exponent) - 1
}

#[cfg(test)]
mod tests;
