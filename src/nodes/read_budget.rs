//! Budget of the calls that clients cause at one node, so that they leave the provider's quota to the polls.
//!
//! The limit is exact: a quarter of it may be sent at once, and the rest evenly, so no 60 s have more calls than the limit.
//! After a poll that the node refused with a 429 no call is sent before the time that it names, and until a poll succeeds.
//!
//! Pure: instants in, waits out. Its size is fixed.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_mins(1);

/// Budget of one node.
#[derive(Debug)]
pub(crate) struct ReadBudget {
    /// Calls per minute; `None`: no limit.
    limit: Option<NonZeroU32>,
    /// Time at which all calls so far would have been sent, had they been spread evenly.
    even_end: Option<Instant>,
    /// After a refused poll no call is sent until the first of these times, and until a poll succeeds or the second one.
    refused: Option<[Instant; 2]>,
}

impl ReadBudget {
    /// Share of a limit that may be sent at once, as a divisor.
    const BURST_DIVISOR: u32 = 4;

    /// Creates an unused budget of `limit` calls per minute; `None`: no limit.
    pub(crate) fn new(limit: Option<NonZeroU32>) -> Self {
        Self { limit, even_end: None, refused: None }
    }

    /// Checks whether a call may be sent at `now`, without taking it from the budget.
    ///
    /// # Errors
    ///
    /// Returns the time until a call may be sent.
    pub(crate) fn check(&self, now: Instant) -> Result<(), Duration> {
        let paused_for = self.refused.map_or(Duration::ZERO, |[_, until]| remaining(until, now));
        let Some(limit) = self.limit else { return wait(paused_for) };
        let burst = (limit.get() / Self::BURST_DIVISOR).max(1);
        let max_ahead = interval(limit).saturating_mul(burst.saturating_sub(1));
        let ahead = self.even_end.map_or(Duration::ZERO, |end| remaining(end, now));
        wait(paused_for.max(ahead.saturating_sub(max_ahead)))
    }

    /// Takes one call, which is sent at `now`.
    ///
    /// # Errors
    ///
    /// Like [`check`](Self::check). Nothing is taken then.
    pub(crate) fn try_take(&mut self, now: Instant) -> Result<(), Duration> {
        self.check(now)?;
        if let Some(limit) = self.limit {
            let end = self.even_end.map_or(now, |end| end.max(now));
            self.even_end = Some(end + interval(limit));
        }
        Ok(())
    }

    /// Records a poll that the node refused because of its rate limit, and that it wants to be repeated at `retry_at`.
    /// Calls of clients pause until then and until a poll succeeds, or for another minute if the node is not polled.
    pub(crate) fn record_refused_poll(&mut self, retry_at: Instant) {
        self.refused = Some([retry_at, retry_at + MINUTE]);
    }

    /// Records a poll that the node answered.
    pub(crate) fn record_poll(&mut self) {
        self.refused = self.refused.map(|[retry_at, _]| [retry_at; 2]);
    }
}

/// Returns the time per call at which the burst and the calls of 60 s after it are `limit` together.
fn interval(limit: NonZeroU32) -> Duration {
    let window = MINUTE + MINUTE / (ReadBudget::BURST_DIVISOR - 1);
    // Rounded up, so that the limit is never exceeded.
    window / limit.get() + Duration::from_nanos(1)
}

fn remaining(until: Instant, now: Instant) -> Duration {
    until.saturating_duration_since(now)
}

fn wait(time: Duration) -> Result<(), Duration> {
    if time.is_zero() { Ok(()) } else { Err(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn budget(limit: u32) -> (ReadBudget, Instant) {
        (ReadBudget::new(NonZeroU32::new(limit)), Instant::now())
    }

    /// Takes all calls that the budget allows at `now`.
    fn take_all(budget: &mut ReadBudget, now: Instant) -> usize {
        (0..10_000).take_while(|_| budget.try_take(now).is_ok()).count()
    }

    #[test]
    fn no_minute_has_more_calls_than_the_limit() {
        for limit in [1, 2, 3, 4, 5, 7, 8, 99, 150, 1000] {
            let (mut budget, start) = budget(limit);
            let step = Duration::from_millis(100);
            let taken: Vec<_> =
                (0..3000).map(|index| take_all(&mut budget, start + step * index)).collect();
            // A window of 60 s that includes both of its ends.
            let most = taken.windows(601).map(|counts| counts.iter().sum::<usize>()).max();
            let most = u32::try_from(most.unwrap()).unwrap();
            assert!(most <= limit, "{most} of {limit}");
            let average = u32::try_from(taken.iter().sum::<usize>() / 5).unwrap();
            assert!(average >= limit * 7 / 10, "{average} of {limit}");
        }
    }

    #[test]
    fn a_refused_call_can_be_sent_after_the_returned_wait() {
        let (mut budget, mut now) = budget(60);
        assert_eq!(take_all(&mut budget, now), 15);
        for _ in 0..10 {
            let wait = budget.check(now).unwrap_err();
            assert!(wait <= 2 * SECOND, "{wait:?}");
            assert_eq!(budget.try_take(now), Err(wait));
            now += wait;
            assert_eq!(budget.try_take(now), Ok(()));
        }
    }

    #[test]
    fn calls_pause_after_a_refused_poll_until_a_poll_succeeds() {
        let (mut budget, now) = budget(0);
        budget.record_refused_poll(now + 10 * SECOND);
        assert_eq!(budget.try_take(now + 20 * SECOND), Err(50 * SECOND));
        assert_eq!(budget.try_take(now + 70 * SECOND), Ok(()));
        budget.record_refused_poll(now + 80 * SECOND);
        budget.record_poll();
        assert_eq!(budget.try_take(now + 75 * SECOND), Err(5 * SECOND));
        assert_eq!(take_all(&mut budget, now + 81 * SECOND), 10_000);
    }
}
