//! Comparison of the price of the next block with those of the last day, and the members of the fee market that tell it.

use std::cmp::Ordering;

use serde::Serialize;
use utoipa::ToSchema;

use super::{FeeTrend, HOUR, Period, TEN_MINUTES, Trends, to_seconds};
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

/// Members of the fee market: a level, and how far the price is from that of the day. The default is for a day without
/// prices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = FeeMarket)]
pub(crate) struct PriceLevel {
    /// Where `expected_price_per_gas.medium` stands among the ten-minute medians of the last 24 hours; `null` before an
    /// hour is known, and while the chain is stale.
    #[schema(required)]
    pub level: Option<Level>,
    /// How far that price is from the median of the last 24 hours, divided by that median: 0.12 is 12 % above it. `null`
    /// while `level` is, and if the median is 0.
    #[schema(required)]
    pub level_deviation: Option<f64>,
}

impl PriceLevel {
    /// Compares a price in wei with those of a [day](FeeTrend::day_prices).
    pub(super) fn new(price: u128, day: &[u64]) -> Self {
        let percentiles = [20, 50, 80].map(|percent| nearest_rank(day, percent).map(u128::from));
        let [Some(lower), Some(usual), Some(upper)] = percentiles else { return Self::default() };
        // A price that hardly moves is below or above a percentile by chance.
        let scaled = price.saturating_mul(100);
        let level = match price.cmp(&usual) {
            Ordering::Less if price <= lower && scaled <= usual * 95 => Level::Low,
            Ordering::Greater if price >= upper && scaled >= usual * 105 => Level::High,
            _ => Level::Normal,
        };
        Self { level: Some(level), level_deviation: deviation(price, usual) }
    }
}

impl FeeTrend {
    /// Returns the medians of the buckets of ten minutes in the 24 hours before the second `now`, ascending. `None`: they
    /// cover less than an hour. A bucket after a gap covers nothing before its first block.
    #[must_use]
    pub(crate) fn day_prices(&self, now: u64) -> Option<Vec<u64>> {
        let buckets = self.buckets(Period::Day, now);
        let now = to_seconds(now).max(self.newest_known());
        let (mut known, mut covered_until) = (0_u32, None);
        for bucket in &buckets {
            let start = bucket.start(TEN_MINUTES);
            let from = if covered_until == Some(start) { start } else { bucket.first };
            let end = start.saturating_add(TEN_MINUTES);
            known = known.saturating_add(now.min(end).saturating_sub(from));
            covered_until = Some(end);
        }
        if known < HOUR {
            return None;
        }
        let mut day: Vec<u64> = buckets.iter().map(|bucket| bucket.price).collect();
        day.sort_unstable();
        Some(day)
    }
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
        nearest_rank(&self.day_prices(chain)?, percent).map(u128::from)
    }
}
