//! The `[history]` section.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::MAX_DAYS;
use crate::config::mistakes::SectionMistakes;

/// Memory of prices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct History {
    /// Days of hourly prices that are kept.
    pub days: u32,
    /// True if blocks from before the start are read from the nodes.
    pub refill: bool,
    /// File that keeps the prices over restarts; empty: none.
    path: PathBuf,
}

impl Default for History {
    fn default() -> Self {
        Self { days: MAX_DAYS, refill: true, path: PathBuf::new() }
    }
}

impl History {
    /// Returns the file that keeps the prices over restarts, if one is configured.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        Some(self.path.as_path()).filter(|path| !path.as_os_str().is_empty())
    }

    /// Configures no file.
    pub(crate) fn remove_path(&mut self) {
        self.path = PathBuf::new();
    }

    /// Reports all values that are not allowed.
    pub(crate) fn check(&self, mistakes: &mut SectionMistakes) {
        if !(1..=MAX_DAYS).contains(&self.days) {
            mistakes.reject("days", format!("must be from 1 to {MAX_DAYS}"));
        }
        if self.path().is_some_and(|path| path.file_name().is_none()) {
            mistakes.reject("path", "must be the path of a file");
        }
    }
}
