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
mod observation;
mod open_hour;
mod period;
mod refill;
mod routes;
mod section;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;
use utoipa::OpenApi;

use crate::api::routes::{routes, with_schemas};
use crate::assembly::{Assembly, Extra, SharedStates, Task};
use crate::extras::reads::ReadNodes;
use crate::store::since_1970;

use bucket::{Bucket, Sample};
use database::HistoryDatabase;
use level::PriceLevel;
use open_hour::OpenHour;
use period::Period;
use refill::HistoryRefill;
use section::History;
use state::Trends;

const MINUTE: u32 = 60;
const TEN_MINUTES: u32 = 600;
const HOUR: u32 = 3600;
const DAY: u32 = 24 * HOUR;

/// Difference between the clock and the own times of new blocks from which on the clock is wrong, in seconds.
const MAX_CLOCK_DIFFERENCE: u64 = 600;

/// Most days of hourly buckets that are kept.
pub(crate) const MAX_DAYS: u32 = 7;

pub(crate) const EXTRA: Extra =
    Extra { name: "trend", sections: &[History::SECTION], command: None, join };

/// Summarises what is published, fills gaps from the nodes, keeps the trends in a database, which also keeps states that no
/// other process shares, and adds the route and the members of the fee market.
fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    let history: History = assembly.config.section();
    let trends = Trends::new(&assembly.store, history.days);
    assembly.observe(|chain| Arc::clone(trends.chains.get(chain)));
    let database = HistoryDatabase::new(&history, &trends);
    // What is kept of recorded chains would be taken for live data.
    let database = database.filter(|_| !assembly.config.has_recorded_chains);
    if let Some(database) = database.clone() {
        if assembly.offers.get::<Arc<dyn SharedStates>>().is_none() {
            assembly.offers.insert::<Arc<dyn SharedStates>>(Arc::new(database.clone()));
        }
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
    let of_market = trends.clone();
    assembly.routes.market_members.add(move |chain, current| of_market.level(chain, current));
    let routes = with_schemas::<Schemas, _>();
    let routes = routes.routes(routes!(routes::get_fee_trend)).with_state(trends.clone());
    assembly.routes.timed.push(routes);
    if history.days == MAX_DAYS {
        assembly.routes.links.push("week");
    }
    assembly.day_prices = Some(Arc::new(trends));
    Ok(())
}

#[derive(OpenApi)]
#[openapi(components(schemas(PriceLevel)))]
struct Schemas;

/// Buckets by period and start in seconds since 1970.
type Buckets = BTreeMap<(Period, u32), Bucket>;

/// Buckets and samples of one chain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FeeTrend {
    days: u32,
    /// Buckets of closed hours and of the database.
    closed: Buckets,
    open: OpenHour,
    /// Number of the newest block.
    newest_block: u64,
    /// Time of the newest sample.
    newest_time: u32,
    /// Number of changes so far.
    changes: u64,
    /// Everything from this second on was removed because the clock was set back, and a database may still have it.
    removed_from: u32,
}

impl FeeTrend {
    /// Creates a trend without blocks that keeps hourly buckets for so many days, at most [`MAX_DAYS`].
    #[must_use]
    pub(crate) fn new(days: u32) -> Self {
        Self {
            days: days.clamp(1, MAX_DAYS),
            closed: Buckets::new(),
            open: OpenHour::default(),
            newest_block: 0,
            newest_time: 0,
            changes: 0,
            removed_from: u32::MAX,
        }
    }

    /// Returns the most bytes that the trend of a chain with this block time holds.
    #[must_use]
    pub(crate) fn max_bytes(block_time: Duration) -> usize {
        /// Nodes of a map that was made of sorted entries are full.
        const BYTES_PER_BUCKET: usize = size_of::<((Period, u32), Bucket)>() * 10 / 9;
        let blocks_per_hour = 3_600_000_u128.checked_div(block_time.as_millis());
        let blocks_per_hour = blocks_per_hour.and_then(|count| usize::try_from(count).ok());
        let samples = blocks_per_hour.unwrap_or(usize::MAX).clamp(1, OpenHour::MAX_SAMPLES);
        // The hour that is closed comes to the buckets before old ones go.
        let counts = Period::ALL.map(|period| (period.seconds() + HOUR) / period.bucket_seconds());
        let buckets = usize::try_from(counts.iter().sum::<u32>()).unwrap_or(usize::MAX);
        OpenHour::max_capacity(samples) * size_of::<Sample>() + buckets * BYTES_PER_BUCKET
    }

