//! Errors of reading a recording.

use std::io;

/// Limit of a file and of its unpacked size. A day of 1 s blocks with 21 percentiles is smaller.
pub(crate) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Reason why a file is not a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("cannot be read")]
    Read(#[source] io::Error),
    /// The gzip data is invalid or truncated.
    #[error("broken gzip")]
    Gzip(#[source] io::Error),
    /// The file, or its unpacked content, exceeds the limit.
    #[error("larger than {} MiB", MAX_BYTES / 1024 / 1024)]
    TooLarge,
    /// Neither JSON nor CSV.
    #[error("not text")]
    NotText,
    /// Not JSON, or JSON of another type.
    #[error("not a fee history")]
    Json(#[from] serde_json::Error),
    /// A part of the content is invalid.
    #[error("{location}{}{problem}", if location.is_empty() { "" } else { ": " })]
    Invalid {
        /// Path of a member or an element, or number of a line.
        location: String,
        /// Description of the error.
        problem: String,
    },
}

impl RecordingError {
    pub(crate) fn invalid(location: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { location: location.into(), problem: problem.into() }
    }
}
