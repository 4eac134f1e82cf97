//! Circuit breaker: closed, open for a while after a failure, then half-open until a call succeeds.
//!
//! A node has one for polls and one for reads, so that no client can turn a node away from the polls. Another
//! service has one. An upstream can also be excluded for a while, for example because it asked for a pause.
//!
//! Pure: outcomes and instants in, an [`Availability`] out.

use std::time::{Duration, Instant};

use super::jitter;

/// Availability of an upstream, which decides whether and in which order it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Availability {
    /// Called in order of preference.
    Healthy,
    /// The circuit is open: called after all healthy upstreams, or not at all if there is a fallback.
    Degraded,
    /// Not called.
    Excluded,
}

/// Reason why an upstream is not called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exclusion {
    /// It limits the rate.
    RateLimited,
    /// It serves another chain.
    WrongChain,
    /// It lacks the polled method.
    Unsupported,
}

/// Circuit breaker of one upstream, closed at first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CircuitBreaker {
    /// First time for which the circuit opens. It doubles with each failure until a call succeeds.
    min_open: Duration,
    max_open: Duration,
    /// Interval between probes of a half-open circuit; zero: each call is a probe.
    probe_interval: Duration,
    /// `None`: closed. In the past: half-open.
    open_until: Option<Instant>,
    /// Failures that opened the circuit since the last success.
    failures: u32,
    /// When a probe was last admitted; `None` also if it was not sent.
    pub(crate) last_probe: Option<Instant>,
    excluded: Option<(Exclusion, Instant)>,
    /// Exclusions since the last success.
    exclusions: u32,
}

impl CircuitBreaker {
    /// Creates a closed circuit.
    pub(crate) fn new(min_open: Duration, max_open: Duration, probe_interval: Duration) -> Self {
        Self {
            min_open,
            max_open,
            probe_interval,
            open_until: None,
            failures: 0,
            last_probe: None,
            excluded: None,
            exclusions: 0,
        }
    }

    /// Returns the availability. A half-open circuit counts as healthy.
    pub(crate) fn availability(&self, now: Instant) -> Availability {
        if self.exclusion(now).is_some() {
            Availability::Excluded
        } else if self.open_until.is_some_and(|until| now < until) {
            Availability::Degraded
        } else {
            Availability::Healthy
        }
    }

    /// Returns the availability for a call that is about to be sent. A half-open circuit admits one call per probe
    /// interval; for the others it counts as open.
    pub(crate) fn try_admit(&mut self, now: Instant) -> Availability {
        let availability = self.availability(now);
        if availability != Availability::Healthy || self.open_until.is_none() {
            return availability;
        }
        let is_recent = |at: Instant| now.saturating_duration_since(at) < self.probe_interval;
        if self.last_probe.is_some_and(is_recent) {
            return Availability::Degraded;
        }
        self.last_probe = Some(now);
        Availability::Healthy
    }

    /// Returns why the upstream is excluded at `now`, if it is.
    pub(crate) fn exclusion(&self, now: Instant) -> Option<Exclusion> {
        self.excluded.filter(|(_, until)| now < *until).map(|(reason, _)| reason)
    }

    /// Returns until when the upstream is excluded; may be in the past.
    pub(crate) fn excluded_until(&self) -> Option<Instant> {
        self.excluded.map(|(_, until)| until)
    }

