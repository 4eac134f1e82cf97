//! The samples of an hour that has not ended, or that is read by a refill.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::bucket::{Bucket, Sample};
use super::saved::{SavedBucket, SavedSample, restore_buckets};
use super::{HOUR, MINUTE, TEN_MINUTES};

/// Samples of one hour, limited in number. A chain with more blocks keeps every second one, or every fourth, and so on:
/// its medians are those of the blocks that are kept. Its counts, lowest and highest values are exact.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OpenHour {
    /// Seconds since 1970.
    start: u32,
    /// In ascending order of block number, and of time.
    samples: VecDeque<Sample>,
    /// Block numbers that are kept are multiples of it.
    stride: u64,
    /// Blocks that are not kept, by minute, oldest first.
    dropped: Vec<Bucket>,
}

/// An open hour as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedHour {
    start: u32,
    stride: u64,
    samples: Vec<SavedSample>,
    dropped: Vec<SavedBucket>,
}

impl Default for OpenHour {
    fn default() -> Self {
        Self { start: 0, samples: VecDeque::new(), stride: 1, dropped: Vec::new() }
    }
}

impl OpenHour {
    /// Number of samples that are kept. A chain with a block a second has 3,600 an hour.
    pub(crate) const MAX_SAMPLES: usize = 4096;

    const MAX_STRIDE: u64 = 1 << 62;

    /// Number of minutes in an hour.
    const MINUTES: usize = 60;

    /// Returns the number of samples by which a full allocation of `count` grows.
    fn growth(count: usize) -> usize {
        (count / 8).max(64).min(Self::MAX_SAMPLES.saturating_sub(count).max(1))
    }

    /// Returns the most samples that are allocated for `count` blocks.
    pub(crate) fn max_capacity(count: usize) -> usize {
        count.saturating_add(Self::growth(count)).min(Self::MAX_SAMPLES)
    }

    pub(crate) fn start(&self) -> u32 {
        self.start
    }

