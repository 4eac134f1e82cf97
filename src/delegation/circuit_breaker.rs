//! Circuit breaker of the API, used when the chain is the fallback.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// State of the circuit. After a timeout the API is skipped for a while; then one request probes it, while the others
/// go to the chain.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    /// `None`: closed.
    open_until: Mutex<Option<Instant>>,
    timeout: Duration,
}

impl CircuitBreaker {
    const OPEN_DURATION: Duration = Duration::from_secs(10);

    /// Creates the closed circuit breaker of an API with this deadline.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { open_until: Mutex::new(None), timeout }
    }

    /// Returns true if a request may be sent to the API. A probe without an outcome blocks the next one for `timeout`.
    pub(super) fn try_admit_request(&self, now: Instant) -> bool {
        let mut open_until = self.open_until.lock().unwrap_or_else(PoisonError::into_inner);
        match *open_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                *open_until = Some(now + self.timeout);
                true
            }
        }
    }

    /// Records a timeout, which opens the circuit.
    pub(super) fn record_timeout(&self, now: Instant) {
        self.set_open_until(Some(now + Self::OPEN_DURATION));
    }

    /// Releases the probe: the request was not sent.
    pub(super) fn record_not_sent(&self, now: Instant) {
        let mut open_until = self.open_until.lock().unwrap_or_else(PoisonError::into_inner);
        *open_until = open_until.map(|_| now);
    }

    /// Records a response, which closes the circuit.
    pub(super) fn record_success(&self) {
        self.set_open_until(None);
    }

    fn set_open_until(&self, open_until: Option<Instant>) {
        *self.open_until.lock().unwrap_or_else(PoisonError::into_inner) = open_until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_open_breaker_admits_one_probe_at_a_time() {
        let timeout = Duration::from_secs(5);
        let breaker = CircuitBreaker::new(timeout);
        let now = Instant::now();
        assert!(breaker.try_admit_request(now) && breaker.try_admit_request(now));
        breaker.record_timeout(now);
        let almost = now + CircuitBreaker::OPEN_DURATION.saturating_sub(Duration::from_nanos(1));
        assert!(!breaker.try_admit_request(almost));
        let later = now + CircuitBreaker::OPEN_DURATION;
        assert!(breaker.try_admit_request(later));
        assert!(!breaker.try_admit_request(later));
        // The probe had no outcome.
        assert!(breaker.try_admit_request(later + timeout));
        breaker.record_not_sent(later);
        assert!(breaker.try_admit_request(later) && !breaker.try_admit_request(later));
        breaker.record_success();
        breaker.record_not_sent(later);
        assert!(breaker.try_admit_request(later) && breaker.try_admit_request(later));
    }
}
