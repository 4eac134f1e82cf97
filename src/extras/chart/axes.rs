//! Axes of a chart.

use crate::fees::gwei::exact_gwei;

/// Axis of block numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockAxis {
    pub(crate) first: u64,
    pub(crate) count: usize,
}

impl BlockAxis {
    /// Creates the axis of the `count` blocks up to `last`; at least one.
    pub(crate) fn ending_at(last: u64, count: usize) -> Self {
        let count = count.max(1);
        let below = u64::try_from(count - 1).unwrap_or(u64::MAX);
        Self { first: last.saturating_sub(below), count }
    }

    pub(crate) fn last(&self) -> u64 {
        self.number_at(self.count - 1)
    }

    /// Returns the indices of blocks with round numbers, and these numbers.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = (usize, u64)> {
        /// Characters that fit on the axis, including the gaps between labels.
        const MAX_LABEL_CHARS: usize = 80;
        let max_labels = MAX_LABEL_CHARS / (self.last().to_string().len() + 2);
        let step = round_step(self.count.try_into().unwrap_or(u128::MAX), max_labels.max(1));
        let step = u64::try_from(step).unwrap_or(u64::MAX);
        let blocks = (0..self.count).map(|index| (index, self.number_at(index)));
        blocks.filter(move |(_, number)| number.is_multiple_of(step))
    }

    fn number_at(&self, index: usize) -> u64 {
        self.first.saturating_add(u64::try_from(index).unwrap_or(u64::MAX))
    }
}

/// Axis of wei from 0 upwards, with ticks at round amounts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AmountAxis {
    step: u128,
    /// Highest amount on the axis.
    pub(crate) maximum: u128,
}

impl AmountAxis {
    const MAX_TICKS: usize = 5;

    /// Creates an axis that covers this amount.
    pub(crate) fn covering(wei: u128) -> Self {
        let highest = wei.max(1);
        let step = round_step(highest, Self::MAX_TICKS);
        Self { step, maximum: highest.div_ceil(step).saturating_mul(step) }
    }

    /// Length of the longest label in characters.
    pub(crate) fn longest_label_chars(&self) -> usize {
        self.ticks().map(|wei| exact_gwei(wei).len()).max().unwrap_or_default()
    }

    pub(crate) fn ticks(&self) -> impl Iterator<Item = u128> {
        let next = |wei: &u128| wei.checked_add(self.step).filter(|wei| *wei <= self.maximum);
        std::iter::successors(Some(0), next)
    }
}

/// Returns the smallest of 1, 2, 5, 10, 20, 50, … of which at most `max_steps` fit into `span`.
fn round_step(span: u128, max_steps: usize) -> u128 {
    let most = u128::try_from(max_steps).unwrap_or(u128::MAX);
    let decades = std::iter::successors(Some(1_u128), |unit| unit.checked_mul(10));
    let mut steps = decades.flat_map(|unit| [1, 2, 5].map(|times| unit.saturating_mul(times)));
    steps.find(|step| span / step <= most).unwrap_or(u128::MAX)
}
