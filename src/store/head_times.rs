//! The mean time between blocks, from the times at which heads were first seen.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Times of the newest heads, oldest first.
#[derive(Debug, Default)]
pub(super) struct HeadTimes {
    seen: VecDeque<(u64, Instant)>,
}

impl HeadTimes {
    const MAX_HEADS: usize = 21;

    /// Blocks over which a mean says something. Polls see a head up to one block time late.
    const MIN_BLOCKS: u64 = 10;

    /// Records when the head `number` was first seen. A reorg to a lower head removes the heads from there on.
    pub(super) fn record(&mut self, number: u64, first_seen: Instant) {
        while self.seen.back().is_some_and(|(known, _)| *known > number) {
            self.seen.pop_back();
        }
        if self.seen.back().is_some_and(|(known, _)| *known == number) {
            return;
        }
        if self.seen.len() >= Self::MAX_HEADS {
            self.seen.pop_front();
        }
        self.seen.push_back((number, first_seen));
    }

    /// Returns the mean time between the newest blocks with two significant digits, because the polls measure it no more
    /// precisely; `None`: too few blocks were seen.
    pub(super) fn block_time(&self) -> Option<Duration> {
        let ((oldest, first), (newest, last)) = self.seen.front().zip(self.seen.back())?;
        let blocks = newest.checked_sub(*oldest).filter(|blocks| *blocks >= Self::MIN_BLOCKS)?;
        let elapsed = last.saturating_duration_since(*first).as_millis();
        let mean = u64::try_from(elapsed).ok()?.checked_div(blocks)?;
        let unit = 10_u64.pow(mean.max(1).ilog10().saturating_sub(1));
        let rounded = mean.saturating_add(unit / 2) / unit * unit;
        (rounded > 0).then(|| Duration::from_millis(rounded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the block time in milliseconds after these heads, each with its time in milliseconds.
    fn after(heads: &[(u64, u64)]) -> Option<u128> {
        let start = Instant::now();
        let mut times = HeadTimes::default();
        for (number, milliseconds) in heads {
            times.record(*number, start + Duration::from_millis(*milliseconds));
        }
        times.block_time().map(|time| time.as_millis())
    }

    #[test]
    fn block_time_is_the_mean_with_two_digits() {
        let heads = |milliseconds: u64| -> Vec<_> {
            (0..11).map(|index| (100 + index, index * milliseconds)).collect()
        };
        for (milliseconds, expected) in
            [(12_049, 12_000), (12_700, 13_000), (2013, 2000), (251, 250), (7, 7), (98, 98)]
        {
            assert_eq!(after(&heads(milliseconds)), Some(expected), "{milliseconds}");
        }
        assert_eq!(after(&heads(0)), None);
        assert_eq!(after(&heads(2000)[..10]), None);
        assert_eq!(after(&[]), None);
        // A jump counts all its blocks.
        assert_eq!(after(&[(1, 0), (11, 20_000)]), Some(2000));
    }

    #[test]
    fn repeated_and_regressed_heads_do_not_count_twice() {
        let mut heads: Vec<_> = (0..11).map(|index| (100 + index, index * 2000)).collect();
        heads.extend([(110, 21_000), (108, 22_000), (109, 23_000), (110, 24_000)]);
        assert_eq!(after(&heads), Some(2400));
    }

    #[test]
    fn only_the_newest_heads_count() {
        let slow = (0..10).map(|index| (index, index * 9000));
        let fast = (0..21).map(|index| (10 + index, 90_000 + index * 1000));
        assert_eq!(after(&slow.chain(fast).collect::<Vec<_>>()), Some(1000));
    }
}
