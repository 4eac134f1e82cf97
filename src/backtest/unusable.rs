//! Why bytes are no recording.

use std::io;

/// What is read of a file, and of what it unpacks to. A day of blocks every second with 21 percentiles takes less.
pub(super) const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The file cannot be read.
    #[error("cannot be read")]
    Read(#[source] io::Error),
    /// It is gzipped, and not to its end.
    #[error("broken gzip")]
    Gzip(#[source] io::Error),
    /// It has more bytes than are read, or unpacks to more.
    #[error("larger than {} MiB", MOST_BYTES / 1024 / 1024)]
    TooLarge,
    /// Neither JSON nor CSV.
    #[error("not text")]
    NotText,
    /// Not JSON, or not with these types.
    #[error("not a fee history")]
    Json(#[from] serde_json::Error),
    /// Something at one place of it cannot be.
    #[error("{place}{}{problem}", if place.is_empty() { "" } else { ": " })]
    At {
        /// A member, an element, or a line.
        place: String,
        /// What is wrong there.
        problem: String,
    },
}

impl Unusable {
    pub(super) fn at(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::At { place: place.into(), problem: problem.into() }
    }
}
