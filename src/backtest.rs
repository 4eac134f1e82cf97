//! Recorded fee history replayed block by block: what this service and others would have quoted, and what became of it.
//!
//! Files and nodes give [`Recording`]s, [`Estimator`]s quote from them as they knew the chain at each block, and
//! [`Judge`] holds the quotes against the blocks that came after. The service's own quotes are those of
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
mod table;
mod unusable;

pub use estimators::{Estimator, Quote, all};
pub use file::read;
pub use json::document;
pub use measures::{Judge, LANDING_PERCENTILE, Score, Share, TooShort};
pub use node::{MOST_BLOCKS, Unavailable, fetch};
pub use progress::Progress;
pub use recording::{Block, History, Recording};
pub use unusable::Unusable;

/// How all estimators did on one recording.
#[derive(Debug)]
pub struct Report<'a> {
    /// What was replayed.
    pub recording: &'a Recording,
    /// At how many heads quotes were asked for.
    pub heads: usize,
    /// One for each estimator.
    pub scores: Vec<Score>,
    /// What has to be known to read them.
    pub notes: Vec<String>,
}

impl<'a> Report<'a> {
    /// Replays the recording; `advance` is called as often as there are estimators.
    ///
    /// # Errors
    ///
    /// When the recording is too short.
    pub fn of(
        recording: &'a Recording,
        estimators: &[Estimator],
        landing_percentile: f64,
        mut advance: impl FnMut(),
    ) -> Result<Self, TooShort> {
        let judge = Judge::new(recording, estimators, landing_percentile)?;
        let score = |estimator: &Estimator| {
            let score = judge.score(estimator);
            advance();
            score
        };
        let scores: Vec<_> = estimators.iter().map(score).collect();
        let heads = judge.count_heads();
        let notes = notes::of(recording, estimators, landing_percentile, heads, &scores);
        Ok(Self { recording, heads, scores, notes })
    }

    /// As a table for people.
    #[must_use]
    pub fn table(&self) -> String {
        table::draw(self)
    }

    /// As an SVG document.
    #[must_use]
    pub fn chart(&self) -> String {
        chart::draw(self)
    }

    /// Which blocks these are.
    fn title(&self) -> String {
        let Recording { name, oldest_block, blocks, .. } = self.recording;
        let (newest, count) = (self.recording.newest_block(), blocks.len());
        let heads = self.heads;
        format!("{name}: blocks {oldest_block} to {newest} ({count}), {heads} quotes each")
    }
}
