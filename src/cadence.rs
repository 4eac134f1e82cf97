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
pub struct Cadence {
    /// As configured.
    block_time: Duration,
    /// In any block time.
    most_polls: usize,
    /// Between two blocks, as far as is known.
    period: Duration,
    /// By how much expectations were too early.
    spread: Duration,
    /// When the first poll for the next block is due.
    expected: Instant,
    /// Polls that came too early for that block.
    misses: usize,
    /// Blocks in a row that were expected and did not come at all.
    absent: u32,
    /// Blocks that came since one did not.
    present: u32,
    /// First polls in a row that were not too early.
    finds: u32,
    /// Where what was taken for an absent block may have been a late one: the block is not there before this
    /// moment, and how far after it the next poll may look.
    doubt: Option<(Instant, Duration)>,
    /// Since when a block is said to be there, if nothing came of that yet.
    announced: Option<Instant>,
    /// Polls for what is announced that came too early.
    vain: usize,
    /// Announcements in a row that nothing came of at once.
    empty: u32,
    /// How long before the node whoever announces blocks knows of them.
    ahead: Duration,
    /// Blocks in a row that were found because they were announced.
    told: u32,
    /// When to try again after a poll that failed.
    again: Option<Instant>,
    /// The last polls, as many as there may be in a block time.
    sent: VecDeque<Instant>,
    /// The newest block, and when the last poll that did not see it was sent.
    head: Option<u64>,
    unseen: Instant,
    /// The last blocks and when they came, oldest first.
    moves: VecDeque<(u64, Instant)>,
}

impl Cadence {
    /// How many of the last blocks tell the time between two.
    const MOVES: usize = 17;
    /// After how many absent blocks there is only one poll for each that follows.
    const MOST_ABSENT: u32 = 3;
    /// How many blocks must have come in a row for an absent one to be an exception.
    const REGULAR: u32 = 4;
    /// After how many finds in a row the steps become larger.
    const PATIENCE: u32 = 4;
    /// After how many blocks that were announced the next one is waited for.
    const TOLD: u32 = 3;
    /// After how many announcements in vain none is followed until one proves right.
    const MOST_EMPTY: u32 = 3;
    /// A chain that is that much faster is polled as if it were not.
    const MAX_SPEED_UP: u32 = 100;

    /// Nothing known of a chain that should have a block every `block_time`; never more than `most_polls` in
    /// that time.
    #[must_use]
    pub fn new(block_time: Duration, most_polls: usize, now: Instant) -> Self {
        Self {
            block_time,
            most_polls: most_polls.max(1),
            period: block_time,
            spread: block_time / 8,
            expected: now,
            misses: 0,
            absent: 0,
            present: 0,
            finds: 0,
            doubt: None,
            announced: None,
            vain: 0,
            empty: 0,
            ahead: Duration::ZERO,
            told: 0,
            again: None,
            sent: VecDeque::new(),
            head: None,
            unseen: now,
            moves: VecDeque::new(),
        }
    }

    /// When the next poll is due.
    #[must_use]
    pub fn next(&self) -> Instant {
        // Not held up by those before it: it may be the first that gives anything.
        if let Some(again) = self.again {
            return again;
        }
        let expected = self.expected + self.pause();
        // Whoever announces blocks does so before anybody could know.
        let patience = if self.told >= Self::TOLD { self.period / 2 } else { Duration::ZERO };
        let due = self.looks_at().map_or(expected, |look| look.min(expected)) + patience;
        let due = self.follows_at().map_or(due, |at| at.min(due));
        let Some(last) = self.sent.back() else { return due };
        // What is known must not grow old where blocks are far apart.
        let due = due.min(*last + self.block_time * 3 / 2);
        let full = self.sent.front().filter(|_| self.sent.len() == self.most_polls);
        full.map_or(due, |first| due.max(*first + self.block_time))
    }

    /// Somebody says that there is a block above the newest one.
    pub fn announced(&mut self, now: Instant) {
        self.announced.get_or_insert(now);
    }

    /// Takes note of a poll that was sent then and gave nothing. The next one follows after a block time, or
    /// after `retry` where that is less.
    pub fn failed(&mut self, sent: Instant, retry: Duration) {
        self.note(sent);
        self.forget_announcement();
        self.told = 0;
        self.again = Some(sent + self.block_time.min(retry));
    }

