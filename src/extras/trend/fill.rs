//! Blocks that a refill reads, from the newest to the oldest.
//!
//! Those of the open hour become samples, as far as their numbers are not known. Earlier hours are collected one at a time.
//! An hour that was complete before does not change. Another one is replaced if more blocks of it are read than were known.

use super::{FeeTrend, HOUR, OpenHour, Period, Sample, add_samples, to_seconds};

/// Hours that a refill reads.
#[derive(Debug, Default)]
pub(crate) struct RefilledHours {
    /// First second that is filled.
    pub(crate) from: u32,
    /// Known hours before this second are complete.
    pub(super) complete_until: u32,
    /// Time of the block above. No block below it is newer.
    latest: u32,
    /// Blocks of one hour.
    newest_first: Vec<Sample>,
}

impl FeeTrend {
    /// Returns what a refill knows before the first poll: the newest closed hour may lack blocks, if it is from the database.
    pub(crate) fn known_hours(&self) -> RefilledHours {
        let complete_until = self.closed_hours().next_back().unwrap_or_default();
        RefilledHours { complete_until, ..RefilledHours::default() }
    }

    /// Returns the starts of the closed hours, oldest first.
    fn closed_hours(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.closed.range((Period::Week, 0)..).map(|((_, start), _)| *start)
    }

    /// Starts a refill with the blocks below the polled block `above`. It goes back to the first hour from the second
    /// `oldest` on that is not known, or to that of `complete_until`.
    pub(crate) fn start_refill(&self, hours: &mut RefilledHours, above: u64, oldest: u64) {
        hours.from = to_seconds(oldest);
        for start in self.closed_hours() {
            if start == hours.from && start < hours.complete_until {
                hours.from = start.saturating_add(HOUR);
            }
        }
        hours.latest = self.open.get(above).map_or(self.newest_time, |sample| sample.time);
    }

    /// Adds blocks, the newest first. Those of an hour that is not open are added when the first block of an earlier hour
    /// follows.
    pub(crate) fn refill(&mut self, hours: &mut RefilledHours, newest_first: &[Sample]) {
        for sample in newest_first {
            let time = sample.time.min(hours.latest);
            hours.latest = time;
            if time < hours.from {
                break;
            }
            let sample = Sample { time, ..*sample };
            if self.open.get(sample.number).is_some() {
                // A poll sees a block later than its header says.
                continue;
            }
            if sample.hour() == self.open.start {
                self.open.add(sample);
                continue;
            }
            if hours.newest_first.last().is_some_and(|later| later.hour() != sample.hour()) {
                self.add_refilled(hours);
            }
            if hours.newest_first.len() < OpenHour::MAX_SAMPLES {
                hours.newest_first.push(sample);
            }
        }
        self.changes += 1;
    }

    /// Adds what is left of the last hour.
    pub(crate) fn finish_refill(&mut self, mut hours: RefilledHours) {
        self.add_refilled(&mut hours);
        let open = self.open.start;
        // A walk that failed in the open hour has not read what a file has of its beginning.
        let is_whole = hours.latest < open;
        if is_whole && self.closed_blocks(open) <= self.open.samples.len() {
            self.remove_closed(open);
        }
        self.changes += 1;
    }

    fn add_refilled(&mut self, hours: &mut RefilledHours) {
        let samples = &mut hours.newest_first;
        samples.reverse();
        let start = samples.first().map_or(0, Sample::hour);
        let known = self.closed_blocks(start);
        let is_complete = known > 0 && start < hours.complete_until;
        if start < self.open.start && !is_complete && known < samples.len() {
            self.remove_closed(start);
            add_samples(&mut self.closed, &Period::ALL, samples);
            self.trim();
        }
        samples.clear();
    }

    /// Returns the number of blocks that the closed hour with this start has.
    fn closed_blocks(&self, start: u32) -> usize {
        let hour = self.closed.get(&(Period::Week, start));
        hour.and_then(|hour| hour.blocks.try_into().ok()).unwrap_or_default()
    }

    /// Removes all closed buckets of the hour with this start.
    fn remove_closed(&mut self, start: u32) {
        self.closed.retain(|_, bucket| bucket.start(HOUR) != start);
    }
}
