//! Deadline of one attempt of a poll, which adapts to slow nodes.

use std::time::Duration;

/// Deadline of the attempts of one chain.
///
/// It starts at half a block time, which leaves the rest of the block time to the other nodes. Each poll without a good
/// reply in which a node was too slow doubles it, up to a limit: a late reply is better than none. A good reply reduces
/// it again, so that a node which falls silent delays the others no longer than needed.
#[derive(Debug)]
pub(crate) struct PollDeadline {
    min: Duration,
    max: Duration,
    current: Duration,
}

impl PollDeadline {
    /// Creates the deadline for a chain with this block time, which never exceeds `max`.
    pub(crate) fn new(block_time: Duration, max: Duration) -> Self {
        // Half a second, because a node may be on another continent. Few nodes need 2 s.
        let min = (block_time / 2).clamp(Duration::from_millis(500), Duration::from_secs(2));
        let min = min.min(max);
        Self { min, max, current: min }
    }

    pub(crate) fn current(&self) -> Duration {
        self.current
    }

    /// Records a poll without a good reply in which a node timed out. Returns true if the deadline is longer now.
    pub(crate) fn record_timeouts(&mut self) -> bool {
        let last = self.current;
        self.current = last.saturating_mul(2).min(self.max);
        self.current > last
    }

    /// Records a reply that took this long, and was the first good one.
    pub(crate) fn record_reply(&mut self, took: Duration) {
        let needed = took.saturating_mul(2).max(self.current / 2);
        self.current = needed.clamp(self.min, self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn deadline(block_time_ms: u32) -> PollDeadline {
        PollDeadline::new(MS * block_time_ms, MS * 10_000)
    }

    #[test]
    fn the_deadline_starts_at_half_a_block_time_within_bounds() {
        let starts =
            [100, 2000, 12_000].map(|block_time| deadline(block_time).current().as_millis());
        assert_eq!(starts, [500, 1000, 2000]);
        assert_eq!(PollDeadline::new(MS * 2000, MS * 300).current(), MS * 300);
    }

    #[test]
    fn timeouts_of_all_nodes_double_it_up_to_the_limit() {
        let mut deadline = deadline(2000);
        let grown: Vec<_> =
            (0..5).map(|_| (deadline.record_timeouts(), deadline.current().as_millis())).collect();
        let expected = [(true, 2000), (true, 4000), (true, 8000), (true, 10_000), (false, 10_000)];
        assert_eq!(grown, expected);
    }

    #[test]
    fn replies_reduce_it_to_twice_their_time() {
        let mut deadline = deadline(2000);
        (0..3).for_each(|_| _ = deadline.record_timeouts());
        let mut after = |took| {
            deadline.record_reply(MS * took);
            deadline.current().as_millis()
        };
        assert_eq!(
            [1100, 1100, 1100, 900, 20, 20].map(&mut after),
            [4000, 2200, 2200, 1800, 1000, 1000]
        );
        assert_eq!(after(7000), 10_000);
    }
}
