//! The database that keeps the fee trends of all chains over restarts: one file, `history.path`.
//!
//! It is read before the first poll. Once a minute and at a graceful shutdown it gets the buckets of the week, those of the
//! open hour too, so that a crash loses the open minute at most. Each time is one transaction. A bucket that it has is
//! replaced only by one of as many blocks or more.
//!
//! One instance has the file. Another one goes on without it, and tries again every minute: what it has seen meanwhile is
//! added then. A file that is no database is not changed, a damaged one is renamed, a link is not followed. No failure
//! stops the service.

mod file;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    TableDefinition, TableError, TableHandle, WriteTransaction,
};

pub(super) use file::check_file;
use file::{Unusable, open_file, set_aside};

use super::bucket::{Bucket, Range};
use super::section::History;
use super::{FeeTrend, HOUR, HOURS_PER_DAY, Rows, Trends, seconds_since_1970};
use crate::observe::log_on_change::LogOnChange;
use crate::store::StoredChain;

/// Shortest time between two writes.
const INTERVAL: Duration = Duration::from_mins(1);

/// Chain id, width in seconds, start in seconds since 1970.
type BucketKey = (u64, u32, u32);
/// First time, number of blocks, base fees, tips, bits of the ratios, median price.
type BucketRow = (u32, u32, [u64; 3], [u64; 3], [u64; 3], u64);
const BUCKETS: TableDefinition<'_, BucketKey, BucketRow> = TableDefinition::new("buckets");

/// Blocks of the open hour, which former versions kept. They are removed.
const FORMER_BLOCKS: TableDefinition<'_, (u64, u64), (u32, u64, u64, u64)> =
    TableDefinition::new("blocks");

/// Reader and writer of the database. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct HistoryDatabase {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    path: PathBuf,
    trends: Trends,
    /// `None`: it is not open, or was closed after a failure.
    open: Mutex<Option<Database>>,
    opened: LogOnChange,
    /// Apart from that: a full disk can be opened every minute.
    written: LogOnChange,
}

impl HistoryDatabase {
    /// Returns the database of the configuration, if it has one. It is not opened yet.
    pub(crate) fn new(config: &History, trends: &Trends) -> Option<Self> {
        let state = State {
            path: config.path()?.to_path_buf(),
            trends: trends.clone(),
            open: Mutex::default(),
            opened: LogOnChange::default(),
            written: LogOnChange::default(),
        };
        // Only a failure is news.
        state.written.changed_to(Ok(()));
        Some(Self { state: Arc::new(state) })
    }

    /// Reads the database into the trends, if it can be used. Blocks the thread.
    pub(crate) fn restore(&self) {
        *self.state.open.lock() = self.open_or_log();
    }

    /// Writes the database for ever. Dropping the future ends it.
    pub(crate) async fn keep(self) -> Infallible {
        loop {
            let until_next = INTERVAL.as_secs() - seconds_since_1970() % INTERVAL.as_secs();
            tokio::time::sleep(Duration::from_secs(until_next)).await;
            let database = self.clone();
            // A panic was logged, and the next write comes in a minute.
            let _ = tokio::task::spawn_blocking(move || database.save()).await;
        }
    }

    /// Writes all that is known, and closes the file.
    pub(crate) async fn close(self) {
        let _ = tokio::task::spawn_blocking(move || {
            self.save();
            self.state.open.lock().take();
        })
        .await;
    }

    /// Writes what has changed. Opens the database if it is not open. Blocks the thread.
    fn save(&self) {
        let State { path, trends, open, written, .. } = &*self.state;
        let mut open = open.lock();
        if open.is_none() {
            *open = self.open_or_log();
        }
        let Some(database) = open.as_ref() else { return };
        let rows = trends.store.chains().iter().filter_map(|chain| {
            let rows = trends.with(chain, FeeTrend::take_unsaved)?;
            Some((chain, rows))
        });
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            return;
        }
        let path = path.display();
        let error = match write(database, &rows) {
            Ok(removed) => {
                if let Some(removed) = removed {
                    let message = "rows of a former version were removed from the history database";
                    tracing::info!(%path, removed, "{message}");
                }
                if written.changed_to(Ok(())) {
                    tracing::info!(%path, "history database written");
                }
                return;
            }
            Err(error) => error.to_string(),
        };
        for (chain, rows) in rows {
            trends.with(chain, |trend| trend.mark_unsaved(rows.removed_from));
        }
        if written.changed_to(Err("write")) {
            let message = "history database cannot be written; the next try is in a minute";
            tracing::warn!(%path, error, "{message}");
        }
        // After a failure it can be used only if it is opened anew.
        open.take();
        *open = self.open_or_log();
    }

    /// Opens the database, and adds its content to the trends. Logs it if something changed. Returns the database if it can
    /// be used.
    fn open_or_log(&self) -> Option<Database> {
        let State { path, trends, opened: log, .. } = &*self.state;
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
            let chains = restore(&database, trends)?;
            Ok((database, chains))
        });
        let path = path.display();
        match restored {
            Ok((database, chains)) => {
                if log.changed_to(Ok(())) {
                    tracing::info!(%path, chains, "history database opened");
                }
                Some(database)
            }
            Err(reason) => {
                if log.changed_to(Err(reason.kind())) {
                    let reason = reason.to_string();
                    let message = "history database cannot be used: the fee trend is not kept; the next try is in a minute";
                    tracing::warn!(%path, reason, "{message}");
                }
                None
            }
        }
    }
}

