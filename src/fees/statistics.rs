//! Shares, percentiles, averages and intervals.

use super::average;

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
#[must_use]
pub fn nearest_rank<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = sorted.len().checked_mul(percent)?.div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Returns the ends of Wilson's interval of a share of so many outcomes (E. B. Wilson, 1927). `z` is the two-sided quantile
/// of the normal distribution.
#[must_use]
pub fn wilson_interval(share: f64, outcomes: f64, z: f64) -> [f64; 2] {
    let scale = 1.0 + z * z / outcomes;
    let centre = (share + z * z / (2.0 * outcomes)) / scale;
    let variance = share * (1.0 - share) / outcomes + z * z / (4.0 * outcomes * outcomes);
    let half = z / scale * variance.sqrt();
    [centre - half, centre + half]
}

/// Returns the average, rounded down; `None` without amounts, or if their sum exceeds 128 bits.
#[must_use]
pub fn mean(amounts: &[u128]) -> Option<u128> {
    average(amounts.iter().copied()).ok()?
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
