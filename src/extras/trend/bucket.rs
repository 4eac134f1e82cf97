//! One block, and a summary of several.

use super::TEN_MINUTES;
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
    fn single(value: T) -> Self {
        Self { min: value, median: value, max: value }
    }

    /// Returns the values as an array.
    pub(crate) fn values(self) -> [T; 3] {
        [self.min, self.median, self.max]
    }
}

impl Sample {
    /// Returns what a transaction with the medium tip paid per gas in this block, in wei.
    pub(crate) fn price(&self) -> u64 {
        self.base_fee.saturating_add(self.tip)
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

    pub(crate) fn single(sample: &Sample) -> Self {
        Self {
            first: sample.time,
            blocks: 1,
            base_fee: Range::single(sample.base_fee),
            tip: Range::single(sample.tip),
            gas_used_ratio: Range::single(sample.gas_used_ratio),
            price: sample.price(),
        }
    }

    /// Adds other blocks. The medians stay; see [`set_medians`](Self::set_medians).
    pub(crate) fn add(&mut self, other: &Self) {
        fn widen<T: Copy>(
            range: &mut Range<T>,
            other: Range<T>,
            min: impl Fn(T, T) -> T,
            max: impl Fn(T, T) -> T,
        ) {
            range.min = min(range.min, other.min);
            range.max = max(range.max, other.max);
        }
        self.first = self.first.min(other.first);
        self.blocks = self.blocks.saturating_add(other.blocks);
        widen(&mut self.base_fee, other.base_fee, u64::min, u64::max);
        widen(&mut self.tip, other.tip, u64::min, u64::max);
        // Both functions ignore NaN.
        widen(&mut self.gas_used_ratio, other.gas_used_ratio, f64::min, f64::max);
        if self.gas_used_ratio.median.is_nan() {
            self.gas_used_ratio.median = other.gas_used_ratio.median;
        }
    }

    /// Sets the medians to those of `samples`, where they have any.
    pub(crate) fn set_medians(&mut self, samples: &[Sample]) {
        let median = |amount: fn(&Sample) -> u64| {
            let mut amounts: Vec<u64> = samples.iter().map(amount).collect();
            amounts.sort_unstable();
            nearest_rank(&amounts, 50)
        };
        self.base_fee.median = median(|sample| sample.base_fee).unwrap_or(self.base_fee.median);
        self.tip.median = median(|sample| sample.tip).unwrap_or(self.tip.median);
        self.price = median(Sample::price).unwrap_or(self.price);
        let ratios = samples.iter().map(|sample| sample.gas_used_ratio);
        let mut ratios: Vec<f64> = ratios.filter(|ratio| !ratio.is_nan()).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let ratio = &mut self.gas_used_ratio.median;
        *ratio = nearest_rank(&ratios, 50).unwrap_or(*ratio);
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
