//! Axes of a chart, and amounts in the form of their labels.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// Axis of block numbers. Positions count half blocks from the left edge, so the middle of the first block is at 1.
#[derive(Debug, Clone)]
pub(super) struct BlockAxis {
    first: u64,
    count: usize,
}

impl BlockAxis {
    /// Creates the axis of the `count` blocks up to `last`; at least one.
    pub(super) fn ending_at(last: u64, count: usize) -> Self {
        let count = count.max(1);
        let below = u64::try_from(count - 1).unwrap_or(u64::MAX);
        Self { first: last.saturating_sub(below), count }
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn last(&self) -> u64 {
        self.number_at(self.right_edge())
    }

    /// Position of the right edge.
    pub(super) fn right_edge(&self) -> usize {
        2 * self.count
    }

    /// Returns the block at this position.
    fn number_at(&self, position: usize) -> u64 {
        let index = u64::try_from(position.saturating_sub(1) / 2).unwrap_or(u64::MAX);
        self.first.saturating_add(index)
    }
}

impl Ranged for BlockAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = usize;

    fn map(&self, position: &usize, limit: (i32, i32)) -> i32 {
        let to_u128 = |position| u128::try_from(position).unwrap_or(u128::MAX);
        interpolate(limit, to_u128(*position), to_u128(self.right_edge()))
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<usize> {
        /// Characters that fit on the axis, including the gaps between labels.
        const MAX_LABEL_CHARS: usize = 80;
        let max_labels = MAX_LABEL_CHARS / (self.last().to_string().len() + 2);
        let step = round_step(self.count.try_into().unwrap_or(u128::MAX), max_labels.max(1));
        let step = u64::try_from(step).unwrap_or(u64::MAX);
        let positions = (0..self.count).map(|index| 2 * index + 1);
        positions.filter(|position| self.number_at(*position).is_multiple_of(step)).collect()
    }

    fn range(&self) -> Range<usize> {
        0..self.right_edge()
    }
}

impl ValueFormatter<usize> for BlockAxis {
    fn format_ext(&self, position: &usize) -> String {
        self.number_at(*position).to_string()
    }
}

/// Axis of wei from 0 upwards, with ticks at round amounts.
#[derive(Debug, Clone)]
pub(super) struct AmountAxis {
    step: u128,
    maximum: u128,
}

impl AmountAxis {
    const MAX_TICKS: usize = 5;

    /// Creates an axis that covers this amount.
    pub(super) fn covering(wei: u128) -> Self {
        let highest = wei.max(1);
        let step = round_step(highest, Self::MAX_TICKS);
        Self { step, maximum: highest.div_ceil(step).saturating_mul(step) }
    }

    /// Highest amount on the axis.
    pub(super) fn maximum(&self) -> u128 {
        self.maximum
    }

    /// Length of the longest label in characters.
    pub(super) fn longest_label_chars(&self) -> usize {
        self.ticks().map(|wei| exact_gwei(wei).len()).max().unwrap_or_default()
    }

    fn ticks(&self) -> impl Iterator<Item = u128> {
        let next = |wei: &u128| wei.checked_add(self.step).filter(|wei| *wei <= self.maximum);
        std::iter::successors(Some(0), next)
    }
}

impl Ranged for AmountAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = u128;

    fn map(&self, wei: &u128, limit: (i32, i32)) -> i32 {
        interpolate(limit, *wei, self.maximum)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<u128> {
        self.ticks().collect()
    }

    fn range(&self) -> Range<u128> {
        0..self.maximum
    }
}

impl ValueFormatter<u128> for AmountAxis {
    fn format_ext(&self, wei: &u128) -> String {
        exact_gwei(*wei)
    }
}

/// Axis of a ratio from 0 to 1.
#[derive(Debug, Clone)]
pub(super) struct RatioAxis;

impl Ranged for RatioAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, share: &f64, (start, end): (i32, i32)) -> i32 {
        let length = f64::from(end) - f64::from(start);
        #[expect(
            clippy::as_conversions,
            clippy::cast_possible_truncation,
            reason = "it lies between two whole numbers of 32 bits"
        )]
        let offset = (length * share.clamp(0.0, 1.0)).round() as i32;
        start + offset
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        vec![0.0, 0.5, 1.0]
    }

    fn range(&self) -> Range<f64> {
        0.0..1.0
    }
}

impl ValueFormatter<f64> for RatioAxis {
    fn format_ext(&self, share: &f64) -> String {
        format!("{:.0} %", share * 100.0)
    }
}

/// Returns the smallest of 1, 2, 5, 10, 20, 50, … of which at most `max_steps` fit into `span`.
fn round_step(span: u128, max_steps: usize) -> u128 {
    let most = u128::try_from(max_steps).unwrap_or(u128::MAX);
    let decades = std::iter::successors(Some(1_u128), |unit| unit.checked_mul(10));
    let mut steps = decades.flat_map(|unit| [1, 2, 5].map(|times| unit.saturating_mul(times)));
    steps.find(|step| span / step <= most).unwrap_or(u128::MAX)
}

/// Maps `value` from 0 to `max` onto the range `start` to `end`.
fn interpolate((start, end): (i32, i32), value: u128, max: u128) -> i32 {
    // With 64 bits the product cannot overflow, and no chart needs more precision.
    let surplus = (u128::BITS - max.leading_zeros()).saturating_sub(64);
    let (value, most) = (value.min(max) >> surplus, (max >> surplus).max(1));
    let length = u128::from(start.abs_diff(end));
    let offset = i32::try_from(value * length / most).unwrap_or(i32::MAX);
    if start <= end { start.saturating_add(offset) } else { start.saturating_sub(offset) }
}

/// Formats wei in gwei with all digits.
pub(super) fn exact_gwei(wei: u128) -> String {
    const MAX_PLAIN_CHARS: usize = 12;
    let (whole, rest) = (wei / 1_000_000_000, wei % 1_000_000_000);
    let text = format!("{whole}.{rest:09}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.len() <= MAX_PLAIN_CHARS {
        return text.into();
    }
    // Digits without trailing zeros, and the distance of the decimal point from the first digit.
    let digits = wei.to_string();
    let exponent = digits.len().saturating_sub(10);
    let digits = digits.trim_end_matches('0');
    match digits.split_at_checked(1) {
        Some((first, "")) => format!("{first}e{exponent}"),
        Some((first, rest)) => format!("{first}.{rest}e{exponent}"),
        None => text.into(),
    }
}

/// Formats wei in gwei with four digits.
pub(crate) fn rounded_gwei(wei: u128) -> String {
    const DIGITS: u32 = 4;
    let surplus = wei.checked_ilog10().unwrap_or_default().saturating_sub(DIGITS - 1);
    let unit = 10_u128.saturating_pow(surplus);
    let rest = wei % unit;
    let lower = wei - rest;
    let is_nearer_to_upper = unit > 1 && rest >= unit / 2;
    let upper = lower.checked_add(unit).filter(|_| is_nearer_to_upper);
    exact_gwei(upper.unwrap_or(lower))
}
