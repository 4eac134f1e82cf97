//! The `[history]` section.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::refill::MAX_CONCURRENT;
use super::{FeeTrend, MAX_DAYS, database};
use crate::config::mistakes::SectionMistakes;
use crate::config::section::{Needs, Section};
use crate::config::{Chain, SectionKind, TableKeys};

/// Memory of prices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct History {
    /// Days of hourly prices that are kept.
    pub(crate) days: u32,
    /// True if blocks from before the start are read from the nodes.
    pub(crate) refill: bool,
    /// Database file that keeps the prices over restarts; empty: none.
    pub(super) path: PathBuf,
}

impl Default for History {
    fn default() -> Self {
        Self { days: MAX_DAYS, refill: true, path: PathBuf::new() }
    }
}

impl History {
    pub(super) const SECTION: SectionKind = SectionKind::new::<Self>(TableKeys::table("history"));

    /// Returns the database file that keeps the prices over restarts, if one is configured.
    #[must_use]
    pub(crate) fn path(&self) -> Option<&Path> {
        Some(self.path.as_path()).filter(|path| !path.as_os_str().is_empty())
    }
}

impl Section for History {
    fn check(&self, mistakes: &mut SectionMistakes) {
        if !(1..=MAX_DAYS).contains(&self.days) {
            mistakes.reject("days", format!("must be from 1 to {MAX_DAYS}"));
        }
        if self.path().is_some_and(|path| path.file_name().is_none()) {
            mistakes.reject("path", "must be the path of a file");
        }
    }

    fn check_files(&self) -> Result<Option<String>, (&'static str, String)> {
        let Some(path) = self.path() else { return Ok(None) };
        let note = database::check_file(path).map_err(|reason| ("path", reason.to_string()))?;
        Ok(note.map(|note| format!("history.path: {note}")))
    }

    fn needs(&self, chains: &[Chain]) -> Needs {
        let trends = chains.iter().map(|chain| FeeTrend::max_bytes(chain.block_time));
        let refills = trends.clone().max().unwrap_or_default();
        let refills = refills.saturating_mul(chains.len().min(MAX_CONCURRENT));
        Needs { bytes: trends.fold(refills, usize::saturating_add), ..Needs::default() }
    }
}
