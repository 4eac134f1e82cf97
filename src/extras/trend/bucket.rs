//! One block, and a summary of several.

use super::HOUR;
use crate::fees::Block;
use crate::fees::statistics::nearest_rank;

/// Bits of the ratio of a block that has none.
pub(super) const UNKNOWN_RATIO: u64 = f64::NAN.to_bits();

/// One block. Amounts are wei per gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Block number.
    pub number: u64,
    /// Base fee.
    pub base_fee: u64,
    /// Medium tip that was suggested at this block.
    pub tip: u64,
    /// Bits of gas used divided by gas limit, or [`UNKNOWN_RATIO`]. They are in the order of the ratios, which are not
    /// negative.
    pub gas_used_ratio: u64,
    /// When the block was first seen, in seconds since 1970.
    pub time: u32,
}

/// Blocks of one span of time. Amounts are wei per gas. Of three numbers the first is the lowest, the second the middle one,
/// which is the lower one of two, and the third the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// Time of the first block in seconds since 1970.
    pub first: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Base fees.
    pub base_fee: [u64; 3],
    /// Medium tips that were suggested.
    pub tip: [u64; 3],
    /// Bits of the ratios that are known.
    pub gas_used_ratio: [u64; 3],
    /// Median of the blocks' [prices](Sample::price).
    pub price: u64,
}

impl Sample {
    /// Creates the sample of a block; `None`: an amount exceeds 64 bits.
    pub(crate) fn new(number: u64, block: &Block, tip: u128, time: u32) -> Option<Self> {
        Some(Self {
            number,
            base_fee: block.base_fee.try_into().ok()?,
            tip: tip.try_into().ok()?,
            gas_used_ratio: block
                .gas_used_ratio
                .map_or(UNKNOWN_RATIO, |ratio| ratio.abs().to_bits()),
            time,
        })
    }

    /// Returns what a transaction with the medium tip paid per gas in this block, in wei.
    pub(crate) fn price(&self) -> u64 {
        self.base_fee.saturating_add(self.tip)
    }

    /// Returns the start of its hour in seconds since 1970.
    pub(crate) fn hour(&self) -> u32 {
        self.time - self.time % HOUR
    }
}

impl Bucket {
    /// Start in seconds since 1970, of a bucket of this width.
    #[must_use]
    pub(crate) fn start(&self, width: u32) -> u32 {
        self.first - self.first % width.max(1)
    }

    /// Returns the buckets of this width of samples in ascending order of time, oldest first.
    pub(crate) fn split(samples: &[Sample], width: u32) -> impl Iterator<Item = Self> {
        let spans = samples.chunk_by(move |one, next| one.time / width == next.time / width);
        spans.filter_map(Self::from_samples)
    }

    /// Summarises samples in ascending order of time; `None`: there are none.
    fn from_samples(samples: &[Sample]) -> Option<Self> {
        let sorted = |number: fn(&Sample) -> u64| {
            let mut numbers: Vec<u64> = samples.iter().map(number).collect();
            numbers.sort_unstable();
            numbers
        };
        let mut ratios = sorted(|sample| sample.gas_used_ratio);
        ratios.retain(|ratio| *ratio != UNKNOWN_RATIO);
        Some(Self {
            first: samples.first()?.time,
            blocks: u32::try_from(samples.len()).unwrap_or(u32::MAX),
            base_fee: range(&sorted(|sample| sample.base_fee))?,
            tip: range(&sorted(|sample| sample.tip))?,
            gas_used_ratio: range(&ratios).unwrap_or([UNKNOWN_RATIO; 3]),
            price: nearest_rank(&sorted(Sample::price), 50)?,
        })
    }
}

/// Returns the lowest, the middle and the highest of ascending numbers; `None` without numbers.
fn range(sorted: &[u64]) -> Option<[u64; 3]> {
    Some([*sorted.first()?, nearest_rank(sorted, 50)?, *sorted.last()?])
}
