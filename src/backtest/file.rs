//! Recordings in files: JSON or CSV, plain or gzipped, told apart by what is in them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::recording::Recording;
use super::unusable::{MOST_BYTES, Unusable};
use super::{csv, fee_history};

/// Reads the file at `path`. Where it has rewards but does not say of which percentiles, they are of `percentiles`.
///
/// # Errors
///
/// Why it is no recording, with the place in it.
pub fn read(path: &Path, percentiles: Option<&[f64]>) -> Result<Recording, Unusable> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let file = File::open(path).map_err(Unusable::Read)?;
    let mut bytes = bounded(file, Unusable::Read)?;
    if bytes.starts_with(&GZIP) {
        bytes = bounded(MultiGzDecoder::new(bytes.as_slice()), Unusable::Gzip)?;
    }
    let text = String::from_utf8(bytes).map_err(|_| Unusable::NotText)?;
    // What spreadsheets begin a text with.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let name = shown(path);
    if !text.trim_start().starts_with(['{', '[']) {
        return csv::read(text, name);
    }
    let part = fee_history::read(text, percentiles)?;
    let (oldest_block, percentiles) = (part.oldest_block, part.percentiles);
    Ok(Recording { name, oldest_block, percentiles, blocks: part.blocks })
}

/// Its name without what is no text on a terminal or in an image.
fn shown(path: &Path) -> String {
    let is_text =
        |character: char| !character.is_control() && !matches!(character, '\u{fffe}' | '\u{ffff}');
    let name = path.display().to_string();
    name.chars().map(|character| if is_text(character) { character } else { '?' }).collect()
}

fn bounded(from: impl Read, failed: fn(io::Error) -> Unusable) -> Result<Vec<u8>, Unusable> {
    let mut bytes = Vec::new();
    let read = from.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    let is_too_large = u64::try_from(read).is_ok_and(|read| read > MOST_BYTES);
    if is_too_large { Err(Unusable::TooLarge) } else { Ok(bytes) }
}
