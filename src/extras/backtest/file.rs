//! Reads recordings from files: JSON or CSV, plain or gzipped, detected by content.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::recording::Recording;
use super::recording_error::{MAX_BYTES, RecordingError};
use super::{csv, fee_history};

/// Reads the file at `path`. `percentiles` are those of the rewards, if the file does not state them.
///
/// # Errors
///
/// Returns why the file is not a recording, with the position.
pub fn read_recording(
    path: &Path,
    percentiles: Option<&[f64]>,
) -> Result<Recording, RecordingError> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let file = File::open(path).map_err(RecordingError::Read)?;
    let mut bytes = read_bounded(file, RecordingError::Read)?;
    if bytes.starts_with(&GZIP) {
        bytes = read_bounded(MultiGzDecoder::new(bytes.as_slice()), RecordingError::Gzip)?;
    }
    let text = String::from_utf8(bytes).map_err(|_| RecordingError::NotText)?;
    // Spreadsheets write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let display_name = printable_name(path);
    if !text.trim_start().starts_with(['{', '[']) {
        return csv::parse(text, display_name);
    }
    let part = fee_history::parse(text, percentiles)?;
    let (oldest_block, percentiles) = (part.oldest_block, part.percentiles);
    Ok(Recording { name: display_name, oldest_block, percentiles, blocks: part.blocks })
}

/// Returns the file name without characters that a terminal or a web page cannot show.
fn printable_name(path: &Path) -> String {
    let is_text =
        |character: char| !character.is_control() && !matches!(character, '\u{fffe}' | '\u{ffff}');
    let name = path.display().to_string();
    name.chars().map(|character| if is_text(character) { character } else { '?' }).collect()
}

fn read_bounded(
    source: impl Read,
    into_error: fn(io::Error) -> RecordingError,
) -> Result<Vec<u8>, RecordingError> {
    let mut bytes = Vec::new();
    let read = source.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(into_error)?;
    let is_too_large = u64::try_from(read).is_ok_and(|read| read > MAX_BYTES);
    if is_too_large { Err(RecordingError::TooLarge) } else { Ok(bytes) }
}
