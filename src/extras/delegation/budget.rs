//! Rate limit of the API without a key: a number of requests in any window of 10 s (the network document's section 8).
//!
//! A request counts from before it is sent until a whole window after its response. The API received it before it
//! responded, so no window of the API has more requests than the limit, whatever the latency. A request that timed out
//! may still reach the API and counts for one more window.
//!
//! A client may use all of them while no other one asks, and a quarter as soon as another one has asked in the same
//! window.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use enum_map::{Enum, EnumMap};
use parking_lot::Mutex;

use super::{DelegationMetrics, OutcomeLabels};
use crate::observe::metrics::{Counter, Metrics, counters};

/// Limit of the API.
const REQUESTS_PER_WINDOW: usize = 25;
/// Requests of one client while others ask.
const REQUESTS_PER_CLIENT: usize = REQUESTS_PER_WINDOW / 4;
const WINDOW: Duration = Duration::from_secs(10);

/// Budget of one API.
#[derive(Debug)]
pub(crate) struct RateBudget {
    window: Mutex<SlidingWindow>,
    /// True if the chain answers when the API does not: then no request waits.
    has_fallback: bool,
    counters: EnumMap<BudgetOutcome, Counter>,
}

/// Requests of this process. Pure: instants in, instants out.
#[derive(Debug)]
struct SlidingWindow {
    requests: Vec<CountedRequest>,
    askers: Askers,
    /// The API returned 429: no request is sent until then.
    paused_until: Instant,
    /// Longest time until a request in flight stops counting.
    max_hold: Duration,
}

/// A request that counts.
#[derive(Debug)]
struct CountedRequest {
    /// `None`: one without a limit.
    client: Option<IpAddr>,
    /// When it stops counting; `None`: it is in flight.
    free_at: Option<Instant>,
}

/// The client that asked last, and the last time that any other one did.
#[derive(Debug, Default)]
struct Askers {
    last: Option<(IpAddr, Instant)>,
    other_asked_at: Option<Instant>,
}

/// Error: no request may be sent for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Time until one may be.
    pub(crate) wait: Duration,
    /// True if only this client has to wait.
    pub(crate) is_share: bool,
}

#[derive(Debug, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum BudgetOutcome {
    Local,
    Exhausted,
}

/// Permit of one request. Dropping it records how long the request still counts.
#[derive(Debug)]
pub(crate) struct RequestPermit<'a> {
    budget: &'a RateBudget,
    client: Option<IpAddr>,
    /// Time from which the permit may be used.
    usable_at: Instant,
    /// Time for which the request still counts after the drop.
    pub(crate) hold: Duration,
}

impl RateBudget {
    /// Hold of a request that never reached the API.
    pub(crate) const UNSENT: Duration = Duration::ZERO;
    /// Hold of a request that has ended, with or without a response.
    pub(crate) const ENDED: Duration = WINDOW;
    /// Hold of a request that may still reach the API.
    pub(crate) const UNANSWERED: Duration = Duration::from_secs(20);
    /// Longest wait for a permit: the resolution of `Retry-After`, so a client that comes back on time gets one.
    const MAX_WAIT: Duration = Duration::from_secs(1);
    /// Longest pause after a 429.
    const MAX_COOL_DOWN: Duration = Duration::from_mins(5);

    /// Creates an unused budget for requests that take at most `timeout`.
    pub(crate) fn new(timeout: Duration, has_fallback: bool, metrics: &Metrics) -> Self {
        let window = SlidingWindow {
            requests: Vec::with_capacity(REQUESTS_PER_WINDOW),
            askers: Askers::default(),
            paused_until: Instant::now(),
            max_hold: timeout + WINDOW,
        };
        let own = metrics.set::<DelegationMetrics>();
        let counters = counters(&own.delegation_budget_total, |outcome| OutcomeLabels { outcome });
        Self { window: Mutex::new(window), has_fallback, counters }
    }

