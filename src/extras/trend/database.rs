//! The database that keeps the fee trends of all chains over restarts: one file, `history.path`. It also keeps states of
//! other extras, which are written when they change.
//!
//! It is read before the first poll. Once a minute and at a graceful shutdown it gets the buckets of the week, those of the
//! open hour too, so that a crash loses the open minute at most. Each time is one transaction, after which it has what the
//! trends have, and no more.
//!
//! One instance has the file. Another one goes on without it, and tries again every minute: what it has seen meanwhile is
//! added then. A file that is no database is not changed, a damaged one is renamed, a link is not followed. No failure
//! stops the service.

mod file;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use parking_lot::Mutex;
use redb::{
    Database, Key, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    TableDefinition, TableError, TableHandle, Value,
};

pub(super) use file::check_file;
use file::{Unusable, open_file, set_aside};

use super::section::History;
use super::{Bucket, Buckets, Period, Trends, seconds_since_1970};
use crate::assembly::{SharedState, SharedStates};
use crate::observe::log_on_change::LogOnChange;
use crate::store::since_1970;

/// Shortest time between two writes.
const INTERVAL: Duration = Duration::from_mins(1);

/// Chain id, width in seconds, start in seconds since 1970.
type BucketKey = (u64, u32, u32);
/// First time, number of blocks, base fees, tips, bits of the ratios, median price.
type BucketRow = (u32, u32, [u64; 3], [u64; 3], [u64; 3], u64);
const BUCKETS: TableDefinition<'_, BucketKey, BucketRow> = TableDefinition::new("buckets");

/// Entries of [`SharedStates`] by name. A database without one does not have the table.
const STATES: TableDefinition<'_, &str, &str> = TableDefinition::new("states");

/// Reader and writer of the database.
#[derive(Debug)]
pub(crate) struct HistoryDatabase {
    path: PathBuf,
    trends: Trends,
    /// Entries of [`SharedStates`] by name.
    states: Mutex<States>,
    /// `None`: it is not open, or was closed after a failure.
    open: Mutex<Option<OpenDatabase>>,
    opened: LogOnChange,
    /// Apart from that: a full disk can be opened every minute.
    written: LogOnChange,
}

type States = BTreeMap<String, String>;

#[derive(Debug)]
struct OpenDatabase {
    database: Database,
    /// Numbers of changes of all trends at the last write, and the states.
    written: (Vec<u64>, States),
}

impl HistoryDatabase {
    /// Returns the database of the configuration, if it has one. It is not opened yet.
    pub(crate) fn new(config: &History, trends: &Trends) -> Option<Arc<Self>> {
        let written = LogOnChange::default();
        // Only a failure is news.
        written.changed_to(Ok(()));
        Some(Arc::new(Self {
            path: config.path()?.to_path_buf(),
            trends: trends.clone(),
            states: Mutex::default(),
            open: Mutex::default(),
            opened: LogOnChange::default(),
            written,
        }))
    }

    /// Reads the database into the trends, if it can be used. Blocks the thread.
    pub(crate) fn restore(&self) {
        *self.open.lock() = self.open_or_log();
    }

    /// Writes the database for ever. Dropping the future ends it.
    pub(crate) async fn keep(self: Arc<Self>) -> Infallible {
        loop {
            let until_next = INTERVAL.as_secs() - seconds_since_1970() % INTERVAL.as_secs();
            tokio::time::sleep(Duration::from_secs(until_next)).await;
            let database = Arc::clone(&self);
            // A panic was logged, and the next write comes in a minute.
            let _ = tokio::task::spawn_blocking(move || database.save()).await;
        }
    }

    /// Writes all that is known, and closes the file.
    pub(crate) async fn close(self: Arc<Self>) {
        let _ = tokio::task::spawn_blocking(move || {
            self.save();
            self.open.lock().take();
        })
        .await;
    }

    /// Writes what has changed. Opens the database if it is not open. Blocks the thread.
    fn save(&self) {
        let mut open = self.open.lock();
        if open.is_none() {
            *open = self.open_or_log();
        }
        let Some(OpenDatabase { database, written }) = open.as_mut() else { return };
        let chains = self.trends.store.chains().iter();
        let changes = chains.map(|chain| self.trends.trend(chain).changes);
        let current = (changes.collect(), self.states.lock().clone());
        if *written == current {
            return;
        }
        let path = self.path.display();
        match self.write(database, &current.1) {
            Ok(()) => {
                *written = current;
                if self.written.changed_to(Ok(())) {
                    tracing::info!(%path, "history database written");
                }
            }
            Err(error) => {
                if self.written.changed_to(Err("write")) {
                    let error = error.to_string();
                    let message = "history database cannot be written; the next try is in a minute";
                    tracing::warn!(%path, error, "{message}");
                }
                // After a failure it can be used only if it is opened anew.
                open.take();
                *open = self.open_or_log();
            }
        }
    }

    /// Opens the database, and adds its content to the trends. Logs it if something changed. Returns the database if it can
    /// be used.
    fn open_or_log(&self) -> Option<OpenDatabase> {
        let path = self.path.display();
        let mut opened = open_file(&self.path);
        if let Err(Unusable::Damaged) = opened
            && let Ok(renamed) = set_aside(&self.path)
        {
            let renamed_to = renamed.display();
            let message = "history database is damaged and was renamed: the fee trend starts with what is in memory";
            tracing::warn!(%path, %renamed_to, "{message}");
            opened = open_file(&self.path);
        }
        match opened.and_then(|database| Ok((self.read(&database)?, database))) {
            Ok((chains, database)) => {
                if self.opened.changed_to(Ok(())) {
                    tracing::info!(%path, chains, "history database opened");
                }
                Some(OpenDatabase { database, written: Default::default() })
            }
            Err(reason) => {
                if self.opened.changed_to(Err((&reason).into())) {
                    let reason = reason.to_string();
                    let message = "history database cannot be used: the fee trend is not kept; the next try is in a minute";
                    tracing::warn!(%path, reason, "{message}");
                }
                None
            }
        }
    }

