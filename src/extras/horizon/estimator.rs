//! Fees for a horizon and a probability: a pair that one of the next K blocks includes in a share P of cases.
//!
//! Each cell of the matrix is a conformal quantile with feedback from its own misses, as in the calibrated strategy. The
//! ranked amounts are the needs of heads: the least tip with which a pair made at a head would have been included within
//! K blocks, if its max fee is a multiple of the next base fee and the tip. The factor is a quantile of the rises over 25
//! blocks, and the same for all K, so that a max fee never rises with K. A base fee that runs away shows as a higher need.
//!
//! The matrix is a pure function of the newest [`BLOCKS`] blocks, the next base fee and the pricing, in integers, so
//! replicas and restarts agree. docs/pricing.md has the results on recorded blocks.

use alloy_primitives::U256;

use crate::fees::calibrated::{self, LIMIT_BLOCKS};
use crate::fees::single_price::{MIN_RISES, after_full_blocks, full_block_denominator};
use crate::fees::{ChainParameters, EntryBlock, Pricing, PricingType, Target, Tier};

/// Numbers of blocks of the matrix, ascending.
pub const WITHIN: [usize; 6] = [1, 2, 3, 5, 10, LONGEST];

/// Longest horizon in blocks.
pub const LONGEST: usize = 25;

/// Probabilities of the matrix in percent, ascending.
pub const PROBABILITIES: [u8; 4] = [50, 80, 95, 99];

/// Probabilities of the next block in percent, ascending: those of the matrix, and two that other services have.
pub const NEXT_BLOCK_PROBABILITIES: [u8; 6] = [50, 70, 80, 90, 95, 99];

/// Number of blocks from which there is a matrix.
pub const MIN_BLOCKS: usize = 200;

/// Number of newest blocks that the matrix depends on. The first reading brings as many.
pub const BLOCKS: usize = 400;

const MILLION: u128 = 1_000_000;

/// Highest factor of the next base fee, in millionths. A base fee that rises further shows in the tips.
const MAX_FACTOR: u128 = 1_500_000;

/// Number of blocks and probability in percent of a cell.
pub type CellKey = (usize, u8);

/// Returns the key of each cell, by number of blocks, then by probability, both ascending.
pub fn all_cells() -> impl Iterator<Item = CellKey> {
    WITHIN.into_iter().flat_map(|within| PROBABILITIES.map(|percent| (within, percent)))
}

/// The matrix of one head. Amounts are wei per gas. They never rise with the number of blocks and never fall with the
/// probability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HorizonFees {
    /// By probability in the order of [`PROBABILITIES`], then by number of blocks in that of [`WITHIN`].
    columns: [[Tier; WITHIN.len()]; PROBABILITIES.len()],
    /// In the order of [`NEXT_BLOCK_PROBABILITIES`].
    next_block: [Tier; NEXT_BLOCK_PROBABILITIES.len()],
}

/// One cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Number of blocks.
    pub within: usize,
    /// Probability in percent.
    pub percent: u8,
    /// The pair.
    pub fees: Tier,
}

impl HorizonFees {
    /// Computes the matrix from the newest `blocks`, oldest first, and the base fee of the next block in wei. Without any
    /// ask among them the tips are the floor. `None`: there are fewer than [`MIN_BLOCKS`] blocks, or none of their tips is
    /// known.
    #[must_use]
    pub fn new(
        blocks: &[EntryBlock],
        next_base_fee: u128,
        pricing_type: PricingType,
        pricing: &Pricing,
        parameters: &ChainParameters,
    ) -> Option<Self> {
        let blocks = blocks.get(blocks.len().saturating_sub(BLOCKS)..)?;
        if blocks.len() < MIN_BLOCKS || blocks.iter().all(|block| block.tip.is_none()) {
            return None;
        }
        let factors = Factors::new(blocks, parameters);
        let tips = Tips::new(blocks, &factors)?;
        let limit = tip_limit(blocks).unwrap_or(u128::MAX);
        // Floors and ceilings keep the order of the tips.
        let tier = |tip: u128, percent: u8| {
            let tip = tip.min(limit).max(pricing.priority_fee_floor).min(pricing.max_priority_fee);
            let base_fee = match pricing_type {
                PricingType::Legacy => 0,
                PricingType::Eip1559 => scale(next_base_fee, factors.at(percent))
                    .max(pricing.base_fee_floor)
                    .min(pricing.max_base_fee),
            };
            Tier { max_priority_fee_per_gas: tip, max_fee_per_gas: base_fee.saturating_add(tip) }
        };
        Some(Self {
            columns: tips.columns.map(|(percent, tips)| tips.map(|tip| tier(tip, percent))),
            next_block: tips.next_block.map(|(percent, tip)| tier(tip, percent)),
        })
    }