    /// Returns how long an exclusion lasts from `now`.
    pub(crate) fn excluded_for(&self, now: Instant) -> Duration {
        let until = self.excluded_until();
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Records a response: closes the circuit and ends an exclusion.
    pub(crate) fn record_success(&mut self) {
        *self = Self::new(self.min_open, self.max_open, self.probe_interval);
    }

    /// Records a failure, which opens the circuit. Failures while it is open count as one.
    pub(crate) fn record_failure(&mut self, now: Instant) {
        if self.open_until.is_none_or(|until| until <= now) {
            let open_for = doubled(self.min_open, self.failures).min(self.max_open);
            self.failures = self.failures.saturating_add(1);
            self.open_for(open_for, now);
        }
    }

    /// Records a failure that makes callers wait, which opens the circuit for the longest time.
    pub(crate) fn record_timeout(&mut self, now: Instant) {
        self.open_for(self.max_open, now);
    }

    /// Excludes the upstream for `wait`.
    pub(crate) fn exclude(&mut self, reason: Exclusion, wait: Duration, now: Instant) {
        self.exclusions = self.exclusions.saturating_add(1);
        self.excluded = Some((reason, now + wait));
    }

    /// Excludes the upstream for `min`, which doubles with each exclusion up to `max`.
    pub(crate) fn exclude_longer(
        &mut self,
        reason: Exclusion,
        min: Duration,
        max: Duration,
        now: Instant,
    ) {
        self.exclude(reason, doubled(min, self.exclusions).min(max), now);
    }

    fn open_for(&mut self, time: Duration, now: Instant) {
        (self.open_until, self.last_probe) = (Some(now + time), None);
    }
}

/// Returns `first`, doubled `times` times.
fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times))
}

/// Adds up to a tenth to `wait`, so that clients which were rejected together do not return together.
pub(crate) fn add_jitter(wait: Duration) -> Duration {
    wait + jitter::random_up_to(wait / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker(probe_interval: Duration) -> (CircuitBreaker, Instant) {
        (CircuitBreaker::new(2 * SECOND, 30 * SECOND, probe_interval), Instant::now())
    }

    #[test]
    fn each_failure_after_the_last_opens_the_circuit_for_longer() {
        let (mut breaker, mut now) = breaker(Duration::ZERO);
        for seconds in [2, 4, 8, 16, 30, 30] {
            assert_eq!(breaker.availability(now), Availability::Healthy);
            breaker.record_failure(now);
            // Failures while the circuit is open count as one.
            breaker.record_failure(now);
            let last = now + (seconds * SECOND).saturating_sub(Duration::from_nanos(1));
            assert_eq!(breaker.availability(last), Availability::Degraded, "{seconds}");
            now += seconds * SECOND;
        }
        breaker.record_success();
        breaker.record_timeout(now);
        assert_eq!(breaker.availability(now + 29 * SECOND), Availability::Degraded);
        assert_eq!(breaker.availability(now + 30 * SECOND), Availability::Healthy);
    }

    #[test]
    fn a_half_open_circuit_admits_one_probe_per_interval_until_a_success() {
        let (mut breaker, now) = breaker(10 * SECOND);
        assert_eq!([breaker.try_admit(now), breaker.try_admit(now)], [Availability::Healthy; 2]);
        breaker.record_failure(now);
        assert_eq!(breaker.try_admit(now), Availability::Degraded);
        let later = now + 2 * SECOND;
        let probe = [Availability::Healthy, Availability::Degraded];
        assert_eq!([breaker.try_admit(later), breaker.try_admit(later)], probe);
        // The probe had no outcome.
        let later = later + 10 * SECOND;
        assert_eq!([breaker.try_admit(later), breaker.try_admit(later)], probe);
        breaker.last_probe = None;
        assert_eq!([breaker.try_admit(later), breaker.try_admit(later)], probe);
        breaker.record_success();
        assert_eq!(
            [breaker.try_admit(later), breaker.try_admit(later)],
            [Availability::Healthy; 2]
        );
    }

    #[test]
    fn exclusions_double_until_a_success() {
        let (mut breaker, now) = breaker(Duration::ZERO);
        for seconds in [1, 2, 4, 4] {
            breaker.exclude_longer(Exclusion::Unsupported, SECOND, 4 * SECOND, now);
            let end = now + seconds * SECOND;
            let before = end.checked_sub(Duration::from_nanos(1)).unwrap();
            assert_eq!(breaker.exclusion(before), Some(Exclusion::Unsupported), "{seconds}");
            assert_eq!(breaker.availability(before), Availability::Excluded);
            assert_eq!(breaker.exclusion(end), None);
        }
        breaker.record_success();
        assert_eq!(breaker.availability(now), Availability::Healthy);
    }
}