    /// Returns true if no block of the hour is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.dropped.is_empty()
    }

    /// Removes all samples. The new hour starts at this second.
    pub(crate) fn restart(&mut self, start: u32) {
        self.start = start;
        self.samples.clear();
        self.stride = 1;
        self.dropped.clear();
    }

    /// Returns the sample with this block number.
    pub(crate) fn get(&self, number: u64) -> Option<&Sample> {
        self.samples.get(self.position(number)?)
    }

    /// Returns the bytes that are allocated.
    #[cfg(test)]
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.samples.capacity() * size_of::<Sample>()
            + self.dropped.capacity() * size_of::<Bucket>()
    }

    /// Returns the samples that are kept, oldest first.
    pub(crate) fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter()
    }

    /// Returns the distance between the block numbers that are kept.
    pub(crate) fn stride(&self) -> u64 {
        self.stride
    }

    /// Returns the samples of the newest ten minutes, thinned out if there are many.
    pub(crate) fn last_ten_minutes(&self) -> Self {
        const MAX_SAMPLES: usize = 1024;
        let since = self.last().map_or(0, |last| last.time.saturating_sub(TEN_MINUTES));
        let first = self.samples.partition_point(|sample| sample.time <= since);
        let mut stride = self.stride;
        let mut samples: VecDeque<Sample> = self.samples.range(first..).copied().collect();
        while samples.len() > MAX_SAMPLES && stride < Self::MAX_STRIDE {
            stride *= 2;
            samples.retain(|sample| sample.number.is_multiple_of(stride));
        }
        samples.shrink_to_fit();
        Self { start: self.start, samples, stride, dropped: Vec::new() }
    }

    /// Returns the newest sample that is kept.
    pub(crate) fn last(&self) -> Option<&Sample> {
        self.samples.back()
    }

    pub(crate) fn save(&self) -> SavedHour {
        SavedHour {
            start: self.start,
            stride: self.stride,
            samples: self.samples.iter().map(SavedSample::from).collect(),
            dropped: self.dropped.iter().map(SavedBucket::from).collect(),
        }
    }

    /// Restores an hour; `None`: no hour can be like this.
    pub(crate) fn restore(saved: &SavedHour) -> Option<Self> {
        let SavedHour { start, stride, .. } = *saved;
        let end = start.checked_add(HOUR).filter(|_| start.is_multiple_of(HOUR))?;
        let dropped = restore_buckets(&saved.dropped, MINUTE, 60, end)?;
        let samples: VecDeque<Sample> = saved.samples.iter().map(SavedSample::restore).collect();
        let pairs = || samples.iter().zip(samples.iter().skip(1));
        let is_ordered =
            pairs().all(|(one, next)| one.number < next.number && one.time <= next.time);
        let is_within =
            samples.iter().map(|sample| sample.time).all(|time| (start..end).contains(&time))
                && dropped.first().is_none_or(|first| first.first >= start);
        let is_thinned = stride.is_power_of_two()
            && samples.iter().all(|sample| sample.number.is_multiple_of(stride));
        let is_valid = is_ordered && is_within && is_thinned && samples.len() <= Self::MAX_SAMPLES;
        is_valid.then_some(Self { start, samples, stride, dropped })
    }

    /// Returns the index of the first sample that is not below this block.
    fn index(&self, number: u64) -> usize {
        self.samples.partition_point(|sample| sample.number < number)
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.samples.binary_search_by_key(&number, |sample| sample.number).ok()
    }

    /// Adds a block that is not known, mostly the newest one. It gets a time between those of its neighbours.
    pub(crate) fn add(&mut self, mut sample: Sample) {
        let index = self.index(sample.number);
        let next = self.samples.get(index);
        if next.is_some_and(|next| next.number == sample.number) {
            return;
        }
        let before = index.checked_sub(1).and_then(|index| self.samples.get(index));
        let latest = next.map_or(self.start.saturating_add(HOUR - 1), |next| next.time);
        let earliest = before.map_or(self.start, |before| before.time);
        sample.time = sample.time.min(latest).max(earliest);
        while self.samples.len() >= Self::MAX_SAMPLES && self.stride < Self::MAX_STRIDE {
            self.stride *= 2;
            for sample in std::mem::take(&mut self.samples) {
                self.keep_or_drop(sample);
            }
        }
        self.keep_or_drop(sample);
    }

    fn keep_or_drop(&mut self, sample: Sample) {
        if sample.number.is_multiple_of(self.stride) {
            if self.samples.len() == self.samples.capacity() {
                self.samples.reserve_exact(Self::growth(self.samples.len()));
            }
            self.samples.insert(self.index(sample.number), sample);
            return;
        }
        let bucket = Bucket::single(&sample);
        let key = |bucket: &Bucket| bucket.start(MINUTE);
        match self.dropped.binary_search_by_key(&key(&bucket), key) {
            Ok(index) => {
                if let Some(known) = self.dropped.get_mut(index) {
                    known.add(&bucket);
                }
            }
            Err(index) => {
                self.dropped.reserve_exact(Self::MINUTES.saturating_sub(self.dropped.len()));
                self.dropped.insert(index, bucket);
            }
        }
    }

    /// Replaces the sample with the same number, which keeps its time. Returns false if there is none, or if it is the
    /// same.
    pub(crate) fn replace(&mut self, sample: Sample) -> bool {
        let known = self.position(sample.number).and_then(|index| self.samples.get_mut(index));
        let Some(known) = known else { return false };
        let before = std::mem::replace(known, Sample { time: known.time, ..sample });
        before != *known
    }

    /// Removes the samples of blocks above this one.
    pub(crate) fn remove_above(&mut self, number: u64) {
        while self.samples.back().is_some_and(|sample| sample.number > number) {
            self.samples.pop_back();
        }
    }

    /// Returns the buckets of this width, oldest first.
    pub(crate) fn buckets(&self, width: u32) -> impl Iterator<Item = Bucket> + use<> {
        debug_assert!(HOUR.is_multiple_of(width), "buckets do not cross hours");
        let mut groups: BTreeMap<u32, (Bucket, Vec<Sample>)> = BTreeMap::new();
        let dropped = self.dropped.iter().map(|bucket| (*bucket, None));
        let kept = self.samples.iter().map(|sample| (Bucket::single(sample), Some(*sample)));
        for (bucket, sample) in dropped.chain(kept) {
            let group = groups.entry(bucket.start(width));
            let group = group.and_modify(|(known, _)| known.add(&bucket));
            let (_, samples) = group.or_insert_with(|| (bucket, Vec::new()));
            samples.extend(sample);
        }
        groups.into_values().map(|(mut bucket, samples)| {
            bucket.set_medians(&samples);
            bucket
        })
    }
}