    /// Returns the cells in the order of [`all_cells`].
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        WITHIN.into_iter().enumerate().flat_map(|(row, within)| {
            let of_row = self.columns.iter().zip(PROBABILITIES);
            of_row.filter_map(move |(column, percent)| {
                Some(Cell { within, percent, fees: *column.get(row)? })
            })
        })
    }

    /// Returns the pairs for the next block with their probabilities in percent, ascending.
    pub fn next_block(&self) -> impl Iterator<Item = (u8, Tier)> {
        NEXT_BLOCK_PROBABILITIES.into_iter().zip(self.next_block)
    }
}

/// A probability in percent, and its tips in the order of [`WITHIN`].
type TipColumn = (u8, [u128; WITHIN.len()]);

/// Tips in order, without floors and ceilings.
#[derive(Debug)]
struct Tips {
    columns: [TipColumn; PROBABILITIES.len()],
    /// With the probabilities in percent.
    next_block: [(u8, u128); NEXT_BLOCK_PROBABILITIES.len()],
}

impl Tips {
    fn new(blocks: &[EntryBlock], factors: &Factors) -> Option<Self> {
        let mut last: Option<(u128, [Needs; WITHIN.len()])> = None;
        let mut columns = PROBABILITIES.map(|percent| {
            let factor = factors.at(percent);
            let rows = match last.take() {
                Some((known, rows)) if known == factor => rows,
                _ => needs(blocks, factor),
            };
            let tips = rows.each_ref().map(|row| tip(row, percent).unwrap_or_default());
            last = Some((factor, rows));
            (percent, tips)
        });
        put_in_order(&mut columns);

        // A max fee that covers the next base fee does so in the next block, so its needs are the same with any factor.
        let (_, [needs, ..]) = last?;
        let known = columns.map(|(percent, [next, ..])| (percent, next));
        let mut next_block = NEXT_BLOCK_PROBABILITIES.map(|percent| (percent, 0));
        for (percent, cell) in &mut next_block {
            let (_, below) = known.iter().rfind(|(known, _)| known <= percent)?;
            let (_, above) = known.iter().find(|(known, _)| known >= percent)?;
            *cell =
                if below == above { *below } else { tip(&needs, *percent)?.clamp(*below, *above) };
        }
        Some(Self { columns, next_block })
    }
}

/// Returns what no tip has to exceed: the highest high reward of the newest blocks with an ask. `None`: one of them is not
/// known.
fn tip_limit(blocks: &[EntryBlock]) -> Option<u128> {
    let asks = blocks.iter().rev().filter_map(|block| Some((block.ask()?, block.high)));
    let mut newest = asks.take(LIMIT_BLOCKS);
    newest.try_fold(0, |limit: u128, (ask, high)| Some(limit.max(high?.max(ask))))
}

/// Puts tips in order, so that none falls with the probability, or rises with the number of blocks. A lower probability
/// raises the tip of a higher one. Fewer blocks lower the tip of more blocks: what one of them includes, one of more
/// includes too, so their needs are no higher, and only the feedback could put their tip above.
fn put_in_order(columns: &mut [TipColumn]) {
    let mut of_lower_probability = [0; WITHIN.len()];
    for (_, column) in columns.iter_mut() {
        for (tip, lower) in column.iter_mut().zip(of_lower_probability) {
            *tip = lower.max(*tip);
        }
        of_lower_probability = *column;
    }
    for (_, column) in columns {
        let mut of_fewer_blocks = u128::MAX;
        for tip in column {
            *tip = of_fewer_blocks.min(*tip);
            of_fewer_blocks = *tip;
        }
    }
}

