//! The database that keeps the fee trends of all chains over restarts: one file, `history.path`.
//!
//! It is read before the first poll. Once a minute it gets the blocks of the minutes that have ended, and the buckets of
//! the hours that have; at a graceful shutdown also the open minute. Each time is one transaction, so that a crash loses
//! the open minute at most. A bucket that it has is never replaced.
//!
//! One instance has the file. Another one goes on without it, and tries again every minute: what it has seen meanwhile is
//! added then. A file that is no database is not changed, a damaged one is renamed, a link is not followed. No failure
//! stops the service.

mod file;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError,
    TableHandle, WriteTransaction,
};

pub(super) use file::check_file;
use file::{Unusable, open_file, set_aside};

use super::bucket::{Bucket, Range, Sample};
use super::section::History;
use super::unsaved::Rows;
use super::{HOUR, Period, Trends};
use crate::observe::log_on_change::LogOnChange;
use crate::store::{StoredChain, seconds_since_1970};

/// Shortest time between two writes.
const INTERVAL: Duration = Duration::from_mins(1);

/// Chain id, width in seconds, start in seconds since 1970.
type BucketKey = (u64, u32, u32);
/// First time, number of blocks, base fees, tips, bits of the ratios, median price.
type BucketRow = (u32, u32, [u64; 3], [u64; 3], [u64; 3], u64);
const BUCKETS: TableDefinition<'_, BucketKey, BucketRow> = TableDefinition::new("buckets");

/// Chain id, block number.
type SampleKey = (u64, u64);
/// Time, base fee, tip, bits of the ratio.
type SampleRow = (u32, u64, u64, u64);
const SAMPLES: TableDefinition<'_, SampleKey, SampleRow> = TableDefinition::new("blocks");

/// Reader and writer of the database. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct HistoryDatabase {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    path: PathBuf,
    trends: Trends,
    /// Days of hourly buckets that are kept.
    days: u32,
    /// `None`: it is not open, or was closed after a failure.
    open: RwLock<Option<Database>>,
    /// Held by the one that opens or writes.
    writing: Mutex<()>,
    opened: LogOnChange,
    /// Apart from that: a full disk can be opened every minute.
    written: LogOnChange,
    read: LogOnChange,
}

impl HistoryDatabase {
    /// Returns the database of the configuration, if it has one. It is not opened yet.
    pub(crate) fn new(config: &History, trends: &Trends) -> Option<Self> {
        let state = State {
            path: config.path()?.to_path_buf(),
            trends: trends.clone(),
            days: config.days,
            open: RwLock::default(),
            writing: Mutex::default(),
            opened: LogOnChange::default(),
            written: LogOnChange::default(),
            read: LogOnChange::default(),
        };
        // Only a failure is news.
        state.written.changed_to(Ok(()));
        Some(Self { state: Arc::new(state) })
    }

    /// Reads the database into the trends, if it can be used. Blocks the thread.
    pub(crate) fn restore(&self) {
        let _writing = self.state.writing.lock();
        self.open_or_log();
    }

    /// Writes the database for ever. Dropping the future ends it.
    pub(crate) async fn keep(self) -> Infallible {
        loop {
            let until_next = INTERVAL.as_secs() - seconds_since_1970() % INTERVAL.as_secs();
            tokio::time::sleep(Duration::from_secs(until_next)).await;
            let database = self.clone();
            let now = seconds_since_1970();
            let end = now - now % INTERVAL.as_secs();
            // A panic was logged, and the next write comes in a minute.
            let _ = tokio::task::spawn_blocking(move || database.save(end)).await;
        }
    }

    /// Writes all that is known, and closes the file.
    pub(crate) async fn close(self) {
        let _ = tokio::task::spawn_blocking(move || {
            self.save(u64::MAX);
            let _writing = self.state.writing.lock();
            self.state.open.write().take();
        })
        .await;
    }

    /// Returns the hourly buckets of a chain that start at this second or later, the oldest first; `None`: the database is
    /// not open, or cannot be read. Blocks the thread.
    pub(crate) fn hours(&self, chain: &StoredChain, from: u32) -> Option<Vec<Bucket>> {
        let open = self.state.open.read();
        let database = open.as_ref()?;
        let id = chain.config().chain_id;
        let read = || -> Result<Vec<Bucket>, redb::Error> {
            let transaction = database.begin_read()?;
            let buckets = match transaction.open_table(BUCKETS) {
                Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
                buckets => buckets?,
            };
            let rows = buckets.range((id, HOUR, from)..=(id, HOUR, u32::MAX))?;
            rows.map(|row| Ok(to_bucket(row?.1.value()))).collect()
        };
        let hours = read();
        // Clients can ask as often as they like.
        if self.state.read.changed_to(hours.as_ref().map(|_| ()).map_err(|_| "read"))
            && let Err(error) = &hours
        {
            let path = self.state.path.display();
            tracing::warn!(%path, %error, "history database cannot be read");
        }
        hours.ok()
    }

