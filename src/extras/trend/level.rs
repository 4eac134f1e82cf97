//! Comparison of the price of the last ten minutes with those of the last day.

use serde::Serialize;
use utoipa::ToSchema;

use super::bucket::Bucket;
use super::{HOUR, TEN_MINUTES};
use crate::fees::statistics::nearest_rank;

/// Where a price stands among those of the last 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Below the 25th percentile, and at least 5 % below the median.
    Low,
    /// Neither low nor high.
    Normal,
    /// Above the 75th percentile, and at least 5 % above the median.
    High,
}

/// A level, and how far the price is from that of the day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PriceLevel {
    /// The level.
    pub level: Level,
    /// Difference of the price and the median of the day, divided by that median; `None`: the median is 0, and the price
    /// is not.
    pub deviation: Option<f64>,
}

/// Compares the median of the `newest` prices, those of single blocks, with the medians of the day's buckets of ten
/// minutes. Both are medians of the same quantity, and each bucket counts once. `None`: the buckets cover less than an
/// hour up to the second `now`.
pub(crate) fn level(buckets: &[Bucket], mut newest: Vec<u64>, now: u32) -> Option<PriceLevel> {
    let day = day_prices(buckets, now)?;
    newest.sort_unstable();
    let price = nearest_rank(&newest, 50)?;
    let [lower, usual, upper] = [25, 50, 75].map(|percent| nearest_rank(&day, percent));
    let (lower, usual, upper) = (lower?, usual?, upper?);
    // A price that hardly moves is below or above a percentile by chance.
    let [scaled, margin] = [price, usual].map(|price| u128::from(price) * 100);
    let distance = u128::from(usual) * 5;
    let level = if price < lower && scaled + distance <= margin {
        Level::Low
    } else if price > upper && scaled >= margin + distance {
        Level::High
    } else {
        Level::Normal
    };
    Some(PriceLevel { level, deviation: deviation(price, usual) })
}

/// Returns the medians of the day's buckets of ten minutes, ascending. `None`: the buckets cover less than an hour up to
/// the second `now`.
pub(crate) fn day_prices(buckets: &[Bucket], now: u32) -> Option<Vec<u64>> {
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
    let mut day: Vec<u64> = buckets.iter().map(|bucket| bucket.price).collect();
    day.sort_unstable();
    Some(day)
}

/// Returns (price − usual) / usual with six decimals, at most 4,294; `None`: there is none.
fn deviation(price: u64, usual: u64) -> Option<f64> {
    const MILLION: u32 = 1_000_000;
    if price == usual {
        return Some(0.0);
    }
    let difference = u128::from(price.abs_diff(usual)) * u128::from(MILLION);
    let usual_wide = u128::from(usual);
    let millionths = (difference + usual_wide / 2).checked_div(usual_wide)?;
    let size = f64::from(u32::try_from(millionths).unwrap_or(u32::MAX)) / f64::from(MILLION);
    Some(if price < usual { -size } else { size })
}
