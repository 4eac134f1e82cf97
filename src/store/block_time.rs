//! The time between blocks, by the times in their headers.

use std::collections::VecDeque;
use std::time::Duration;

use crate::fees::HeaderTime;

/// Headers of a chain, oldest first, and the block time that they say.
#[derive(Debug, Default)]
pub(super) struct BlockTime {
    /// Number and time in seconds since 1970 of each.
    headers: VecDeque<(u64, u64)>,
    measured: Option<Duration>,
}

impl BlockTime {
    /// Headers are read twice a minute, so these span a quarter of an hour.
    const MAX_HEADERS: usize = 32;

    /// Times in headers are whole seconds. Over this many seconds the mean has two digits.
    const MIN_SECONDS: u64 = 120;

    /// Times between headers that have to be alike: one may have a standstill, or begin with the header of another node.
    const MIN_TIMES: usize = 3;

    /// The block time is used within these bounds.
    const BOUNDS: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(50)..=Duration::from_mins(1);

    /// Returns the block time; `None`: the headers have not told it yet.
    pub(super) fn measured(&self) -> Option<Duration> {
        self.measured
    }

    /// Records a header. A reorganisation to a lower one removes the headers from there on.
    pub(super) fn record(&mut self, header: HeaderTime) {
        let newest = (header.number, header.unix_seconds);
        while self.headers.back().is_some_and(|(number, _)| *number > newest.0) {
            self.headers.pop_back();
        }
        if let Some((number, time)) = self.headers.back() {
            if *number == newest.0 {
                return;
            }
            if newest.1 < *time {
                self.headers.clear();
            }
        }
        if self.headers.len() == Self::MAX_HEADERS {
            self.headers.pop_front();
        }
        self.headers.push_back(newest);
        self.measure(Self::MIN_TIMES);
    }

    /// Adds a header that is older than all that are known.
    pub(super) fn add_older(&mut self, number: u64, unix_seconds: u64) {
        let oldest = self.headers.front();
        if oldest.is_some_and(|oldest| number < oldest.0 && unix_seconds < oldest.1) {
            self.headers.push_front((number, unix_seconds));
            self.measure(1);
        }
    }

    fn measure(&mut self, least_times: usize) {
        let Some(newest) = self.headers.back().copied() else { return };
        let is_enough = |oldest: &(u64, u64)| span(*oldest, newest).1 >= Self::MIN_SECONDS;
        // The shortest span that is long enough shows whether the longest still holds: blocks that are missed at random
        // differ by less than a mean divided by the root of their number.
        while let (Some(longest), Some(shortest)) =
            (self.headers.front().copied(), self.headers.iter().rposition(is_enough))
        {
            let shortest = shortest.min(self.headers.len().saturating_sub(Self::MIN_TIMES + 1));
            let recent = self.headers.range(shortest..);
            let first = recent.clone().next().copied().unwrap_or(longest);
            let (all, mean_of_recent) = (mean(span(longest, newest)), mean(span(first, newest)));
            let pairs = recent.clone().zip(recent.skip(1));
            let mut times: Vec<_> = pairs.map(|(one, next)| mean(span(*one, *next))).collect();
            times.sort_unstable();
            let usual = times.get(times.len() / 2).copied().unwrap_or_default();
            // Otherwise the chain has stood, or a node with other numbers has made the head leap.
            if times.len() < least_times || usual.abs_diff(mean_of_recent) > usual / 3 {
                return;
            }
            let difference = u128::from(all.abs_diff(mean_of_recent));
            let blocks = u128::from(span(first, newest).0);
            if shortest == 0
                || difference * difference * blocks <= u128::from(all) * u128::from(all)
            {
                let measured = Duration::from_micros(with_two_digits(all));
                if Self::BOUNDS.contains(&measured) {
                    self.measured = Some(measured);
                }
                return;
            }
            self.headers.pop_front();
        }
    }
}

/// Returns the blocks and seconds from one header to a later one.
fn span(oldest: (u64, u64), newest: (u64, u64)) -> (u64, u64) {
    (newest.0.saturating_sub(oldest.0), newest.1.saturating_sub(oldest.1))
}

/// Returns the mean time between blocks in microseconds.
fn mean((blocks, seconds): (u64, u64)) -> u64 {
    seconds.saturating_mul(1_000_000) / blocks.max(1)
}

