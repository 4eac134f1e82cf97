//! Health of a node from its recent replies, which decides when it is polled.
//!
//! Pure: outcomes and instants in, an [`Availability`] out.

use std::time::{Duration, Instant};

use crate::jitter;

/// Effect of a failure on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Penalty {
    /// None: the node is healthy, it just has not seen the block yet.
    None,
    /// Polled after the others for a while, longer after each failure.
    Backoff,
    /// Polled after the others for a long time, because it makes callers wait.
    LongBackoff,
    /// Not called for the time that it stated, if any.
    Cooldown(Option<Duration>),
    /// Serves another chain: not called for a while, then checked again.
    Quarantine,
    /// Lacks the polled method: probed at growing intervals.
    Unsupported,
}

/// Availability of a node, which decides whether and in which order it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Availability {
    /// Called in order of preference.
    Healthy,
    /// Called after all healthy nodes.
    Degraded,
    /// Not called.
    Excluded,
}

/// Status of a node at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeStatus {
    /// Availability for polls.
    pub availability: Availability,
    /// True if the node is excluded because it served another chain.
    pub serves_another_chain: bool,
}

/// Health of one node.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeHealth {
    block_time: Duration,
    /// Consecutive failures that cause a back-off.
    failures: u32,
    /// Consecutive rejections because of a rate limit or a missing method.
    rejections: u32,
    backoff_until: Option<Instant>,
    cooldown_until: Option<Instant>,
    quarantined_until: Option<Instant>,
    /// End of the time in which the polled method is not called.
    unsupported_until: Option<Instant>,
}

impl NodeHealth {
    const MAX_BACKOFF: Duration = Duration::from_secs(30);
    /// Longest `Retry-After` that is honoured.
    const MAX_COOLDOWN: Duration = Duration::from_mins(1);
    /// Pause after a 429 without `Retry-After`. Most limits count per second.
    const INITIAL_COOLDOWN: Duration = Duration::from_secs(1);
    const MAX_BACKOFF_COOLDOWN: Duration = Duration::from_secs(16);
    const QUARANTINE_BLOCKS: u32 = 10;
    /// First pause in blocks. Short, because the next node behind a load balancer may have the method.
    const UNSUPPORTED_BLOCKS: u32 = 4;
    const MAX_QUARANTINE: Duration = Duration::from_mins(1);
    const MAX_UNSUPPORTED: Duration = Duration::from_mins(10);

    /// Healthy node of a chain with this block time.
    pub(super) fn new(block_time: Duration) -> Self {
        Self {
            block_time,
            failures: 0,
            rejections: 0,
            backoff_until: None,
            cooldown_until: None,
            quarantined_until: None,
            unsupported_until: None,
        }
    }

    /// Availability for the polled method.
    pub(super) fn availability(&self, now: Instant) -> Availability {
        if is_in_future(self.unsupported_until, now) {
            Availability::Excluded
        } else {
            self.availability_for_other_methods(now)
        }
    }

    /// Availability for any other method.
    pub(super) fn availability_for_other_methods(&self, now: Instant) -> Availability {
        if self.is_rate_limited(now) || self.is_quarantined(now) {
            Availability::Excluded
        } else if is_in_future(self.backoff_until, now) {
            Availability::Degraded
        } else {
            Availability::Healthy
        }
    }

    /// Returns true if the node has asked for a pause that is not over.
    pub(super) fn is_rate_limited(&self, now: Instant) -> bool {
        is_in_future(self.cooldown_until, now)
    }

    /// Returns true if the node is excluded because it served another chain.
    pub(super) fn is_quarantined(&self, now: Instant) -> bool {
        is_in_future(self.quarantined_until, now)
    }

    pub(super) fn record_success(&mut self) {
        *self = Self::new(self.block_time);
    }

    pub(super) fn record_failure(&mut self, penalty: Penalty, now: Instant) {
        match penalty {
            Penalty::None => {}
            Penalty::Backoff => {
                self.backoff_until = Some(
                    now + exponential_backoff(self.block_time, self.failures, Self::MAX_BACKOFF),
                );
                self.failures = self.failures.saturating_add(1);
            }
            Penalty::LongBackoff => self.backoff_until = Some(now + Self::MAX_BACKOFF),
            Penalty::Cooldown(asked) => {
                let wait = asked.unwrap_or_else(|| {
                    exponential_backoff(
                        Self::INITIAL_COOLDOWN,
                        self.rejections,
                        Self::MAX_BACKOFF_COOLDOWN,
                    )
                });
                self.rejections = self.rejections.saturating_add(1);
                self.cooldown_until = Some(now + add_jitter(wait.min(Self::MAX_COOLDOWN)));
            }
            Penalty::Quarantine => {
                let wait = self.block_time.saturating_mul(Self::QUARANTINE_BLOCKS);
                self.quarantined_until = Some(now + wait.min(Self::MAX_QUARANTINE));
            }
            Penalty::Unsupported => {
                let first = self.block_time.saturating_mul(Self::UNSUPPORTED_BLOCKS);
                let wait = exponential_backoff(first, self.rejections, Self::MAX_UNSUPPORTED);
                self.rejections = self.rejections.saturating_add(1);
                self.unsupported_until = Some(now + wait);
            }
        }
    }
}

