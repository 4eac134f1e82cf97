//! Window in which a block is expected, and what is known of when a block arrived.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time in which the next block is expected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Start as expected from the last blocks.
    pub(crate) opened_at: Instant,
    /// The block is not there before, by the last blocks or by a poll that did not find it.
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    /// How punctual the last block was.
    pub(crate) after: Punctuality,
    /// Polls in the window or after it that did not find the block.
    pub(crate) misses: usize,
}

/// Window in which a found block was expected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedWindow {
    pub(crate) opened_at: Instant,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    /// True if it is the block that the schedule waited for.
    pub(crate) is_next: bool,
}

/// How a block arrived relative to its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Punctuality {
    OnTime,
    /// A little after the end.
    Late,
    /// So long after the end that a block before it may have been missed.
    VeryLate,
}

/// Between which two times a block arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) number: u64,
    pub(crate) earliest: Instant,
    pub(crate) latest: Instant,
    pub(crate) punctuality: Punctuality,
}

impl Window {
    pub(crate) fn new(start: Instant, end: Instant, after: Punctuality) -> Self {
        Self { opened_at: start, start, end, after, misses: 0 }
    }
}

/// The last arrivals, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(VecDeque<Arrival>);

impl Arrivals {
    /// Number of arrivals, with 16 intervals between them.
    const MAX: usize = 17;

    pub(crate) fn push(&mut self, arrival: Arrival) {
        if self.0.len() == Self::MAX {
            self.0.pop_front();
        }
        self.0.push_back(arrival);
    }

    /// Returns true while there are fewer intervals than the period is computed from.
    pub(crate) fn are_few(&self) -> bool {
        self.0.len() < Self::MAX
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the shortest and the longest mean interval that the arrivals allow, or the median one if that is
    /// shorter, because blocks were missed or the chain stood still. `None`: too few arrivals.
    pub(crate) fn interval(&self) -> Option<(Duration, Duration)> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        if self.0.len() < 3 {
            return None;
        }
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        let intervals = pairs.map(|(one, next)| one.interval_to(next));
        let (mut shortest, mut longest): (Vec<_>, Vec<_>) = intervals.unzip();
        shortest.sort_unstable();
        longest.sort_unstable();
        let middle = shortest.len() / 2;
        let mean = first.interval_to(last);
        match (shortest.get(middle), longest.get(middle)) {
            (Some(shortest), Some(longest)) if *longest < mean.0 => Some((*shortest, *longest)),
            _ => Some(mean),
        }
    }
}

impl Arrival {
    /// Returns the shortest and the longest time between two blocks from this one to `last`.
    fn interval_to(&self, last: &Self) -> (Duration, Duration) {
        let blocks = last.number.saturating_sub(self.number).max(1);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let shortest = last.earliest.saturating_duration_since(self.latest) / blocks;
        let longest = last.latest.saturating_duration_since(self.earliest) / blocks;
        (shortest, longest)
    }
}

/// Returns the time two fifths of the way from one to the other.
pub(crate) fn part_way(from: Instant, to: Instant) -> Instant {
    let back = from.saturating_duration_since(to) * 2 / 5;
    (from + to.saturating_duration_since(from) * 2 / 5).checked_sub(back).unwrap_or(from)
}
