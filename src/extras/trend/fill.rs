//! Blocks that were mined before the first poll, or while the service was stopped.
//!
//! They come from the newest to the oldest, and fill gaps only. A closed bucket is never changed, and a sample of the open
//! hour never replaced, removed or dated anew. An hour between is collected until it is complete, and is then added.

use super::bucket::{Bucket, Sample};
use super::open_hour::OpenHour;
use super::{FeeTrend, HOUR, Period, to_seconds};

/// Time before a known bucket of which nothing is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gap {
    /// First second without a block.
    pub(crate) from: u64,
    /// Bucket of the hour after the gap. Its first block is the end of the gap.
    pub(crate) next: Bucket,
}

/// The hour of the last blocks that a refill has read.
#[derive(Debug)]
pub(crate) struct RefilledHour {
    hour: OpenHour,
    /// First second that is filled.
    from: u32,
    /// Time of the known block below. No block above it is older.
    earliest: u32,
    /// Time of the block above. No block below it is newer.
    latest: u32,
    /// No block below this number is known, so hours with samples take those too.
    unknown_below: u64,
}

impl FeeTrend {
    /// Keeps the samples of the hour that ends next, until [`finish_samples`](Self::finish_samples). Returns the newest
    /// block and its time in seconds since 1970; `None`: no block is known.
    pub(crate) fn expect_samples(&mut self) -> Option<(u64, u32)> {
        self.keeps_ended = true;
        (self.newest_time > 0).then_some((self.newest_block, self.newest_time))
    }

    /// Returns the base fee of a block in wei; `None`: it is not known as a sample.
    pub(crate) fn base_fee(&self, number: u64) -> Option<u64> {
        let mut hours = self.ended.iter().chain([&self.open]);
        hours.find_map(|hour| hour.get(number)).map(|sample| sample.base_fee)
    }

    /// Creates the collector of the blocks below the known block `above`, down to the second `from`, or to a known block
    /// of the second `earliest`. None of the blocks may be known.
    pub(crate) fn start_samples(&self, above: u64, from: u64, earliest: u32) -> RefilledHour {
        let mut hours = self.ended.iter().chain([&self.open]);
        let known = hours.find_map(|hour| hour.get(above));
        RefilledHour {
            hour: OpenHour::default(),
            from: to_seconds(from),
            earliest,
            latest: known.map_or(self.newest_time, |sample| sample.time),
            unknown_below: above,
        }
    }

    /// Creates the collector of the blocks of a gap.
    pub(crate) fn start_gap(&self, gap: &Gap) -> RefilledHour {
        let mut hours = self.ended.iter().chain([&self.open]);
        let next = hours.find(|hour| hour.start() == gap.next.start(HOUR));
        let first = next.and_then(|hour| hour.samples().first()).map(|sample| sample.number);
        RefilledHour {
            hour: OpenHour::default(),
            from: to_seconds(gap.from),
            earliest: 0,
            latest: gap.next.first,
            unknown_below: first.unwrap_or_default(),
        }
    }

    /// Ends what [`expect_samples`](Self::expect_samples) has begun.
    pub(crate) fn finish_samples(&mut self) {
        self.keeps_ended = false;
        self.close_ended();
        self.trim();
    }

    /// Adds blocks that are not known, the newest first. Those of an hour that is neither open nor kept are added when
    /// the first block of an earlier hour follows.
    pub(crate) fn refill(&mut self, refilled: &mut RefilledHour, newest_first: &[Sample]) {
        for sample in newest_first {
            let time = sample.time.min(refilled.latest).max(refilled.earliest);
            refilled.latest = time;
            if time < refilled.from {
                break;
            }
            let start = time - time % HOUR;
            // No block of an hour that is known is in a later one, whatever its header says.
            let last_before = self.before.filter(|last| last.time < start);
            if last_before.is_some_and(|last| sample.number <= last.number) {
                continue;
            }
            let sample = Sample { time, ..*sample };
            match self.hour_with_samples(start) {
                Some(hour) if sample.number < refilled.unknown_below => {
                    let added = hour.add(sample);
                    self.unsaved.add_from(added);
                }
                Some(_) => {}
                None => {
                    if refilled.hour.start() != start {
                        self.add_refilled(&refilled.hour);
                        refilled.hour.restart(start);
                    }
                    refilled.hour.add(sample);
                }
            }
        }
        self.changes += 1;
    }

    /// Adds what is left of the last hour.
    pub(crate) fn finish_refill(&mut self, refilled: &RefilledHour) {
        self.add_refilled(&refilled.hour);
        self.changes += 1;
    }

    /// Returns the hour that starts at this second if its samples are kept.
    fn hour_with_samples(&mut self, start: u32) -> Option<&mut OpenHour> {
        let mut hours = self.ended.iter_mut().chain([&mut self.open]);
        hours.find(|hour| hour.start() == start)
    }

    fn add_refilled(&mut self, hour: &OpenHour) {
        let open = self.open.start();
        // An hour that began since, or that polls have dated, is not a gap.
        if hour.is_empty() || hour.start() >= open {
            return;
        }
        self.add_closed(hour);
        if hour.start() + HOUR == open && self.before.is_none() {
            self.before = hour.samples().last().copied();
        }
        self.trim();
    }

    /// Returns the start of the oldest hour that has a block.
    pub(crate) fn oldest_hour(&self) -> Option<u32> {
        self.hours().first().map(|hour| hour.start(HOUR))
    }

    /// Returns the newest gap of an hour or more before the second `end`, down to the second `oldest`.
    pub(crate) fn gap_before(&self, end: u64, oldest: u64) -> Option<Gap> {
        let (end, oldest) = (to_seconds(end), to_seconds(oldest));
        let hours = self.hours();
        let gap = |(index, next): (usize, &Bucket)| {
            let earlier = index.checked_sub(1).and_then(|index| hours.get(index));
            let from = earlier.map_or(oldest, |hour| hour.start(HOUR).saturating_add(HOUR));
            let from = from.max(oldest);
            let is_gap = next.first < end && next.first >= from.saturating_add(HOUR);
            is_gap.then_some(Gap { from: from.into(), next: *next })
        };
        hours.iter().enumerate().rev().find_map(gap)
    }

    /// Returns the buckets of all hours, oldest first.
    pub(crate) fn hours(&self) -> Vec<Bucket> {
        self.buckets(Period::Week, self.newest_time.into())
    }
}