fn is_in_future(until: Option<Instant>, now: Instant) -> bool {
    until.is_some_and(|until| now < until)
}

/// Returns `first`, doubled `times` times, limited to `max`.
fn exponential_backoff(first: Duration, times: u32, max: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(max)
}

/// Adds up to a tenth to `wait`, so that clients which were rejected together do not return together.
fn add_jitter(wait: Duration) -> Duration {
    wait + jitter::random_up_to(wait / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Duration = Duration::from_secs(2);

    /// Returns how long a node is no better than `availability` after these penalties at the same time.
    fn unavailable_for(availability: Availability, penalties: &[Penalty]) -> Duration {
        let (mut health, now) = (NodeHealth::new(BLOCK), Instant::now());
        for penalty in penalties {
            health.record_failure(*penalty, now);
        }
        let step = Duration::from_millis(100);
        let steps =
            (0..10_000).find(|steps| health.availability(now + step * *steps) < availability);
        step * steps.expect("it gets better")
    }

    #[test]
    fn the_backoff_grows_with_consecutive_failures_up_to_30_s() {
        let rests = [1, 2, 3, 4, 9]
            .map(|count| unavailable_for(Availability::Degraded, &vec![Penalty::Backoff; count]));
        assert_eq!(rests.map(|rest| rest.as_secs()), [2, 4, 8, 16, 30]);
        assert_eq!(unavailable_for(Availability::Degraded, &[Penalty::LongBackoff]).as_secs(), 30);
    }

    #[test]
    fn a_success_resets_the_health() {
        let (mut health, now) = (NodeHealth::new(BLOCK), Instant::now());
        for penalty in [Penalty::Backoff, Penalty::Backoff, Penalty::Quarantine] {
            health.record_failure(penalty, now);
        }
        assert_eq!(health.availability(now), Availability::Excluded);
        health.record_success();
        assert_eq!(health.availability(now), Availability::Healthy);
        health.record_failure(Penalty::Backoff, now);
        assert_eq!(health.availability(now + BLOCK), Availability::Healthy);
    }

    #[test]
    fn retry_after_is_honoured_up_to_one_minute() {
        let asked = |seconds| {
            unavailable_for(
                Availability::Excluded,
                &[Penalty::Cooldown(Some(Duration::from_secs(seconds)))],
            )
        };
        for (seconds, kept) in [(1, 1000..1200), (20, 20_000..22_100), (86_400, 60_000..66_100)] {
            let millis = asked(seconds).as_millis();
            assert!(kept.contains(&millis), "{seconds} s asked for, {millis} ms kept");
        }
        assert_eq!(asked(0), Duration::ZERO);
    }

    #[test]
    fn without_retry_after_the_cooldown_doubles() {
        let pauses = [1, 2, 5, 9].map(|count| {
            unavailable_for(Availability::Excluded, &vec![Penalty::Cooldown(None); count])
        });
        for (pause, least) in pauses.iter().zip([1, 2, 16, 16]) {
            let least = Duration::from_secs(least);
            assert!((least..=least * 11 / 10 + BLOCK / 20).contains(pause), "{pauses:?}");
        }
    }

    #[test]
    fn a_wrong_chain_or_missing_method_is_probed_again() {
        let barred = |penalty| unavailable_for(Availability::Excluded, &[penalty]).as_secs();
        assert_eq!(barred(Penalty::Quarantine), 20);
        assert_eq!(barred(Penalty::Unsupported), 8);
        let again =
            |count| unavailable_for(Availability::Excluded, &vec![Penalty::Unsupported; count]);
        assert_eq!([2, 5, 12].map(|count| again(count).as_secs()), [16, 128, 600]);
    }

    #[test]
    fn a_missing_method_does_not_affect_other_methods() {
        let (mut health, now) = (NodeHealth::new(BLOCK), Instant::now());
        health.record_failure(Penalty::Unsupported, now);
        assert_eq!(health.availability(now), Availability::Excluded);
        assert_eq!(health.availability_for_other_methods(now), Availability::Healthy);
        health.record_failure(Penalty::Cooldown(None), now);
        assert_eq!(health.availability_for_other_methods(now), Availability::Excluded);
    }

    #[test]
    fn a_block_beyond_the_head_has_no_penalty() {
        let (mut health, now) = (NodeHealth::new(BLOCK), Instant::now());
        health.record_failure(Penalty::None, now);
        assert_eq!(health.availability(now), Availability::Healthy);
    }
}
