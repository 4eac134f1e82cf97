//! Comparison of the price with those of the last day.

use super::bucket::Bucket;
use super::{HOUR, TEN_MINUTES};

/// Where a price stands among those of the last 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Below the 25th percentile.
    Low,
    /// Between the two.
    Normal,
    /// Above the 75th percentile.
    High,
}

/// Compares `price` with those of buckets of ten minutes: the sum of the median base fee and the median tip, once for
/// each block. `None`: they cover less than an hour up to the second `now`.
pub(super) fn level(buckets: &[Bucket], price: u128, now: u32) -> Option<Level> {
    let (mut known, mut covered_until) = (0_u32, None);
    for bucket in buckets {
        let start = bucket.start(TEN_MINUTES);
        let is_after_gap = covered_until != Some(start);
        known = known.saturating_add(bucket.known_seconds(is_after_gap, now));
        covered_until = Some(start.saturating_add(TEN_MINUTES));
    }
    if known < HOUR {
        return None;
    }
    let mut prices: Vec<(u128, u64)> =
        buckets.iter().map(|bucket| (bucket.price(), bucket.blocks.into())).collect();
    prices.sort_unstable();
    Some(if price < weighted_percentile(&prices, 25)? {
        Level::Low
    } else if price > weighted_percentile(&prices, 75)? {
        Level::High
    } else {
        Level::Normal
    })
}

/// Returns the nearest-rank percentile of ascending values with weights.
fn weighted_percentile(sorted: &[(u128, u64)], percent: u64) -> Option<u128> {
    let total: u64 = sorted.iter().map(|(_, weight)| weight).sum();
    let rank = total.saturating_mul(percent).div_ceil(100).max(1);
    let mut below = 0;
    let at_rank = |(_, weight): &&(u128, u64)| {
        below += weight;
        below >= rank
    };
    sorted.iter().find(at_rank).map(|(price, _)| *price)
}
