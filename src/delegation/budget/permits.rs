//! Permits of this process, and when each becomes free. Pure: instants in, instants out.

use std::time::{Duration, Instant};

/// Limit of the API.
pub(super) const REQUESTS_PER_WINDOW: usize = 25;
pub(super) const WINDOW: Duration = Duration::from_secs(10);
/// At most 1 s, the resolution of `Retry-After`: a client that comes back on time finds the permit free.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(1);

/// Permits with the time at which each becomes free. It has more slots than permits, because a permit that a request
/// waits for is not free yet.
#[derive(Debug)]
pub(super) struct PermitPool {
    permits: [PermitState; Self::COUNT],
    /// Deadline of a request.
    timeout: Duration,
    /// The API has returned 429: no request is sent until then.
    cool_down_until: Option<Instant>,
    /// Latencies of the last responses.
    latencies: [Duration; Self::COUNT],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermitState {
    /// Free from then on; `None`: never taken.
    FreeAt(Option<Instant>),
    /// Its request was or will be sent then.
    InUse(Instant),
}

/// Number of permits that one process may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quota {
    pub(super) permits: usize,
    /// Number of windows for which a permit is held; above 1 if there are more replicas than permits.
    pub(super) windows: u32,
}

/// Error: all permits are taken. Holds the time until one is free, if the requests in flight are answered as usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct BudgetExhausted(pub(in super::super) Duration);

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    Unsent,
    Answered,
    Unanswered,
}

impl Quota {
    /// For a single replica.
    pub(super) const FULL: Self = Self { permits: REQUESTS_PER_WINDOW, windows: 1 };
    /// For an unknown number of replicas.
    pub(super) const MINIMUM: Self = Self { permits: 1, windows: 1 };

    /// Quota of one of `replicas` replicas.
    pub(super) fn for_replicas(replicas: usize) -> Self {
        let replicas = replicas.max(1);
        let windows = replicas.div_ceil(REQUESTS_PER_WINDOW);
        Self {
            permits: (REQUESTS_PER_WINDOW / replicas).max(1),
            windows: u32::try_from(windows).unwrap_or(u32::MAX),
        }
    }
}

impl PermitPool {
    pub(super) const COUNT: usize = 2 * REQUESTS_PER_WINDOW;
    /// Longest pause after a 429.
    pub(super) const MAX_COOL_DOWN: Duration = Duration::from_mins(5);

    pub(super) fn new(timeout: Duration) -> Self {
        let permits = [PermitState::FreeAt(None); Self::COUNT];
        Self { permits, timeout, cool_down_until: None, latencies: [Duration::ZERO; Self::COUNT] }
    }

    /// Takes a permit within `quota`. Returns its index and the time at which it may be used, which is at most
    /// `max_wait` away.
    pub(super) fn acquire(
        &mut self,
        quota: Quota,
        max_wait: Duration,
        now: Instant,
    ) -> Result<(usize, Instant), BudgetExhausted> {
        let mut waits: Vec<_> =
            self.permits.iter().map(|permit| self.wait_for(permit, now)).collect();
        let free = waits.iter().position(Duration::is_zero);
        waits.retain(|wait| !wait.is_zero());
        waits.sort_unstable();
        // Number of permits that must become free first.
        let surplus = (waits.len() + 1).saturating_sub(quota.permits);
        let wait = surplus.checked_sub(1).and_then(|last| waits.get(last).copied());
        let wait = wait.unwrap_or_default().max(self.cool_down_remaining(now));
        match free {
            Some(index) if wait <= max_wait => {
                let send_at = now + wait;
                self.set_permit(index, PermitState::InUse(send_at));
                Ok((index, send_at))
            }
            _ => Err(BudgetExhausted(wait.max(Duration::from_millis(1)))),
        }
    }

    /// Sets the time from which a taken permit may be used, as Redis determined it.
    pub(super) fn set_send_time(&mut self, index: usize, send_at: Instant) {
        self.set_permit(index, PermitState::InUse(send_at));
    }

    /// Records the outcome of the request that was due at `send_at`. `quota` decides how long the permit is held.
    pub(super) fn release(
        &mut self,
        index: usize,
        send_at: Instant,
        outcome: RequestOutcome,
        quota: Quota,
        now: Instant,
    ) {
        let hold_time = WINDOW.saturating_mul(quota.windows);
        let free_at = match outcome {
            RequestOutcome::Unsent => send_at,
            RequestOutcome::Answered => {
                if let Some(latency) = self.latencies.get_mut(index) {
                    *latency = now.saturating_duration_since(send_at);
                }
                now + hold_time
            }
            RequestOutcome::Unanswered => now + WINDOW + hold_time,
        };
        self.set_permit(index, PermitState::FreeAt(Some(free_at)));
    }

    /// Grants no permit for this long.
    pub(super) fn start_cool_down(&mut self, pause: Duration, now: Instant) {
        self.cool_down_until = self.cool_down_until.max(Some(now + pause));
    }

    pub(super) fn cool_down_remaining(&self, now: Instant) -> Duration {
        let until = self.cool_down_until;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Returns for each permit the longest time for which it is taken from now on, and whether its request is in
    /// flight.
    pub(super) fn reservations(&self, now: Instant) -> impl Iterator<Item = (Duration, bool)> {
        self.permits.iter().map(move |permit| match permit {
            PermitState::FreeAt(None) => (Duration::ZERO, false),
            PermitState::FreeAt(Some(from)) => (from.saturating_duration_since(now), false),
            PermitState::InUse(sent) => {
                let end = *sent + self.timeout + 2 * WINDOW;
                (end.saturating_duration_since(now), true)
            }
        })
    }

    /// Returns the deadline of a request.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the longest latency of the last responses, at least [`MAX_WAIT`].
    pub(super) fn typical_latency(&self) -> Duration {
        // A client that retries may be this late, so the estimate is never shorter.
        self.latencies.into_iter().max().unwrap_or_default().max(MAX_WAIT)
    }

    fn wait_for(&self, permit: &PermitState, now: Instant) -> Duration {
        match permit {
            PermitState::FreeAt(None) => Duration::ZERO,
            PermitState::FreeAt(Some(from)) => from.saturating_duration_since(now),
            PermitState::InUse(sent) => {
                let expected_end = *sent + self.typical_latency();
                let end = if now <= expected_end { expected_end } else { *sent + self.timeout };
                (WINDOW + end.saturating_duration_since(now)).saturating_sub(MAX_WAIT)
            }
        }
    }

    fn set_permit(&mut self, index: usize, state: PermitState) {
        if let Some(permit) = self.permits.get_mut(index) {
            *permit = state;
        }
    }
}

#[cfg(test)]
mod tests;