fn with_two_digits(value: u64) -> u64 {
    let unit = 10_u64.pow(value.max(1).ilog10().saturating_sub(1));
    value.saturating_add(unit / 2) / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header((number, milliseconds): (u64, u64)) -> HeaderTime {
        // The time in a header is a whole second.
        HeaderTime::new(number, milliseconds / 1000, std::time::Instant::now(), Duration::ZERO)
    }

    /// Heads that are read each 30 s for so many seconds, after the last of these, with this block time.
    fn read(before: &[(u64, u64)], seconds: u64, block_ms: u64) -> Vec<(u64, u64)> {
        let (number, start) = before.last().copied().unwrap_or((1_000_000, 1_700_000_000_000));
        let blocks = (1..=seconds / 30).map(|reading| reading * 30_000 / block_ms);
        let later = blocks.map(|blocks| (number + blocks, start + blocks * block_ms));
        before.iter().copied().chain(later).collect()
    }

    /// Returns the milliseconds that these heads say, each with its time in milliseconds.
    fn measured(heads: &[(u64, u64)]) -> Option<u128> {
        let mut times = BlockTime::default();
        for head in heads {
            times.record(header(*head));
        }
        times.measured().map(|time| time.as_millis())
    }

    #[test]
    fn block_time_has_two_digits_after_two_minutes() {
        for (block_ms, expected) in [(12_060, 12_000), (12_000, 12_000), (2000, 2000), (450, 450)] {
            assert_eq!(measured(&read(&[], 180, block_ms)), Some(expected), "{block_ms}");
        }
        // Blocks share a second.
        for block_ms in [250, 200, 100, 50] {
            assert_eq!(measured(&read(&[], 180, block_ms)), Some(u128::from(block_ms)));
        }
        assert_eq!(measured(&read(&[], 120, 2000)), None, "the span is too short");
        assert_eq!(measured(&read(&[], 600, 20)), None, "too fast to be true");
        assert_eq!(measured(&read(&[], 600, 150_000)), None, "too slow to follow");
    }

    #[test]
    fn a_change_is_followed_within_two_and_a_half_minutes() {
        let times = [12_000, 2000, 450, 200, 100, 750, 2000, 12_000];
        let mut heads = read(&[], 1200, 2000);
        for block_ms in times {
            heads = read(&heads, 180, block_ms);
            assert_eq!(measured(&heads), Some(u128::from(block_ms)), "{block_ms}");
        }
    }

    #[test]
    fn missed_blocks_and_a_standstill_change_nothing() {
        let steady = read(&[], 900, 12_000);
        // Of ten blocks two are missed.
        let (number, time) = *steady.last().unwrap();
        let missed: Vec<_> = (1..=4).map(|i| (number + i * 2, time + i * 30_000)).collect();
        assert_eq!(measured(&[steady.clone(), missed].concat()), Some(12_000));
        // An hour without a block, then the next minutes.
        let mut times = BlockTime::default();
        for head in &steady {
            times.record(header(*head));
        }
        for head in read(&[(number + 1, time + 3_600_000)], 300, 12_000) {
            times.record(header(head));
            assert_eq!(times.measured(), Some(Duration::from_secs(12)));
        }
    }

    #[test]
    fn a_node_with_other_numbers_changes_nothing() {
        let steady = read(&[], 300, 12_000);
        let (number, time) = *steady.last().unwrap();
        for other in [number - 200, number - 30, number + 33, number + 5_000_000] {
            let meanwhile = read(&[(other, time + 12_000)], 60, 12_000);
            let back = read(&[(number + 9, time + 108_000)], 600, 12_000);
            for end in 1..back.len() {
                let heads = [&steady[..], &meanwhile, &back[..end]].concat();
                assert_eq!(measured(&heads), Some(12_000), "{other}");
                // The headers before are few and far between: their block time is not known before those after.
                let heads = [&steady[..2], &[steady[5]], &meanwhile[1..], &back[..end]].concat();
                assert!(matches!(measured(&heads), None | Some(12_000)), "{other}");
            }
        }
    }

    #[test]
    fn an_older_header_tells_it_at_once() {
        let mut times = BlockTime::default();
        times.add_older(1, 1);
        times.record(header((5000, 1_700_000_000_000)));
        assert_eq!(times.measured(), None);
        times.add_older(6000, 1_699_999_000);
        times.add_older(4000, 1_700_000_001);
        assert_eq!(times.measured(), None, "not older");
        times.add_older(4000, 1_699_999_799);
        assert_eq!(times.measured(), Some(Duration::from_millis(200)));
        // A lower head, and one from the past, end nothing.
        times.record(header((4990, 1_700_000_000_000)));
        times.record(header((5001, 1_600_000_000_000)));
        assert_eq!(times.measured(), Some(Duration::from_millis(200)));
    }
}
