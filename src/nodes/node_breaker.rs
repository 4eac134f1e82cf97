//! How the errors of a node affect its circuit breakers.

use std::time::{Duration, Instant};

use super::Error;
use super::circuit_breaker::{CircuitBreaker, Exclusion, add_jitter};

const MAX_OPEN: Duration = Duration::from_secs(30);

/// Longest `Retry-After` that reads honour. Polls go on earlier, because data without polls becomes too old to serve.
pub(crate) const MAX_COOL_DOWN: Duration = Duration::from_mins(5);
/// Pause after a 429 without `Retry-After`. Most limits count per second.
const MIN_COOL_DOWN: Duration = Duration::from_secs(1);
const MAX_DOUBLED_COOL_DOWN: Duration = Duration::from_secs(16);

const QUARANTINE_BLOCKS: u32 = 10;
const MAX_QUARANTINE: Duration = Duration::from_mins(1);

/// First pause in blocks. Short, because the next node behind a load balancer may have the method.
const UNSUPPORTED_BLOCKS: u32 = 4;
const MAX_UNSUPPORTED: Duration = Duration::from_mins(10);

/// Creates the circuit breaker of a node on a chain with this block time.
pub(crate) fn new(block_time: Duration, probe_interval: Duration) -> CircuitBreaker {
    CircuitBreaker::new(block_time.min(MAX_OPEN), MAX_OPEN, probe_interval)
}

/// Records a failed call of the polled method on a chain with this block time. A rate limit pauses calls for `max_pause`
/// at most.
pub(crate) fn record_error(
    breaker: &mut CircuitBreaker,
    error: &Error,
    block_time: Duration,
    max_pause: Duration,
    now: Instant,
) {
    match error {
        // The node is healthy.
        Error::BeyondHead | Error::NoMemory(_) => {}
        Error::Timeout(_) => breaker.record_timeout(now),
        Error::RateLimited(Some(wait)) => {
            let wait = add_jitter(*wait.min(&MAX_COOL_DOWN)).min(max_pause);
            breaker.exclude(Exclusion::RateLimited, wait, now);
        }
        Error::RateLimited(None) => {
            let [min, max] = [MIN_COOL_DOWN, MAX_DOUBLED_COOL_DOWN]
                .map(|pause| add_jitter(pause).min(max_pause));
            breaker.exclude_longer(Exclusion::RateLimited, min, max, now);
        }
        Error::WrongChain { .. } => {
            let wait = block_time.saturating_mul(QUARANTINE_BLOCKS).min(MAX_QUARANTINE);
            breaker.exclude(Exclusion::WrongChain, wait, now);
        }
        Error::Unsupported => {
            let min = block_time.saturating_mul(UNSUPPORTED_BLOCKS);
            breaker.exclude_longer(Exclusion::Unsupported, min, MAX_UNSUPPORTED, now);
        }
        _ => breaker.record_failure(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::circuit_breaker::Availability;

    const BLOCK: Duration = Duration::from_secs(2);
    const MAX_PAUSE: Duration = Duration::from_secs(40);

    /// Returns for how long a node is not called after this many of these errors.
    fn excluded_for(error: &Error, times: u32) -> Duration {
        let (mut breaker, now) = (new(BLOCK, Duration::ZERO), Instant::now());
        (0..times).for_each(|_| record_error(&mut breaker, error, BLOCK, MAX_PAUSE, now));
        let step = Duration::from_millis(100);
        let is_called =
            |steps: &u32| breaker.availability(now + step * *steps) != Availability::Excluded;
        step * (0..10_000).find(is_called).expect("it is called again")
    }

    #[test]
    fn retry_after_is_honoured_up_to_the_longest_pause() {
        for (seconds, kept) in [(1, 1000..1200), (20, 20_000..22_100), (86_400, 40_000..40_101)] {
            let error = Error::RateLimited(Some(Duration::from_secs(seconds)));
            let millis = excluded_for(&error, 1).as_millis();
            assert!(kept.contains(&millis), "{seconds} s asked for, {millis} ms kept");
        }
        assert_eq!(excluded_for(&Error::RateLimited(Some(Duration::ZERO)), 1), Duration::ZERO);
    }

    #[test]
    fn without_retry_after_the_pause_doubles() {
        for (times, seconds) in [(1, 1), (2, 2), (5, 16), (9, 16)] {
            let pause = excluded_for(&Error::RateLimited(None), times);
            let least = Duration::from_secs(seconds);
            assert!((least..=least * 11 / 10 + BLOCK / 20).contains(&pause), "{pause:?}");
        }
    }

    #[test]
    fn a_wrong_chain_or_missing_method_is_probed_again() {
        let wrong_chain = Error::WrongChain { expected: 1, found: 2 };
        assert_eq!(excluded_for(&wrong_chain, 1).as_secs(), 20);
        let seconds = [1, 2, 5, 12].map(|times| excluded_for(&Error::Unsupported, times).as_secs());
        assert_eq!(seconds, [8, 16, 128, 600]);
    }

    #[test]
    fn a_block_beyond_the_head_has_no_effect() {
        let (mut breaker, now) = (new(BLOCK, Duration::ZERO), Instant::now());
        record_error(&mut breaker, &Error::BeyondHead, BLOCK, MAX_PAUSE, now);
        assert_eq!(breaker.availability(now), Availability::Healthy);
        record_error(&mut breaker, &Error::Timeout(BLOCK), BLOCK, MAX_PAUSE, now);
        assert_eq!(breaker.availability(now + Duration::from_secs(29)), Availability::Degraded);
    }
}
