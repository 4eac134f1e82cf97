//! Circuit breaker of one node for the reads of clients.
//!
//! Polls ignore it. It counts only failures that a client can hardly cause, because a client may send calls that no
//! node answers well. Pure but for the [`Error`]s that it inspects.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::Error;
use super::node_health::{Availability, NodeHealth, Penalty};

/// Circuit breaker of one node.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    health: NodeHealth,
    /// When a read last verified the node's chain.
    chain_verified_at: Option<Instant>,
    last_success: Option<Instant>,
    /// Since when the node has returned nothing, after a call was abandoned. `None`: it has responded since.
    silent_since: Option<Instant>,
    /// When the circuit last opened, or a connection last broke. A verification of the chain from before it does not
    /// count.
    last_failure: Option<Instant>,
    /// Time of the last failed verification of the chain.
    check_failed_at: Option<Instant>,
    /// Failures since the last success that the calls themselves may have caused.
    suspect_failures: u32,
    /// True while the circuit is open or half-open: a failure opened it and no response has come since.
    half_open: bool,
    /// When a read was last admitted to probe the node.
    last_probe: Option<Instant>,
    /// Methods that the node lacked, each with the time until which that counts.
    unsupported_until: HashMap<String, Instant>,
    /// Methods that the node has answered. It has them, even if it rejects one call as unsupported.
    supported_methods: HashSet<String>,
}

impl CircuitBreaker {
    /// Time after which a pending call is also sent to the next node.
    pub(super) const HEDGE_DELAY: Duration = Duration::from_secs(2);
    const SUSPECT_FAILURE_THRESHOLD: u32 = 3;
    const PROBE_INTERVAL: Duration = Duration::from_secs(10);
    const UNSUPPORTED_TTL: Duration = Duration::from_mins(1);

    /// Creates a closed circuit of a node, whose back-off depends on `block_time`.
    pub(super) fn new(block_time: Duration) -> Self {
        Self {
            health: NodeHealth::new(block_time),
            chain_verified_at: None,
            last_success: None,
            silent_since: None,
            last_failure: None,
            check_failed_at: None,
            suspect_failures: 0,
            half_open: false,
            last_probe: None,
            unsupported_until: HashMap::new(),
            supported_methods: HashSet::new(),
        }
    }

    /// Returns the availability of the node for a read. After a back-off one read per `PROBE_INTERVAL` is admitted as a
    /// probe; for the others the node stays degraded until it responds.
    pub(super) fn availability_and_probe(&mut self, now: Instant) -> Availability {
        let availability = self.health.availability(now);
        if availability != Availability::Healthy || !self.half_open {
            return availability;
        }
        let is_recent_probe =
            |at: Instant| now.saturating_duration_since(at) < Self::PROBE_INTERVAL;
        if self.last_probe.is_some_and(is_recent_probe) {
            return Availability::Degraded;
        }
        self.last_probe = Some(now);
        Availability::Healthy
    }

    pub(super) fn is_rate_limited(&self, now: Instant) -> bool {
        self.health.is_rate_limited(now)
    }

    /// Returns true if the node lately reported that it lacks the method.
    pub(super) fn lacks_method(&self, method: &str, now: Instant) -> bool {
        self.unsupported_until.get(method).is_some_and(|until| now < *until)
    }

    /// Returns true if a poll or a read verified the node's chain within `validity` and since the last failure.
    pub(super) fn is_chain_verified(
        &self,
        verified_by_polls: Option<Instant>,
        now: Instant,
        validity: Duration,
    ) -> bool {
        verified_by_polls.max(self.chain_verified_at).is_some_and(|at| {
            let is_recent = now.saturating_duration_since(at) < validity;
            is_recent && self.last_failure.is_none_or(|failed| failed < at)
        })
    }

    /// Records a verified chain. The node also counts as responding again.
    pub(super) fn record_chain_verified(&mut self, now: Instant) {
        self.chain_verified_at = Some(now);
        self.reset(now);
    }

    pub(super) fn record_check_failure(&mut self, error: &Error, now: Instant) {
        self.check_failed_at = Some(now);
        self.record_failure(error, "eth_chainId", now);
    }

    /// Invalidates a verification of the chain from before `since`.
    pub(super) fn invalidate_chain_check_before(&mut self, since: Instant) {
        self.chain_verified_at = self.chain_verified_at.filter(|at| *at >= since);
    }

    /// Returns true if a verification of the chain has failed since `since`.
    pub(super) fn has_failed_check_since(&self, since: Instant) -> bool {
        self.check_failed_at.is_some_and(|at| at >= since)
    }

