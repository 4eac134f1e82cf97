//! Reads recordings from files: JSON or CSV, plain or gzipped, detected by content.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, ensure};
use flate2::read::MultiGzDecoder;

use crate::recording::Recording;
use crate::{block_table, fee_history};

/// Limit of a file and of its unpacked size. A day of 1 s blocks with 21 percentiles is smaller.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Reads the file at `path`. `percentiles` are those of the rewards, if the file does not state them.
///
/// # Errors
///
/// Returns why the file is not a recording, with the position.
pub fn read_recording(path: &Path, percentiles: Option<&[f64]>) -> anyhow::Result<Recording> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let file = File::open(path).context("cannot be read")?;
    let mut bytes = read_bounded(file, "cannot be read")?;
    if bytes.starts_with(&GZIP) {
        bytes = read_bounded(MultiGzDecoder::new(bytes.as_slice()), "broken gzip")?;
    }
    let text = str::from_utf8(&bytes).ok().context("not text")?;
    // Spreadsheets write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let recording = if text.trim_start().starts_with(['{', '[']) {
        fee_history::parse(text, percentiles)?
    } else {
        block_table::parse(text)?
    };
    // A terminal and a picture cannot show control characters.
    let is_shown =
        |character: char| !character.is_control() && !"\u{fffe}\u{ffff}".contains(character);
    let name = path.display().to_string();
    Ok(Recording { name: name.replace(|character| !is_shown(character), "?"), ..recording })
}

fn read_bounded(source: impl Read, problem: &'static str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_BYTES + 1).read_to_end(&mut bytes).context(problem)?;
    ensure!(bytes.len() as u64 <= MAX_BYTES, "larger than {} MiB", MAX_BYTES / 1024 / 1024);
    Ok(bytes)
}
