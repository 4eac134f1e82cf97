//! A deterministic model of a chain, and the expected suggestions, calculated independently of the service.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fixtures;

pub(crate) const GWEI: u128 = 1_000_000_000;

/// Number of blocks in the window of most tests.
const WINDOW: u64 = 20;

/// Percentile of the rewards in most tests.
const PERCENTILE: u64 = 60;

/// A chain whose head is determined by the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainModel {
    /// A block, and the time at which it was the head.
    started_at: (u64, Instant),
    /// Time between two blocks; `None` if the head never changes.
    block: Option<Duration>,
}

impl ChainModel {
    /// The head at the start, larger than any window.
    pub(crate) const FIRST_HEAD: u64 = 10_000_000;

    pub(crate) fn new(block: Option<Duration>) -> Self {
        Self { started_at: (Self::FIRST_HEAD, Instant::now()), block }
    }

    pub(crate) fn head(&self) -> u64 {
        let (head, at) = self.started_at;
        head + self.block.map_or(0, |block| whole_blocks(at.elapsed(), block))
    }
}

/// Returns the number of whole block times in `time`.
pub(crate) fn whole_blocks(time: Duration, block_time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / block_time.as_nanos()).unwrap()
}

/// Returns the base fee of a block in wei, above any floor.
fn base_fee(number: u64) -> u128 {
    10 * GWEI + 1000 * u128::from(number)
}

/// Returns the reward of a block at `percentile` in wei.
fn tip(number: u64, percentile: u64) -> u128 {
    u128::from(100 + percentile) * GWEI + 1000 * u128::from(number)
}

/// Returns the result of `eth_feeHistory` for so many blocks that end with `newest`, at these percentiles.
pub(crate) fn history_at(newest: u64, blocks: u64, percentiles: &[u64]) -> Value {
    let tips = |number| percentiles.iter().map(|percentile| tip(number, *percentile)).collect();
    fixtures::computed_history(newest + 1 - blocks..=newest, base_fee, tips)
}

/// The inputs of a suggestion. Any two windows give different suggestions.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    base_fees: Vec<u128>,
    tips: Vec<u128>,
    /// Tips at the second percentile; `None` without one, and `high` is then 1.2 × `medium`.
    high_tips: Option<Vec<u128>>,
}

impl Window {
    /// Returns the window of this many blocks with the tips at these percentiles.
    pub(crate) fn new(newest: u64, count: u64, percentiles: &[u64]) -> Self {
        let blocks = || newest + 1 - count..=newest;
        let tips = |percentile: &u64| blocks().map(|number| tip(number, *percentile)).collect();
        Self {
            base_fees: blocks().map(base_fee).collect(),
            tips: tips(&percentiles[0]),
            high_tips: percentiles.get(1).map(tips),
        }
    }

    pub(crate) fn ending_with(newest: u64) -> Self {
        Self::new(newest, WINDOW, &[PERCENTILE])
    }

    /// Calculates the body of the suggestion.
    pub(crate) fn body(&self, name: &str) -> String {
        let base = 2 * average(&self.base_fees).max(GWEI);
        let medium = average(&self.tips).max(20 * GWEI);
        let high = match &self.high_tips {
            Some(tips) => average(tips).max(medium),
            None => medium * 12 / 10,
        };
        fixtures::suggestion(name, "eip-1559", base, [medium, high])
    }
}

/// Returns the average, or 0 for an empty list, which the floor then raises.
fn average(amounts: &[u128]) -> u128 {
    amounts.iter().sum::<u128>().checked_div(amounts.len() as u128).unwrap_or(0)
}
