//! Check of the wall clock by the own times of blocks.

use std::time::Instant;

use super::MAX_CLOCK_DIFFERENCE;
use crate::store::seconds_since_1970;

/// Compares the wall clock with the own times of blocks. A clock that is wrong, as on a machine that starts without the
/// time, would remove prices that are kept.
#[derive(Debug, Default)]
pub(super) struct ClockCheck {
    /// The times of both clocks at the last publication.
    last: Option<(Instant, u64)>,
    is_wrong: bool,
}

impl ClockCheck {
    /// Returns false if the clock differs from the newest block's `own_time` by more than ten minutes, and after a step
    /// until a block's own time agrees. `seen_at` is when that block was first seen, and `newest_known` the time of the
    /// newest one that is kept, all in seconds since 1970. `own_time` is `None` if its header was not read.
    pub(super) fn agrees(
        &mut self,
        seen_at: u64,
        own_time: Option<u64>,
        newest_known: u64,
    ) -> bool {
        let (now, time) = (Instant::now(), seconds_since_1970());
        let is_stepped = self.last.is_some_and(|(last, last_time)| {
            let expected = last_time.saturating_add(now.saturating_duration_since(last).as_secs());
            time.abs_diff(expected) > MAX_CLOCK_DIFFERENCE
        });
        self.last = Some((now, time));
        let is_before_known = seen_at.saturating_add(MAX_CLOCK_DIFFERENCE) < newest_known;
        match own_time {
            Some(own_time) => self.is_wrong = own_time.abs_diff(seen_at) > MAX_CLOCK_DIFFERENCE,
            None => self.is_wrong |= is_stepped || is_before_known,
        }
        !self.is_wrong
    }
}
