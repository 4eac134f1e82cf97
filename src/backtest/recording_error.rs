//! Why bytes are no recording.

use std::io;

/// Limit of a file and of its unpacked size. A day of 1 s blocks with 21 percentiles is smaller.
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
        /// Description of the error.
        problem: String,
    },
}

impl RecordingError {
    pub(super) fn invalid(location: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { location: location.into(), problem: problem.into() }
    }
}