/// Factors of the next base fee in millionths.
#[derive(Debug)]
struct Factors {
    /// Highest base fee of the 25 blocks after a head over that of the first of them, ascending. The first head is the block
    /// before the first one.
    rises: Vec<u128>,
    least: u128,
}

impl Factors {
    fn new(blocks: &[EntryBlock], parameters: &ChainParameters) -> Self {
        let windows = blocks.windows(LONGEST);
        let rise = |following: &[EntryBlock]| {
            let first = following.first()?.base_fee;
            let highest = following.iter().map(|block| block.base_fee).max()?;
            ratio(highest, first)
        };
        let mut rises: Vec<u128> = windows.filter_map(rise).collect();
        rises.sort_unstable();
        let after_two_blocks = || after_full_blocks(MILLION, 2, full_block_denominator(parameters));
        let least = if rises.len() < MIN_RISES { after_two_blocks() } else { MILLION };
        Self { rises, least: least.min(MAX_FACTOR) }
    }

    /// Returns the conformal quantile.
    fn at(&self, percent: u8) -> u128 {
        let rank = self.rises.len().saturating_add(1).saturating_mul(percent.into()).div_ceil(100);
        let rank = rank.min(self.rises.len());
        let rise = rank.checked_sub(1).and_then(|index| self.rises.get(index));
        rise.map_or(self.least, |rise| (*rise).clamp(self.least, MAX_FACTOR))
    }
}

/// Returns a ratio in millionths, rounded up and at most [`MAX_FACTOR`]; `None` if it is infinite.
fn ratio(numerator: u128, denominator: u128) -> Option<u128> {
    let denominator = U256::from(Some(denominator).filter(|it| *it > 0)?);
    let scaled = (U256::from(numerator) * U256::from(MILLION)).div_ceil(denominator);
    Some(scaled.saturating_to::<u128>().min(MAX_FACTOR))
}

/// Returns `amount` times a factor in millionths, rounded up.
fn scale(amount: u128, factor: u128) -> u128 {
    (U256::from(amount) * U256::from(factor)).div_ceil(U256::from(MILLION)).saturating_to()
}

/// A number of blocks, and the needs of heads for it, oldest first.
type Needs = (usize, Vec<Option<u128>>);

/// Returns the needs of heads for each number of [`WITHIN`], from the head before `blocks` to the last one with
/// so many blocks after it. `None`: no ask of these blocks is known. Where some are not, the need is at most too high.
fn needs(blocks: &[EntryBlock], factor: u128) -> [Needs; WITHIN.len()] {
    const UNKNOWN: u128 = u128::MAX;
    let asks = blocks.iter().map(|block| (block.ask().unwrap_or(UNKNOWN), block.base_fee));
    let asks: Vec<(u128, u128)> = asks.collect();
    let mut rows = WITHIN.map(|within| (within, Vec::with_capacity(blocks.len())));
    for first in 0..asks.len() {
        let mut following = asks.get(first..).unwrap_or_default();
        let covered = following.first().map_or(0, |(_, base_fee)| scale(*base_fee, factor));
        let (mut least, mut seen) = (UNKNOWN, 0);
        for (within, row) in &mut rows {
            let Some((added, rest)) = following.split_at_checked(within.saturating_sub(seen))
            else {
                break;
            };
            for (tip, base_fee) in added {
                least = least.min(tip.saturating_add(base_fee.saturating_sub(covered)));
            }
            (following, seen) = (rest, *within);
            row.push((least < UNKNOWN).then_some(least));
        }
    }
    rows
}

/// Returns the last quote that follows from the needs of heads. The need of a head is known `within` blocks after it.
fn tip((within, needs): &Needs, percent: u8) -> Option<u128> {
    let target = Target::from_percent(percent);
    calibrated::replay(needs.iter().copied(), *within, target, |_| u128::MAX)
}

#[cfg(test)]
mod tests;
