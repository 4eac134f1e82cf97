//! Prices of gas on one chain over the last hour, day and week.
//!
//! Each block is one sample: its base fee, the medium tip that was suggested at it, and how full it was. Samples are
//! summarised in buckets of a minute, ten minutes and an hour. The samples of the open hour are kept, so its buckets are
//! computed when they are needed; when it ends, they are computed for good. Of two buckets of the same span, as before and
//! after a restart, the one with more blocks counts. A median is that of the blocks of a bucket: the lower one of the two in
//! the middle if their number is even.
//!
//! Times are parameters, in seconds or milliseconds since 1970. If the clock was set back by up to ten minutes, new
//! blocks get the time of the newest known one until it is reached. If it was set back further, everything from the
//! hour of the new time on is removed, because the old clock was wrong. Blocks whose own times contradict the clock are left
//! out, and remove nothing.

mod bucket;
mod database;
mod fill;
mod level;
mod members;
mod observation;
mod open_hour;
mod period;
mod refill;
mod routes;
mod section;
mod state;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::assembly::{Assembly, Extra, Join, Task};
use crate::config::SectionKind;
use crate::extras::reads::ReadNodes;
use crate::store::since_1970;

pub(crate) use bucket::{Bucket, Range, Sample};
use database::HistoryDatabase;
pub(crate) use fill::RefilledHours;
pub(crate) use level::{Level, PriceLevel};
pub(crate) use observation::Observation;
pub(crate) use observation::{DatedBlock, PastSpan};
use open_hour::OpenHour;
pub(crate) use period::Period;
use refill::HistoryRefill;
use section::History;
pub(crate) use state::{TrendAge, Trends};

const MINUTE: u32 = 60;
const TEN_MINUTES: u32 = 600;
const HOUR: u32 = 3600;
const HOURS_PER_DAY: u32 = 24;

/// Difference between the clock and the own times of new blocks from which on the clock is wrong, in seconds.
const MAX_CLOCK_DIFFERENCE: u64 = 600;

/// Most days of hourly buckets that are kept.
pub(crate) const MAX_DAYS: u32 = 7;

pub(crate) const EXTRA: Extra =
    Extra { sections: &[SectionKind::new::<History>()], ..Extra::new("trend", Join::Always(join)) };

/// Summarises what is published, fills gaps from the nodes, keeps the trends in a database, and adds the route and the
/// members of the fee market.
fn join(assembly: &mut Assembly) {
    let history: History = assembly.config.section();
    let trends = Trends::new(&assembly.store, history.days);
    assembly.observe(|chain| Arc::clone(trends.trend(chain)));
    let database = HistoryDatabase::new(&history, &trends);
    // What is kept of recorded chains would be taken for live data.
    let database = database.filter(|_| !assembly.config.has_recorded_chains);
    if let Some(database) = database.clone() {
        assembly.endings.push(Box::pin(database.close()));
    }
    let (upstreams, chains) = (ReadNodes::shared(assembly), trends.clone());
    assembly.preparations.push(Box::pin(async move {
        let mut tasks: Vec<Task> = Vec::new();
        if let Some(database) = database {
            let restored = database.clone();
            // A failure was logged, and no polls wait for it.
            let _ = tokio::task::spawn_blocking(move || restored.restore()).await;
            tasks.push(Box::pin(async { match database.keep().await {} }));
        }
        let turns = Arc::new(Semaphore::new(refill::MAX_CONCURRENT));
        if history.refill {
            for (chain, upstreams) in chains.store.chains().iter().zip(&upstreams) {
                let refill = HistoryRefill::new(chain, &chains, upstreams, &turns);
                tasks.push(Box::pin(async { match refill.run().await {} }));
            }
        }
        tasks
    }));
    let routes = OpenApiRouter::new().routes(routes!(routes::get_fee_trend));
    assembly.routes.add(routes.with_state(trends.clone()));
    assembly.routes.add_market_member(members::for_trends(&trends));
    assembly.day_prices = Some(Arc::new(trends));
    assembly.routes.write_examples(routes::write_example);
}

/// Buckets and samples of one chain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FeeTrend {
    days: u32,
    /// Buckets of closed hours and of the database, oldest first, by the index of their period.
    closed: [Vec<Bucket>; 3],
    open: OpenHour,
    /// Number of the newest block.
    newest_block: u64,
    /// Time of the newest sample.
    newest_time: u32,
    /// Number of changes so far.
    changes: u64,
    /// True if the database does not have the last change.
    is_unsaved: bool,
    /// Everything from this second on was removed, and is not removed from the database.
    removed_from: Option<u32>,
}