    /// Adds the content of the database to the trends of configured chains. Returns the number of chains that it has.
    fn read(&self, database: &Database) -> Result<usize, Unusable> {
        let transaction = database.begin_read().map_err(redb::Error::from)?;
        check_tables(&transaction)?;
        self.read_states(&transaction)?;
        let Some(table) = open_if_any(&transaction, BUCKETS)? else { return Ok(0) };
        let mut count = 0;
        for chain in self.trends.store.chains() {
            let saved = saved_buckets(&table, chain.config().chain_id)?;
            count += usize::from(!saved.is_empty());
            self.trends.trend(chain).merge(saved);
        }
        Ok(count)
    }

    /// Adds the entries that are not known, unless they are too old.
    fn read_states(&self, transaction: &ReadTransaction) -> Result<(), redb::Error> {
        let Some(table) = open_if_any(transaction, STATES)? else { return Ok(()) };
        let now = since_1970(SystemTime::now());
        let mut entries = self.states.lock();
        for row in table.iter()? {
            let (name, entry) = row?;
            let state = SharedState::new(entry.value().to_owned(), false, now);
            if state.age <= SharedState::KEPT_FOR {
                entries.entry(name.value().to_owned()).or_insert(state.entry);
            }
        }
        Ok(())
    }

    /// Makes the rows of all chains equal to their trends, which have what an open database had, and those of the states.
    fn write(&self, database: &Database, states: &States) -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        let mut table = transaction.open_table(BUCKETS)?;
        for chain in self.trends.store.chains() {
            let id = chain.config().chain_id;
            let buckets = self.trends.trend(chain).all_buckets(&Period::ALL).into_iter();
            let rows: BTreeMap<BucketKey, BucketRow> = buckets
                .map(|((period, start), bucket)| {
                    ((id, period.bucket_seconds(), start), to_row(bucket))
                })
                .collect();
            for (key, row) in &rows {
                if table.get(key)?.is_none_or(|known| known.value() != *row) {
                    table.insert(key, row)?;
                }
            }
            table.retain_in((id, 0, 0)..=(id, u32::MAX, u32::MAX), |key, _| {
                rows.contains_key(&key)
            })?;
        }
        drop(table);
        if !states.is_empty() {
            let mut table = transaction.open_table(STATES)?;
            for (name, entry) in states {
                table.insert(name.as_str(), entry.as_str())?;
            }
            table.retain(|name, _| states.contains_key(name))?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Like [`SharedStates::replace`], without a write.
    fn enter(&self, name: &str, known: &str, new: &str) -> SharedState {
        let (mut states, now) = (self.states.lock(), since_1970(SystemTime::now()));
        let entry = states.get(name).cloned().unwrap_or_default();
        if new.is_empty() || entry != known {
            return SharedState::new(entry, false, now);
        }
        let entry = format!("{now} {new}");
        states.insert(name.to_owned(), entry.clone());
        SharedState::new(entry, true, now)
    }
}

#[async_trait]
impl SharedStates for Arc<HistoryDatabase> {
    async fn replace(&self, name: &str, known: &str, new: &str) -> Option<SharedState> {
        let state = self.enter(name, known, new);
        if state.is_own {
            let database = Self::clone(self);
            // A failure was logged, and the next write comes in a minute.
            let _ = tokio::task::spawn_blocking(move || database.save()).await;
        }
        Some(state)
    }
}

/// Opens a table, if the database has it.
fn open_if_any<K: Key + 'static, V: Value + 'static>(
    transaction: &ReadTransaction,
    table: TableDefinition<'_, K, V>,
) -> Result<Option<ReadOnlyTable<K, V>>, redb::Error> {
    match transaction.open_table(table) {
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        table => Ok(Some(table?)),
    }
}

/// Fails if the database has tables of another program.
fn check_tables(transaction: &ReadTransaction) -> Result<(), Unusable> {
    let own = [BUCKETS.name(), STATES.name()];
    let mut tables = transaction.list_tables().map_err(redb::Error::from)?;
    let are_own = tables.all(|table| own.contains(&table.name()));
    are_own.then_some(()).ok_or(Unusable::Foreign)
}

/// Returns the buckets of a chain.
fn saved_buckets(
    table: &impl ReadableTable<BucketKey, BucketRow>,
    id: u64,
) -> Result<Buckets, redb::Error> {
    let mut saved = Buckets::new();
    for period in Period::ALL {
        let width = period.bucket_seconds();
        for row in table.range((id, width, 0)..=(id, width, u32::MAX))? {
            let (key, row) = row?;
            saved.insert((period, key.value().2), to_bucket(row.value()));
        }
    }
    Ok(saved)
}

fn to_row(bucket: Bucket) -> BucketRow {
    let Bucket { first, blocks, base_fee, tip, gas_used_ratio, price } = bucket;
    (first, blocks, base_fee, tip, gas_used_ratio, price)
}

fn to_bucket((first, blocks, base_fee, tip, gas_used_ratio, price): BucketRow) -> Bucket {
    Bucket { first, blocks, base_fee, tip, gas_used_ratio, price }
}

#[cfg(test)]
mod tests;
