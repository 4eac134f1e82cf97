//! Why bytes are no recording.

use std::io;

/// What is read of a file, and of what it unpacks to. A day of blocks every second with 21 percentiles takes less.
pub(super) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("cannot be read")]
    Read(#[source] io::Error),
    /// It is gzipped, and not to its end.
    #[error("broken gzip")]
    Gzip(#[source] io::Error),
    /// It has more bytes than are read, or unpacks to more.
    #[error("larger than {} MiB", MAX_BYTES / 1024 / 1024)]
    TooLarge,
    /// Neither JSON nor CSV.
    #[error("not text")]
    NotText,
    /// Not JSON, or not with these types.
    #[error("not a fee history")]
    Json(#[from] serde_json::Error),
    /// Something at one place of it cannot be.
    #[error("{location}{}{problem}", if location.is_empty() { "" } else { ": " })]
    Invalid {
        /// A member, an element, or a line.
        location: String,
        /// What is wrong there.
        problem: String,
    },
}

impl RecordingError {
    pub(super) fn invalid(location: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { location: location.into(), problem: problem.into() }
    }
}