    /// Takes a permit for one request of `client`, and waits for it at most [`MAX_WAIT`](Self::MAX_WAIT). Dropping the future
    /// releases it.
    ///
    /// # Errors
    ///
    /// Returns the time until a request may be sent, if that is later.
    pub(crate) async fn acquire(
        &self,
        client: Option<IpAddr>,
    ) -> Result<RequestPermit<'_>, Refused> {
        let max_wait = if self.has_fallback { Duration::ZERO } else { Self::MAX_WAIT };
        let now = Instant::now();
        let acquired = self.window.lock().acquire(client, now, now + max_wait);
        let outcome =
            if acquired.is_ok() { BudgetOutcome::Local } else { BudgetOutcome::Exhausted };
        self.counters[outcome].increment();
        let usable_at = acquired?;
        let permit = RequestPermit { budget: self, client, usable_at, hold: Self::UNSENT };
        tokio::time::sleep_until(usable_at.into()).await;
        Ok(permit)
    }

    /// Cool-down after a 429: `Retry-After`, or one window.
    pub(crate) fn cool_down_for(retry_after: Option<Duration>) -> Duration {
        retry_after.unwrap_or(WINDOW).min(Self::MAX_COOL_DOWN)
    }

    /// Sends no request for `duration`, after a 429.
    pub(crate) fn start_cool_down(&self, duration: Duration) {
        let mut window = self.window.lock();
        window.paused_until = window.paused_until.max(Instant::now() + duration);
    }
}

impl SlidingWindow {
    /// Takes a permit that `client` can use by `deadline`, and returns from when on. A permit that becomes free only then
    /// is taken now, so no other request waits for the same one.
    fn acquire(
        &mut self,
        client: Option<IpAddr>,
        now: Instant,
        deadline: Instant,
    ) -> Result<Instant, Refused> {
        self.requests.retain(|request| request.free_at.is_none_or(|free_at| free_at > now));
        let has_others = client.is_some_and(|client| self.askers.record(client, now));
        let all_free_at = self.free_at(|_| true, REQUESTS_PER_WINDOW, now).max(self.paused_until);
        let share_free_at = if has_others {
            self.free_at(|request| request.client == client, REQUESTS_PER_CLIENT, now)
        } else {
            now
        };
        let usable_at = all_free_at.max(share_free_at);
        if usable_at > deadline {
            return Err(Refused { wait: usable_at - now, is_share: share_free_at > all_free_at });
        }
        if self.requests.len() >= REQUESTS_PER_WINDOW {
            let finished = self.requests.iter().enumerate();
            let finished = finished.filter_map(|(index, request)| Some((request.free_at?, index)));
            if let Some((_, next)) = finished.min() {
                self.requests.swap_remove(next);
            }
        }
        self.requests.push(CountedRequest { client, free_at: None });
        Ok(usable_at)
    }

    /// Returns when fewer than `max` of these requests count.
    fn free_at(
        &self,
        is_counted: impl Fn(&CountedRequest) -> bool,
        max: usize,
        now: Instant,
    ) -> Instant {
        let counted = self.requests.iter().filter(|request| is_counted(request));
        let mut times: Vec<_> =
            counted.map(|request| request.free_at.unwrap_or(now + self.max_hold)).collect();
        let Some(excess) = times.len().checked_sub(max) else { return now };
        times.sort_unstable();
        times.get(excess).copied().unwrap_or(now)
    }

    /// Ends a request of `client`, which counts until `free_at`.
    fn release(&mut self, client: Option<IpAddr>, free_at: Instant) {
        let mut in_flight = self.requests.iter_mut().filter(|request| request.free_at.is_none());
        if let Some(request) = in_flight.find(|request| request.client == client) {
            request.free_at = Some(free_at);
        }
    }
}

impl Askers {
    /// Records that `client` asks, and returns true if another one has asked in the last window.
    fn record(&mut self, client: IpAddr, now: Instant) -> bool {
        match self.last {
            Some((last, _)) if last == client => {}
            last => self.other_asked_at = last.map(|(_, asked_at)| asked_at),
        }
        self.last = Some((client, now));
        self.other_asked_at.is_some_and(|asked_at| now < asked_at + WINDOW)
    }
}

