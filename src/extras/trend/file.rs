//! The file that keeps the fee trends of all chains over restarts.
//!
//! It is read before the first poll, and written once a minute if anything changed, and at a graceful shutdown. A write
//! goes to a temporary file in the same directory, which then replaces the file, so that a crash loses at most the last
//! minute. A file that cannot be used is renamed, not overwritten. No failure stops the service.
//!
//! Each instance needs its own file.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::section::History;
use super::{FeeTrend, SavedTrend, Trends};
use crate::observe::log_on_change::LogOnChange;

/// Time between two writes.
const INTERVAL: Duration = Duration::from_mins(1);

/// Time between two looks for the first data, which are written at once: an operator sees at the start if they cannot be.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);

/// Size of a file. A chain takes at most 500 KB, and one with a block every two seconds about 120 KB.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

const FORMAT: &str = "gas-suggestion fee trend";
const VERSION: u32 = 2;

/// Reader and writer of the file. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct HistoryFile {
    state: Arc<FileState>,
}

#[derive(Debug)]
struct FileState {
    path: PathBuf,
    trends: Trends,
    /// Number of changes that the file has; `None`: it was not read, or cannot be used. Locked while it is written.
    written: Mutex<Option<u64>>,
    log: LogOnChange,
}

/// Content of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u32,
    chains: Vec<SavedChain>,
}

/// Members that every version has.
#[derive(Debug, Deserialize)]
struct FileHeader {
    #[serde(default)]
    format: String,
    #[serde(default)]
    version: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedChain {
    chain_id: u64,
    trend: SavedTrend,
}

/// Reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it has more than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("it is not a fee trend")]
    Foreign,
    #[error("its version is {0}, and this program knows version {VERSION}")]
    Version(u32),
    #[error("it is damaged")]
    Damaged,
}

impl HistoryFile {
    /// Returns the file of the configuration, if it has one. It is neither read nor written yet.
    pub(crate) fn new(config: &History, trends: &Trends) -> Option<Self> {
        let path = config.path()?;
        // A link is kept, and the file that it names is replaced.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let (trends, written) = (trends.clone(), Mutex::new(None));
        let state = FileState { path, trends, written, log: LogOnChange::default() };
        Some(Self { state: Arc::new(state) })
    }

    /// Reads the file into the trends. Nothing is written before. Blocks the thread.
    pub(crate) fn restore(&self) {
        let FileState { path, trends, written, .. } = &*self.state;
        let shown = path.display().to_string();
        match read(path).and_then(|content| content.map(|it| restore(&it, trends)).transpose()) {
            Ok(None) => tracing::info!(path = shown, "history file does not exist yet"),
            Ok(Some(chains)) => tracing::info!(path = shown, chains, "fee trend restored"),
            Err(reason) => {
                let renamed = set_aside(path, &reason);
                let reason = reason.to_string();
                let renamed_to = match renamed {
                    Ok(renamed) => renamed.display().to_string(),
                    Err(error) => {
                        let error = error.to_string();
                        let message =
                            "history file cannot be used or renamed: the fee trend is not kept";
                        tracing::warn!(path = shown, reason, error, "{message}");
                        return;
                    }
                };
                let message =
                    "history file cannot be used and was renamed: the fee trend starts empty";
                tracing::warn!(path = shown, reason, renamed_to, "{message}");
            }
        }
        *written.lock() = Some(count_changes(trends));
    }

    /// Writes the file for ever. Dropping the future ends it.
    pub(crate) async fn keep(self) -> Infallible {
        loop {
            let has_written = self.save().await;
            tokio::time::sleep(if has_written { INTERVAL } else { FIRST_INTERVAL }).await;
        }
    }

    /// Writes the file if anything changed since the last write. Returns false if nothing did.
    pub(crate) async fn save(&self) -> bool {
        let file = self.clone();
        tokio::task::spawn_blocking(move || file.save_blocking()).await.unwrap_or(true)
    }

