//! Prices of gas on one chain over the last hour, day and week.
//!
//! Each block is one sample: its base fee, the medium tip that was suggested at it, and how full it was. Samples are
//! summarised in buckets of a minute, ten minutes and an hour. The samples of the open hour are kept, so its buckets are
//! computed when they are needed; when it ends, they are computed for good. Nothing replaces them: what a refill reads
//! later only fills gaps. A median is that of the blocks of a bucket: the lower one of the two in the middle if their
//! number is even.
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
mod unsaved;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::assembly::{Assembly, Extra, Join, Task};
use crate::config::SectionKind;
use crate::extras::reads::ReadNodes;

pub(crate) use bucket::{Bucket, Range, Sample};
use database::HistoryDatabase;
pub(crate) use fill::RefilledHour;
pub(crate) use level::{Level, PriceLevel};
pub(crate) use observation::Observation;
pub(crate) use observation::{DatedBlock, PastSpan};
use open_hour::OpenHour;
pub(crate) use period::Period;
use refill::HistoryRefill;
use routes::TrendSerializer;
use section::History;
pub(crate) use state::{TrendAge, Trends};
use unsaved::Unsaved;

const MINUTE: u32 = 60;
const TEN_MINUTES: u32 = 600;
const HOUR: u32 = 3600;
const HOURS_PER_DAY: u32 = 24;

/// Difference between the clock and the own times of new blocks from which on the clock is wrong, in seconds.
const MAX_CLOCK_DIFFERENCE: u64 = 600;

/// Days of the hourly buckets that are in memory.
pub(crate) const DAYS_IN_MEMORY: u32 = 7;

pub(crate) const EXTRA: Extra =
    Extra { sections: &[SectionKind::new::<History>()], ..Extra::new("trend", Join::Always(join)) };

/// Summarises what is published, fills gaps from the nodes, keeps the trends in a database, and adds the route and the
/// members of the fee market.
fn join(assembly: &mut Assembly) {
    let history: History = assembly.config.section();
    let trends = Trends::new(&assembly.store, history.days);
    assembly.observe(|chain| Arc::clone(trends.trend(chain)));
    let database = HistoryDatabase::new(&history, &trends);
    assembly.at_end(database.clone().map(HistoryDatabase::close));
    let (memory, upstreams) = (assembly.memory.clone(), ReadNodes::shared(assembly));
    let (chains, opened) = (trends.clone(), database.clone());
    assembly.before_polls(async move {
        let mut tasks: Vec<Task> = Vec::new();
        if let Some(database) = opened {
            let restored = database.clone();
            // A failure was logged, and no polls wait for it.
            let _ = tokio::task::spawn_blocking(move || restored.restore()).await;
            tasks.push(Box::pin(async { match database.keep().await {} }));
        }
        let turns = Arc::new(Semaphore::new(refill::MAX_CONCURRENT));
        if history.refill {
            for (chain, upstreams) in chains.store.chains().iter().zip(&upstreams) {
                let refill = HistoryRefill::new(chain, &chains, upstreams, &memory, &turns);
                tasks.push(Box::pin(async { match refill.run().await {} }));
            }
        }
        tasks
    });
    let serializer = TrendSerializer::new(&trends, database, &assembly.memory, &assembly.metrics);
    let routes = OpenApiRouter::new().routes(routes!(routes::get_fee_trend));
    assembly.routes.add(routes.with_state(serializer));
    assembly.routes.add_market_member(members::for_trends(&trends));
    assembly.day_prices = Some(Arc::new(trends));
    assembly.routes.write_examples(routes::write_example);
}

/// Buckets and samples of one chain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FeeTrend {
    days: u32,
    /// Buckets of closed hours, oldest first, by the index of their period.
    closed: [VecDeque<Bucket>; 3],
    /// Hours that a refill may complete, oldest first: the last one of the file, and those that ended since.
    ended: Vec<OpenHour>,
    /// True while a refill may complete the hours that end.
    keeps_ended: bool,
    unsaved: Unsaved,
    /// The newest block of the hour before.
    before: Option<Sample>,
    open: OpenHour,
    /// Number of the newest block.
    newest_block: u64,
    /// Time of the newest sample.
    newest_time: u32,
    /// Number of changes so far.
    changes: u64,
}

