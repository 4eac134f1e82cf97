//! Rules of other systems. docs/pricing-tables.md names their versions, and what the tests compare them with.

use super::stats::{
    lower_median, mean, mean_rounded_to_even, median, nonzero, sorted, upper_median,
};
use super::{ExternalRule, scaled};
use crate::extras::backtest::recording::HistoryAt;

const GWEI: u128 = 1_000_000_000;

type QuoteFn = fn(HistoryAt<'_>) -> Option<u128>;

/// All rules: percentiles, window, tip and base fee of each.
pub(crate) const EXTERNAL_RULES: [ExternalRule; 23] = [
    rule(
        "alloy",
        &[20.0],
        10,
        |now| now.rewards(20.0, 10).map(alloy_tip),
        Some(twice_newest_base_fee),
    ),
    rule(
        "foundry, low",
        &[10.0],
        10,
        |now| foundry_tip(now, 10.0),
        Some(|now| scaled_newest_base_fee(now, 3, 2)),
    ),
    rule("foundry, market", &[20.0], 10, |now| foundry_tip(now, 20.0), Some(twice_newest_base_fee)),
    rule(
        "foundry, aggressive",
        &[50.0],
        10,
        |now| foundry_tip(now, 50.0),
        Some(twice_newest_base_fee),
    ),
    rule(
        "viem on geth",
        GETH_PERCENTILES,
        GETH_BLOCKS,
        geth_tip,
        Some(|now| scaled_newest_base_fee(now, 12, 10)),
    ),
    rule("ethers on geth", GETH_PERCENTILES, GETH_BLOCKS, geth_tip, Some(twice_newest_base_fee)),
    rule("web3.py fallback", &[5.0], 10, web3_tip, Some(twice_newest_base_fee)),
    rule(
        "MetaMask fallback, low",
        &[10.0],
        5,
        |now| metamask_tip(now, 10.0, 94, GWEI),
        Some(|now| scaled_newest_base_fee(now, 110, 100)),
    ),
    rule(
        "MetaMask fallback, medium",
        &[20.0],
        5,
        |now| metamask_tip(now, 20.0, 97, GWEI / 2 * 3),
        Some(|now| scaled_newest_base_fee(now, 120, 100)),
    ),
    rule(
        "MetaMask fallback, high",
        &[30.0],
        5,
        |now| metamask_tip(now, 30.0, 98, 2 * GWEI),
        Some(|now| scaled_newest_base_fee(now, 125, 100)),
    ),
    rule(
        "Polygon station, safeLow",
        &[5.0],
        15,
        |now| station_tip(now, 5.0),
        Some(station_base_fee),
    ),
    rule(
        "Polygon station, standard",
        &[15.0],
        15,
        |now| station_tip(now, 15.0),
        Some(station_base_fee),
    ),
    rule(
        "Polygon station, fast",
        &[30.0],
        15,
        |now| station_tip(now, 30.0),
        Some(station_base_fee),
    ),
    rule(
        "Chainlink FeeHistory p60",
        &[60.0],
        CHAINLINK_BLOCKS,
        |now| mean(&nonzero(chainlink_history(now)?.rewards(60.0, CHAINLINK_BLOCKS)?)),
        Some(|now| scaled_next_base_fee(chainlink_history(now).unwrap_or(now), 140, 100)),
    ),
    rule(
        "Alto",
        &[40.0, 50.0, 60.0, 70.0],
        10,
        alto_tip,
        Some(|now| scaled_next_base_fee(now, 120, 100)),
    ),
    rule("Rundler", &[33.0], 5, rundler_tip, Some(|now| scaled_next_base_fee(now, 127, 100))),
    rule(
        "Status on L1, low",
        &[10.0],
        10,
        |now| status_tip(now, 10.0, 10),
        Some(|now| scaled_next_base_fee(now, 1025, 1000)),
    ),
    rule(
        "Status on L1, medium",
        &[45.0],
        10,
        |now| status_tip(now, 45.0, 10),
        Some(status_base_fee),
    ),
    rule("Status on L1, high", &[90.0], 10, |now| status_tip(now, 90.0, 10), Some(status_base_fee)),
    rule(
        "Status on L2, low",
        &[10.0],
        50,
        |now| status_tip(now, 10.0, 50),
        Some(|now| scaled_next_base_fee(now, 1025, 1000)),
    ),
    rule(
        "Status on L2, medium",
        &[45.0],
        50,
        |now| status_tip(now, 45.0, 50),
        Some(|now| scaled_next_base_fee(now, 4100, 1000)),
    ),
    rule(
        "Status on L2, high",
        &[90.0],
        50,
        |now| status_tip(now, 90.0, 50),
        Some(|now| scaled_next_base_fee(now, 10_250, 1000)),
    ),
    rule("geth tip oracle", GETH_PERCENTILES, GETH_BLOCKS, geth_tip, None),
];

const fn rule(
    name: &'static str,
    percentiles: &'static [f64],
    window: usize,
    tip: QuoteFn,
    base_fee: Option<QuoteFn>,
) -> ExternalRule {
    ExternalRule { name, percentiles, window, tip, base_fee }
}

/// Returns a multiple of the newest block's base fee.
fn scaled_newest_base_fee(now: HistoryAt<'_>, numerator: u128, denominator: u128) -> Option<u128> {
    scaled(now.base_fee(), numerator, denominator)
}

fn twice_newest_base_fee(now: HistoryAt<'_>) -> Option<u128> {
    scaled_newest_base_fee(now, 2, 1)
}

/// Returns a multiple of the next base fee.
fn scaled_next_base_fee(now: HistoryAt<'_>, numerator: u128, denominator: u128) -> Option<u128> {
    scaled(now.next_base_fee()?, numerator, denominator)
}

fn alloy_tip(rewards: Vec<u128>) -> u128 {
    median(&nonzero(rewards)).unwrap_or(1)
}

/// Like alloy, but ignores blocks below 10 % full. If none of the rest has a tip, uses all blocks, provided at least
/// half of them have one.
fn foundry_tip(now: HistoryAt<'_>, percentile: f64) -> Option<u128> {
    const BLOCKS: usize = 10;
    const MIN_GAS_USED_RATIO: f64 = 0.1;
    let all = now.rewards_with_ratios(percentile, BLOCKS)?;
    let is_busy = |ratio: Option<f64>| ratio.is_none_or(|ratio| ratio >= MIN_GAS_USED_RATIO);
    let busy = all.iter().filter(|(ratio, _)| is_busy(*ratio)).map(|(_, reward)| *reward);
    let mut rewards = nonzero(busy.collect());
    if rewards.is_empty() {
        let unfiltered = nonzero(all.iter().map(|(_, reward)| *reward).collect());
        if unfiltered.len().saturating_mul(2) >= BLOCKS {
            rewards = unfiltered;
        }
    }
    Some(alloy_tip(rewards))
}

/// Always from 1 to 1.5 gwei.
fn web3_tip(now: HistoryAt<'_>) -> Option<u128> {
    let average = mean_rounded_to_even(&nonzero(now.rewards(5.0, 10)?)).unwrap_or_default();
    Some(average.clamp(GWEI, GWEI / 2 * 3))
}

fn metamask_tip(now: HistoryAt<'_>, percentile: f64, percent: u128, floor: u128) -> Option<u128> {
    let median = lower_median(&now.rewards(percentile, 5)?)?;
    Some(scaled(median, percent, 100)?.max(floor))
}

const STATION_BLOCKS: usize = 15;

fn station_tip(now: HistoryAt<'_>, percentile: f64) -> Option<u128> {
    let average = mean(&nonzero(now.rewards(percentile, STATION_BLOCKS)?));
    Some(average.unwrap_or_default().max(30 * GWEI))
}

/// The newest base fee, plus two thirds of its rise in the first third of the window, rounded to the nearest.
fn station_base_fee(now: HistoryAt<'_>) -> Option<u128> {
    let window = now.window(STATION_BLOCKS)?;
    let base_fee = |index: usize| i128::try_from(window.get(index)?.base_fee).ok();
    let blocks = i128::try_from(STATION_BLOCKS).ok()?;
    let rise = base_fee(5)?.checked_sub(base_fee(0)?)?.checked_mul(10)?;
    let scaled = base_fee(STATION_BLOCKS - 1)?.checked_mul(blocks)?.checked_add(rise)?;
    let doubled = scaled.checked_mul(2)?.checked_add(blocks)?;
    u128::try_from(doubled.div_euclid(2 * blocks)).ok()
}

/// Default of `BlockHistorySize`.
const CHAINLINK_BLOCKS: usize = 8;

/// Returns the newest history in which a block paid a tip, because without one Chainlink keeps its previous estimate.
/// Without recorded tips, returns `now`.
fn chainlink_history(now: HistoryAt<'_>) -> Option<HistoryAt<'_>> {
    let has_tip = |history: &HistoryAt<'_>| {
        let rewards = history.rewards(60.0, CHAINLINK_BLOCKS);
        rewards.is_some_and(|rewards| rewards.iter().any(|reward| *reward > 0))
    };
    if !now.recording().has_tips() {
        return Some(now);
    }
    std::iter::successors(Some(now), HistoryAt::previous).find(has_tip)
}

/// Median at a percentile that grows with the fullness of the blocks.
fn alto_tip(now: HistoryAt<'_>) -> Option<u128> {
    let ratios: Vec<f64> = now.ratios(10)?.into_iter().flatten().collect();
    let fullness = ratios.iter().sum::<f64>() / f64::from(u32::try_from(ratios.len()).ok()?);
    let percentile = match fullness {
        fullness if fullness > 0.9 => 70.0,
        fullness if fullness > 0.7 => 60.0,
        fullness if fullness > 0.5 => 50.0,
        _ => 40.0,
    };
    median(&now.rewards(percentile, 10)?)
}

/// 0, unless each of the last five blocks is at least 75 % full.
fn rundler_tip(now: HistoryAt<'_>) -> Option<u128> {
    let is_full = |ratio: &Option<f64>| ratio.is_some_and(|ratio| ratio >= 0.75);
    if !now.ratios(5)?.iter().all(is_full) {
        return Some(0);
    }
    Some(mean(&nonzero(now.rewards(33.0, 5)?)).unwrap_or_default())
}

fn status_tip(now: HistoryAt<'_>, percentile: f64, blocks: usize) -> Option<u128> {
    let rewards = now.rewards(percentile, blocks)?;
    match upper_median(&rewards)? {
        0 => Some(nonzero(rewards).into_iter().min().unwrap_or_default()),
        median => Some(median),
    }
}

/// The next base fee plus 2.5 %, and up to eleven times that in congestion.
fn status_base_fee(now: HistoryAt<'_>) -> Option<u128> {
    const BILLION: f64 = 1e9;
    let ratios: Vec<f64> = now.ratios(10)?.into_iter().flatten().collect();
    let over_half: f64 = ratios.iter().map(|ratio| (ratio - 0.5).max(0.0)).sum();
    let count = f64::from(u32::try_from(ratios.len()).ok()?);
    let congestion = (2.0 * over_half / count).min(1.0);
    // Without known ratios the congestion is NaN, for which `max` returns 0.
    let factor = 1.0 + 10.0 * congestion.max(0.0);
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it lies between 1 and 12 billion"
    )]
    let billionths = (1.025 * factor * BILLION).round() as u128;
    scaled_next_base_fee(now, billionths, 1_000_000_000)
}

const GETH_BLOCKS: usize = 20;

/// The lowest percentile is often 0, which the oracle ignores. The next one of a usual recording is then near its lowest
/// sample; a much higher one would not be.
const GETH_PERCENTILES: &[f64] = &[0.0, 5.0];

/// The 60th percentile of the blocks' lowest tips. The oracle uses the three lowest of each block. A recording has only
/// one, which replaces all three.
fn geth_tip(now: HistoryAt<'_>) -> Option<u128> {
    const MIN_TIP: u128 = 2;
    const MAX_TIP: u128 = 500 * GWEI;
    const SAMPLES_PER_BLOCK: usize = 3;
    let lowest = sorted(&now.lowest_rewards(GETH_BLOCKS, MIN_TIP)?);
    let last = lowest.len().checked_mul(SAMPLES_PER_BLOCK)?.checked_sub(1)?;
    let index = last.checked_mul(60)? / 100 / SAMPLES_PER_BLOCK;
    Some((*lowest.get(index)?).min(MAX_TIP))
}
