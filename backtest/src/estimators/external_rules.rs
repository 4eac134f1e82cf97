//! Rules of other systems. backtest/tables.md names their versions, and what the tests compare them with.

use gas_suggestion::fees::statistics::mean;

use super::EstimatorQuote;
use crate::recording::HistoryAt;

const GWEI: u128 = 1_000_000_000;

/// Rule of another system, in two independent parts, so that recordings without tips can be replayed too.
#[derive(Debug)]
pub struct ExternalRule {
    pub name: &'static str,
    pub percentiles: &'static [f64],
    pub window: usize,
    tip: TipRule,
    base_fee: BaseFee,
}

/// Computes a tip from the first percentile and the window of the rule.
type TipRule = fn(HistoryAt<'_>, f64, usize) -> Option<u128>;

/// Quoted base fee.
#[derive(Debug, Clone, Copy)]
enum BaseFee {
    Unquoted,
    /// Thousandths of the newest block's base fee.
    Newest(u128),
    /// Thousandths of the next base fee.
    Next(u128),
    Rule(fn(HistoryAt<'_>) -> Option<u128>),
}

use BaseFee::{Newest, Next, Rule, Unquoted};

pub static EXTERNAL_RULES: [ExternalRule; 23] = [
    rule("alloy", &[20.0], 10, alloy_tip, Newest(2000)),
    rule("foundry, low", &[10.0], 10, foundry_tip, Newest(1500)),
    rule("foundry, market", &[20.0], 10, foundry_tip, Newest(2000)),
    rule("foundry, aggressive", &[50.0], 10, foundry_tip, Newest(2000)),
    rule("viem on geth", GETH_PERCENTILES, 20, geth_tip, Newest(1200)),
    rule("ethers on geth", GETH_PERCENTILES, 20, geth_tip, Newest(2000)),
    rule("web3.py fallback", &[5.0], 10, web3_tip, Newest(2000)),
    rule("MetaMask fallback, low", &[10.0], 5, metamask_tip::<94, 2>, Newest(1100)),
    rule("MetaMask fallback, medium", &[20.0], 5, metamask_tip::<97, 3>, Newest(1200)),
    rule("MetaMask fallback, high", &[30.0], 5, metamask_tip::<98, 4>, Newest(1250)),
    rule("Polygon station, safeLow", &[5.0], STATION_BLOCKS, station_tip, Rule(station_base_fee)),
    rule("Polygon station, standard", &[15.0], STATION_BLOCKS, station_tip, Rule(station_base_fee)),
    rule("Polygon station, fast", &[30.0], STATION_BLOCKS, station_tip, Rule(station_base_fee)),
    rule("Chainlink FeeHistory p60", &[60.0], 8, chainlink_tip, Rule(chainlink_base_fee)),
    rule("Alto", &[40.0, 50.0, 60.0, 70.0], 10, alto_tip, Next(1200)),
    rule("Rundler", &[33.0], 5, rundler_tip, Next(1270)),
    rule("Status on L1, low", &[10.0], 10, status_tip, Next(1025)),
    rule("Status on L1, medium", &[45.0], 10, status_tip, Rule(status_base_fee)),
    rule("Status on L1, high", &[90.0], 10, status_tip, Rule(status_base_fee)),
    rule("Status on L2, low", &[10.0], 50, status_tip, Next(1025)),
    rule("Status on L2, medium", &[45.0], 50, status_tip, Next(4100)),
    rule("Status on L2, high", &[90.0], 50, status_tip, Next(10_250)),
    rule("geth tip oracle", GETH_PERCENTILES, 20, geth_tip, Unquoted),
];

const fn rule(
    name: &'static str,
    percentiles: &'static [f64],
    window: usize,
    tip: TipRule,
    base_fee: BaseFee,
) -> ExternalRule {
    ExternalRule { name, percentiles, window, tip, base_fee }
}

impl ExternalRule {
    pub fn quote(&self, now: HistoryAt<'_>) -> Option<EstimatorQuote> {
        let tip = if now.recording.has_tips() {
            Some((self.tip)(now, self.percentiles[0], self.window)?)
        } else {
            None
        };
        let base_fee = match self.base_fee {
            Unquoted => None,
            Newest(thousandths) => Some(scaled(now.base_fee(), thousandths, 1000)?),
            Next(thousandths) => Some(scaled(now.next_base_fee()?, thousandths, 1000)?),
            Rule(rule) => Some(rule(now)?),
        };
        Some(EstimatorQuote { tip, base_fee })
    }
}

/// Returns `amount` times a fraction, rounded down.
fn scaled(amount: u128, numerator: u128, denominator: u128) -> Option<u128> {
    Some(amount.checked_mul(numerator)? / denominator)
}

/// Returns the amounts above 0.
fn nonzero(mut amounts: Vec<u128>) -> Vec<u128> {
    amounts.retain(|amount| *amount > 0);
    amounts
}

/// Returns the average of the amounts above 0, rounded down; 0 if there is none.
fn mean_above_0(amounts: Vec<u128>) -> Option<u128> {
    let amounts = nonzero(amounts);
    if amounts.is_empty() { Some(0) } else { mean(&amounts) }
}

/// Returns the lower and the upper median, which are the same of an odd number of amounts.
fn medians(mut amounts: Vec<u128>) -> Option<(u128, u128)> {
    amounts.sort_unstable();
    let last = amounts.len().checked_sub(1)?;
    Some((amounts[last / 2], amounts[last.div_ceil(2)]))
}

/// Returns the median; of two middle amounts their average, rounded down.
fn median(amounts: Vec<u128>) -> Option<u128> {
    medians(amounts).map(|(lower, upper)| lower.midpoint(upper))
}

fn alloy_tip(now: HistoryAt<'_>, percentile: f64, blocks: usize) -> Option<u128> {
    Some(median(nonzero(now.rewards(percentile, blocks)?)).unwrap_or(1))
}

/// Like alloy, but ignores blocks below 10 % full. If none of the rest has a tip, uses all blocks, provided at least
/// half of them have one.
fn foundry_tip(now: HistoryAt<'_>, percentile: f64, blocks: usize) -> Option<u128> {
    const MIN_GAS_USED_RATIO: f64 = 0.1;
    let busy = now.rewards_in(percentile, blocks, |block| {
        block.gas_used_ratio.is_none_or(|ratio| ratio >= MIN_GAS_USED_RATIO)
    });
    let busy = nonzero(busy?);
    let all = nonzero(now.rewards(percentile, blocks)?);
    let replaces = busy.is_empty() && all.len() * 2 >= blocks;
    Some(median(if replaces { all } else { busy }).unwrap_or(1))
}

/// The mean, rounded half to even; always from 1 to 1.5 gwei.
fn web3_tip(now: HistoryAt<'_>, percentile: f64, blocks: usize) -> Option<u128> {
    let rewards = nonzero(now.rewards(percentile, blocks)?);
    let sum = rewards.iter().try_fold(0_u128, |sum, reward| sum.checked_add(*reward))?;
    let count = (rewards.len() as u128).max(1);
    let (whole, twice_rest) = (sum / count, sum % count * 2);
    let rounds_up = twice_rest > count || twice_rest == count && whole % 2 == 1;
    Some((whole + u128::from(rounds_up)).clamp(GWEI, GWEI / 2 * 3))
}

/// A percentage of the lower median, with a floor in half gwei.
fn metamask_tip<const PERCENT: u128, const HALF_GWEI: u128>(
    now: HistoryAt<'_>,
    percentile: f64,
    blocks: usize,
) -> Option<u128> {
    let (lower, _) = medians(now.rewards(percentile, blocks)?)?;
    Some(scaled(lower, PERCENT, 100)?.max(GWEI / 2 * HALF_GWEI))
}

const STATION_BLOCKS: usize = 15;

fn station_tip(now: HistoryAt<'_>, percentile: f64, blocks: usize) -> Option<u128> {
    Some(mean_above_0(now.rewards(percentile, blocks)?)?.max(30 * GWEI))
}

/// The newest base fee, plus two thirds of its rise in the first third of the window, rounded to the nearest.
fn station_base_fee(now: HistoryAt<'_>) -> Option<u128> {
    let window = now.window(STATION_BLOCKS)?;
    let base_fee = |index: usize| i128::try_from(window[index].base_fee).ok();
    let rise = base_fee(5)?.checked_sub(base_fee(0)?)?.checked_mul(10)?;
    let scaled = base_fee(STATION_BLOCKS - 1)?.checked_mul(15)?.checked_add(rise)?;
    let doubled = scaled.checked_mul(2)?.checked_add(15)?;
    u128::try_from(doubled.div_euclid(30)).ok()
}

/// Returns the newest history in which a block paid a tip, because without one Chainlink keeps its previous estimate. The
/// window is the default of `BlockHistorySize`. Without recorded tips, returns `now`.
fn chainlink_history(now: HistoryAt<'_>) -> Option<HistoryAt<'_>> {
    let has_tip = |history: &HistoryAt<'_>| {
        history.rewards(60.0, 8).is_some_and(|rewards| rewards.iter().any(|reward| *reward > 0))
    };
    if !now.recording.has_tips() {
        return Some(now);
    }
    std::iter::successors(Some(now), HistoryAt::previous).find(has_tip)
}

fn chainlink_tip(now: HistoryAt<'_>, percentile: f64, blocks: usize) -> Option<u128> {
    mean(&nonzero(chainlink_history(now)?.rewards(percentile, blocks)?))
}

fn chainlink_base_fee(now: HistoryAt<'_>) -> Option<u128> {
    scaled(chainlink_history(now)?.next_base_fee()?, 1400, 1000)
}

/// Median at a percentile that grows with the fullness of the blocks.
fn alto_tip(now: HistoryAt<'_>, _: f64, blocks: usize) -> Option<u128> {
    let ratios = now.ratios(blocks)?;
    let percentile = match ratios.iter().sum::<f64>() / ratios.len() as f64 {
        fullness if fullness > 0.9 => 70.0,
        fullness if fullness > 0.7 => 60.0,
        fullness if fullness > 0.5 => 50.0,
        _ => 40.0,
    };
    median(now.rewards(percentile, blocks)?)
}

/// 0, unless each block is at least 75 % full.
fn rundler_tip(now: HistoryAt<'_>, percentile: f64, blocks: usize) -> Option<u128> {
    let full = now.ratios(blocks)?.into_iter().filter(|ratio| *ratio >= 0.75);
    if full.count() < blocks {
        return Some(0);
    }
    mean_above_0(now.rewards(percentile, blocks)?)
}

fn status_tip(now: HistoryAt<'_>, percentile: f64, blocks: usize) -> Option<u128> {
    let rewards = now.rewards(percentile, blocks)?;
    match medians(rewards.clone())? {
        (_, 0) => Some(nonzero(rewards).into_iter().min().unwrap_or_default()),
        (_, upper) => Some(upper),
    }
}

/// The next base fee plus 2.5 %, and up to eleven times that in congestion.
fn status_base_fee(now: HistoryAt<'_>) -> Option<u128> {
    let ratios = now.ratios(10)?;
    let over_half: f64 = ratios.iter().map(|ratio| (ratio - 0.5).max(0.0)).sum();
    let congestion = (2.0 * over_half / ratios.len() as f64).min(1.0);
    // Without known ratios the congestion is NaN, for which `max` returns 0.
    let factor = 1.0 + 10.0 * congestion.max(0.0);
    scaled(now.next_base_fee()?, (1.025e9 * factor).round() as u128, GWEI)
}

/// The lowest percentile is often 0, which the oracle ignores. The next one of a usual recording is then near its lowest
/// sample; a much higher one would not be.
const GETH_PERCENTILES: &[f64] = &[0.0, 5.0];

/// The 60th percentile of the blocks' lowest tips. The oracle uses the three lowest of each block. A recording has only
/// one, which replaces all three.
fn geth_tip(now: HistoryAt<'_>, _: f64, blocks: usize) -> Option<u128> {
    const MIN_TIP: u128 = 2;
    const MAX_TIP: u128 = 500 * GWEI;
    const SAMPLES_PER_BLOCK: usize = 3;
    let rewards = now.window(blocks)?.iter().filter_map(|block| block.rewards.as_ref());
    let lowest = rewards.filter_map(|row| row.iter().copied().filter(|tip| *tip >= MIN_TIP).min());
    let mut lowest: Vec<u128> = lowest.collect();
    lowest.sort_unstable();
    let last = (lowest.len() * SAMPLES_PER_BLOCK).checked_sub(1)?;
    Some(lowest[last * 60 / 100 / SAMPLES_PER_BLOCK].min(MAX_TIP))
}
