//! Health of one node as the reads of clients found it.
//!
//! Polls ignore it. It counts only failures that a client can hardly cause, because a client may send calls that no
//! node answers well. Pure but for the [`Error`]s that it inspects.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::node_budget::ReadBudget;
use crate::nodes::circuit_breaker::{Availability, CircuitBreaker, Exclusion};
use crate::nodes::{Error, NodeState, node_breaker};

/// Health of one node for reads.
#[derive(Debug)]
pub(crate) struct ReadHealth {
    breaker: CircuitBreaker,
    block_time: Duration,
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
    /// Methods that the node lacked, each with the time until which that counts.
    unsupported_until: HashMap<String, Instant>,
    /// Methods that the node has answered. It has them, even if it rejects one call as unsupported.
    supported_methods: HashSet<String>,
    /// Calls that may still be sent to the node.
    pub(crate) budget: ReadBudget,
}

impl ReadHealth {
    /// Time after which a pending call is also sent to the next node.
    pub(crate) const HEDGE_DELAY: Duration = Duration::from_secs(2);
    const MAX_SUSPECT_FAILURES: u32 = 2;
    const PROBE_INTERVAL: Duration = Duration::from_secs(10);
    const UNSUPPORTED_TTL: Duration = Duration::from_mins(1);

    /// Creates the health of a node on a chain with this block time.
    pub(crate) fn new(block_time: Duration, budget: ReadBudget) -> Self {
        Self {
            breaker: node_breaker::new(block_time, Self::PROBE_INTERVAL),
            block_time,
            chain_verified_at: None,
            last_success: None,
            silent_since: None,
            last_failure: None,
            check_failed_at: None,
            suspect_failures: 0,
            unsupported_until: HashMap::new(),
            supported_methods: HashSet::new(),
            budget,
        }
    }

    /// Returns the availability for a read that is about to be sent. A half-open circuit admits one as a probe.
    pub(crate) fn try_admit(&mut self, now: Instant) -> Availability {
        self.breaker.try_admit(now)
    }

    /// Returns how long the node wants to be left alone by reads; `None`: it does not.
    pub(crate) fn rate_limited_for(&self, now: Instant) -> Option<Duration> {
        let is_limited = self.breaker.exclusion(now) == Some(Exclusion::RateLimited);
        is_limited.then(|| self.breaker.excluded_for(now))
    }

    /// Returns true if the node lately reported that it lacks the method.
    pub(crate) fn lacks_method(&self, method: &str, now: Instant) -> bool {
        self.unsupported_until.get(method).is_some_and(|until| now < *until)
    }

    /// Returns true if a poll or a read verified the node's chain within `validity` and since the last failure.
    pub(crate) fn is_chain_verified(
        &self,
        polls: &NodeState,
        now: Instant,
        validity: Duration,
    ) -> bool {
        let by_reads = self.chain_verified_at.filter(|at| Some(*at) >= polls.doubted_before);
        polls.chain_verified_at.max(by_reads).is_some_and(|at| {
            let is_recent = now.saturating_duration_since(at) < validity;
            is_recent && self.last_failure.is_none_or(|failed| failed < at)
        })
    }

    /// Records a verified chain. The node also counts as responding again.
    pub(crate) fn record_chain_verified(&mut self, now: Instant) {
        self.chain_verified_at = Some(now);
        self.reset(now);
    }

    pub(crate) fn record_check_failure(&mut self, error: &Error, now: Instant) {
        self.check_failed_at = Some(now);
        self.record_failure(error, "eth_chainId", now);
    }

    /// Returns true if a verification of the chain has failed since `since`.
    pub(crate) fn has_failed_check_since(&self, since: Instant) -> bool {
        self.check_failed_at.is_some_and(|at| at >= since)
    }

    pub(crate) fn record_success(&mut self, method: &str, now: Instant) {
        self.reset(now);
        self.unsupported_until.remove(method);
        if !self.supported_methods.contains(method) {
            self.supported_methods.insert(method.to_owned());
        }
    }

    fn reset(&mut self, now: Instant) {
        self.breaker.record_success();
        (self.last_success, self.silent_since) = (Some(now), None);
        self.suspect_failures = 0;
    }

    pub(crate) fn record_failure(&mut self, error: &Error, method: &str, now: Instant) {
        match error {
            Error::Unsupported if self.supported_methods.contains(method) => return,
            Error::Unsupported => {
                self.unsupported_until.insert(method.to_owned(), now + Self::UNSUPPORTED_TTL);
                return;
            }
            error if is_call_specific(error) => return,
            Error::Unreachable(_) | Error::RateLimited(_) | Error::WrongChain { .. } => {}
            _ => {
                self.suspect_failures = self.suspect_failures.saturating_add(1);
                if matches!(error, Error::Transport(_)) {
                    // Another server may listen at the address by now.
                    self.last_failure = Some(now);
                }
                if self.suspect_failures <= Self::MAX_SUSPECT_FAILURES {
                    return;
                }
            }
        }
        self.last_failure = Some(now);
        let max_pause = node_breaker::MAX_COOL_DOWN;
        node_breaker::record_error(&mut self.breaker, error, self.block_time, max_pause, now);
    }

    /// Records an abandoned call that the node had not answered since `since`. It counts only if the node has answered
    /// nothing else meanwhile, because a client can send slow calls on purpose.
    pub(crate) fn record_timeout(&mut self, since: Instant, now: Instant) {
        if self.last_success.is_some_and(|at| at >= since) {
            return;
        }
        // Calls that are abandoned early count together.
        let since = self.silent_since.map_or(since, |earlier| earlier.min(since));
        self.silent_since = Some(since);
        if now.saturating_duration_since(since) >= Self::HEDGE_DELAY {
            self.last_failure = Some(now);
            self.breaker.record_timeout(now);
        }
    }
}

