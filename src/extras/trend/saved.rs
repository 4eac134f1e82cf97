//! A trend in a form that can be stored, and its checks.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::bucket::{Bucket, Range, Sample};
use super::open_hour::{OpenHour, SavedHour};
use super::{FeeTrend, HOUR, Period};

/// A trend as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedTrend {
    newest_block: u64,
    newest_time: u32,
    minutes: Vec<SavedBucket>,
    ten_minutes: Vec<SavedBucket>,
    hours: Vec<SavedBucket>,
    /// The newest ten minutes of the hour before.
    before: SavedHour,
    open: SavedHour,
}

/// First time, number of blocks, base fees, tips, ratios, median price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedBucket(u32, u32, [u64; 3], [u64; 3], Option<[f64; 3]>, u64);

/// Number, time, base fee, tip, ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedSample(u64, u32, u64, u64, Option<f64>);

impl From<&Bucket> for SavedBucket {
    fn from(bucket: &Bucket) -> Self {
        let ratio = bucket.gas_used_ratio().map(Range::values);
        let (base_fee, tip) = (bucket.base_fee.values(), bucket.tip.values());
        Self(bucket.first, bucket.blocks, base_fee, tip, ratio, bucket.price)
    }
}

impl From<&Sample> for SavedSample {
    fn from(sample: &Sample) -> Self {
        let ratio = Some(sample.gas_used_ratio).filter(|ratio| !ratio.is_nan());
        Self(sample.number, sample.time, sample.base_fee, sample.tip, ratio)
    }
}

impl SavedBucket {
    /// Returns the bucket; `None`: it cannot be one.
    pub(crate) fn restore(&self) -> Option<Bucket> {
        fn range<T: Copy + PartialOrd>([min, median, max]: [T; 3]) -> Option<Range<T>> {
            (min <= median && median <= max).then_some(Range { min, median, max })
        }
        let Self(first, blocks, base_fee, tip, ratio, price) = *self;
        let (base_fee, tip) = (range(base_fee)?, range(tip)?);
        let lowest = base_fee.min.saturating_add(tip.min);
        let prices = lowest..=base_fee.max.saturating_add(tip.max);
        if blocks == 0 || !prices.contains(&price) {
            return None;
        }
        let gas_used_ratio = ratio.unwrap_or([f64::NAN; 3]);
        let [min, median, max] = gas_used_ratio;
        let gas_used_ratio = match ratio {
            None => Range { min, median, max },
            Some(values) => range(values)?,
        };
        Some(Bucket { first, blocks, base_fee, tip, gas_used_ratio, price })
    }
}

impl SavedSample {
    pub(crate) fn restore(&self) -> Sample {
        let Self(number, time, base_fee, tip, ratio) = *self;
        Sample { number, base_fee, tip, gas_used_ratio: ratio.unwrap_or(f64::NAN), time }
    }
}

/// Returns the buckets if they are in order, at most `max`, and before the second `end`.
pub(crate) fn restore_buckets(
    saved: &[SavedBucket],
    width: u32,
    max: usize,
    end: u32,
) -> Option<Vec<Bucket>> {
    let buckets: Vec<Bucket> = saved.iter().map(SavedBucket::restore).collect::<Option<_>>()?;
    let starts = || buckets.iter().map(|bucket| bucket.start(width));
    let is_ordered = starts().zip(starts().skip(1)).all(|(one, next)| one < next);
    let is_past = buckets.last().is_none_or(|last| last.first < end);
    (is_ordered && is_past && buckets.len() <= max).then_some(buckets)
}

impl FeeTrend {
    /// Returns everything that [`restore`](Self::restore) needs.
    #[must_use]
    pub(crate) fn save(&self) -> SavedTrend {
        if !self.ended.is_empty() {
            let mut trend = self.clone();
            trend.finish_samples();
            return trend.save();
        }
        let [minutes, ten_minutes, hours] =
            self.closed.each_ref().map(|closed| closed.iter().map(SavedBucket::from).collect());
        SavedTrend {
            newest_block: self.newest_block,
            newest_time: self.newest_time,
            minutes,
            ten_minutes,
            hours,
            before: self.before.save(),
            open: self.open.save(),
        }
    }

    /// Restores a trend, with hourly buckets for so many days. `None`: no trend can be like this.
    #[must_use]
    pub(crate) fn restore(saved: &SavedTrend, days: u32) -> Option<Self> {
        let open = OpenHour::restore(&saved.open)?;
        let before = OpenHour::restore(&saved.before)?;
        let closed = |period: Period, saved: &[SavedBucket]| -> Option<VecDeque<Bucket>> {
            let width = period.bucket_seconds();
            let max = usize::try_from(period.seconds() / width).ok()?;
            Some(restore_buckets(saved, width, max, open.start())?.into())
        };
        let closed = [
            closed(Period::Hour, &saved.minutes)?,
            closed(Period::Day, &saved.ten_minutes)?,
            closed(Period::Week, &saved.hours)?,
        ];
        let last = open.last().map_or((0, 0), |last| (last.number, last.time));
        let is_in_open_hour = saved.newest_time - saved.newest_time % HOUR == open.start();
        let is_before = before.start() < open.start() || before.is_empty();
        let is_newest = last.0 <= saved.newest_block && last.1 <= saved.newest_time;
        if !is_in_open_hour || !is_newest || !is_before {
            return None;
        }
        let mut trend = Self {
            closed,
            newest_block: saved.newest_block,
            newest_time: saved.newest_time,
            before,
            ..Self::new(days)
        };
        trend.open = open;
        trend.trim();
        Some(trend)
    }
}