    /// Takes note of a poll that was sent then, and of the newest block it has left behind.
    pub fn polled(&mut self, sent: Instant, head: u64) {
        self.note(sent);
        self.again = None;
        match self.head {
            Some(last) if head == last => self.stood(sent),
            Some(last) if head > last => self.moved(sent, head, head - last),
            // A chain that starts, or starts over.
            _ => {
                self.moves.clear();
                self.spread = self.period / 8;
                self.present = 0;
                self.forget_announcement();
                self.expect(sent);
                // The next block comes at any moment until then.
                self.doubt = Some((sent, self.period));
            }
        }
        self.head = Some(head);
        self.unseen = sent;
    }

    fn note(&mut self, sent: Instant) {
        if self.sent.len() == self.most_polls {
            self.sent.pop_front();
        }
        self.sent.push_back(sent);
    }

    /// A poll has found no block.
    fn stood(&mut self, sent: Instant) {
        if self.follows_at().is_some_and(|at| sent >= at) {
            self.vain += 1;
            // One is left for when the block is expected.
            if self.vain + 1 >= self.most_polls {
                self.empty = self.empty.saturating_add(1);
            }
        }
        if self.looks_at().is_some_and(|look| sent >= look) {
            self.doubt = self.doubt.map(|(_, reach)| (sent, reach.saturating_mul(8)));
            self.close_doubt();
        }
        if sent < self.expected {
            return;
        }
        self.doubt = None;
        self.told = 0;
        self.misses += 1;
        if self.misses >= self.most_polls || self.absent >= Self::MOST_ABSENT {
            self.misses = 0;
            self.absent = self.absent.saturating_add(1);
            self.expected = self.slot(sent) + self.step();
        }
    }

    /// A poll has found this many blocks, of which `head` is the newest.
    fn moved(&mut self, sent: Instant, head: u64, blocks: u64) {
        let is_first = self.misses == 0;
        let is_told = self.follows_at().is_some_and(|at| sent >= at);
        let slot = self.slot(sent);
        let missed = self.periods_after_expected(sent).saturating_add(u64::from(self.absent));
        let was_absent = blocks <= missed;
        let is_regular = self.spread < self.period / 6 && self.present > Self::REGULAR;
        self.present = if was_absent { 0 } else { self.present.saturating_add(1) };
        let doubt = self.doubt.take();
        let between = sent.saturating_duration_since(self.unseen);
        // By how much the moment at which it came may be off.
        let mut blur = Duration::ZERO;
        // When the block came, and when it is taken to have come.
        let (came, taken) = if is_told {
            self.finds = 0;
            let early = self.expected.saturating_duration_since(sent);
            self.learn_spread(early.max(sent.saturating_duration_since(self.expected)));
            (sent, sent)
        } else if let Some((since, _)) = doubt.filter(|_| is_first && sent < self.expected) {
            // Earlier than it was taken for, and so are those that follow.
            self.finds = 0;
            let between = sent.saturating_duration_since(since);
            blur = between;
            self.doubt = Some((since, between));
            (since + between / 2, sent)
        } else if is_first && (!was_absent || is_regular) {
            self.finds = self.finds.saturating_add(1);
            let came = slot.min(sent);
            self.doubt = match doubt {
                None if was_absent => Some((self.unseen, self.least_pause() * 4)),
                doubt => doubt,
            };
            (came, came.checked_sub(self.lead()).unwrap_or(came))
        } else {
            self.finds = 0;
            let came = if is_first {
                let came = self.unseen + self.spread.min(between / 2);
                self.spread = self.spread * 3 / 2;
                came
            } else {
                self.unseen + between * 3 / 4
            };
            if !is_first && !was_absent {
                // One miss is what there is to be; more are a sign.
                let seen = if self.misses == 1 { self.unseen + between / 2 } else { came };
                self.learn_spread(seen.saturating_duration_since(self.expected));
            }
            (came, came)
        };
        self.learn_ahead(sent, is_told);
        self.told = if is_told { self.told.saturating_add(1) } else { 0 };
        self.spread = self.spread.min(self.period / 4).max(self.least_spread());
        if blur <= self.period / 8 {
            self.moves.push_back((head, came));
        }
        if self.moves.len() > Self::MOVES {
            self.moves.pop_front();
        }
        self.learn_period();
        self.expect(taken);
        let step = self.step();
        self.doubt = self.doubt.map(|(since, reach)| (since + step, reach));
        self.close_doubt();
    }

    /// What is left of a doubt is for the finds to find out.
    fn close_doubt(&mut self) {
        let left = |since| self.expected.saturating_duration_since(since);
        self.doubt = self.doubt.filter(|(since, _)| left(*since) > self.period / 8);
    }

    /// When the next block may be there before it is expected.
    fn looks_at(&self) -> Option<Instant> {
        let half = |since| self.expected.saturating_duration_since(since) / 2;
        self.doubt.map(|(since, reach)| since + reach.min(half(since)))
    }