/// Fails if the database has tables of another program.
fn check_tables(transaction: &ReadTransaction) -> Result<(), Unusable> {
    let tables = transaction.list_tables().map_err(redb::Error::from)?;
    let names: Vec<String> = tables.map(|table| table.name().to_owned()).collect();
    let is_own = |name: &String| [BUCKETS.name(), FORMER_BLOCKS.name()].contains(&name.as_str());
    if names.iter().all(is_own) { Ok(()) } else { Err(Unusable::Foreign) }
}

/// Adds the content of the database to the trends of configured chains. Returns the number of chains that it has.
fn restore(database: &Database, trends: &Trends) -> Result<usize, Unusable> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    check_tables(&transaction)?;
    let buckets = match transaction.open_table(BUCKETS) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(0),
        buckets => buckets.map_err(redb::Error::from)?,
    };
    let mut count = 0;
    for chain in trends.store.chains() {
        let saved = saved_buckets(&buckets, chain.config().chain_id, trends.days)?;
        count += usize::from(!saved.is_empty());
        trends.with(chain, |trend| trend.merge(&saved));
    }
    Ok(count)
}

/// Returns the buckets of a chain's newest days, with their widths.
fn saved_buckets(
    buckets: &impl ReadableTable<BucketKey, BucketRow>,
    id: u64,
    days: u32,
) -> Result<Vec<(u32, Bucket)>, redb::Error> {
    let newest = buckets.range((id, HOUR, 0)..=(id, HOUR, u32::MAX))?.next_back().transpose()?;
    let newest = newest.map_or(0, |(_, row)| to_bucket(row.value()).first);
    let oldest = newest.saturating_sub((days + 1) * HOURS_PER_DAY * HOUR);
    let mut saved = Vec::new();
    for row in buckets.range((id, 0, 0)..=(id, u32::MAX, u32::MAX))? {
        let (key, row) = row?;
        let (_, width, start) = key.value();
        if start >= oldest {
            saved.push((width, to_bucket(row.value())));
        }
    }
    Ok(saved)
}

/// Writes the rows of some chains in one transaction. Returns the number of old rows that were removed from the database of
/// a former version; `None`: it is none.
fn write(database: &Database, rows: &[(&StoredChain, Rows)]) -> Result<Option<u64>, redb::Error> {
    let transaction = database.begin_write()?;
    let is_former = transaction.delete_table(FORMER_BLOCKS)?;
    let mut removed = 0;
    for (chain, rows) in rows {
        removed += write_chain(&transaction, chain.config().chain_id, rows)?;
    }
    transaction.commit()?;
    Ok(is_former.then_some(removed))
}

/// Returns the number of buckets that were too old.
fn write_chain(transaction: &WriteTransaction, id: u64, rows: &Rows) -> Result<u64, redb::Error> {
    let mut buckets = transaction.open_table(BUCKETS)?;
    if let Some(removed_from) = rows.removed_from {
        let all = (id, 0, 0)..=(id, u32::MAX, u32::MAX);
        buckets.retain_in(all, |_, (first, ..)| first < removed_from)?;
    }
    for (width, bucket) in &rows.buckets {
        let (key, row) = ((id, *width, bucket.start(*width)), to_row(bucket));
        let known = buckets.get(key)?.map(|known| known.value());
        if known.is_none_or(|known| known != row && known.1 <= bucket.blocks) {
            buckets.insert(key, row)?;
        }
    }
    let before = buckets.len()?;
    for (width, from) in rows.kept_from {
        buckets.retain_in((id, width, 0)..(id, width, from), |_, _| false)?;
    }
    Ok(before - buckets.len()?)
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
