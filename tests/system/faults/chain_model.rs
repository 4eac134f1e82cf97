//! A deterministic model of a chain, and the expected suggestions, calculated independently of the service.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fixtures;

pub(super) const GWEI: u128 = 1_000_000_000;

/// Number of blocks in a window.
const WINDOW: u64 = 20;

/// A chain whose head is determined by the clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainModel {
    started: Instant,
    /// Time between two blocks; `None` if the head never changes.
    block: Option<Duration>,
}

impl ChainModel {
    const FIRST_HEAD: u64 = 10_000_000;

    pub(super) fn new(block: Option<Duration>) -> Self {
        Self { started: Instant::now(), block }
    }

    pub(super) fn head(&self) -> u64 {
        let blocks = self.block.map_or(0, |block| whole_blocks(self.started.elapsed(), block));
        Self::FIRST_HEAD + blocks
    }
}

/// Returns the number of whole block times in `time`.
pub(super) fn whole_blocks(time: Duration, block_time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / block_time.as_nanos()).unwrap()
}

/// Returns the base fee of a block in wei. Consecutive windows of 20 blocks have different averages.
fn base_fee(number: u64) -> u128 {
    u128::from(3 + number % 7) * GWEI + u128::from(number % 997)
}

/// Returns the reward of a block in wei, at the percentile of `column`.
fn tip(number: u64, column: u64) -> u128 {
    u128::from(30 + number % 11 + 50 * column) * GWEI + u128::from(number % 991)
}

pub(super) fn quantity(number: u128) -> Value {
    format!("{number:#x}").into()
}

/// Returns the result of `eth_feeHistory` for the window that ends with `newest`.
pub(super) fn history(newest: u64, columns: usize) -> Value {
    longer_history(newest, WINDOW, columns as u64)
}

/// Returns the result for any number of blocks and reward columns.
pub(super) fn longer_history(newest: u64, blocks: u64, columns: u64) -> Value {
    let tips = |number| (0..columns).map(|column| tip(number, column)).collect();
    fixtures::computed_history(newest + 1 - blocks..=newest, base_fee, tips)
}

/// Returns the newest block of a result with [`WINDOW`] blocks.
pub(super) fn newest_of(result: &Value) -> u64 {
    let oldest = result["oldestBlock"].as_str().unwrap().strip_prefix("0x").unwrap();
    u64::from_str_radix(oldest, 16).unwrap() + WINDOW - 1
}

/// The inputs of a suggestion.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub(super) base_fees: Vec<u128>,
    pub(super) tips: Vec<u128>,
    /// Tips at the second percentile; `None` without one, and `high` is then 1.2 × `medium`.
    pub(super) high_tips: Option<Vec<u128>>,
    pub(super) tip_floor: u128,
    pub(super) is_legacy: bool,
}

impl Window {
    pub(super) fn ending_with(newest: u64) -> Self {
        let blocks = || newest + 1 - WINDOW..=newest;
        Self {
            base_fees: blocks().map(base_fee).collect(),
            tips: blocks().map(|number| tip(number, 0)).collect(),
            high_tips: None,
            tip_floor: 20 * GWEI,
            is_legacy: false,
        }
    }

    /// Adds the tips of the second column.
    pub(super) fn with_two_percentiles(newest: u64) -> Self {
        let high_tips = (newest + 1 - WINDOW..=newest).map(|number| tip(number, 1)).collect();
        Self { high_tips: Some(high_tips), ..Self::ending_with(newest) }
    }

    /// Calculates the body of the suggestion.
    pub(super) fn body(&self, name: &str) -> String {
        let base = if self.is_legacy { 0 } else { 2 * average(&self.base_fees).max(GWEI) };
        let medium = average(&self.tips).max(self.tip_floor);
        let high = match &self.high_tips {
            Some(tips) => average(tips).max(medium),
            None => medium * 12 / 10,
        };
        let kind = if self.is_legacy { "legacy" } else { "eip-1559" };
        fixtures::suggestion(name, kind, base, [medium, high])
    }
}

/// Returns the average, or 0 for an empty list, which the floor then raises.
fn average(amounts: &[u128]) -> u128 {
    amounts.iter().sum::<u128>().checked_div(amounts.len() as u128).unwrap_or(0)
}
