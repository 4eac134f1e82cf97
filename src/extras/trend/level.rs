//! Comparison of the price of the next block with those of the last day.

use std::cmp::Ordering;

use serde::Serialize;
use utoipa::ToSchema;

use super::bucket::Bucket;
use super::state::Trends;
use super::{HOUR, TEN_MINUTES};
use crate::assembly::DayPrices;
use crate::fees::statistics::nearest_rank;
use crate::store::StoredChain;

/// Where a price stands among those of the last 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// At most the 20th percentile, and at least 5 % below the median.
    Low,
    /// Neither low nor high.
    Normal,
    /// At least the 80th percentile, and at least 5 % above the median.
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

/// Compares a price in wei with those of a [day](day_prices); `None`: there are none.
pub(crate) fn level(price: u128, day: &[u64]) -> Option<PriceLevel> {
    let [lower, usual, upper] = [20, 50, 80].map(|percent| nearest_rank(day, percent));
    let (lower, usual, upper) = (u128::from(lower?), u128::from(usual?), u128::from(upper?));
    // A price that hardly moves is below or above a percentile by chance.
    let scaled = price.saturating_mul(100);
    let level = match price.cmp(&usual) {
        Ordering::Less if price <= lower && scaled <= usual * 95 => Level::Low,
        Ordering::Greater if price >= upper && scaled >= usual * 105 => Level::High,
        _ => Level::Normal,
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
fn deviation(price: u128, usual: u128) -> Option<f64> {
    const MILLION: u32 = 1_000_000;
    if price == usual {
        return Some(0.0);
    }
    let difference = price.abs_diff(usual).saturating_mul(MILLION.into());
    let millionths = difference.saturating_add(usual / 2).checked_div(usual)?;
    let size = f64::from(u32::try_from(millionths).unwrap_or(u32::MAX)) / f64::from(MILLION);
    Some(if price < usual { -size } else { size })
}

impl DayPrices for Trends {
    fn percentile(&self, chain: &StoredChain, percent: usize) -> Option<u128> {
        let day = self.trend(chain).day_prices()?;
        nearest_rank(&day, percent).map(u128::from)
    }
}