impl FeeTrend {
    /// Creates a trend without blocks that keeps hourly buckets for so many days, at most
    /// [`DAYS_IN_MEMORY`].
    #[must_use]
    pub(crate) fn new(days: u32) -> Self {
        Self {
            days: days.clamp(1, DAYS_IN_MEMORY),
            closed: Default::default(),
            ended: Vec::new(),
            keeps_ended: false,
            unsaved: Unsaved::NONE,
            before: None,
            open: OpenHour::default(),
            newest_block: 0,
            newest_time: 0,
            changes: 0,
        }
    }

    /// Most hours that are kept for a refill.
    const MAX_ENDED: usize = 4;

    /// Returns the most bytes that the trend of a chain with this block time holds.
    #[must_use]
    pub(crate) fn max_bytes(block_time: Duration) -> usize {
        let blocks_per_hour = 3_600_000_u128.checked_div(block_time.as_millis());
        let blocks_per_hour = blocks_per_hour.and_then(|count| usize::try_from(count).ok());
        let samples = blocks_per_hour.unwrap_or(usize::MAX).clamp(1, OpenHour::MAX_SAMPLES);
        let samples = OpenHour::max_capacity(samples);
        // The hour that is closed comes to the buckets before old ones go, and may have blocks that are not kept.
        let counts =
            Period::IN_MEMORY.map(|period| (period.seconds() + HOUR) / period.bucket_seconds());
        let counts = counts.into_iter().chain([HOUR / MINUTE]);
        let counts = counts.filter_map(|count| usize::try_from(count).ok());
        let buckets: usize = counts.map(|count| count.saturating_mul(size_of::<Bucket>())).sum();
        samples.saturating_mul(size_of::<Sample>()).saturating_add(buckets)
    }

    /// Returns the buckets of a period in memory up to the one of the second `now`, oldest first. Buckets without a block
    /// are left out.
    #[must_use]
    pub(crate) fn buckets(&self, period: Period, now: u64) -> Vec<Bucket> {
        let now = to_seconds(now).max(self.newest_time);
        let width = period.bucket_seconds();
        let first_start = period.first_start(now);
        let closed = self.closed_of(period).iter().copied();
        let ended = self.ended.iter().flat_map(|hour| hour.buckets(width));
        let all = closed.chain(ended).chain(self.open.buckets(width));
        let mut shown: Vec<Bucket> =
            all.filter(|bucket| bucket.start(width) >= first_start).collect();
        // Closed hours may follow the one that a refill completes.
        shown.sort_by_key(|bucket| bucket.first);
        shown
    }

    /// Returns true if a block of the week before the second `now` is known.
    pub(crate) fn has_blocks(&self, now: u64) -> bool {
        let first_start = Period::Week.first_start(to_seconds(now));
        self.newest_time > 0 && self.newest_time >= first_start
    }

    /// Returns the ten-minute medians of the 24 hours before the second `now`, ascending; `None`: less than an hour is
    /// known.
    #[must_use]
    pub(crate) fn day_prices(&self, now: u64) -> Option<Vec<u64>> {
        let buckets = self.buckets(Period::Day, now);
        level::day_prices(&buckets, to_seconds(now).max(self.newest_time))
    }

    /// Number of changes since the trend was created or restored.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Appends a block, or replaces the one with its number if that is still known as a sample. Ignores an older block
    /// that is not.
    fn add(&mut self, mut sample: Sample) {
        if sample.number <= self.newest_block && self.newest_time > 0 {
            let replaced = self.open.replace(sample);
            self.changes += u64::from(replaced.is_some());
            self.unsaved.add_from(replaced);
            return;
        }
        self.changes += 1;
        sample.time = sample.time.max(self.newest_time);
        self.newest_block = sample.number;
        self.newest_time = sample.time;
        if sample.hour() != self.open.start() {
            self.close_hour(sample.hour());
        }
        let added = self.open.add(sample);
        self.unsaved.add_from(added);
    }

