//! Blocks that were mined before the first poll, or while the service was stopped.
//!
//! They are collected in a trend of their own, which then replaces the one of the polls, or adds its hours to it.

use super::{FeeTrend, HOUR, Period, to_seconds};

impl FeeTrend {
    /// Returns the number of the newest block and its time in seconds since 1970; `None`: no block is known.
    pub(crate) fn newest(&self) -> Option<(u64, u32)> {
        (self.newest_time > 0).then_some((self.newest_block, self.newest_time))
    }

    /// Returns the start of the oldest hour that has a block.
    pub(crate) fn oldest_hour(&self) -> Option<u32> {
        let closed = self.closed_of(Period::Week).front().map(|hour| hour.start(HOUR));
        closed.or_else(|| self.open.samples().next().map(|sample| sample.time - sample.time % HOUR))
    }

    /// Returns true if the time from the second `time` on is known, but for an hour.
    pub(crate) fn reaches_back_to(&self, time: u64) -> bool {
        let closed = self.closed_of(Period::Day).front().map(|bucket| bucket.first);
        let oldest = closed.or_else(|| self.open.samples().next().map(|sample| sample.time));
        oldest.is_some_and(|oldest| u64::from(oldest) <= time.saturating_add(HOUR.into()))
    }

    /// Removes everything from the hour of the second `time` on. Block `next` is the next one that is counted.
    pub(crate) fn restart_at(&mut self, time: u64, next: u64) {
        self.remove_from_hour(to_seconds(time));
        self.newest_block = next.saturating_sub(1);
    }

    /// Replaces this trend by a `refilled` one, to which its newer blocks are added.
    ///
    /// # Errors
    ///
    /// Returns `refilled` if there are blocks between the two.
    pub(crate) fn replace_by(&mut self, mut refilled: Box<Self>) -> Result<(), Box<Self>> {
        let reach = refilled.newest_block.saturating_add(self.open.stride());
        let adjoins = self.open.samples().next().is_some_and(|first| first.number <= reach);
        if !adjoins && self.newest_block > refilled.newest_block {
            return Err(refilled);
        }
        let reached = refilled.newest_block;
        for sample in self.open.samples().filter(|sample| sample.number > reached) {
            refilled.add(*sample);
        }
        refilled.changes = self.changes.saturating_add(1);
        *self = *refilled;
        Ok(())
    }

    /// Adds the hours of an `older` trend before those of this one.
    pub(crate) fn add_older(&mut self, older: &Self) {
        let oldest = self.oldest_hour().unwrap_or(u32::MAX);
        let hours = older.closed_of(Period::Week).iter().copied().chain(older.open.buckets(HOUR));
        let hours: Vec<_> = hours.filter(|hour| hour.start(HOUR) < oldest).collect();
        let [_, _, week] = &mut self.closed;
        for hour in hours.into_iter().rev() {
            week.push_front(hour);
        }
        self.changes += 1;
        self.trim();
    }
}