    /// Writes what is not in the database, up to the second `end`. Opens it if it is not open. Blocks the thread.
    fn save(&self, end: u64) {
        let State { path, trends, days, open, writing, written, .. } = &*self.state;
        let _writing = writing.lock();
        let is_open = open.read().is_some();
        if !is_open && !self.open_or_log() {
            return;
        }
        let reading = open.read();
        let Some(database) = reading.as_ref() else { return };
        let rows = trends.store.chains().iter().filter_map(|chain| {
            let rows = trends.with(chain, |trend| trend.take_unsaved(end, *days))?;
            Some((chain, rows))
        });
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            return;
        }
        let Err(error) = write(database, &rows) else {
            if written.changed_to(Ok(())) {
                tracing::info!(path = %path.display(), "history database written");
            }
            return;
        };
        for (chain, rows) in rows {
            trends.with(chain, |trend| trend.mark_unsaved(rows.removed_from));
        }
        if written.changed_to(Err("write")) {
            let (path, error) = (path.display(), error.to_string());
            let message = "history database cannot be written; the next try is in a minute";
            tracing::warn!(%path, error, "{message}");
        }
        // After a failure it can be read only if it is opened anew.
        drop(reading);
        open.write().take();
        self.open_or_log();
    }

    /// Opens the database, and adds its content to the trends. Logs it if something changed. Returns true if it is open.
    fn open_or_log(&self) -> bool {
        let State { path, trends, days, open, opened: log, .. } = &*self.state;
        let opened = match open_file(path) {
            Err(reason @ Unusable::Damaged) => match set_aside(path) {
                Ok(renamed) => {
                    let (path, renamed_to) = (path.display(), renamed.display());
                    let message = "history database is damaged and was renamed: the fee trend \
                                   starts with what is in memory";
                    tracing::warn!(%path, %renamed_to, "{message}");
                    open_file(&self.state.path)
                }
                Err(_) => Err(reason),
            },
            opened => opened,
        };
        let restored = opened.and_then(|database| {
            let chains = restore(&database, trends, *days)?;
            Ok((database, chains))
        });
        let path = path.display();
        match restored {
            Ok((database, chains)) => {
                *open.write() = Some(database);
                if log.changed_to(Ok(())) {
                    tracing::info!(%path, chains, "history database opened");
                }
                true
            }
            Err(reason) => {
                if log.changed_to(Err(reason.kind())) {
                    let reason = reason.to_string();
                    let message = "history database cannot be used: the fee trend is not kept; the next try is in a minute";
                    tracing::warn!(%path, reason, "{message}");
                }
                false
            }
        }
    }
}

/// Fails if the database has tables of another program.
fn check_tables(transaction: &ReadTransaction) -> Result<(), Unusable> {
    let tables = transaction.list_tables().map_err(redb::Error::from)?;
    let names: Vec<String> = tables.map(|table| table.name().to_owned()).collect();
    let is_own = |name: &String| [BUCKETS.name(), SAMPLES.name()].contains(&name.as_str());
    if names.iter().all(is_own) { Ok(()) } else { Err(Unusable::Foreign) }
}

/// Adds the content of the database to the trends of configured chains. Returns the number of chains that it has.
fn restore(database: &Database, trends: &Trends, days: u32) -> Result<usize, Unusable> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    check_tables(&transaction)?;
    let buckets = match transaction.open_table(BUCKETS) {
        Err(TableError::TableDoesNotExist(_)) => None,
        table => Some(table.map_err(redb::Error::from)?),
    };
    let samples = match transaction.open_table(SAMPLES) {
        Err(TableError::TableDoesNotExist(_)) => None,
        table => Some(table.map_err(redb::Error::from)?),
    };
    let mut count = 0;
    for chain in trends.store.chains() {
        let id = chain.config().chain_id;
        let closed = match &buckets {
            Some(buckets) => closed_buckets(buckets, id, days)?,
            None => Vec::new(),
        };
        let blocks = match &samples {
            Some(samples) => known_samples(samples, id)?,
            None => Vec::new(),
        };
        count += usize::from(!closed.is_empty() || !blocks.is_empty());
        trends.with(chain, |trend| trend.merge(&closed, &blocks));
    }
    Ok(count)
}

