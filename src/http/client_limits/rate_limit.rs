//! Rate limit of one client: a bucket that holds a burst of units and refills evenly (GCRA).
//!
//! A request costs a unit before it is routed. A request that costs more takes the rest at once when that is known, so
//! its client is either served, or told when the whole cost will be there. No request costs more than the burst.
//!
//! Pure: instants in, waits out. Lock-free, because the requests of a client may be served by several threads.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Units per second, and units at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quota {
    /// Nanoseconds per unit.
    interval: u64,
    burst: NonZeroU32,
}

#[derive(Debug)]
pub(super) struct RateLimit {
    quota: Quota,
    epoch: Instant,
    /// When the bucket is full again, in nanoseconds since the epoch. In the past: it is full.
    full_at: AtomicU64,
}

impl Quota {
    pub(super) fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        const NANOS_PER_SECOND: u64 = 1_000_000_000;
        Self { interval: NANOS_PER_SECOND / u64::from(per_second.get()), burst }
    }

    /// Time in which an empty bucket refills.
    pub(super) fn refill_time(self) -> Duration {
        Duration::from_nanos(self.capacity())
    }

    /// Nanoseconds of a burst.
    fn capacity(self) -> u64 {
        self.interval.saturating_mul(self.burst.get().into())
    }

    /// Returns when a bucket is full again that was to be full at `full_at`, once it has lost these units.
    fn add(self, units: u32, full_at: u64, now: u64) -> u64 {
        full_at.max(now).saturating_add(self.interval.saturating_mul(units.into()))
    }
}

impl RateLimit {
    /// Creates a full bucket.
    pub(super) fn new(quota: Quota, now: Instant) -> Self {
        Self { quota, epoch: now, full_at: AtomicU64::new(0) }
    }