    pub(super) fn record_success(&mut self, method: &str, now: Instant) {
        self.reset(now);
        self.unsupported_until.remove(method);
        if !self.supported_methods.contains(method) {
            self.supported_methods.insert(method.to_owned());
        }
    }

    fn reset(&mut self, now: Instant) {
        self.health.record_success();
        (self.last_success, self.silent_since) = (Some(now), None);
        self.suspect_failures = 0;
        (self.half_open, self.last_probe) = (false, None);
    }

    pub(super) fn record_failure(&mut self, error: &Error, method: &str, now: Instant) {
        let penalty = match error {
            Error::Unsupported if self.supported_methods.contains(method) => return,
            Error::Unsupported => {
                self.unsupported_until.insert(method.to_owned(), now + Self::UNSUPPORTED_TTL);
                return;
            }
            error if is_call_specific(error) => return,
            Error::Unreachable(_) => Penalty::Backoff,
            Error::RateLimited(_) | Error::WrongChain { .. } => error.penalty(),
            _ => {
                self.suspect_failures = self.suspect_failures.saturating_add(1);
                if matches!(error, Error::Transport(_)) {
                    // Another server may listen at the address by now.
                    self.last_failure = Some(now);
                }
                if self.suspect_failures < Self::SUSPECT_FAILURE_THRESHOLD {
                    return;
                }
                Penalty::Backoff
            }
        };
        self.trip(penalty, now);
    }

    /// Records an abandoned call that the node had not answered since `since`. It counts only if the node has answered
    /// nothing else meanwhile, because a client can send slow calls on purpose.
    pub(super) fn record_timeout(&mut self, since: Instant, now: Instant) {
        if self.last_success.is_some_and(|at| at >= since) {
            return;
        }
        // Calls that are abandoned early count together.
        let since = self.silent_since.map_or(since, |earlier| earlier.min(since));
        self.silent_since = Some(since);
        if now.saturating_duration_since(since) >= Self::HEDGE_DELAY {
            self.trip(Penalty::LongBackoff, now);
        }
    }

    fn trip(&mut self, penalty: Penalty, now: Instant) {
        self.last_failure = Some(now);
        (self.half_open, self.last_probe) = (true, None);
        // Reads that fail at the same time count as one failure.
        if penalty != Penalty::Backoff || self.health.availability(now) == Availability::Healthy {
            self.health.record_failure(penalty, now);
        }
    }
}