    fn save_blocking(&self) -> bool {
        let FileState { path, trends, written, log } = &*self.state;
        let mut written = written.lock();
        let changes = count_changes(trends);
        // A file that cannot be used is not written.
        if written.is_none_or(|written| written == changes) {
            return false;
        }
        let shown = path.display().to_string();
        match write(path, trends) {
            Ok(()) => {
                *written = Some(changes);
                if log.changed_to(Ok(())) {
                    tracing::info!(path = shown, "history file written");
                }
            }
            Err(error) => {
                if log.changed_to(Err("write")) {
                    let error = error.to_string();
                    tracing::warn!(path = shown, error, "history file cannot be written");
                }
            }
        }
        true
    }
}

/// Returns a number that is another one after a trend has changed.
fn count_changes(trends: &Trends) -> u64 {
    let chains = trends.store.chains().iter();
    let changes = chains.map(|chain| trends.with(chain, |trend| trend.changes()));
    changes.fold(0, u64::wrapping_add)
}

/// Reads the file; `None`: there is none.
fn read(path: &Path) -> Result<Option<Content>, Unusable> {
    // Opening a pipe would wait for its writer.
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(metadata) if !metadata.is_file() => return Err(Unusable::NotAFile),
        Ok(_) | Err(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BYTES {
        return Err(Unusable::TooLarge);
    }
    let header: FileHeader = serde_json::from_slice(&bytes).map_err(|_| Unusable::Damaged)?;
    if header.format != FORMAT {
        return Err(Unusable::Foreign);
    }
    if header.version != VERSION {
        return Err(Unusable::Version(header.version));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|_| Unusable::Damaged)
}

/// Restores the trends of configured chains. Returns their number.
fn restore(content: &Content, trends: &Trends) -> Result<usize, Unusable> {
    let mut restored = Vec::new();
    for saved in &content.chains {
        let trend = FeeTrend::restore(&saved.trend, trends.days).ok_or(Unusable::Damaged)?;
        restored.extend(trends.store.chain(&saved.chain_id.to_string()).zip(Some(trend)));
    }
    let count = restored.len();
    for (chain, trend) in restored {
        trends.with(chain, |known| *known = trend);
    }
    Ok(count)
}

/// Renames an unusable file. Returns its new name.
fn set_aside(path: &Path, reason: &Unusable) -> io::Result<PathBuf> {
    if matches!(reason, Unusable::NotAFile) {
        return Err(io::Error::other("only files are renamed"));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let renamed = with_suffix(path, &format!(".damaged-{}", now.as_secs()));
    std::fs::rename(path, &renamed)?;
    Ok(renamed)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Replaces the file by one with the current trends. Fails without a change of the file.
fn write(path: &Path, trends: &Trends) -> io::Result<()> {
    let temporary = with_suffix(path, ".tmp");
    let written =
        write_temporary(&temporary, trends).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
        return written;
    }
    // The new name has to reach the disk too.
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_temporary(path: &Path, trends: &Trends) -> io::Result<()> {
    let mut out = Limited { out: BufWriter::new(File::create(path)?), left: MAX_BYTES };
    write!(out, "{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"chains\":[")?;
    for (index, chain) in trends.store.chains().iter().enumerate() {
        let separator = if index == 0 { "\n" } else { ",\n" };
        out.write_all(separator.as_bytes())?;
        let trend = trends.with(chain, |trend| trend.save());
        serde_json::to_writer(&mut out, &SavedChain { chain_id: chain.config().chain_id, trend })?;
    }
    out.write_all(b"]}\n")?;
    let file = out.out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()
}

/// A writer that takes a limited number of bytes.
struct Limited<W> {
    out: W,
    left: u64,
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        let left = self.left.checked_sub(u64::try_from(count).unwrap_or(u64::MAX));
        self.left = left.ok_or_else(|| io::Error::other("it would have too many bytes"))?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