/// Content of a trend for the database.
#[derive(Debug, PartialEq)]
pub(crate) struct Rows {
    /// Everything from this second on is removed first.
    pub(crate) removed_from: Option<u32>,
    /// Widths and buckets.
    pub(crate) buckets: Vec<(u32, Bucket)>,
    /// Widths, and the first second of the buckets that are kept.
    pub(crate) kept_from: [(u32, u32); 3],
}

impl FeeTrend {
    /// Creates a trend without blocks that keeps hourly buckets for so many days, at most [`MAX_DAYS`].
    #[must_use]
    pub(crate) fn new(days: u32) -> Self {
        Self {
            days: days.clamp(1, MAX_DAYS),
            closed: Default::default(),
            open: OpenHour::default(),
            newest_block: 0,
            newest_time: 0,
            changes: 0,
            is_unsaved: false,
            removed_from: None,
        }
    }

    /// Returns the most bytes that the trend of a chain with this block time holds.
    #[must_use]
    pub(crate) fn max_bytes(block_time: Duration) -> usize {
        let blocks_per_hour = 3_600_000_u128.checked_div(block_time.as_millis());
        let blocks_per_hour = blocks_per_hour.and_then(|count| usize::try_from(count).ok());
        let samples = blocks_per_hour.unwrap_or(usize::MAX).clamp(1, OpenHour::MAX_SAMPLES);
        let samples = OpenHour::max_capacity(samples);
        // The hour that is closed comes to the buckets before old ones go, and may have blocks that are not kept.
        let counts = Period::ALL.map(|period| (period.seconds() + HOUR) / period.bucket_seconds());
        let counts = counts.into_iter().chain([HOUR / MINUTE]);
        let counts = counts.filter_map(|count| usize::try_from(count).ok());
        let buckets: usize = counts.map(|count| count.saturating_mul(size_of::<Bucket>())).sum();
        samples.saturating_mul(size_of::<Sample>()).saturating_add(buckets)
    }

    /// Returns the buckets of a period up to the one of the second `now`, oldest first. Buckets without a block are left
    /// out.
    #[must_use]
    pub(crate) fn buckets(&self, period: Period, now: u64) -> Vec<Bucket> {
        let now = to_seconds(now).max(self.newest_known());
        let width = period.bucket_seconds();
        let first_start = period.first_start(now);
        let is_shown = |bucket: &Bucket| bucket.start(width) >= first_start;
        self.all_buckets(period).into_iter().filter(is_shown).collect()
    }

    /// Returns all buckets of a period, oldest first.
    fn all_buckets(&self, period: Period) -> Vec<Bucket> {
        let width = period.bucket_seconds();
        let mut buckets = self.closed_of(period).clone();
        self.open.buckets(width).for_each(|bucket| put(&mut buckets, bucket, width));
        buckets
    }

    /// Returns true if a block of the week before the second `now` is known.
    pub(crate) fn has_blocks(&self, now: u64) -> bool {
        let first_start = Period::Week.first_start(to_seconds(now));
        self.newest_known() > 0 && self.newest_known() >= first_start
    }

    /// Returns the ten-minute medians of the 24 hours before the second `now`, ascending; `None`: less than an hour is
    /// known.
    #[must_use]
    pub(crate) fn day_prices(&self, now: u64) -> Option<Vec<u64>> {
        let buckets = self.buckets(Period::Day, now);
        level::day_prices(&buckets, to_seconds(now).max(self.newest_known()))
    }

    /// Number of changes since the trend was created.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Takes what the database may not have; `None`: nothing has changed.
    pub(crate) fn take_unsaved(&mut self) -> Option<Rows> {
        if !std::mem::take(&mut self.is_unsaved) {
            return None;
        }
        let mut buckets = Vec::new();
        for period in Period::ALL {
            let all = self.all_buckets(period).into_iter();
            buckets.extend(all.map(|bucket| (period.bucket_seconds(), bucket)));
        }
        let open = self.open.start();
        let kept_from = Period::ALL.map(|period| {
            (period.bucket_seconds(), open.saturating_sub(self.kept_seconds(period)))
        });
        Some(Rows { removed_from: self.removed_from.take(), buckets, kept_from })
    }

    /// Marks everything as unsaved: rows were not written, or to another file.
    pub(crate) fn mark_unsaved(&mut self, removed_from: Option<u32>) {
        self.is_unsaved = true;
        self.removed_from = self.removed_from.into_iter().chain(removed_from).min();
    }

