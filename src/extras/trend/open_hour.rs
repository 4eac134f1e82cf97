//! The samples of an hour that has not ended.

use super::HOUR;
use super::bucket::Sample;

/// Samples of one hour.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OpenHour {
    /// Seconds since 1970.
    pub(super) start: u32,
    /// In ascending order of block number, and of time.
    pub(super) samples: Vec<Sample>,
}

impl OpenHour {
    /// Most samples. A chain with ten blocks a second has 36,000 an hour; more are not counted.
    pub(crate) const MAX_SAMPLES: usize = 40_000;

    /// Returns the number of samples by which a full allocation of `count` grows. Doubling would take twice the memory.
    fn growth(count: usize) -> usize {
        (count / 8).max(64).min(Self::MAX_SAMPLES.saturating_sub(count).max(1))
    }

    /// Returns the most samples that are allocated for `count` blocks.
    pub(crate) fn max_capacity(count: usize) -> usize {
        count.saturating_add(Self::growth(count)).min(Self::MAX_SAMPLES)
    }

    /// Removes all samples, whose memory the new hour takes. It starts at this second.
    pub(crate) fn restart(&mut self, start: u32) {
        self.start = start;
        self.samples.clear();
    }

    /// Returns the index of the sample of a block, or the one at which it belongs.
    fn position(&self, number: u64) -> Result<usize, usize> {
        self.samples.binary_search_by_key(&number, |sample| sample.number)
    }

    /// Returns the sample with this block number.
    pub(crate) fn get(&self, number: u64) -> Option<&Sample> {
        self.samples.get(self.position(number).ok()?)
    }

    /// Adds a block, mostly the newest one. It gets a time between those of its neighbours. Does nothing if the block is
    /// known, or if there are too many.
    pub(crate) fn add(&mut self, mut sample: Sample) {
        let Err(index) = self.position(sample.number) else { return };
        if self.samples.len() >= Self::MAX_SAMPLES {
            return;
        }
        let before = index.checked_sub(1).and_then(|index| self.samples.get(index));
        let next = self.samples.get(index);
        let latest = next.map_or(self.start.saturating_add(HOUR - 1), |next| next.time);
        let earliest = before.map_or(self.start, |before| before.time);
        sample.time = sample.time.min(latest).max(earliest);
        if self.samples.len() == self.samples.capacity() {
            self.samples.reserve_exact(Self::growth(self.samples.len()));
        }
        self.samples.insert(index, sample);
    }

    /// Replaces the sample with the same number, which keeps its time. Returns true if that changes one.
    pub(crate) fn replace(&mut self, sample: Sample) -> bool {
        let position = self.position(sample.number).ok();
        let Some(known) = position.and_then(|position| self.samples.get_mut(position)) else {
            return false;
        };
        let sample = Sample { time: known.time, ..sample };
        std::mem::replace(known, sample) != sample
    }
}
