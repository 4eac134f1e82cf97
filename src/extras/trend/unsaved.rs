//! The part of a trend that the database does not have.

use super::bucket::{Bucket, Sample};
use super::open_hour::OpenHour;
use super::{DAYS_IN_MEMORY, FeeTrend, HOUR, HOURS_PER_DAY, Period, to_seconds};

/// The part of a trend that has changed since it was written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsaved {
    /// Time of the first sample that was added or changed; `u32::MAX`: there is none.
    samples_from: u32,
    /// True if closed buckets were added.
    has_closed: bool,
    /// Everything from this second on was removed.
    removed_from: Option<u32>,
}

/// Rows of one chain for the database.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Rows {
    /// Everything from this second on is removed first.
    pub(crate) removed_from: Option<u32>,
    /// Samples above this block are removed.
    pub(crate) newest_block: u64,
    /// Samples before this second are not needed any more.
    pub(crate) samples_needed_from: u32,
    /// Samples, which replace those with the same number.
    pub(crate) samples: Vec<Sample>,
    /// Widths and closed buckets. One that is known already stays.
    pub(crate) closed: Vec<(u32, Bucket)>,
    /// Widths, and the first second of the buckets that are kept.
    pub(crate) kept_from: Vec<(u32, u32)>,
}

impl Unsaved {
    pub(super) const NONE: Self =
        Self { samples_from: u32::MAX, has_closed: false, removed_from: None };

    /// Everything that is in memory.
    const ALL: Self = Self { samples_from: 0, has_closed: true, removed_from: None };

    /// Records a sample that was added or changed at this second, if any was.
    pub(super) fn add_from(&mut self, time: Option<u32>) {
        self.samples_from = time.unwrap_or(u32::MAX).min(self.samples_from);
    }

    pub(super) fn add_closed(&mut self) {
        self.has_closed = true;
    }

    /// Records that everything from this second on was removed.
    pub(super) fn remove_from(&mut self, start: u32) {
        let earlier = self.removed_from.unwrap_or(start).min(start);
        *self = Self { removed_from: Some(earlier), ..Self::ALL };
    }
}

impl FeeTrend {
    /// Takes what the database does not have, up to the second `end`; `None`: nothing. `days` of hourly buckets are kept
    /// there.
    pub(crate) fn take_unsaved(&mut self, end: u64, days: u32) -> Option<Rows> {
        let end = to_seconds(end);
        let unsaved = self.unsaved;
        let is_new = |sample: &&Sample| sample.time >= unsaved.samples_from && sample.time < end;
        // The last block of an hour that was closed is needed after a restart.
        let is_ended = |hour| self.ended.iter().any(|ended| ended.start() == hour);
        let before = self.before.as_ref().filter(|before| !is_ended(before.hour()));
        let hours = || self.ended.iter().chain([&self.open]);
        let mut samples: Vec<Sample> = if unsaved.samples_from < end {
            let samples = before.into_iter().chain(hours().flat_map(OpenHour::samples));
            samples.filter(is_new).copied().collect()
        } else {
            Vec::new()
        };
        samples.sort_unstable_by_key(|sample| sample.number);
        if samples.is_empty() && !unsaved.has_closed && unsaved.removed_from.is_none() {
            return None;
        }
        let mut rows = Rows {
            removed_from: unsaved.removed_from,
            newest_block: self.newest_block,
            samples,
            ..Rows::default()
        };
        let open = self.open.start();
        if unsaved.has_closed {
            for period in Period::IN_MEMORY {
                let width = period.bucket_seconds();
                rows.closed.extend(self.closed_of(period).iter().map(|bucket| (width, *bucket)));
                let kept = if period == Period::Week {
                    days.saturating_mul(HOURS_PER_DAY * HOUR)
                } else {
                    period.seconds()
                };
                // As in memory, an hour more than is shown.
                rows.kept_from.push((width, open.saturating_sub(kept)));
            }
            let oldest = self.ended.first().map_or(open, OpenHour::start);
            rows.samples_needed_from = oldest.min(open.saturating_sub(HOUR));
        }
        let last = hours().filter_map(|hour| hour.samples().last()).map(|sample| sample.time).max();
        let has_later = last.is_some_and(|last| last >= end);
        self.unsaved = Unsaved::NONE;
        self.unsaved.add_from(has_later.then_some(end));
        Some(rows)
    }