    /// Returns true if the bucket is as at the start.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        self.full_at.load(Ordering::Relaxed) <= self.nanos_since_epoch(now)
    }

    /// Takes the unit of a request.
    ///
    /// # Errors
    ///
    /// Returns the time until there is a unit. Nothing is taken then.
    pub(super) fn take_first(&self, now: Instant) -> Result<(), Duration> {
        self.take(1, self.quota.capacity(), now)
    }

    /// Takes the first unit of a request whose cost is known later, also from an empty bucket: then
    /// [`take_rest`](Self::take_rest) refuses it, and knows how long its client has to wait. A bucket that lacks a burst
    /// by now is not overdrawn further.
    ///
    /// # Errors
    ///
    /// Returns the time until there is a burst.
    pub(super) fn take_first_of_many(&self, now: Instant) -> Result<(), Duration> {
        let max_ahead = self.quota.capacity().saturating_mul(2);
        let lacking = Duration::from_nanos(max_ahead - self.quota.interval);
        self.take(1, max_ahead, now).map_err(|wait| wait + lacking)
    }

    /// Takes what a request costs beside its first unit. A cost above the burst is the burst.
    ///
    /// # Errors
    ///
    /// Returns the time until there is the whole cost, for a retry. Only the first unit is taken then.
    pub(super) fn take_rest(&self, cost: u32, now: Instant) -> Result<(), Duration> {
        let rest = cost.clamp(1, self.quota.burst.get()) - 1;
        let first_unit = Duration::from_nanos(self.quota.interval);
        self.take(rest, self.quota.capacity(), now).map_err(|wait| wait + first_unit)
    }

    /// Takes units that a response has cost. The bucket may lack them, but the next request waits at most as long as the
    /// burst refills.
    pub(super) fn add_debt(&self, units: u32, now: Instant) {
        let now = self.nanos_since_epoch(now);
        let max_ahead = self.quota.capacity().saturating_mul(2) - self.quota.interval;
        let latest = now.saturating_add(max_ahead);
        // Cannot fail, because the function always returns a value.
        let _ = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            // Requests that were charged with the debt of others may have overdrawn the bucket further.
            Some(full_at.max(self.quota.add(units, full_at, now).min(latest)))
        });
    }

    /// Takes units unless the bucket is full only so many nanoseconds after `now` then. Returns the time until it can.
    fn take(&self, units: u32, max_ahead: u64, now: Instant) -> Result<(), Duration> {
        let now = self.nanos_since_epoch(now);
        let latest = now.saturating_add(max_ahead);
        let taken = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            Some(self.quota.add(units, full_at, now)).filter(|after| *after <= latest)
        });
        taken.map(drop).map_err(|full_at| {
            let after = self.quota.add(units, full_at, now);
            Duration::from_nanos(after.saturating_sub(latest))
        })
    }

    fn nanos_since_epoch(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.epoch);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn bucket(burst: u32) -> (RateLimit, Instant) {
        let now = Instant::now();
        let quota = Quota::new(NonZeroU32::MIN, NonZeroU32::new(burst).unwrap());
        (RateLimit::new(quota, now), now)
    }

    /// Makes a request with a cost that is known after routing.
    fn request(bucket: &RateLimit, cost: u32, now: Instant) -> Result<(), Duration> {
        bucket.take_first_of_many(now)?;
        bucket.take_rest(cost, now)
    }

    #[test]
    fn bucket_holds_a_burst_and_refills_evenly() {
        let (bucket, now) = bucket(3);
        (0..3).for_each(|_| assert_eq!(bucket.take_first(now), Ok(())));
        assert_eq!(bucket.take_first(now), Err(SECOND));
        assert_eq!(bucket.take_first(now + SECOND / 2), Err(SECOND / 2));
        assert_eq!(bucket.take_first(now + SECOND), Ok(()));
        (0..3).for_each(|_| assert_eq!(bucket.take_first(now + 100 * SECOND), Ok(())));
        assert_eq!(bucket.take_first(now + 100 * SECOND), Err(SECOND));
    }

    #[test]
    fn request_of_any_cost_is_served_after_the_returned_wait() {
        for burst in [1, 2, 10, 50] {
            for cost in [0, 1, 2, burst - 1, burst, burst + 1, 2 * burst, u32::MAX] {
                let (full, now) = bucket(burst);
                assert_eq!(request(&full, cost, now), Ok(()), "{cost} of {burst}");
                // The bucket is empty, and the cost is not known before the request is routed.
                let empty = || {
                    let (bucket, now) = bucket(burst);
                    while bucket.take_first(now).is_ok() {}
                    let wait = request(&bucket, cost, now).unwrap_err();
                    (bucket, now + wait)
                };
                let (bucket, then) = empty();
                let early = then.checked_sub(Duration::from_nanos(1)).unwrap();
                let taken = bucket.take_first(early).and_then(|()| bucket.take_rest(cost, early));
                assert!(taken.is_err(), "{cost} of {burst}");
                let (bucket, then) = empty();
                assert_eq!(request(&bucket, cost, then), Ok(()), "{cost} of {burst}");
            }
        }
    }

    #[test]
    fn refused_request_costs_a_unit_until_a_burst_is_lacking() {
        let (bucket, now) = bucket(10);
        assert_eq!(request(&bucket, 8, now), Ok(()));
        assert_eq!(request(&bucket, 8, now), Err(7 * SECOND));
        assert_eq!(request(&bucket, 1, now), Ok(()));
        // Ten more overdraw the bucket, until it lacks a burst.
        let waits: Vec<_> = (0..20).map(|_| request(&bucket, 8, now).unwrap_err()).collect();
        assert_eq!(waits[..2], [9 * SECOND, 10 * SECOND]);
        assert_eq!(waits[9..], [[18 * SECOND].as_slice(), &[20 * SECOND; 10]].concat());
        assert_eq!(request(&bucket, 10, now + 20 * SECOND), Ok(()));
    }

    #[test]
    fn debt_is_paid_before_the_next_request_and_has_an_end() {
        let (bucket, now) = bucket(10);
        bucket.add_debt(4, now);
        (0..6).for_each(|_| assert_eq!(bucket.take_first(now), Ok(())));
        assert_eq!(bucket.take_first(now), Err(SECOND));
        (0..5).for_each(|_| bucket.add_debt(u32::MAX, now));
        assert_eq!(bucket.take_first(now), Err(10 * SECOND));
        assert_eq!(request(&bucket, 10, now), Err(20 * SECOND));
        assert_eq!(request(&bucket, 10, now + 20 * SECOND), Ok(()));
    }
}
