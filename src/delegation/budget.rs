//! Rate limit of the API without a key: a fixed number of requests per window (the network document's section 8).
//!
//! A request takes a permit before it is sent and keeps it until a whole window after its response. The API received
//! the request before it responded. So no window of the API has more answered requests than permits, whatever the
//! latency. A request that timed out may still reach the API, so its permit stays taken for one more window.
//!
//! Other algorithms cannot guarantee that. A full token bucket allows almost twice the limit within one window. A log
//! of send times does not know when requests arrive, which can be closer together than they were sent.
//!
//! Replicas that share Redis share the permits: each requests a permit from Redis. A replica that loses Redis takes
//! none until all permits that the others may hold from its share have expired. From then on it uses its own share,
//! which the others leave to it.

mod permits;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use enum_map::{Enum, EnumMap};
use tokio::sync::Notify;

pub(super) use permits::BudgetExhausted;
use permits::{MAX_WAIT, PermitPool, Quota, REQUESTS_PER_WINDOW, RequestOutcome, WINDOW};

use crate::metrics::{Counter, Metrics, OutcomeLabels, counters};
use crate::replicas::{self, ReserveRequest, SharedBudget};

/// Permits of one API. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct RateBudget {
    pool: Arc<Mutex<PermitPool>>,
    /// Maximum wait for a permit that becomes free.
    max_wait: Duration,
    /// `None`: this process shares the budget with no replica.
    shared: Option<Arc<SharedBudgetState>>,
    counters: EnumMap<BudgetOutcome, Counter>,
}

/// State shared with other replicas.
#[derive(Debug)]
struct SharedBudgetState {
    budget: SharedBudget,
    view: Mutex<ReplicaView>,
    /// Held from a snapshot of the reservations until Redis has it: an older snapshot that arrived after a newer one
    /// would delete the permit that was reserved in between.
    snapshot_order: tokio::sync::Mutex<()>,
    /// Notified when the reservations should be sent to Redis.
    heartbeat_due: Notify,
}

/// Replica's view of the shared budget.
#[derive(Debug, Default)]
struct ReplicaView {
    /// Number of sharing replicas; 0: unknown.
    replicas: usize,
    /// Since when the number has not changed.
    stable_since: Option<Instant>,
    redis: RedisState,
    /// Set while Redis has no free permit: when to ask Redis again, and when a permit is expected to be free.
    exhausted: Option<[Instant; 2]>,
}

/// Connection to Redis.
#[derive(Debug, Clone, Copy, Default)]
enum RedisState {
    /// Never connected.
    #[default]
    NeverReached,
    Reachable,
    /// Disconnected since then.
    LostAt(Instant),
}

#[derive(Debug, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum BudgetOutcome {
    Shared,
    Local,
    Exhausted,
}

/// Permit of one request. Dropping it releases it.
#[derive(Debug)]
pub(super) struct RequestPermit {
    budget: RateBudget,
    index: usize,
    /// When the request may be sent.
    send_at: Instant,
    outcome: RequestOutcome,
}

impl RateBudget {
    pub(super) const MAX_WAIT: Duration = MAX_WAIT;
    /// Longest interval between heartbeats, which send the reservations and count the replicas.
    const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
    /// By then replicas that start together know each other.
    const STABLE_AFTER: Duration = Duration::from_secs(5);
    /// Time after the loss of Redis until this replica uses its share. After 3 s the others leave the share to it
    /// (`reserve.lua`). The rest of the time is for permits that they took from it before then: each request is sent at
    /// once and answered, and its permit is held for a window.
    const REDIS_LOSS_COOL_DOWN: Duration = Duration::from_secs(15);
    /// Longest time without asking Redis again, because a permit may become free sooner than expected.
    const MAX_EXHAUSTED_CACHE: Duration = Duration::from_millis(250);

    /// Creates a budget with all permits free. A request may take `timeout`, after waiting `max_wait` for a permit.
    /// Replicas share the permits through `shared_budget`.
    pub(super) fn new(
        timeout: Duration,
        max_wait: Duration,
        shared_budget: Option<SharedBudget>,
        metrics: &Metrics,
    ) -> Self {
        let shared_state = |pool| SharedBudgetState {
            budget: pool,
            view: Mutex::default(),
            snapshot_order: tokio::sync::Mutex::default(),
            heartbeat_due: Notify::new(),
        };
        Self {
            pool: Arc::new(Mutex::new(PermitPool::new(timeout))),
            max_wait,
            shared: shared_budget.map(shared_state).map(Arc::new),
            counters: counters(&metrics.delegation_budget_total, |outcome| OutcomeLabels {
                outcome,
            }),
        }
    }

    /// Takes a permit for one request. Dropping the future releases it.
    ///
    /// # Errors
    ///
    /// Fails if no permit is free, or becomes free soon.
    pub(super) async fn acquire(&self) -> Result<RequestPermit, BudgetExhausted> {
        let outcome = match &self.shared {
            None => self.acquire_local(Quota::FULL),
            Some(shared) => self.acquire_shared(shared).await,
        };
        if outcome.is_err() {
            self.counters[BudgetOutcome::Exhausted].increment();
        }
        outcome
    }

