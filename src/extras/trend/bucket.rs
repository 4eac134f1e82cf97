//! One block, and a summary of several.

use super::{HOUR, TEN_MINUTES};
use crate::fees::statistics::nearest_rank;

/// One block. Amounts are wei per gas.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Block number.
    pub number: u64,
    /// Base fee.
    pub base_fee: u64,
    /// Medium tip that was suggested at this block.
    pub tip: u64,
    /// Gas used divided by gas limit; NaN: unknown.
    pub gas_used_ratio: f64,
    /// When the block was first seen, in seconds since 1970.
    pub time: u32,
}

/// Blocks of one span of time. Amounts are wei per gas.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    /// Time of the first block in seconds since 1970.
    pub first: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Base fees.
    pub base_fee: Range<u64>,
    /// Medium tips that were suggested.
    pub tip: Range<u64>,
    /// NaN: no ratio is known.
    pub(crate) gas_used_ratio: Range<f64>,
    /// Median of the blocks' [prices](Sample::price).
    pub(crate) price: u64,
}

const UNKNOWN_RATIO: Range<f64> = Range { min: f64::NAN, median: f64::NAN, max: f64::NAN };

/// Lowest, middle and highest value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range<T> {
    /// Lowest value.
    pub min: T,
    /// Middle value; the lower one of two.
    pub median: T,
    /// Highest value.
    pub max: T,
}

impl<T: Copy> Range<T> {
    /// Returns the values as an array.
    pub(crate) fn values(self) -> [T; 3] {
        [self.min, self.median, self.max]
    }
}

impl<T: Copy + PartialOrd> Range<T> {
    /// Returns the range of ascending values; `None` without values.
    fn from_sorted(values: &[T]) -> Option<Self> {
        let (first, last) = (values.first()?, values.last()?);
        Some(Self { min: *first, median: nearest_rank(values, 50)?, max: *last })
    }
}

impl Sample {
    /// Returns what a transaction with the medium tip paid per gas in this block, in wei.
    pub(crate) fn price(&self) -> u64 {
        self.base_fee.saturating_add(self.tip)
    }

    /// Returns the start of its hour in seconds since 1970.
    pub(crate) fn hour(&self) -> u32 {
        self.time - self.time % HOUR
    }

    /// Returns true if both describe the same block, as far as samples tell.
    pub(crate) fn has_block_of(&self, other: &Self) -> bool {
        let is_same_ratio = self.gas_used_ratio.total_cmp(&other.gas_used_ratio).is_eq();
        self.number == other.number && self.base_fee == other.base_fee && is_same_ratio
    }
}

impl Bucket {
    /// Start in seconds since 1970, of a bucket of this width.
    #[must_use]
    pub(crate) fn start(&self, width: u32) -> u32 {
        self.first - self.first % width.max(1)
    }

    /// Ratios of gas used to gas limit; `None`: none is known.
    #[must_use]
    pub(crate) fn gas_used_ratio(&self) -> Option<Range<f64>> {
        Some(self.gas_used_ratio).filter(|range| !range.median.is_nan())
    }

    /// Returns the number of seconds up to `now` that this bucket of ten minutes covers. A bucket after a gap covers
    /// nothing before its first block.
    pub(crate) fn known_seconds(&self, is_after_gap: bool, now: u32) -> u32 {
        let start = self.start(TEN_MINUTES);
        let from = if is_after_gap { self.first } else { start };
        now.min(start.saturating_add(TEN_MINUTES)).saturating_sub(from)
    }

    /// Returns the buckets of this width of samples in ascending order of time, oldest first.
    pub(crate) fn split(samples: &[Sample], width: u32) -> impl Iterator<Item = Self> {
        let spans = samples.chunk_by(move |one, next| one.time / width == next.time / width);
        spans.filter_map(Self::from_samples)
    }

    /// Summarises samples in ascending order of time; `None`: there are none.
    fn from_samples(samples: &[Sample]) -> Option<Self> {
        let amounts = |amount: fn(&Sample) -> u64| {
            let mut amounts: Vec<u64> = samples.iter().map(amount).collect();
            amounts.sort_unstable();
            amounts
        };
        let ratios = samples.iter().map(|sample| sample.gas_used_ratio);
        let mut ratios: Vec<f64> = ratios.filter(|ratio| !ratio.is_nan()).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        Some(Self {
            first: samples.first()?.time,
            blocks: u32::try_from(samples.len()).unwrap_or(u32::MAX),
            base_fee: Range::from_sorted(&amounts(|sample| sample.base_fee))?,
            tip: Range::from_sorted(&amounts(|sample| sample.tip))?,
            gas_used_ratio: Range::from_sorted(&ratios).unwrap_or(UNKNOWN_RATIO),
            price: nearest_rank(&amounts(Sample::price), 50)?,
        })
    }
}

impl PartialEq for Sample {
    fn eq(&self, other: &Self) -> bool {
        self.has_block_of(other) && self.tip == other.tip && self.time == other.time
    }
}

impl PartialEq for Bucket {
    fn eq(&self, other: &Self) -> bool {
        let ratios = self.gas_used_ratio.values().into_iter();
        let mut ratios = ratios.zip(other.gas_used_ratio.values());
        let plain = |it: &Self| (it.first, it.blocks, it.base_fee, it.tip, it.price);
        plain(self) == plain(other) && ratios.all(|(one, other)| one.total_cmp(&other).is_eq())
    }
}
