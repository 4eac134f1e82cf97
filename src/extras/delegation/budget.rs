//! Rate limit of the API without a key: a number of requests in any window of 10 s (the network document's section 8).
//!
//! A request counts from before it is sent until a whole window after its response. The API received it before it
//! responded, so no window of the API has more requests than the limit, whatever the latency. A request that timed out
//! may still reach the API and counts for one more window.
//!
//! Replicas that share Redis count their requests together there. Each replica also counts its own: a replica that
//! loses Redis, or finds Redis empty, is still bound by its own window.
//!
//! A client may use all of them while no other one asks, and a quarter as soon as another one has asked in the same
//! window. Each replica looks after the shares of its own clients.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use enum_map::{Enum, EnumMap};
use parking_lot::Mutex;

use super::{DelegationMetrics, OutcomeLabels};
use crate::assembly::SharedRateLimit;
use crate::observe::metrics::{Counter, Metrics, counters};

/// Limit of the API.
pub(super) const REQUESTS_PER_WINDOW: usize = 25;
/// Requests of one client while others ask.
const REQUESTS_PER_CLIENT: usize = REQUESTS_PER_WINDOW / 4;
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// Budget of one API. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RateBudget {
    window: Arc<Mutex<SlidingWindow>>,
    /// True if the chain answers when the API does not: then no request waits, or is sent without Redis.
    has_fallback: bool,
    /// `None`: this process shares the budget with no replica.
    shared: Option<Arc<dyn SharedRateLimit>>,
    counters: EnumMap<BudgetOutcome, Counter>,
}

/// Requests of this process. Pure: instants in, instants out.
#[derive(Debug)]
struct SlidingWindow {
    /// Client of each request in flight; `None`: one without a limit.
    in_flight: Vec<Option<IpAddr>>,
    /// For each finished request that still counts, when it stops counting, and its client.
    finished: Vec<(Instant, Option<IpAddr>)>,
    askers: Askers,
    /// The API returned 429: no request is sent until then.
    paused_until: Instant,
    /// Redis had no free permit: when to ask it again, and when one is free.
    exhausted: Option<(Instant, Instant)>,
    /// Longest time until a request in flight stops counting.
    max_hold: Duration,
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
    Shared,
    Local,
    Exhausted,
}

/// Returns a random id of a request.
fn random_id() -> String {
    format!("{:016x}", RandomState::new().hash_one(()))
}

