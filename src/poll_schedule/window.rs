//! Window in which a block is expected, and what is known of when a block arrived.

use std::time::{Duration, Instant};

/// Time in which the next block is expected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Start as expected from the last blocks.
    pub(super) opened_at: Instant,
    /// The block is not there before, by the last blocks or by a poll that did not find it.
    pub(super) start: Instant,
    pub(super) end: Instant,
    /// How punctual the last block was.
    pub(super) after: Punctuality,
    /// Polls in the window or after it that did not find the block.
    pub(super) misses: usize,
}

/// Window in which a found block was expected.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpectedWindow {
    pub(super) opened_at: Instant,
    pub(super) start: Instant,
    pub(super) end: Instant,
    /// True if it is the block that the schedule waited for.
    pub(super) is_next: bool,
}

/// How a block arrived relative to its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Punctuality {
    OnTime,
    /// A little after the end.
    Late,
    /// So long after the end that a block before it may have been missed.
    VeryLate,
}

/// Between which two times a block arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) number: u64,
    pub(super) earliest: Instant,
    pub(super) latest: Instant,
    pub(super) punctuality: Punctuality,
}

impl Window {
    pub(super) fn new(start: Instant, end: Instant, after: Punctuality) -> Self {
        Self { opened_at: start, start, end, after, misses: 0 }
    }
}

/// Returns the shortest and the longest time between two blocks that the arrivals of `first` and `last` allow.
pub(super) fn interval_bounds(first: &Arrival, last: &Arrival) -> (Duration, Duration) {
    let blocks = last.number.saturating_sub(first.number).max(1);
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    let shortest = last.earliest.saturating_duration_since(first.latest) / blocks;
    let longest = last.latest.saturating_duration_since(first.earliest) / blocks;
    (shortest, longest)
}

/// Returns the time two fifths of the way from one to the other.
pub(super) fn part_way(from: Instant, to: Instant) -> Instant {
    let back = from.saturating_duration_since(to) * 2 / 5;
    (from + to.saturating_duration_since(from) * 2 / 5).checked_sub(back).unwrap_or(from)
}