/// Returns true if the error concerns the call rather than the node.
fn is_call_specific(error: &Error) -> bool {
    /// Statuses with which gateways reject one request: malformed, too large, too long, wrong type.
    const CALL_SPECIFIC_STATUSES: [u16; 7] = [400, 411, 413, 414, 415, 422, 431];
    match error {
        Error::Status(status, _) => CALL_SPECIFIC_STATUSES.contains(status),
        Error::BeyondHead | Error::TooLarge(_) | Error::NoMemory(_) | Error::ChainUnverified => {
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::BodySnippet;

    const BLOCK: Duration = Duration::from_secs(2);

    fn new_breaker() -> (CircuitBreaker, Instant) {
        (CircuitBreaker::new(BLOCK), Instant::now())
    }

    fn status_error(status: u16) -> Error {
        Error::Status(status, BodySnippet::default())
    }

    #[test]
    fn the_third_consecutive_suspect_failure_trips_the_breaker() {
        let (mut breaker, now) = new_breaker();
        for _ in 0..2 {
            breaker.record_failure(&status_error(500), "m", now);
            breaker.record_failure(&status_error(500), "m", now);
            assert_eq!(breaker.availability_and_probe(now), Availability::Healthy);
            breaker.record_success("m", now);
        }
        for _ in 0..3 {
            breaker.record_failure(&Error::InvalidReply(""), "m", now);
        }
        assert_eq!(breaker.availability_and_probe(now), Availability::Degraded);
        // Failures at the same time do not extend the back-off.
        for _ in 0..100 {
            breaker.record_failure(&status_error(500), "m", now);
        }
        assert_eq!(breaker.availability_and_probe(now + BLOCK), Availability::Healthy);
    }

    #[test]
    fn call_specific_errors_never_trip_the_breaker() {
        let (mut breaker, now) = new_breaker();
        for _ in 0..10 {
            for error in
                [status_error(413), status_error(400), Error::TooLarge(1), Error::ChainUnverified]
            {
                breaker.record_failure(&error, "m", now);
            }
        }
        assert_eq!(breaker.availability_and_probe(now), Availability::Healthy);
        assert!(breaker.is_chain_verified(Some(now), now + BLOCK, Duration::from_mins(1)));
    }

    #[test]
    fn a_long_timeout_without_other_replies_trips_the_breaker() {
        let (mut breaker, now) = new_breaker();
        let at = |millis| now + Duration::from_millis(millis);
        breaker.record_timeout(at(0), at(1999));
        breaker.record_success("m", at(2000));
        breaker.record_timeout(at(2000), at(5000));
        assert_eq!(breaker.availability_and_probe(at(5000)), Availability::Healthy);
        breaker.record_timeout(at(5000), at(7000));
        assert_eq!(breaker.availability_and_probe(at(7000)), Availability::Degraded);
    }

    #[test]
    fn consecutive_short_timeouts_add_up() {
        let (mut breaker, now) = new_breaker();
        let at = |millis| now + Duration::from_millis(millis);
        breaker.record_timeout(at(0), at(900));
        breaker.record_timeout(at(1000), at(1900));
        assert_eq!(breaker.availability_and_probe(at(1900)), Availability::Healthy);
        breaker.record_timeout(at(2000), at(2900));
        assert_eq!(breaker.availability_and_probe(at(2900)), Availability::Degraded);
    }

    #[test]
    fn a_verified_chain_closes_the_breaker() {
        let (mut breaker, now) = new_breaker();
        breaker.record_timeout(now, now + CircuitBreaker::HEDGE_DELAY);
        let rested = now + Duration::from_mins(1);
        assert_eq!(
            [breaker.availability_and_probe(rested), breaker.availability_and_probe(rested)]
                .map(|one| one == Availability::Healthy),
            [true, false]
        );
        breaker.record_chain_verified(rested);
        assert_eq!(breaker.availability_and_probe(rested), Availability::Healthy);
        // A slow call from before the back-off, which no longer counts.
        breaker.record_timeout(rested, rested + CircuitBreaker::HEDGE_DELAY);
        assert_eq!(
            breaker.availability_and_probe(rested + CircuitBreaker::HEDGE_DELAY),
            Availability::Healthy
        );
    }

    #[test]
    fn one_read_at_a_time_probes_a_half_open_node() {
        let (mut breaker, now) = new_breaker();
        let now = now + CircuitBreaker::HEDGE_DELAY;
        breaker.record_timeout(now.checked_sub(CircuitBreaker::HEDGE_DELAY).unwrap(), now);
        assert_eq!(breaker.availability_and_probe(now), Availability::Degraded);
        let rested = now + Duration::from_secs(30);
        assert_eq!(breaker.availability_and_probe(rested), Availability::Healthy);
        assert_eq!(breaker.availability_and_probe(rested), Availability::Degraded);
        assert_eq!(
            breaker.availability_and_probe(rested + CircuitBreaker::PROBE_INTERVAL),
            Availability::Healthy
        );
        breaker.record_success("m", rested);
        assert_eq!(
            [breaker.availability_and_probe(rested), breaker.availability_and_probe(rested)],
            [Availability::Healthy; 2]
        );
    }

    #[test]
    fn a_missing_method_is_remembered_until_it_succeeds() {
        let (mut breaker, now) = new_breaker();
        breaker.record_failure(&Error::Unsupported, "m", now);
        assert!(breaker.lacks_method("m", now) && !breaker.lacks_method("n", now));
        assert!(!breaker.lacks_method("m", now + CircuitBreaker::UNSUPPORTED_TTL));
        breaker.record_success("m", now);
        assert!(!breaker.lacks_method("m", now));
        // The node has answered the method by now, so the error concerns this call alone.
        breaker.record_failure(&Error::Unsupported, "m", now);
        assert!(!breaker.lacks_method("m", now));
    }

    #[test]
    fn a_failure_requires_another_chain_check() {
        let (mut breaker, now) = new_breaker();
        let (minute, later) = (Duration::from_mins(1), now + Duration::from_secs(1));
        assert!(!breaker.is_chain_verified(None, now, minute));
        assert!(breaker.is_chain_verified(Some(now), later, minute));
        assert!(!breaker.is_chain_verified(Some(now), now + minute, minute));
        breaker.record_failure(&status_error(500), "m", later);
        assert!(breaker.is_chain_verified(Some(now), later, minute));
        (0..2).for_each(|_| breaker.record_failure(&status_error(500), "m", later));
        assert!(!breaker.is_chain_verified(Some(now), later, minute));
        breaker.record_check_failure(&status_error(500), later);
        assert!(
            breaker.has_failed_check_since(later) && !breaker.has_failed_check_since(later + BLOCK)
        );
        breaker.record_chain_verified(later + Duration::from_millis(1));
        assert!(breaker.is_chain_verified(None, later + BLOCK, minute));
        breaker.invalidate_chain_check_before(later + BLOCK);
        assert!(!breaker.is_chain_verified(Some(now), later + BLOCK, minute));
    }
}
