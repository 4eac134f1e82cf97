//! Replays recorded fee history block by block: what this service and other estimators would have quoted, and how the
//! quotes did.
//!
//! Files and nodes provide [`Recording`]s, [`Estimator`]s quote from the blocks known at each head, and [`Evaluator`]
//! compares the quotes with the blocks that followed. The service's own quotes come from
//! [`fees::price`](crate::fees::price). Nothing here is part of the running service.
//!
//! An estimator sees only a [`HistoryAt`], the blocks up to one head, so it cannot look ahead. It also sees the next base
//! fee if base fees follow from the blocks before them. A rule of another system has separate functions for the tip and
//! the base fee, so that recordings without tips can be replayed too. To score another pricing, add it to
//! [`all_estimators`].

mod base_fees;
mod command;
mod csv;
mod estimators;
mod fee_history;
mod file;
mod horizon;
mod json;
mod measures;
mod node;
mod notes;
mod page;
mod progress;
mod recording;
mod recording_error;
mod table;
mod verdict;

pub use estimators::{Estimator, EstimatorQuote, all_estimators};
pub use file::read_recording;
pub use horizon::{HorizonReport, HorizonScore};
pub use json::document;
pub use measures::{Evaluator, LANDING_PERCENTILE, RecordingTooShort, Score, Share};
pub use node::{FetchError, MAX_BLOCKS, fetch_recording};
pub use progress::Progress;
pub use recording::{HistoryAt, RecordedBlock, Recording};
pub use recording_error::RecordingError;

use std::time::Duration;

use crate::assembly::{Extra, Join};

pub(crate) const EXTRA: Extra =
    Extra { command: Some(command::COMMAND), ..Extra::new("backtest", Join::Always(|_| {})) };

/// Scores of all estimators on one recording.
#[derive(Debug)]
pub struct Report<'a> {
    /// Replayed recording.
    pub recording: &'a Recording,
    /// Number of heads at which estimators quoted.
    pub heads: usize,
    /// One score per estimator.
    pub scores: Vec<Score>,
    /// Grades of the fees for horizons and probabilities; `None`: they were not asked for.
    pub horizon: Option<HorizonReport>,
    /// Notes for reading the scores.
    pub notes: Vec<String>,
    /// Time between two blocks, if known.
    pub block_time: Option<Duration>,
}

impl<'a> Report<'a> {
    /// Replays the recording. Calls `advance` once per estimator.
    ///
    /// # Errors
    ///
    /// Fails if the recording is too short.
    pub fn new(
        recording: &'a Recording,
        estimators: &[Estimator],
        landing_percentile: f64,
        block_time: Option<Duration>,
        mut advance: impl FnMut(),
    ) -> Result<Self, RecordingTooShort> {
        let evaluator = Evaluator::new(recording, estimators, landing_percentile)?;
        let score = |estimator: &Estimator| {
            let score = evaluator.score(estimator);
            advance();
            score
        };
        let scores: Vec<_> = estimators.iter().map(score).collect();
        let heads = evaluator.count_heads();
        let notes = notes::for_report(&evaluator, estimators, landing_percentile, &scores);
        Ok(Self { recording, heads, scores, horizon: None, notes, block_time })
    }

    /// Grades the fees for horizons and probabilities at the same heads.
    ///
    /// # Errors
    ///
    /// Fails if the recording is too short.
    pub fn add_horizon(
        &mut self,
        estimators: &[Estimator],
        landing_percentile: f64,
    ) -> Result<(), RecordingTooShort> {
        let evaluator = Evaluator::new(self.recording, estimators, landing_percentile)?;
        self.horizon = Some(HorizonReport::new(&evaluator));
        Ok(())
    }

    /// Formats the report as a table.
    #[must_use]
    pub fn table(&self) -> String {
        table::render(self)
    }

    /// Renders the report as an HTML page with a chart, which needs no other file and no network.
    ///
    /// # Errors
    ///
    /// Fails only if JSON serialisation fails.
    pub fn page(&self, landing_percentile: f64) -> serde_json::Result<String> {
        page::render(self, landing_percentile)
    }

    /// Returns the time that this many blocks take, such as `60s`; `None` if the block time is unknown.
    fn time_of_blocks(&self, blocks: usize) -> Option<Duration> {
        self.block_time?.checked_mul(u32::try_from(blocks).ok()?)
    }

    /// Describes the replayed blocks.
    fn title(&self) -> String {
        let Recording { name, oldest_block, blocks, .. } = self.recording;
        let (newest, count) = (self.recording.newest_block(), blocks.len());
        let heads = self.heads;
        format!("{name}: blocks {oldest_block} to {newest} ({count}), {heads} quotes each")
    }
}
