//! The rows of a history database.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::process::Folder;

/// Chain id, width in seconds, start in seconds since 1970.
pub(crate) type BucketKey = (u64, u32, u32);
/// First time, number of blocks, base fees, tips, bits of the ratios, median price.
pub(crate) type BucketRow = (u32, u32, [u64; 3], [u64; 3], [u64; 3], u64);

const BUCKETS: TableDefinition<'_, BucketKey, BucketRow> = TableDefinition::new("buckets");

/// Content of a database.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rows {
    pub(crate) buckets: BTreeMap<BucketKey, BucketRow>,
}

impl Rows {
    /// Reads a file that no service uses.
    pub(crate) fn read(path: &Path) -> Self {
        let database = Database::open(path).unwrap();
        let transaction = database.begin_read().unwrap();
        let mut rows = Self::default();
        // A kill before the first write leaves no table.
        if let Ok(table) = transaction.open_table(BUCKETS) {
            let all = table.iter().unwrap().map(Result::unwrap);
            rows.buckets = all.map(|(key, row)| (key.value(), row.value())).collect();
        }
        rows
    }

    /// Creates a file.
    pub(crate) fn write(&self, path: &Path) {
        let database = Database::create(path).unwrap();
        let transaction = database.begin_write().unwrap();
        {
            let mut buckets = transaction.open_table(BUCKETS).unwrap();
            for (key, row) in &self.buckets {
                buckets.insert(key, row).unwrap();
            }
        }
        transaction.commit().unwrap();
    }

    /// Number of blocks in all hours.
    pub(crate) fn blocks(&self) -> u32 {
        let hours = self.buckets.iter().filter(|((_, width, _), _)| *width == 3600);
        hours.map(|(_, row)| row.1).sum()
    }
}

/// A new directory for a history database. Removed when dropped.
pub(crate) struct Directory(Folder);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        Self(Folder::new(&format!("history-{name}")))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path().join("history.redb")
    }

    /// Returns the line of `[history]` that names the file.
    pub(crate) fn setting(&self) -> String {
        format!("path = \"{}\"", self.file().display())
    }

    /// Returns the names of its files, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}
