//! MetaMask's and Infura's gas API.
//!
//! Its readers disagree: Blockbook needs integers for times and strings for fees, Komodo needs every member and no null,
//! MetaMask needs rising tips. The bodies satisfy all of them.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use super::Format;
use super::chain_route::{ChainRoute, schema_of};
use super::content::DocumentContent;
use super::documents::{Document, json};
use super::gwei::Gwei;
use crate::fees::statistics::mean;
use crate::fees::{Block, Tier, Trend, paid_rewards};
use crate::store::COMPARED_BLOCKS;

/// MetaMask's and Infura's gas API. Its routes also exist at the root if a base path is configured: one of its readers,
/// Komodo, replaces the whole path of its URL.
pub(crate) const FORMAT: Format = Format {
    chain_routes: &[
        ChainRoute {
            path: "/networks/{chain_id}/suggestedGasFees",
            operation_id: "getMetamaskFees",
            summary: "Suggested fees in MetaMask's format",
            description: Some("Also at the root if a base path is configured."),
            response: "The fees.",
            document: &FEES,
            schema: schema_of::<SuggestedGasFees>,
        },
        ChainRoute {
            path: "/v3/{key}/networks/{chain_id}/suggestedGasFees",
            operation_id: "getMetamaskFeesWithKey",
            summary: "Suggested fees in MetaMask's format, with an API key in the path",
            description: Some("The key is ignored. Also at the root if a base path is configured."),
            response: "The fees.",
            document: &FEES,
            schema: schema_of::<SuggestedGasFees>,
        },
        ChainRoute {
            path: "/networks/{chain_id}/gasPrices",
            operation_id: "getMetamaskPrices",
            summary: "Gas prices in MetaMask's format, for networks without EIP-1559",
            description: Some("Also at the root if a base path is configured."),
            response: "The prices.",
            document: &PRICES,
            schema: schema_of::<GasPrices>,
        },
    ],
    at_root: true,
    ..Format::new("metamask")
};

pub(super) static FEES: Document = Document {
    name: "metamask_fees",
    render: |content| Some(json(&SuggestedGasFees::new(content))),
};
pub(super) static PRICES: Document =
    Document { name: "metamask_prices", render: |content| Some(json(&GasPrices::new(content))) };

/// Suggested fees as MetaMask reads them.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MetamaskFees)]
pub(crate) struct SuggestedGasFees {
    low: SuggestedTier,
    medium: SuggestedTier,
    high: SuggestedTier,
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
struct SuggestedTier {
    /// The tip.
    suggested_max_priority_fee_per_gas: Gwei,
    suggested_max_fee_per_gas: Gwei,
    /// One block time, in milliseconds.
    min_wait_time_estimate: u32,
    /// Time of the fewest blocks (1, 2, 3, 5, 10 or 25) of which one would have included the tier's fees at 90 % of the last
    /// hour's heads; 25 if none is enough. In milliseconds. Until that is known, one block more than the longest run of the
    /// newest blocks that were not seen to accept the fees.
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
    pub(crate) fn new(content: &DocumentContent) -> Self {
        let tiers = content.tiers();
        let levels = tiers.zip(content.longest_waits(tiers));
        let levels = levels.map(|(tier, wait)| SuggestedTier::new(content, tier, wait));
        let blocks = &content.blocks;
        let next_base_fee = content.next_base_fee();
        let cheaper = blocks.iter().filter(|block| block.base_fee < next_base_fee).count();
        let base_fees = blocks.iter().map(|block| block.base_fee);
        let [lowest, highest] = [base_fees.clone().min(), base_fees.max()]
            .map(|base_fee| Gwei(base_fee.unwrap_or(next_base_fee)));
        // The column of the medium tip.
        let rewards = |blocks: &[Block]| paid_rewards(blocks, 0).collect::<Vec<_>>();
        let latest_rewards = rewards(newest(blocks, COMPARED_BLOCKS));
        Self {
            low: levels.low,
            medium: levels.medium,
            high: levels.high,
            estimated_base_fee: Gwei(next_base_fee),
            network_congestion: share(cheaper, blocks.len()),
            latest_priority_fee_range: range(&latest_rewards),
            historical_priority_fee_range: range(&rewards(blocks)),
            historical_base_fee_range: [lowest, highest],
            priority_fee_trend: reward_trend(&latest_rewards).into(),
            base_fee_trend: content.market.base_fee_trend.into(),
            version: "0.0.1",
        }
    }
}

/// Returns a share from 0 to 1, rounded to four places: more say nothing about a count of blocks.
fn share(part: usize, all: usize) -> f64 {
    const STEPS: f64 = 1e4;
    let [part, all] = [part, all.max(1)].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    (f64::from(part) / f64::from(all) * STEPS).round() / STEPS
}

/// Returns the lowest and the highest amount, if there are any.
fn range(amounts: &[u128]) -> Vec<Gwei> {
    let ends = [amounts.iter().min(), amounts.iter().max()];
    ends.into_iter().flatten().copied().map(Gwei).collect()
}

/// Returns the last `count` values, or all if there are fewer.
fn newest<T>(values: &[T], count: usize) -> &[T] {
    values.get(values.len().saturating_sub(count)..).unwrap_or_default()
}

impl SuggestedTier {
    fn new(content: &DocumentContent, tier: Tier, longest_wait: Duration) -> Self {
        let milliseconds = |wait: Duration| u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        Self {
            suggested_max_priority_fee_per_gas: Gwei(tier.max_priority_fee_per_gas),
            suggested_max_fee_per_gas: Gwei(tier.max_fee_per_gas),
            min_wait_time_estimate: milliseconds(content.block_time),
            max_wait_time_estimate: milliseconds(longest_wait),
        }
    }
}

/// Returns the direction of rewards, oldest first: the average of the newest five compared with that of all.
fn reward_trend(rewards: &[u128]) -> Trend {
    const NEWEST: usize = 5;
    let means = mean(rewards).zip(mean(newest(rewards, NEWEST)));
    means.and_then(|(all, newest)| Trend::between(all, newest)).unwrap_or(Trend::Stable)
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
    pub(crate) fn new(content: &DocumentContent) -> Self {
        let prices = content.prices.tiers.map(Gwei);
        Self { safe: prices.low, propose: prices.medium, fast: prices.high }
    }
}
