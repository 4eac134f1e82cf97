//! Shares and percentiles, for the score of the running service and for the backtest.

/// A share; the total is never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Number of hits.
    pub hits: u32,
    /// Number of quotes that could be compared.
    pub total: u32,
}

impl Share {
    /// Returns the share from 0 to 1.
    #[must_use]
    pub fn value(self) -> f64 {
        f64::from(self.hits) / f64::from(self.total)
    }
}

/// Returns the nearest-rank percentile of ascending values; `None` without values.
pub(crate) fn nearest_rank<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = sorted.len().checked_mul(percent)?.div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Returns the average, rounded down; `None` without amounts, or if their sum exceeds 128 bits.
pub(crate) fn mean(amounts: &[u128]) -> Option<u128> {
    let sum = amounts.iter().try_fold(0_u128, |sum, amount| sum.checked_add(*amount))?;
    sum.checked_div(u128::try_from(amounts.len()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_is_rounded_down() {
        assert_eq!([mean(&[]), mean(&[1, 2]), mean(&[u128::MAX, 1])], [None, Some(1), None]);
    }

    #[test]
    fn percentile_is_the_nearest_rank() {
        let hundred: Vec<u128> = (1..=100).collect();
        assert_eq!(
            [50, 95, 99].map(|percent| nearest_rank(&hundred, percent).unwrap()),
            [50, 95, 99]
        );
        assert_eq!(
            [50, 95, 99].map(|percent| nearest_rank(&[1, 2, 3], percent).unwrap()),
            [2, 3, 3]
        );
        assert_eq!(nearest_rank(&[7], 1), Some(7));
        assert_eq!(nearest_rank::<u128>(&[], 50), None);
    }
}