/// Returns true if the error concerns the call rather than the node.
fn is_call_specific(error: &Error) -> bool {
    /// Statuses with which gateways reject one request: malformed, too large, too long, wrong type.
    const CALL_SPECIFIC_STATUSES: [u16; 7] = [400, 411, 413, 414, 415, 422, 431];
    match error {
        Error::Status(status, _) => CALL_SPECIFIC_STATUSES.contains(status),
        Error::BeyondHead | Error::TooLarge(_) | Error::NoMemory(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Duration = Duration::from_secs(2);

    fn new_health() -> (ReadHealth, Instant) {
        (ReadHealth::new(BLOCK, ReadBudget::new(None)), Instant::now())
    }

    fn by_polls(chain_verified_at: Option<Instant>) -> NodeState {
        let mut state = NodeState::new(BLOCK);
        state.chain_verified_at = chain_verified_at;
        state
    }

    fn status_error(status: u16) -> Error {
        Error::Status(status, String::new())
    }

    #[test]
    fn the_third_suspect_failure_in_a_row_opens_the_circuit() {
        let (mut health, now) = new_health();
        for _ in 0..2 {
            health.record_failure(&status_error(500), "m", now);
            health.record_failure(&status_error(500), "m", now);
            assert_eq!(health.try_admit(now), Availability::Healthy);
            health.record_success("m", now);
        }
        for _ in 0..3 {
            health.record_failure(&Error::InvalidReply(""), "m", now);
        }
        assert_eq!(health.try_admit(now), Availability::Degraded);
        // Failures at the same time do not extend the back-off.
        for _ in 0..100 {
            health.record_failure(&status_error(500), "m", now);
        }
        assert_eq!(health.try_admit(now + BLOCK), Availability::Healthy);
    }

    #[test]
    fn call_specific_errors_never_open_the_circuit() {
        let (mut health, now) = new_health();
        for _ in 0..10 {
            for error in [status_error(413), status_error(400), Error::TooLarge(1)] {
                health.record_failure(&error, "m", now);
            }
        }
        assert_eq!(health.try_admit(now), Availability::Healthy);
        assert!(health.is_chain_verified(
            &by_polls(Some(now)),
            now + BLOCK,
            Duration::from_mins(1)
        ));
    }

    #[test]
    fn a_long_timeout_without_other_replies_opens_the_circuit() {
        let (mut health, now) = new_health();
        let at = |millis| now + Duration::from_millis(millis);
        health.record_timeout(at(0), at(1999));
        health.record_success("m", at(2000));
        health.record_timeout(at(2000), at(5000));
        assert_eq!(health.try_admit(at(5000)), Availability::Healthy);
        health.record_timeout(at(5000), at(7000));
        assert_eq!(health.try_admit(at(7000)), Availability::Degraded);
    }

    #[test]
    fn a_verified_chain_closes_the_circuit() {
        let (mut health, now) = new_health();
        health.record_timeout(now, now + ReadHealth::HEDGE_DELAY);
        let rested = now + Duration::from_mins(1);
        assert_eq!(
            [health.try_admit(rested), health.try_admit(rested)]
                .map(|one| one == Availability::Healthy),
            [true, false]
        );
        health.record_chain_verified(rested);
        assert_eq!(health.try_admit(rested), Availability::Healthy);
        // A slow call from before the back-off, which no longer counts.
        health.record_timeout(rested, rested + ReadHealth::HEDGE_DELAY);
        assert_eq!(health.try_admit(rested + ReadHealth::HEDGE_DELAY), Availability::Healthy);
    }

    #[test]
    fn a_missing_method_is_remembered_until_it_succeeds() {
        let (mut health, now) = new_health();
        health.record_failure(&Error::Unsupported, "m", now);
        assert!(health.lacks_method("m", now) && !health.lacks_method("n", now));
        assert!(!health.lacks_method("m", now + ReadHealth::UNSUPPORTED_TTL));
        health.record_success("m", now);
        assert!(!health.lacks_method("m", now));
        // The node has answered the method by now, so the error concerns this call alone.
        health.record_failure(&Error::Unsupported, "m", now);
        assert!(!health.lacks_method("m", now));
    }

    #[test]
    fn a_failure_requires_another_chain_check() {
        let (mut health, now) = new_health();
        let (minute, later) = (Duration::from_mins(1), now + Duration::from_secs(1));
        assert!(!health.is_chain_verified(&by_polls(None), now, minute));
        assert!(health.is_chain_verified(&by_polls(Some(now)), later, minute));
        assert!(!health.is_chain_verified(&by_polls(Some(now)), now + minute, minute));
        health.record_failure(&status_error(500), "m", later);
        assert!(health.is_chain_verified(&by_polls(Some(now)), later, minute));
        (0..2).for_each(|_| health.record_failure(&status_error(500), "m", later));
        assert!(!health.is_chain_verified(&by_polls(Some(now)), later, minute));
        health.record_check_failure(&status_error(500), later);
        assert!(
            health.has_failed_check_since(later) && !health.has_failed_check_since(later + BLOCK)
        );
        health.record_chain_verified(later + Duration::from_millis(1));
        assert!(health.is_chain_verified(&by_polls(None), later + BLOCK, minute));
        let mut doubted = by_polls(Some(now));
        doubted.doubted_before = Some(later + BLOCK);
        assert!(!health.is_chain_verified(&doubted, later + BLOCK, minute));
    }
}