    fn acquire_local(&self, quota: Quota) -> Result<RequestPermit, BudgetExhausted> {
        let (index, send_at) = self.lock().acquire(quota, self.max_wait, Instant::now())?;
        self.counters[BudgetOutcome::Local].increment();
        Ok(self.permit(index, send_at))
    }

    async fn acquire_shared(
        &self,
        shared: &SharedBudgetState,
    ) -> Result<RequestPermit, BudgetExhausted> {
        if let Some(quota) = shared.local_quota(Instant::now())? {
            return self.acquire_local(quota);
        }
        let _snapshot_order = shared.snapshot_order.lock().await;
        // The call before this one may have used up the permits, or lost Redis.
        let now = Instant::now();
        if let Some(quota) = shared.local_quota(now)? {
            return self.acquire_local(quota);
        }
        let (index, send_at) = self.lock().acquire(Quota::FULL, self.max_wait, now)?;
        let mut permit = self.permit(index, send_at);
        let reservations = self.reservations(Some(index));
        match shared.budget.reserve(&reservations, index, self.max_wait).await {
            Ok(replicas::Granted { wait, replicas }) => {
                shared.lock_view().record_contact(replicas, Instant::now());
                permit.send_at = send_at.max(Instant::now() + wait);
                self.lock().set_send_time(index, permit.send_at);
                self.counters[BudgetOutcome::Shared].increment();
                Ok(permit)
            }
            Err(replicas::Denied::Exhausted(wait)) => {
                permit.release_unsent();
                let now = Instant::now();
                shared.lock_view().exhausted =
                    Some([now + wait.min(Self::MAX_EXHAUSTED_CACHE), now + wait]);
                Err(BudgetExhausted(wait))
            }
            Err(replicas::Denied::RedisUnavailable) => {
                permit.release_unsent();
                let now = Instant::now();
                shared.lock_view().record_loss(now);
                let quota = shared.local_quota(now)?;
                quota.map_or(Err(BudgetExhausted(Self::REDIS_LOSS_COOL_DOWN)), |share| {
                    self.acquire_local(share)
                })
            }
        }
    }

    /// Sends the reservations to Redis on each change and at intervals, for ever. `None`: nothing is shared.
    pub(super) fn sync_with_redis(
        &self,
    ) -> Option<impl Future<Output = Infallible> + Send + use<>> {
        let (budget, shared) = (self.clone(), Arc::clone(self.shared.as_ref()?));
        Some(async move {
            let mut shared_budget = shared.budget.clone();
            loop {
                let snapshot_order = shared.snapshot_order.lock().await;
                let reservations = budget.reservations(None);
                let replicas = shared_budget.heartbeat(&reservations).await;
                drop(snapshot_order);
                match replicas {
                    Ok(replicas) => shared.lock_view().record_contact(replicas, Instant::now()),
                    Err(_) => shared.lock_view().record_loss(Instant::now()),
                }
                tokio::select! {
                    () = shared.heartbeat_due.notified(), if replicas.is_ok() => {}
                    () = shared_budget.connection_changed() => {}
                    () = tokio::time::sleep(Self::HEARTBEAT_INTERVAL) => {}
                }
            }
        })
    }

    /// Cool-down after a 429: `Retry-After`, or one window.
    pub(super) fn cool_down_for(retry_after: Option<Duration>) -> Duration {
        retry_after.unwrap_or(WINDOW).min(PermitPool::MAX_COOL_DOWN)
    }

    /// Stops all requests for `duration`, after a 429.
    pub(super) fn start_cool_down(&self, duration: Duration) {
        self.lock().start_cool_down(duration, Instant::now());
        self.request_heartbeat();
    }

    fn permit(&self, index: usize, send_at: Instant) -> RequestPermit {
        RequestPermit { budget: self.clone(), index, send_at, outcome: RequestOutcome::Unsent }
    }

    /// Returns the reservations of this replica, without the permit about to be taken.
    fn reservations(&self, excluded: Option<usize>) -> ReserveRequest {
        let now = Instant::now();
        let pool = self.lock();
        let unless_excluded = |(index, hold): (usize, (Duration, bool))| {
            if excluded == Some(index) { Default::default() } else { hold }
        };
        ReserveRequest {
            permits: pool.reservations(now).enumerate().map(unless_excluded).collect(),
            cool_down: pool.cool_down_remaining(now),
            typical_latency: pool.typical_latency(),
            timeout: pool.timeout(),
            window: WINDOW,
            max_requests: REQUESTS_PER_WINDOW,
        }
    }

    /// Quota that decides how long a released permit is held: this replica's own one if Redis does not decide, else the
    /// full one.
    fn local_quota(&self) -> Quota {
        let quota =
            |shared: &Arc<SharedBudgetState>| shared.local_quota(Instant::now()).ok().flatten();
        self.shared.as_ref().and_then(quota).unwrap_or(Quota::FULL)
    }

