//! The rules of other systems. Which version of each, and what was held against it, is in docs/pricing.md.

use super::super::recording::History;
use super::samples::{above_zero, lower_median, mean, mean_to_even, median, sorted, upper_median};
use super::{Foreign, times};

const GWEI: u128 = 1_000_000_000;

type Part = fn(History<'_>) -> Option<u128>;

/// All of them: what each looks at, how far back, its tip and what it allows for the base fee.
pub(super) const FOREIGN: [Foreign; 23] = [
    of("alloy", &[20.0], 10, |now| now.rewards(20.0, 10).map(alloy_tip), Some(twice_newest)),
    of("foundry, low", &[10.0], 10, |now| foundry_tip(now, 10.0), Some(|now| newest(now, 3, 2))),
    of("foundry, market", &[20.0], 10, |now| foundry_tip(now, 20.0), Some(twice_newest)),
    of("foundry, aggressive", &[50.0], 10, |now| foundry_tip(now, 50.0), Some(twice_newest)),
    of("viem on geth", &[0.0], GETH_BLOCKS, geth_tip, Some(|now| newest(now, 12, 10))),
    of("ethers on geth", &[0.0], GETH_BLOCKS, geth_tip, Some(twice_newest)),
    of("web3.py fallback", &[5.0], 10, web3_tip, Some(twice_newest)),
    of(
        "MetaMask fallback, low",
        &[10.0],
        5,
        |now| metamask_tip(now, 10.0, 94, GWEI),
        Some(|now| newest(now, 110, 100)),
    ),
    of(
        "MetaMask fallback, medium",
        &[20.0],
        5,
        |now| metamask_tip(now, 20.0, 97, GWEI / 2 * 3),
        Some(|now| newest(now, 120, 100)),
    ),
    of(
        "MetaMask fallback, high",
        &[30.0],
        5,
        |now| metamask_tip(now, 30.0, 98, 2 * GWEI),
        Some(|now| newest(now, 125, 100)),
    ),
    of("Polygon station, safeLow", &[5.0], 15, |now| station_tip(now, 5.0), Some(station_base_fee)),
    of(
        "Polygon station, standard",
        &[15.0],
        15,
        |now| station_tip(now, 15.0),
        Some(station_base_fee),
    ),
    of("Polygon station, fast", &[30.0], 15, |now| station_tip(now, 30.0), Some(station_base_fee)),
    of(
        "Chainlink FeeHistory p60",
        &[60.0],
        CHAINLINK_BLOCKS,
        |now| mean(&above_zero(chainlink_newest(now)?.rewards(60.0, CHAINLINK_BLOCKS)?)),
        Some(|now| next(chainlink_newest(now).unwrap_or(now), 140, 100)),
    ),
    of("Alto", &[40.0, 50.0, 60.0, 70.0], 10, alto_tip, Some(|now| next(now, 120, 100))),
    of("Rundler", &[33.0], 5, rundler_tip, Some(|now| next(now, 127, 100))),
    of(
        "Status on L1, low",
        &[10.0],
        10,
        |now| status_tip(now, 10.0, 10),
        Some(|now| next(now, 1025, 1000)),
    ),
    of("Status on L1, medium", &[45.0], 10, |now| status_tip(now, 45.0, 10), Some(status_base_fee)),
    of("Status on L1, high", &[90.0], 10, |now| status_tip(now, 90.0, 10), Some(status_base_fee)),
    of(
        "Status on L2, low",
        &[10.0],
        50,
        |now| status_tip(now, 10.0, 50),
        Some(|now| next(now, 1025, 1000)),
    ),
    of(
        "Status on L2, medium",
        &[45.0],
        50,
        |now| status_tip(now, 45.0, 50),
        Some(|now| next(now, 4100, 1000)),
    ),
    of(
        "Status on L2, high",
        &[90.0],
        50,
        |now| status_tip(now, 90.0, 50),
        Some(|now| next(now, 10_250, 1000)),
    ),
    of("geth tip oracle", &[0.0], GETH_BLOCKS, geth_tip, None),
];

const fn of(
    name: &'static str,
    percentiles: &'static [f64],
    window: usize,
    tip: Part,
    base_fee: Option<Part>,
) -> Foreign {
    Foreign { name, percentiles, window, tip, base_fee }
}

/// A multiple of the newest block's base fee.
fn newest(now: History<'_>, numerator: u128, denominator: u128) -> Option<u128> {
    times(now.base_fee(), numerator, denominator)
}

fn twice_newest(now: History<'_>) -> Option<u128> {
    newest(now, 2, 1)
}

/// A multiple of the base fee that follows.
fn next(now: History<'_>, numerator: u128, denominator: u128) -> Option<u128> {
    times(now.next_base_fee()?, numerator, denominator)
}

fn alloy_tip(rewards: Vec<u128>) -> u128 {
    median(&above_zero(rewards)).unwrap_or(1)
}

/// As alloy, but without blocks that are all but empty, unless no other is left and half of all have a tip.
fn foundry_tip(now: History<'_>, percentile: f64) -> Option<u128> {
    const BLOCKS: usize = 10;
    const LEAST_RATIO: f64 = 0.1;
    let all = now.rewards_by_ratio(percentile, BLOCKS)?;
    let is_busy = |ratio: Option<f64>| ratio.is_none_or(|ratio| ratio >= LEAST_RATIO);
    let busy = all.iter().filter(|(ratio, _)| is_busy(*ratio)).map(|(_, reward)| *reward);
    let mut rewards = above_zero(busy.collect());
    if rewards.is_empty() {
        let unfiltered = above_zero(all.iter().map(|(_, reward)| *reward).collect());
        if unfiltered.len().saturating_mul(2) >= BLOCKS {
            rewards = unfiltered;
        }
    }
    Some(alloy_tip(rewards))
}

/// From 1 to 1.5 gwei, whatever the blocks say.
fn web3_tip(now: History<'_>) -> Option<u128> {
    let average = mean_to_even(&above_zero(now.rewards(5.0, 10)?)).unwrap_or_default();
    Some(average.clamp(GWEI, GWEI / 2 * 3))
}

fn metamask_tip(now: History<'_>, percentile: f64, percent: u128, floor: u128) -> Option<u128> {
    let median = lower_median(&now.rewards(percentile, 5)?)?;
    Some(times(median, percent, 100)?.max(floor))
}

const STATION_BLOCKS: usize = 15;

fn station_tip(now: History<'_>, percentile: f64) -> Option<u128> {
    let average = mean(&above_zero(now.rewards(percentile, STATION_BLOCKS)?));
    Some(average.unwrap_or_default().max(30 * GWEI))
}

/// The newest base fee and two thirds of what it rose by in the window's first third, rounded to the nearest.
fn station_base_fee(now: History<'_>) -> Option<u128> {
    let window = now.window(STATION_BLOCKS)?;
    let base_fee = |index: usize| i128::try_from(window.get(index)?.base_fee).ok();
    let blocks = i128::try_from(STATION_BLOCKS).ok()?;
    let rise = base_fee(5)?.checked_sub(base_fee(0)?)?.checked_mul(10)?;
    let scaled = base_fee(STATION_BLOCKS - 1)?.checked_mul(blocks)?.checked_add(rise)?;
    let doubled = scaled.checked_mul(2)?.checked_add(blocks)?;
    u128::try_from(doubled.div_euclid(2 * blocks)).ok()
}

/// The default of its `BlockHistorySize`.
const CHAINLINK_BLOCKS: usize = 8;

/// The newest history of which it takes anything: where no block paid a tip it keeps what it had.
fn chainlink_newest(now: History<'_>) -> Option<History<'_>> {
    let has_tip = |history: &History<'_>| {
        let rewards = history.rewards(60.0, CHAINLINK_BLOCKS);
        rewards.is_some_and(|rewards| rewards.iter().any(|reward| *reward > 0))
    };
    if !now.recording().has_tips() {
        return Some(now);
    }
    std::iter::successors(Some(now), History::before).find(has_tip)
}

/// The median at a percentile that is the higher the fuller the blocks are.
fn alto_tip(now: History<'_>) -> Option<u128> {
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

/// Nothing, unless each of the last blocks is nearly full.
fn rundler_tip(now: History<'_>) -> Option<u128> {
    let is_full = |ratio: &Option<f64>| ratio.is_some_and(|ratio| ratio >= 0.75);
    if !now.ratios(5)?.iter().all(is_full) {
        return Some(0);
    }
    Some(mean(&above_zero(now.rewards(33.0, 5)?)).unwrap_or_default())
}

fn status_tip(now: History<'_>, percentile: f64, blocks: usize) -> Option<u128> {
    let rewards = now.rewards(percentile, blocks)?;
    match upper_median(&rewards)? {
        0 => Some(above_zero(rewards).into_iter().min().unwrap_or_default()),
        median => Some(median),
    }
}

/// The next base fee with 2.5 % on it, and up to eleven times that in congestion.
fn status_base_fee(now: History<'_>) -> Option<u128> {
    const BILLION: f64 = 1e9;
    let ratios: Vec<f64> = now.ratios(10)?.into_iter().flatten().collect();
    let over_half: f64 = ratios.iter().map(|ratio| (ratio - 0.5).max(0.0)).sum();
    let count = f64::from(u32::try_from(ratios.len()).ok()?);
    let congestion = (2.0 * over_half / count).min(1.0);
    // Where no ratio is known, congestion is not a number, which `max` takes for the least.
    let factor = 1.0 + 10.0 * congestion.max(0.0);
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it lies between 1 and 12 billion"
    )]
    let billionths = (1.025 * factor * BILLION).round() as u128;
    next(now, billionths, 1_000_000_000)
}

const GETH_BLOCKS: usize = 20;

/// The 60th percentile of the lowest tips of the blocks. The oracle takes the three lowest of each block's; of these
/// a recording has one, and that one stands for all three.
fn geth_tip(now: History<'_>) -> Option<u128> {
    const LEAST_COUNTED: u128 = 2;
    const MOST: u128 = 500 * GWEI;
    const OF_EACH_BLOCK: usize = 3;
    let lowest = sorted(&now.lowest_rewards(GETH_BLOCKS, LEAST_COUNTED)?);
    let last = lowest.len().checked_mul(OF_EACH_BLOCK)?.checked_sub(1)?;
    let place = last.checked_mul(60)? / 100 / OF_EACH_BLOCK;
    Some((*lowest.get(place)?).min(MOST))
}