    /// Computes the buckets of the open hour for good, and opens the one that starts at `next`.
    fn close_hour(&mut self, next: u32) {
        self.before = self.open.samples().last().copied();
        if self.keeps_ended {
            let ended = std::mem::take(&mut self.open);
            self.ended.extend(Some(ended).filter(|hour| !hour.is_empty()));
            if self.ended.len() > Self::MAX_ENDED {
                // Not the last one of the file, which is the oldest: most of it may be missing.
                let complete = self.ended.remove(1);
                self.add_closed(&complete);
            }
        } else {
            let ended = std::mem::take(&mut self.open);
            self.add_closed(&ended);
            // The next hour takes its memory.
            self.open = ended;
        }
        self.open.restart(next);
        self.trim();
    }

    /// Computes the buckets of the hours that ended for good.
    fn close_ended(&mut self) {
        for ended in std::mem::take(&mut self.ended) {
            if self.before.is_some_and(|before| before.hour() == ended.start()) {
                self.before = ended.samples().last().copied();
            }
            self.add_closed(&ended);
        }
    }

    /// Adds the buckets of an hour, except those that are known.
    fn add_closed(&mut self, hour: &OpenHour) {
        for period in Period::IN_MEMORY {
            let buckets: Vec<Bucket> = hour.buckets(period.bucket_seconds()).collect();
            for bucket in buckets {
                self.add_bucket(period, bucket, false);
            }
        }
    }

    /// Adds a closed bucket. One of the same span is kept, unless this one `replaces` it.
    fn add_bucket(&mut self, period: Period, bucket: Bucket, replaces: bool) {
        let width = period.bucket_seconds();
        let start = bucket.start(width);
        let [minutes, ten_minutes, hours] = &mut self.closed;
        let closed = match period {
            Period::Hour => minutes,
            Period::Day => ten_minutes,
            Period::Week | Period::Month | Period::Year => hours,
        };
        match closed.binary_search_by_key(&start, |known| known.start(width)) {
            Ok(index) if replaces => {
                if let Some(known) = closed.get_mut(index) {
                    *known = bucket;
                }
            }
            Ok(_) => {}
            Err(index) => {
                if closed.len() == closed.capacity() {
                    // Doubling would take twice the memory for ever.
                    closed.reserve_exact(usize::try_from(HOUR.div_ceil(width)).unwrap_or(1));
                }
                closed.insert(index, bucket);
                self.unsaved.add_closed();
            }
        }
    }

    /// Removes the buckets that are too old to be shown in the open hour.
    fn trim(&mut self) {
        let open = self.open.start();
        for (period, closed) in Period::IN_MEMORY.into_iter().zip(&mut self.closed) {
            let width = period.bucket_seconds();
            let kept = match period {
                Period::Week => self.days * HOURS_PER_DAY * HOUR,
                _ => period.seconds(),
            };
            closed.retain(|bucket| bucket.start(width).saturating_add(kept) > open);
        }
    }

    /// Removes everything from the hour of `time` on.
    fn remove_from_hour(&mut self, time: u32) {
        let start = time - time % HOUR;
        for closed in &mut self.closed {
            closed.retain(|bucket| bucket.first < start);
        }
        self.ended.retain(|hour| hour.start() < start);
        self.before = self.before.filter(|before| before.time < start);
        if self.open.start() >= start {
            self.open.restart(start);
        } else {
            self.close_hour(start);
        }
        self.newest_time = start;
        self.unsaved.remove_from(start);
    }

    fn closed_of(&self, period: Period) -> &VecDeque<Bucket> {
        let [minutes, ten_minutes, hours] = &self.closed;
        match period {
            Period::Hour => minutes,
            Period::Day => ten_minutes,
            Period::Week | Period::Month | Period::Year => hours,
        }
    }
}

/// Converts seconds since 1970, up to the year 2106.
fn to_seconds(time: u64) -> u32 {
    u32::try_from(time).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