/// Permit of one request. Dropping it records how long the request still counts.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    budget: RateBudget,
    client: Option<IpAddr>,
    /// Id in Redis, if Redis granted the permit.
    shared_id: Option<String>,
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
    /// Longest time without asking Redis again: a request may end sooner than at its deadline.
    const MAX_EXHAUSTED: Duration = Duration::from_millis(250);

    /// Creates an unused budget for requests that take at most `timeout`. Replicas share it through `shared`.
    pub(crate) fn new(
        timeout: Duration,
        has_fallback: bool,
        shared: Option<Arc<dyn SharedRateLimit>>,
        metrics: &Metrics,
    ) -> Self {
        let window = SlidingWindow {
            in_flight: Vec::with_capacity(REQUESTS_PER_WINDOW),
            finished: Vec::with_capacity(REQUESTS_PER_WINDOW),
            askers: Askers::default(),
            paused_until: Instant::now(),
            exhausted: None,
            max_hold: timeout + WINDOW,
        };
        let own = metrics.set::<DelegationMetrics>();
        let counters = counters(&own.delegation_budget_total, |outcome| OutcomeLabels { outcome });
        Self { window: Arc::new(Mutex::new(window)), has_fallback, shared, counters }
    }

    /// Takes a permit for one request of `client`, and waits for it at most [`MAX_WAIT`](Self::MAX_WAIT). Dropping the future
    /// releases it.
    ///
    /// # Errors
    ///
    /// Returns the time until a request may be sent, if that is later.
    pub(crate) async fn acquire(&self, client: Option<IpAddr>) -> Result<RequestPermit, Refused> {
        let result = self.try_acquire(client).await;
        let outcome = match &result {
            Ok(permit) if permit.shared_id.is_some() => BudgetOutcome::Shared,
            Ok(_) => BudgetOutcome::Local,
            Err(_) => BudgetOutcome::Exhausted,
        };
        self.counters[outcome].increment();
        result
    }

    async fn try_acquire(&self, client: Option<IpAddr>) -> Result<RequestPermit, Refused> {
        let shared_wait = |wait| Refused { wait, is_share: false };
        let max_wait = if self.has_fallback { Duration::ZERO } else { Self::MAX_WAIT };
        let now = Instant::now();
        let deadline = now + max_wait;
        let usable_at = self.window.lock().acquire(client, now, deadline)?;
        let budget = self.clone();
        let mut permit =
            RequestPermit { budget, client, shared_id: None, usable_at, hold: Self::UNSENT };
        tokio::time::sleep_until(usable_at.into()).await;
        let Some(shared) = &self.shared else { return Ok(permit) };
        let id = permit.shared_id.insert(random_id()).clone();
        let hold = self.window.lock().max_hold;
        loop {
            let wait = shared.reserve(&id, REQUESTS_PER_WINDOW, hold).await;
            let now = Instant::now();
            match wait {
                Some(Duration::ZERO) => return Ok(permit),
                Some(wait) if now + wait <= deadline => tokio::time::sleep(wait).await,
                Some(wait) => {
                    permit.shared_id = None;
                    let retry_at = now + wait.min(Self::MAX_EXHAUSTED);
                    self.window.lock().exhausted = Some((retry_at, now + wait));
                    return Err(shared_wait(wait));
                }
                None if self.has_fallback => return Err(shared_wait(WINDOW)),
                None => {
                    permit.shared_id = None;
                    return Ok(permit);
                }
            }
        }
    }

    /// Cool-down after a 429: `Retry-After`, or one window.
    pub(crate) fn cool_down_for(retry_after: Option<Duration>) -> Duration {
        retry_after.unwrap_or(WINDOW).min(Self::MAX_COOL_DOWN)
    }

    /// Stops the requests of all replicas for `duration`, after a 429.
    pub(crate) fn start_cool_down(&self, duration: Duration) {
        let mut window = self.window.lock();
        window.paused_until = window.paused_until.max(Instant::now() + duration);
        if let Some(shared) = self.shared.clone() {
            tokio::spawn(async move { shared.start_cool_down(duration).await });
        }
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
        self.finished.retain(|(free_at, _)| *free_at > now);
        let has_others = client.is_some_and(|client| self.askers.record(client, now));
        let is_full = self.in_flight.len() + self.finished.len() >= REQUESTS_PER_WINDOW;
        let times = self.finished.iter().map(|(free_at, _)| *free_at).enumerate();
        let next = times.min_by_key(|(_, free_at)| *free_at).filter(|_| is_full);
        let full_until = if is_full { now + self.max_hold } else { now };
        let free_at = next.map_or(full_until, |(_, free_at)| free_at);
        let shared_at = match self.exhausted {
            Some((retry_at, free_at)) if now < retry_at => free_at,
            _ => now,
        };
        let all_free_at = free_at.max(self.paused_until).max(shared_at).max(now);
        let share_free_at = if has_others { self.share_free_at(client, now) } else { now };
        let usable_at = all_free_at.max(share_free_at);
        if usable_at > deadline {
            return Err(Refused { wait: usable_at - now, is_share: share_free_at > all_free_at });
        }
        if let Some((index, _)) = next {
            self.finished.swap_remove(index);
        }
        self.in_flight.push(client);
        Ok(usable_at)
    }

    /// Returns when fewer of the client's requests count than it may have beside other clients.
    fn share_free_at(&self, client: Option<IpAddr>, now: Instant) -> Instant {
        let in_flight = self.in_flight.iter().filter(|sender| **sender == client).count();
        let finished = self.finished.iter().filter(|(_, sender)| *sender == client);
        let mut finished: Vec<_> = finished.map(|(free_at, _)| *free_at).collect();
        let counting = in_flight + finished.len();
        let Some(excess) = counting.checked_sub(REQUESTS_PER_CLIENT) else { return now };
        finished.sort_unstable();
        finished.get(excess).copied().unwrap_or(now + self.max_hold)
    }

    /// Ends a request of `client`, which counts until `free_at`.
    fn release(&mut self, client: Option<IpAddr>, free_at: Instant) {
        if let Some(index) = self.in_flight.iter().position(|sender| *sender == client) {
            self.in_flight.swap_remove(index);
        }
        self.finished.push((free_at, client));
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

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let hold = self.hold;
        let free_at = (Instant::now() + hold).max(self.usable_at);
        self.budget.window.lock().release(self.client, free_at);
        let shared = self.budget.shared.clone().zip(self.shared_id.take());
        if let (Some((shared, id)), Ok(runtime)) = (shared, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { shared.set_hold(&id, hold).await });
        }
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
        RateBudget::new(TIMEOUT, true, None, &Metrics::new())
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
        window.in_flight = vec![None; REQUESTS_PER_WINDOW - 3];
        window.finished = [third, first, second].map(|free_at| (free_at, None)).into();
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