    /// When the next poll for what is announced is due; `None`: nothing is, or it is in vain.
    fn follows_at(&self) -> Option<Instant> {
        let is_followed = self.empty < Self::MOST_EMPTY && self.vain + 1 < self.most_polls.max(2);
        let pause = (self.least_spread() * 2).max(self.ahead / 8);
        let announced = self.announced.filter(|_| is_followed)?;
        Some(announced + self.ahead + pause.saturating_mul(pauses(self.vain)))
    }

    /// A poll has found a block: how long before that it was announced, if it was.
    fn learn_ahead(&mut self, sent: Instant, is_told: bool) {
        if let Some(announced) = self.announced {
            let least = self.unseen.saturating_duration_since(announced);
            let most = sent.saturating_duration_since(announced);
            if is_told && self.vain == 0 {
                // A little less the next time, so that it does not stay too late.
                let least_spread = self.least_spread();
                self.ahead =
                    (self.ahead * 31 / 32).checked_sub(least_spread / 8).unwrap_or_default();
                self.empty = 0;
            } else if most < self.period / 2 {
                self.ahead = least + (most.saturating_sub(least)) * 3 / 4;
                self.empty = 0;
            }
        }
        self.forget_announcement();
    }

    fn forget_announcement(&mut self) {
        self.announced = None;
        self.vain = 0;
    }

    /// A block came then; the next one is expected.
    fn expect(&mut self, came: Instant) {
        self.misses = 0;
        self.absent = 0;
        self.expected = came + self.step();
    }

    /// The last moment up to `now` at which a block was expected, or would have been after an absent one.
    fn slot(&self, now: Instant) -> Instant {
        let periods = u32::try_from(self.periods_after_expected(now)).unwrap_or(u32::MAX);
        self.expected + self.period.saturating_mul(periods)
    }

    fn periods_after_expected(&self, now: Instant) -> u64 {
        let late = now.saturating_duration_since(self.expected);
        u64::try_from(late.as_nanos() / self.period.as_nanos().max(1)).unwrap_or(u64::MAX)
    }

    /// Between two blocks that are polled for: as many periods as there are in a block time.
    fn step(&self) -> Duration {
        let time = self.block_time + self.period / 4;
        let periods = time.as_nanos() / self.period.as_nanos().max(1);
        self.period.saturating_mul(u32::try_from(periods).unwrap_or(u32::MAX).max(1))
    }

    /// Before the next poll for a block for which some came too early.
    fn pause(&self) -> Duration {
        self.least_pause().saturating_mul(pauses(self.misses))
    }

    fn least_pause(&self) -> Duration {
        self.spread.max(self.least_spread() * 2)
    }

    /// What timers and networks are off by anyway.
    fn least_spread(&self) -> Duration {
        (self.block_time / 1000).max(Duration::from_millis(1))
    }

    /// How much earlier to poll after a find: more and more while there is nothing but finds.
    fn lead(&self) -> Duration {
        let (mut lead, most) = (self.spread * 7 / 20, self.period / 4);
        for _ in Self::PATIENCE..self.finds {
            if lead >= most {
                break;
            }
            lead = lead * 3 / 2;
        }
        lead.min(most)
    }

    /// Two fifths of the way to what was seen last.
    fn learn_spread(&mut self, seen: Duration) {
        self.spread = (self.spread * 3 + seen * 2) / 5;
    }

    /// The median of the last times between blocks, which absent blocks do not change, unless their mean says
    /// something else altogether.
    fn learn_period(&mut self) {
        let blocks =
            |from: u64, to: u64| u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
        let between = |first: &(u64, Instant), last: &(u64, Instant)| {
            let time = last.1.saturating_duration_since(first.1);
            time.checked_div(blocks(first.0, last.0))
        };
        let (Some(first), Some(last)) = (self.moves.front(), self.moves.back()) else { return };
        let Some(mean) = between(first, last) else { return };
        if self.moves.len() < 3 {
            return;
        }
        let pairs = self.moves.iter().zip(self.moves.iter().skip(1));
        let mut times: Vec<_> = pairs.filter_map(|(one, next)| between(one, next)).collect();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or(mean);
        let is_exact = (mean * 3 / 4..=mean).contains(&median);
        let period = if is_exact { median } else { mean };
        self.period = period.max(self.block_time / Self::MAX_SPEED_UP);
    }
}

/// How many of the least pause come before a poll after so many misses: each is twice as long as the last.
fn pauses(misses: usize) -> u32 {
    let exponent = u32::try_from(misses).unwrap_or(u32::MAX).min(16);
    2_u32.saturating_pow(exponent) - 1
}

#[cfg(test)]
mod tests;