    /// Marks everything as unsaved: rows were not written, or to another file.
    pub(crate) fn mark_unsaved(&mut self, removed_from: Option<u32>) {
        if let Some(start) = removed_from {
            self.unsaved.remove_from(start);
        }
        self.unsaved = Unsaved { removed_from: self.unsaved.removed_from, ..Unsaved::ALL };
    }

    /// Adds what the database has: closed buckets by width, and samples in ascending order of block number. A bucket that
    /// the database keeps replaces one that was closed meanwhile. Everything is unsaved afterwards.
    pub(crate) fn merge(&mut self, closed: &[(u32, Bucket)], samples: &[Sample]) {
        let removed_from = self.unsaved.removed_from;
        let is_left = |time: u32| removed_from.is_none_or(|removed| time < removed);
        // Hours that are not closed here have their own buckets.
        let open = self.ended.first().map_or(self.open.start(), OpenHour::start);
        let is_closed = |time: u32| self.newest_time == 0 || time < open;
        let closed: Vec<_> =
            closed.iter().filter(|(_, it)| is_left(it.first) && is_closed(it.first)).collect();
        for (width, bucket) in closed {
            let period = Period::IN_MEMORY.into_iter().find(|it| it.bucket_seconds() == *width);
            if let Some(period) = period {
                self.add_bucket(period, *bucket, true);
            }
        }
        let samples: Vec<Sample> =
            samples.iter().filter(|sample| is_left(sample.time)).copied().collect();
        // Blocks between those that were seen here may be others after a reorganisation.
        let first_seen = self.open.samples().first().map_or(u64::MAX, |sample| sample.number);
        for hour in samples.chunk_by(|one, next| one.time / HOUR == next.time / HOUR) {
            let start = hour.first().map_or(0, Sample::hour);
            let hours = self.closed_of(Period::Week);
            if hours.binary_search_by_key(&start, |known| known.start(HOUR)).is_err() {
                self.merge_hour(start, hour, first_seen);
            }
        }
        if self.before.is_none() && self.open.start() >= HOUR {
            let start = self.open.start() - HOUR;
            self.before = samples.iter().rfind(|sample| sample.hour() == start).copied();
        }
        self.trim();
        self.changes += 1;
        self.mark_unsaved(None);
    }

    /// Adds samples of one hour that is not closed, in ascending order: those below the first one that was seen here, and
    /// those above the newest one.
    fn merge_hour(&mut self, start: u32, samples: &[Sample], first_seen: u64) {
        if self.newest_time == 0 || start >= self.open.start() {
            for sample in samples {
                if sample.number > self.newest_block || self.newest_time == 0 {
                    self.add(*sample);
                } else if sample.number < first_seen && start == self.open.start() {
                    self.open.add(*sample);
                }
            }
        } else if self.ended.iter().all(|hour| hour.start() != start) {
            self.add_closed(&hour_of(start, samples));
        }
    }
}

/// Returns the hour that starts at this second, with these samples in ascending order.
fn hour_of<'a>(start: u32, samples: impl IntoIterator<Item = &'a Sample>) -> OpenHour {
    let mut hour = OpenHour::default();
    hour.restart(start);
    for sample in samples {
        hour.add(*sample);
    }
    hour
}

/// Returns the buckets of `period` that hourly ones make up, the oldest first, from its first one to that of the second
/// `now`. The hours are in ascending order.
pub(crate) fn wide_buckets(hours: &[Bucket], period: Period, now: u64) -> Vec<Bucket> {
    debug_assert!(period.days() > DAYS_IN_MEMORY, "shorter ones are in memory");
    let (width, first_start) = (period.bucket_seconds(), period.first_start(to_seconds(now)));
    let shown: Vec<Bucket> =
        hours.iter().filter(|hour| hour.start(width) >= first_start).copied().collect();
    let spans = shown.chunk_by(|one, next| one.start(width) == next.start(width));
    spans.filter_map(Bucket::merged).collect()
}