    /// Requests a heartbeat because the reservations changed.
    fn request_heartbeat(&self) {
        if let Some(shared) = &self.shared {
            shared.heartbeat_due.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PermitPool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedBudgetState {
    /// Returns the quota of this replica without Redis; `None`: ask Redis.
    fn local_quota(&self, now: Instant) -> Result<Option<Quota>, BudgetExhausted> {
        self.lock_view().local_quota(now)
    }

    fn lock_view(&self) -> MutexGuard<'_, ReplicaView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplicaView {
    fn local_quota(&self, now: Instant) -> Result<Option<Quota>, BudgetExhausted> {
        match self.redis {
            RedisState::NeverReached => Ok(Some(Quota::MINIMUM)),
            RedisState::Reachable => match self.exhausted {
                Some([retry_at, free_at]) if now < retry_at => {
                    Err(BudgetExhausted(free_at.saturating_duration_since(now)))
                }
                _ => Ok(None),
            },
            RedisState::LostAt(lost_at) => {
                let wait =
                    (lost_at + RateBudget::REDIS_LOSS_COOL_DOWN).saturating_duration_since(now);
                if !wait.is_zero() {
                    return Err(BudgetExhausted(wait));
                }
                let is_stable = self
                    .stable_since
                    .is_some_and(|since| since + RateBudget::STABLE_AFTER <= lost_at);
                Ok(Some(if is_stable {
                    Quota::for_replicas(self.replicas)
                } else {
                    Quota::MINIMUM
                }))
            }
        }
    }

    fn record_contact(&mut self, replicas: usize, now: Instant) {
        self.redis = RedisState::Reachable;
        if self.replicas != replicas {
            (self.replicas, self.stable_since) = (replicas, Some(now));
        }
    }

    fn record_loss(&mut self, now: Instant) {
        if let RedisState::Reachable = self.redis {
            self.redis = RedisState::LostAt(now);
        }
    }
}

impl RequestPermit {
    /// Returns when the request may be sent: now or soon.
    pub(super) fn send_at(&self) -> Instant {
        self.send_at
    }

    /// Marks the request as sent, whatever its outcome.
    pub(super) fn mark_sent(&mut self) {
        self.outcome = RequestOutcome::Unanswered;
    }

    /// Releases the permit of a request that never reached the API.
    pub(super) fn release_unsent(mut self) {
        self.outcome = RequestOutcome::Unsent;
    }

    /// Marks the request as ended, with or without a response: the API cannot receive it later.
    pub(super) fn mark_answered(mut self) {
        self.outcome = RequestOutcome::Answered;
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let quota = self.budget.local_quota();
        self.budget.lock().release(self.index, self.send_at, self.outcome, quota, Instant::now());
        self.budget.request_heartbeat();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cool_down_follows_retry_after_up_to_a_maximum() {
        assert_eq!(RateBudget::cool_down_for(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(RateBudget::cool_down_for(None), WINDOW);
        assert_eq!(RateBudget::cool_down_for(Some(Duration::MAX)), PermitPool::MAX_COOL_DOWN);
    }

    #[tokio::test]
    async fn finished_request_releases_its_permit() {
        let budget = RateBudget::new(WINDOW, Duration::ZERO, None, &Metrics::new());
        for _ in 0..100 {
            drop(budget.acquire().await.unwrap());
        }
        for _ in 0..REQUESTS_PER_WINDOW {
            let mut permit = budget.acquire().await.unwrap();
            permit.mark_sent();
            permit.mark_answered();
        }
        let Err(BudgetExhausted(wait)) = budget.acquire().await else { panic!("one too many") };
        assert!(wait <= WINDOW && wait > WINDOW / 2, "{wait:?}");
    }

    #[test]
    fn losing_redis_pauses_requests_until_the_quota_is_free() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut view = ReplicaView::default();
        assert_eq!(view.local_quota(start), Ok(Some(Quota::MINIMUM)));
        view.record_loss(start);
        assert_eq!(view.local_quota(start), Ok(Some(Quota::MINIMUM)), "there was nothing to lose");
        view.record_contact(4, start);
        assert_eq!(view.local_quota(start), Ok(None));
        view.record_contact(4, after(10));
        view.record_loss(after(11));
        // A second loss changes nothing.
        view.record_loss(after(20));
        assert_eq!(view.local_quota(after(12)), Err(BudgetExhausted(Duration::from_secs(14))));
        assert_eq!(view.local_quota(after(26)), Ok(Some(Quota::for_replicas(4))));
        // Other replicas may not have noticed a recent change of the number.
        view.record_contact(5, after(30));
        view.record_loss(after(34));
        assert_eq!(view.local_quota(after(60)), Ok(Some(Quota::MINIMUM)));
    }

    #[test]
    fn exhausted_shared_budget_is_not_queried_again_at_once() {
        let start = Instant::now();
        let [retry_at, free_at] = [250, 4000].map(|millis| start + Duration::from_millis(millis));
        let view = ReplicaView {
            redis: RedisState::Reachable,
            exhausted: Some([retry_at, free_at]),
            ..ReplicaView::default()
        };
        assert_eq!(view.local_quota(start), Err(BudgetExhausted(Duration::from_secs(4))));
        assert_eq!(view.local_quota(retry_at), Ok(None));
    }
}