/// Returns the buckets of a chain that belong in memory.
fn closed_buckets(
    buckets: &impl ReadableTable<BucketKey, BucketRow>,
    id: u64,
    days: u32,
) -> Result<Vec<(u32, Bucket)>, redb::Error> {
    let rows_of = |width, from| buckets.range((id, width, from)..=(id, width, u32::MAX));
    let newest = rows_of(HOUR, 0)?.next_back().transpose()?;
    let newest = newest.map_or(0, |(_, row)| to_bucket(row.value()).first);
    // Older hours stay in the database.
    let days = days.min(super::DAYS_IN_MEMORY) + 1;
    let oldest = newest.saturating_sub(days * super::HOURS_PER_DAY * HOUR);
    let mut closed = Vec::new();
    for width in Period::IN_MEMORY.map(Period::bucket_seconds) {
        for row in rows_of(width, oldest)? {
            closed.push((width, to_bucket(row?.1.value())));
        }
    }
    Ok(closed)
}

fn known_samples(
    samples: &impl ReadableTable<SampleKey, SampleRow>,
    id: u64,
) -> Result<Vec<Sample>, redb::Error> {
    let rows = samples.range((id, 0)..=(id, u64::MAX))?;
    rows.map(|row| {
        let (key, row) = row?;
        let ((_, number), (time, base_fee, tip, ratio)) = (key.value(), row.value());
        Ok(Sample { number, base_fee, tip, gas_used_ratio: f64::from_bits(ratio), time })
    })
    .collect()
}

/// Writes the rows of some chains in one transaction.
fn write(database: &Database, rows: &[(&StoredChain, Rows)]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    for (chain, rows) in rows {
        write_chain(&transaction, chain.config().chain_id, rows)?;
    }
    transaction.commit()?;
    Ok(())
}

fn write_chain(transaction: &WriteTransaction, id: u64, rows: &Rows) -> Result<(), redb::Error> {
    let mut samples = transaction.open_table(SAMPLES)?;
    let removed_from = rows.removed_from.unwrap_or(u32::MAX);
    let is_kept = |time: u32| time < removed_from && time >= rows.samples_needed_from;
    if rows.removed_from.is_some() || rows.samples_needed_from > 0 {
        samples.retain_in((id, 0)..=(id, u64::MAX), |_, (time, ..)| is_kept(time))?;
    }
    let reorged = (id, rows.newest_block.saturating_add(1))..=(id, u64::MAX);
    samples.retain_in(reorged, |_, _| false)?;
    for sample in &rows.samples {
        let row = (sample.time, sample.base_fee, sample.tip, sample.gas_used_ratio.to_bits());
        samples.insert((id, sample.number), row)?;
    }
    let mut buckets = transaction.open_table(BUCKETS)?;
    if rows.removed_from.is_some() {
        let all = (id, 0, 0)..=(id, u32::MAX, u32::MAX);
        buckets.retain_in(all, |_, (first, ..)| first < removed_from)?;
    }
    for (width, bucket) in &rows.closed {
        let key = (id, *width, bucket.start(*width));
        if buckets.get(key)?.is_none() {
            buckets.insert(key, to_row(bucket))?;
        }
    }
    for (width, from) in &rows.kept_from {
        buckets.retain_in((id, *width, 0)..(id, *width, *from), |_, _| false)?;
    }
    Ok(())
}

fn to_row(bucket: &Bucket) -> BucketRow {
    let ratios = bucket.gas_used_ratio.values().map(f64::to_bits);
    let (base_fee, tip) = (bucket.base_fee.values(), bucket.tip.values());
    (bucket.first, bucket.blocks, base_fee, tip, ratios, bucket.price)
}

fn to_bucket((first, blocks, base_fee, tip, ratios, price): BucketRow) -> Bucket {
    fn range<T>([min, median, max]: [T; 3]) -> Range<T> {
        Range { min, median, max }
    }
    Bucket {
        first,
        blocks,
        base_fee: range(base_fee),
        tip: range(tip),
        gas_used_ratio: range(ratios.map(f64::from_bits)),
        price,
    }
}

#[cfg(test)]
mod tests;
