//! What really happened on a chain, and what the fee rules make of it, worked out apart from the
//! service.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(super) const GWEI: u128 = 1_000_000_000;

/// How many blocks are asked for.
const WINDOW: u64 = 20;

/// A chain whose newest block follows from the clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth {
    started: Instant,
    /// The real time between two blocks; `None`: there is no further block.
    block: Option<Duration>,
}

impl Truth {
    const FIRST_HEAD: u64 = 10_000_000;

    pub(super) fn new(block: Option<Duration>) -> Self {
        Self { started: Instant::now(), block }
    }

    pub(super) fn head(&self) -> u64 {
        let blocks = self.block.map_or(0, |block| whole(self.started.elapsed(), block));
        Self::FIRST_HEAD + blocks
    }
}

/// How often `part` fits into `time`.
pub(super) fn whole(time: Duration, part: Duration) -> u64 {
    u64::try_from(time.as_nanos() / part.as_nanos()).unwrap()
}

/// A block's base fee in wei. No two windows of 20 blocks that follow each other have one average.
fn base_fee(number: u64) -> u128 {
    u128::from(3 + number % 7) * GWEI + u128::from(number % 997)
}

/// What a block's transactions paid at the percentile of a column.
fn tip(number: u64, column: u64) -> u128 {
    u128::from(30 + number % 11 + 50 * column) * GWEI + u128::from(number % 991)
}

pub(super) fn quantity(number: u128) -> Value {
    format!("{number:#x}").into()
}

/// What a node says of the window that ends with `newest`.
pub(super) fn history(newest: u64, columns: usize) -> Value {
    longer_history(newest, WINDOW, columns as u64)
}

/// The same of any number of blocks.
pub(super) fn longer_history(newest: u64, blocks: u64, columns: u64) -> Value {
    let oldest = newest + 1 - blocks;
    let row = |number| (0..columns).map(|column| quantity(tip(number, column))).collect();
    json!({
        "oldestBlock": quantity(oldest.into()),
        "baseFeePerGas": (oldest..=newest + 1).map(|n| quantity(base_fee(n))).collect::<Value>(),
        "gasUsedRatio": (0..blocks).map(|_| 0.5).collect::<Vec<_>>(),
        "reward": (oldest..=newest).map(row).collect::<Vec<Value>>(),
    })
}

/// The newest block of a result that says the truth.
pub(super) fn newest_of(result: &Value) -> u64 {
    let oldest = result["oldestBlock"].as_str().unwrap().strip_prefix("0x").unwrap();
    u64::from_str_radix(oldest, 16).unwrap() + WINDOW - 1
}

/// What a suggestion is made from.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub(super) base_fees: Vec<u128>,
    pub(super) tips: Vec<u128>,
    /// The second percentile's; `None`: there is none, and high is a fifth more than medium.
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

    /// With the second column's tips.
    pub(super) fn of_two(newest: u64) -> Self {
        let high_tips = (newest + 1 - WINDOW..=newest).map(|number| tip(number, 1)).collect();
        Self { high_tips: Some(high_tips), ..Self::ending_with(newest) }
    }

    /// The suggestion by the letter of the rules.
    pub(super) fn body(&self, name: &str) -> String {
        let base = if self.is_legacy { 0 } else { 2 * average(&self.base_fees).max(GWEI) };
        let medium = average(&self.tips).max(self.tip_floor);
        let high = match &self.high_tips {
            Some(tips) => average(tips).max(medium),
            None => medium * 12 / 10,
        };
        let kind = if self.is_legacy { "legacy" } else { "eip-1559" };
        format!(
            "{{\"chain_name\":\"{name}\",\"type\":\"{kind}\",\"base_fee_per_gas\":\"{base}\",\
             \"medium\":{{\"max_priority_fee_per_gas\":\"{medium}\",\"max_fee_per_gas\":\"{}\"}},\
             \"high\":{{\"max_priority_fee_per_gas\":\"{high}\",\"max_fee_per_gas\":\"{}\"}}}}",
            base + medium,
            base + high,
        )
    }
}

/// 0 of nothing, which the floor lifts.
fn average(amounts: &[u128]) -> u128 {
    amounts.iter().sum::<u128>().checked_div(amounts.len() as u128).unwrap_or(0)
}
