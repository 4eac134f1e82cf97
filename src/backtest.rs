//! Recorded fee history replayed block by block: what this service and others would have quoted, and what became of it.
//!
//! Files and nodes give [`Recording`]s, [`Estimator`]s quote from them as they knew the chain at each block, and
//! [`Evaluator`] holds the quotes against the blocks that came after. The service's own quotes are those of
//! [`fees::price`](crate::fees::price). Nothing here is part of a running service.

mod chart;
mod csv;
mod estimators;
mod fee_history;
mod file;
mod json;
mod measures;
mod node;
mod notes;
mod progress;
mod recording;
mod recording_error;
mod table;

pub use estimators::{Estimator, Quote, all_estimators};
pub use file::read_recording;
pub use json::document;
pub use measures::{Evaluator, LANDING_PERCENTILE, RecordingTooShort, Score, Share};
pub use node::{FetchError, MAX_BLOCKS, fetch_recording};
pub use progress::Progress;
pub use recording::{HistoryAt, RecordedBlock, Recording};
pub use recording_error::RecordingError;

/// How all estimators did on one recording.
#[derive(Debug)]
pub struct Report<'a> {
    /// Replayed recording.
    pub recording: &'a Recording,
    /// At how many heads quotes were asked for.
    pub heads: usize,
    /// One for each estimator.
    pub scores: Vec<Score>,
    /// Notes for reading the scores.
    pub notes: Vec<String>,
}

impl<'a> Report<'a> {
    /// Replays the recording; `advance` is called as often as there are estimators.
    ///
    /// # Errors
    ///
    /// When the recording is too short.
    pub fn new(
        recording: &'a Recording,
        estimators: &[Estimator],
        landing_percentile: f64,
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
        let notes = notes::for_report(recording, estimators, landing_percentile, heads, &scores);
        Ok(Self { recording, heads, scores, notes })
    }

    /// As a table for people.
    #[must_use]
    pub fn table(&self) -> String {
        table::render(self)
    }

    /// As an SVG document.
    #[must_use]
    pub fn chart(&self) -> String {
        chart::render(self)
    }

    /// Which blocks these are.
    fn title(&self) -> String {
        let Recording { name, oldest_block, blocks, .. } = self.recording;
        let (newest, count) = (self.recording.newest_block(), blocks.len());
        let heads = self.heads;
        format!("{name}: blocks {oldest_block} to {newest} ({count}), {heads} quotes each")
    }
}