impl Drop for RequestPermit<'_> {
    fn drop(&mut self) {
        let free_at = (Instant::now() + self.hold).max(self.usable_at);
        self.budget.window.lock().release(self.client, free_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn shared_wait(wait: Duration) -> Refused {
        Refused { wait, is_share: false }
    }

    fn budget() -> RateBudget {
        RateBudget::new(TIMEOUT, true, &Metrics::new())
    }

    #[test]
    fn cool_down_follows_retry_after_up_to_a_maximum() {
        assert_eq!(RateBudget::cool_down_for(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(RateBudget::cool_down_for(None), WINDOW);
        assert_eq!(RateBudget::cool_down_for(Some(Duration::MAX)), RateBudget::MAX_COOL_DOWN);
    }

    #[tokio::test]
    async fn requests_count_for_a_window_after_they_end_and_not_if_unsent() {
        let budget = budget();
        for _ in 0..100 {
            drop(budget.acquire(None).await.unwrap());
        }
        let mut permits = Vec::new();
        for _ in 0..REQUESTS_PER_WINDOW {
            permits.push(budget.acquire(None).await.unwrap());
        }
        let Err(refused) = budget.acquire(None).await else { panic!("one too many") };
        assert_eq!(refused, shared_wait(TIMEOUT + WINDOW));
        for (index, mut permit) in permits.into_iter().enumerate() {
            let is_answered = index % 2 == 0;
            permit.hold = if is_answered { RateBudget::ENDED } else { RateBudget::UNANSWERED };
            drop(permit);
        }
        let mut window = budget.window.lock();
        let now = Instant::now();
        let wait = window.acquire(None, now, now).expect_err("one too many").wait;
        assert!(wait <= WINDOW && wait > WINDOW / 2, "{wait:?}");
        let free = |window: &mut SlidingWindow, after| {
            let now = now + after;
            std::iter::from_fn(|| window.acquire(None, now, now).ok()).count()
        };
        assert_eq!(free(&mut window, WINDOW), 13);
        assert_eq!(free(&mut window, 2 * WINDOW), 12);
    }

    #[test]
    fn requests_wait_for_different_permits() {
        let budget = budget();
        let mut window = budget.window.lock();
        let now = Instant::now();
        let [first, second, third] =
            [100, 200, 300].map(|millis| now + Duration::from_millis(millis));
        let finished = [Some(third), Some(first), Some(second)].into_iter();
        let in_flight = std::iter::repeat_n(None, REQUESTS_PER_WINDOW - 3);
        let requests = finished.chain(in_flight);
        window.requests =
            requests.map(|free_at| CountedRequest { client: None, free_at }).collect();
        assert_eq!(window.acquire(None, now, second), Ok(first));
        assert_eq!(window.acquire(None, now, second), Ok(second));
        assert_eq!(window.acquire(None, now, second), Err(shared_wait(third - now)));
        // The first one gives up.
        window.release(None, first);
        assert_eq!(window.acquire(None, now, second), Ok(first));
    }

    #[test]
    fn one_client_has_all_alone_and_a_quarter_while_others_ask() {
        let [greedy, other, third] = [1, 2, 3].map(|last| Some(IpAddr::from([192, 0, 2, last])));
        let budget = budget();
        let mut window = budget.window.lock();
        let second = Duration::from_secs(1);
        // Each request ends at once and counts for a window.
        let take = |window: &mut SlidingWindow, client, now| {
            window.acquire(client, now, now).map(|_| window.release(client, now + WINDOW))
        };
        let count = |window: &mut SlidingWindow, client, now| {
            (0..100).take_while(|_| take(window, client, now).is_ok()).count()
        };
        let now = Instant::now();
        assert_eq!(count(&mut window, greedy, now), 25);
        assert_eq!(
            take(&mut window, other, now + second),
            Err(shared_wait(WINDOW.saturating_sub(second)))
        );
        // After its wait the other client is served before the greedy one.
        let later = now + WINDOW;
        assert_eq!(count(&mut window, greedy, later), 6);
        let refused = Refused { wait: WINDOW, is_share: true };
        assert_eq!(take(&mut window, greedy, later), Err(refused));
        assert_eq!(count(&mut window, other, later), 6);
        assert_eq!(count(&mut window, third, later), 6);
        // No other client has asked for a window.
        assert_eq!(count(&mut window, greedy, later + WINDOW), 25);
        // Requests in flight count too.
        let later = later + 3 * WINDOW;
        assert_eq!(take(&mut window, other, later), Ok(()));
        (0..6).for_each(|_| assert_eq!(window.acquire(greedy, later, later), Ok(later)));
        let refused = Refused { wait: TIMEOUT + WINDOW, is_share: true };
        assert_eq!(window.acquire(greedy, later, later), Err(refused));
    }
}