    /// Returns the buckets of a period up to the one of the second `now`, oldest first. Buckets without a block are left
    /// out.
    #[must_use]
    pub(crate) fn buckets(&self, period: Period, now: u64) -> Vec<Bucket> {
        let first_start = period.first_start(to_seconds(now).max(self.newest_known()));
        self.all_buckets(&[period]).split_off(&(period, first_start)).into_values().collect()
    }

    /// Returns all buckets of some periods.
    pub(crate) fn all_buckets(&self, periods: &[Period]) -> Buckets {
        let mut buckets = self.closed.clone();
        buckets.retain(|(period, _), _| periods.contains(period));
        add_samples(&mut buckets, periods, &self.open.samples);
        buckets
    }

    /// Returns true if a block of the week before the second `now` is known.
    pub(crate) fn has_blocks(&self, now: u64) -> bool {
        let first_start = Period::Week.first_start(to_seconds(now));
        self.newest_known() > 0 && self.newest_known() >= first_start
    }

    /// Adds what a database has.
    pub(crate) fn merge(&mut self, saved: Buckets) {
        for ((period, _), bucket) in saved {
            if bucket.first < self.removed_from {
                put(&mut self.closed, period, bucket);
            }
        }
        self.trim();
        self.changes += 1;
    }

    /// Appends a block, or replaces the one with its number if that is still known as a sample. Ignores an older block
    /// that is not.
    fn add(&mut self, mut sample: Sample) {
        if sample.number <= self.newest_block && self.newest_time > 0 {
            self.changes += u64::from(self.open.replace(sample));
            return;
        }
        self.changes += 1;
        sample.time = sample.time.max(self.newest_time);
        self.newest_block = sample.number;
        self.newest_time = sample.time;
        if sample.hour() != self.open.start {
            self.close_hour(sample.hour());
        }
        self.open.add(sample);
    }

    /// Computes the buckets of the open hour for good, and opens the one that starts at `next`.
    fn close_hour(&mut self, next: u32) {
        add_samples(&mut self.closed, &Period::ALL, &self.open.samples);
        self.open.restart(next);
        self.trim();
    }

    /// Removes the buckets that are too old to be shown in the open hour. The map is made anew, because one that grows at its
    /// end takes nearly twice the memory.
    fn trim(&mut self) {
        let (open, most) = (self.open.start, self.days * DAY);
        let is_kept = |(period, start): &(Period, u32)| {
            start.saturating_add(period.seconds().min(most)) >= open
        };
        let closed = std::mem::take(&mut self.closed).into_iter();
        self.closed = closed.filter(|(span, _)| is_kept(span)).collect();
    }

    /// Removes everything from the hour of `time` on.
    fn remove_from_hour(&mut self, time: u32) {
        let start = time - time % HOUR;
        if self.open.start >= start {
            self.open.restart(start);
        } else {
            self.close_hour(start);
        }
        self.closed.retain(|_, bucket| bucket.first < start);
        self.newest_time = start;
        self.removed_from = self.removed_from.min(start);
    }

    /// Returns the time of the newest block, or that of the newest bucket of the database.
    fn newest_known(&self) -> u32 {
        self.closed.values().map(|bucket| bucket.first).fold(self.newest_time, u32::max)
    }
}

/// Adds the buckets of some periods that samples in ascending order have.
fn add_samples(buckets: &mut Buckets, periods: &[Period], samples: &[Sample]) {
    for period in periods {
        for bucket in Bucket::split(samples, period.bucket_seconds()) {
            put(buckets, *period, bucket);
        }
    }
}

/// Adds a bucket of this period. Of two of the same span the one with more blocks stays.
fn put(buckets: &mut Buckets, period: Period, bucket: Bucket) {
    let span = (period, bucket.start(period.bucket_seconds()));
    let known = buckets.entry(span).or_insert(bucket);
    if known.blocks < bucket.blocks {
        *known = bucket;
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
