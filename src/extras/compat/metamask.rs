//! MetaMask's and Infura's gas API.
//!
//! Its readers disagree: Blockbook needs integers for times and strings for fees, Komodo needs every member and no null,
//! MetaMask needs rising tips. The bodies satisfy all of them.

use serde::Serialize;
use utoipa::ToSchema;

use super::gwei::Gwei;
use super::quote::Quote;
use crate::fees::{Tier, Trend};

/// Suggested fees as MetaMask reads them.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MetamaskFees)]
pub(crate) struct SuggestedGasFees {
    low: Level,
    medium: Level,
    high: Level,
    /// Base fee of the next block.
    estimated_base_fee: Gwei,
    /// Share of the blocks in the fee history whose base fee is below that of the next one.
    #[schema(minimum = 0, maximum = 1)]
    network_congestion: f64,
    /// Lowest and highest reward of the newest blocks, at most 20; empty: no block had rewards.
    #[schema(max_items = 2)]
    latest_priority_fee_range: Vec<Gwei>,
    /// Lowest and highest reward of the blocks in the fee history; empty: no block had rewards.
    #[schema(max_items = 2)]
    historical_priority_fee_range: Vec<Gwei>,
    /// Lowest and highest base fee of the blocks in the fee history.
    historical_base_fee_range: [Gwei; 2],
    /// The newest five rewards compared with those of the newest blocks.
    priority_fee_trend: Direction,
    /// The next base fee compared with the window's average.
    base_fee_trend: Direction,
    /// Version of the format.
    version: &'static str,
}

/// One tier as MetaMask reads it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MetamaskLevel)]
struct Level {
    /// The tip.
    suggested_max_priority_fee_per_gas: Gwei,
    suggested_max_fee_per_gas: Gwei,
    /// One block time, in milliseconds.
    min_wait_time_estimate: u32,
    /// Block time after the longest run of the newest blocks that were not seen to accept the fees, in milliseconds.
    max_wait_time_estimate: u32,
}

/// Direction in which an amount moves: by more than 5 %, or not.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = MetamaskTrend)]
enum Direction {
    Up,
    Down,
    Level,
}

impl SuggestedGasFees {
    pub(crate) fn new(quote: &Quote) -> Self {
        let levels = quote.tiers().map(|tier| Level::new(quote, tier));
        let rewards = quote.rewards();
        let latest = rewards.iter().min().zip(rewards.iter().max());
        let latest = latest.map(|(lowest, highest)| [*lowest, *highest]);
        let range = |range: Option<[u128; 2]>| range.into_iter().flatten().map(Gwei).collect();
        Self {
            low: levels.low,
            medium: levels.medium,
            high: levels.high,
            estimated_base_fee: Gwei(quote.next_base_fee()),
            network_congestion: rounded(quote.ranges.cheaper_share),
            latest_priority_fee_range: range(latest),
            historical_priority_fee_range: range(quote.ranges.reward),
            historical_base_fee_range: quote.ranges.base_fee.map(Gwei),
            priority_fee_trend: reward_trend(&rewards).into(),
            base_fee_trend: quote.market.base_fee_trend.into(),
            version: "0.0.1",
        }
    }
}

/// Rounds to four places: more say nothing about a count of blocks.
fn rounded(share: f64) -> f64 {
    const STEPS: f64 = 1e4;
    (share * STEPS).round() / STEPS
}

impl Level {
    fn new(quote: &Quote, tier: Tier) -> Self {
        let waits = quote.wait_times(tier);
        let milliseconds = |wait: std::time::Duration| u32::try_from(wait.as_millis());
        Self {
            suggested_max_priority_fee_per_gas: Gwei(tier.max_priority_fee_per_gas),
            suggested_max_fee_per_gas: Gwei(tier.max_fee_per_gas),
            min_wait_time_estimate: milliseconds(waits.shortest).unwrap_or(u32::MAX),
            max_wait_time_estimate: milliseconds(waits.longest).unwrap_or(u32::MAX),
        }
    }
}

/// Returns the direction of rewards, oldest first: the average of the newest five compared with that of all.
fn reward_trend(rewards: &[u128]) -> Trend {
    const NEWEST: usize = 5;
    let newest = rewards.get(rewards.len().saturating_sub(NEWEST)..).unwrap_or_default();
    Trend::between(mean(rewards), mean(newest)).unwrap_or(Trend::Stable)
}

fn mean(amounts: &[u128]) -> u128 {
    let sum = amounts.iter().fold(0_u128, |sum, amount| sum.saturating_add(*amount));
    u128::try_from(amounts.len()).ok().and_then(|count| sum.checked_div(count)).unwrap_or_default()
}

impl From<Trend> for Direction {
    fn from(trend: Trend) -> Self {
        match trend {
            Trend::Rising => Self::Up,
            Trend::Falling => Self::Down,
            Trend::Stable => Self::Level,
        }
    }
}

/// Prices for transactions without a tip, as MetaMask reads them.
#[derive(Serialize, ToSchema)]
#[schema(as = MetamaskPrices)]
pub(crate) struct GasPrices {
    #[serde(rename = "SafeGasPrice")]
    safe: Gwei,
    #[serde(rename = "ProposeGasPrice")]
    propose: Gwei,
    #[serde(rename = "FastGasPrice")]
    fast: Gwei,
}

impl GasPrices {
    pub(crate) fn new(quote: &Quote) -> Self {
        let prices = quote.prices().map(Gwei);
        Self { safe: prices.low, propose: prices.medium, fast: prices.high }
    }
}