    /// Adds what the database has: buckets with their widths. Everything is unsaved afterwards.
    pub(crate) fn merge(&mut self, saved: &[(u32, Bucket)]) {
        let removed_from = self.removed_from.unwrap_or(u32::MAX);
        for (closed, period) in self.closed.iter_mut().zip(Period::ALL) {
            let width = period.bucket_seconds();
            let same_width = saved.iter().filter(|(known, _)| *known == width);
            for (_, bucket) in same_width.filter(|(_, bucket)| bucket.first < removed_from) {
                put(closed, *bucket, width);
            }
        }
        self.trim();
        self.count_change();
    }

    /// Appends a block, or replaces the one with its number if that is still known as a sample. Ignores an older block
    /// that is not.
    fn add(&mut self, mut sample: Sample) {
        if sample.number <= self.newest_block && self.newest_time > 0 {
            if self.open.replace(sample) {
                self.count_change();
            }
            return;
        }
        self.count_change();
        sample.time = sample.time.max(self.newest_time);
        self.newest_block = sample.number;
        self.newest_time = sample.time;
        if sample.hour() != self.open.start() {
            self.close_hour(sample.hour());
        }
        self.open.add(sample);
    }

    fn count_change(&mut self) {
        self.changes += 1;
        self.is_unsaved = true;
    }

    /// Computes the buckets of the open hour for good, and opens the one that starts at `next`.
    fn close_hour(&mut self, next: u32) {
        let mut ended = std::mem::take(&mut self.open);
        self.add_hour(ended.samples());
        // The next hour takes its memory.
        ended.restart(next);
        self.open = ended;
        self.trim();
    }

    /// Adds the buckets of samples of one hour, in ascending order.
    fn add_hour(&mut self, samples: &[Sample]) {
        for (closed, period) in self.closed.iter_mut().zip(Period::ALL) {
            let width = period.bucket_seconds();
            Bucket::split(samples, width).for_each(|bucket| put(closed, bucket, width));
        }
    }

    /// Removes the buckets that are too old to be shown in the open hour.
    fn trim(&mut self) {
        let open = self.open.start();
        let kept = Period::ALL.map(|period| self.kept_seconds(period));
        for ((closed, period), kept) in self.closed.iter_mut().zip(Period::ALL).zip(kept) {
            let width = period.bucket_seconds();
            closed.retain(|bucket| bucket.start(width).saturating_add(kept) > open);
        }
    }

    /// Seconds that the buckets of a period are kept, before the open hour.
    fn kept_seconds(&self, period: Period) -> u32 {
        match period {
            Period::Hour | Period::Day => period.seconds(),
            Period::Week => self.days * HOURS_PER_DAY * HOUR,
        }
    }

    /// Removes everything from the hour of `time` on.
    fn remove_from_hour(&mut self, time: u32) {
        let start = time - time % HOUR;
        if self.open.start() >= start {
            self.open.restart(start);
        } else {
            self.close_hour(start);
        }
        for closed in &mut self.closed {
            closed.retain(|bucket| bucket.first < start);
        }
        self.newest_time = start;
        self.mark_unsaved(Some(start));
    }

    /// Returns the time of the newest block, or that of the newest bucket of the database.
    fn newest_known(&self) -> u32 {
        let closed = self.closed.iter().filter_map(|closed| closed.last());
        closed.map(|bucket| bucket.first).fold(self.newest_time, u32::max)
    }

    fn closed_of(&self, period: Period) -> &Vec<Bucket> {
        let [minutes, ten_minutes, hours] = &self.closed;
        match period {
            Period::Hour => minutes,
            Period::Day => ten_minutes,
            Period::Week => hours,
        }
    }
}

/// Adds a bucket of this width to ascending ones. Of two of the same span the one with more blocks stays.
fn put(buckets: &mut Vec<Bucket>, bucket: Bucket, width: u32) {
    let start = bucket.start(width);
    match buckets.binary_search_by_key(&start, |known| known.start(width)) {
        Ok(index) => {
            if let Some(known) = buckets.get_mut(index)
                && known.blocks < bucket.blocks
            {
                *known = bucket;
            }
        }
        Err(index) => {
            if buckets.len() == buckets.capacity() {
                // Doubling would take twice the memory for ever.
                buckets.reserve_exact(usize::try_from(HOUR.div_ceil(width)).unwrap_or(1));
            }
            buckets.insert(index, bucket);
        }
    }
}

/// Returns the current time in seconds since 1970.
fn seconds_since_1970() -> u64 {
    since_1970(SystemTime::now()) / 1000
}

/// Converts seconds since 1970, up to the year 2106.
fn to_seconds(time: u64) -> u32 {
    u32::try_from(time).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
