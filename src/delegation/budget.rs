//! How often the API may be asked without a key: so many times in any so long (the network document's
//! section 8).
//!
//! A request takes a place before it is sent and keeps it for the whole window after its answer has come:
//! the API got it no later than that. So whatever the way there takes, no window of the API's own ever
//! holds more answered requests than there are places, which a bucket that refills could not promise. Of one
//! that is not answered nobody knows when the API gets it, if ever; it keeps its place for another window.
//!
//! Replicas that share have the places together: each asks Redis for one. A replica that cannot ask any more
//! takes none until all that the others may have taken are free again; from then on it has its share, which the
//! others leave to it.

mod places;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metrics::Counter;
use tokio::sync::Notify;

pub(super) use places::Spent;
use places::{Fate, PATIENCE, Places, REQUESTS, Share, WINDOW};

use crate::metrics::Metrics;
use crate::shared::{self, Holds, Pool};

/// The places of one API. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    places: Arc<Mutex<Places>>,
    /// For how long a request may wait for a place that gets free.
    patience: Duration,
    /// `None`: this process shares with nobody.
    pool: Option<Arc<Pooled>>,
    counts: Counts,
}

/// What is shared with other replicas.
#[derive(Debug)]
struct Pooled {
    pool: Pool,
    known: Mutex<Known>,
    /// Told when Redis is to be told what is held.
    changed: Notify,
}

/// What is known of the pool.
#[derive(Debug, Default)]
struct Known {
    /// How many share; 0: not known.
    replicas: usize,
    /// Since when they were as many.
    steady_since: Option<Instant>,
    contact: Contact,
    /// It has nothing to give: when to ask again, and when there is something, as far as is known.
    spent: Option<[Instant; 2]>,
}

/// Whether Redis can be asked.
#[derive(Debug, Clone, Copy, Default)]
enum Contact {
    /// It never could.
    #[default]
    Never,
    Now,
    /// It could until then.
    Lost(Instant),
}

#[derive(Debug, Clone)]
struct Counts {
    shared: Counter,
    local: Counter,
    spent: Counter,
}

/// One request's place; to drop it is to have ended.
#[derive(Debug)]
pub(super) struct Request {
    budget: Budget,
    place: usize,
    /// When it may be sent.
    from: Instant,
    fate: Fate,
}

impl Budget {
    pub(super) const PATIENCE: Duration = PATIENCE;
    /// How often Redis is told at least what is held, and asked how many share.
    const TELLING_INTERVAL: Duration = Duration::from_secs(1);
    /// Replicas that start together know of each other by then.
    const STEADY: Duration = Duration::from_secs(5);
    /// So long after Redis could be asked last the others leave this replica its share (after 3 s, by
    /// `pool.lua`), and what they had taken of it before is free again: sent in a moment, answered in another,
    /// and held for a window.
    const CLOSURE: Duration = Duration::from_secs(15);
    /// A place may get free sooner than it was thought to.
    const SPENT_FOR: Duration = Duration::from_millis(250);

    /// Nothing was asked yet. A request may take as long as `timeout`, once it has waited for a place for as
    /// long as its `patience`. Replicas share what is in the `pool`.
    pub(super) fn new(
        timeout: Duration,
        patience: Duration,
        pool: Option<Pool>,
        metrics: &Metrics,
    ) -> Self {
        let pooled = |pool| Pooled { pool, known: Mutex::default(), changed: Notify::new() };
        let count = |outcome| metrics.delegation_budget(outcome);
        Self {
            places: Arc::new(Mutex::new(Places::new(timeout))),
            patience,
            pool: pool.map(pooled).map(Arc::new),
            counts: Counts {
                shared: count("shared"),
                local: count("local"),
                spent: count("spent"),
            },
        }
    }

    /// A place for one request. Dropping the future gives it back.
    ///
    /// # Errors
    ///
    /// When there is none, and none gets free in a moment.
    pub(super) async fn take(&self) -> Result<Request, Spent> {
        let outcome = match &self.pool {
            None => self.take_own(Share::ALL),
            Some(pooled) => self.take_shared(pooled).await,
        };
        if outcome.is_err() {
            self.counts.spent.increment(1);
        }
        outcome
    }

    fn take_own(&self, share: Share) -> Result<Request, Spent> {
        let (place, from) = self.lock().take(share, self.patience, Instant::now())?;
        self.counts.local.increment(1);
        Ok(self.request(place, from))
    }

    async fn take_shared(&self, pooled: &Pooled) -> Result<Request, Spent> {
        let now = Instant::now();
        if let Some(share) = pooled.own_share(now)? {
            return self.take_own(share);
        }
        let (place, from) = self.lock().take(Share::ALL, self.patience, now)?;
        let mut request = self.request(place, from);
        let holds = self.holds(Some(place));
        match pooled.pool.take(&holds, place, self.patience).await {
            Ok(shared::Taken { wait, replicas }) => {
                pooled.known().learn(replicas, Instant::now());
                request.from = from.max(Instant::now() + wait);
                self.lock().postpone(place, request.from);
                self.counts.shared.increment(1);
                Ok(request)
            }
            Err(shared::NotTaken::Spent(wait)) => {
                request.was_not_sent();
                let now = Instant::now();
                pooled.known().spent = Some([now + wait.min(Self::SPENT_FOR), now + wait]);
                Err(Spent(wait))
            }
            Err(shared::NotTaken::Away) => {
                request.was_not_sent();
                let now = Instant::now();
                pooled.known().lose(now);
                let share = pooled.own_share(now)?;
                share.map_or(Err(Spent(Self::CLOSURE)), |share| self.take_own(share))
            }
        }
    }

    /// Tells Redis what is held, whenever that changes and now and then, for ever; `None`: nothing is shared.
    pub(super) fn keep(&self) -> Option<impl Future<Output = Infallible> + Send + use<>> {
        let (budget, pooled) = (self.clone(), Arc::clone(self.pool.as_ref()?));
        Some(async move {
            let mut pool = pooled.pool.clone();
            loop {
                let holds = budget.holds(None);
                let replicas = pool.tell(&holds).await;
                match replicas {
                    Ok(replicas) => pooled.known().learn(replicas, Instant::now()),
                    Err(_) => pooled.known().lose(Instant::now()),
                }
                tokio::select! {
                    () = pooled.changed.notified(), if replicas.is_ok() => {}
                    () = pool.changed() => {}
                    () = tokio::time::sleep(Self::TELLING_INTERVAL) => {}
                }
            }
        })
    }

    /// For how long an API that is asked too often is let be: as long as it asks for, or for a window.
    pub(super) fn pause(retry_after: Option<Duration>) -> Duration {
        retry_after.unwrap_or(WINDOW).min(Places::MAX_CLOSURE)
    }

    /// Sends nothing for this long.
    pub(super) fn close(&self, pause: Duration) {
        self.lock().close(pause, Instant::now());
        self.tell();
    }

    fn request(&self, place: usize, from: Instant) -> Request {
        Request { budget: self.clone(), place, from, fate: Fate::Unsent }
    }

    /// What is held, but for the place that is about to be taken.
    fn holds(&self, without: Option<usize>) -> Holds {
        let now = Instant::now();
        let places = self.lock();
        let held = |(index, hold): (usize, (Duration, bool))| {
            if without == Some(index) { Default::default() } else { hold }
        };
        Holds {
            places: places.holds(now).enumerate().map(held).collect(),
            closed_for: places.is_closed_for(now),
            usual: places.usual(),
            timeout: places.timeout(),
            window: WINDOW,
            requests: REQUESTS,
        }
    }

    /// What this replica may take by itself.
    fn share(&self) -> Share {
        let own = |pooled: &Arc<Pooled>| pooled.own_share(Instant::now()).ok().flatten();
        self.pool.as_ref().and_then(own).unwrap_or(Share::ALL)
    }

    /// Has Redis told of what has changed.
    fn tell(&self) {
        if let Some(pooled) = &self.pool {
            pooled.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pooled {
    /// What this replica may take by itself; `None`: Redis is to be asked.
    fn own_share(&self, now: Instant) -> Result<Option<Share>, Spent> {
        self.known().own_share(now)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn own_share(&self, now: Instant) -> Result<Option<Share>, Spent> {
        match self.contact {
            Contact::Never => Ok(Some(Share::LEAST)),
            Contact::Now => match self.spent {
                Some([again, free]) if now < again => {
                    Err(Spent(free.saturating_duration_since(now)))
                }
                _ => Ok(None),
            },
            Contact::Lost(at) => {
                let wait = (at + Budget::CLOSURE).saturating_duration_since(now);
                if !wait.is_zero() {
                    return Err(Spent(wait));
                }
                let is_steady = self.steady_since.is_some_and(|since| since + Budget::STEADY <= at);
                Ok(Some(if is_steady { Share::of(self.replicas) } else { Share::LEAST }))
            }
        }
    }

    fn learn(&mut self, replicas: usize, now: Instant) {
        self.contact = Contact::Now;
        if self.replicas != replicas {
            (self.replicas, self.steady_since) = (replicas, Some(now));
        }
    }

    fn lose(&mut self, now: Instant) {
        if let Contact::Now = self.contact {
            self.contact = Contact::Lost(now);
        }
    }
}

impl Request {
    /// When it may be sent: now, or in a moment.
    pub(super) fn from(&self) -> Instant {
        self.from
    }

    /// It is on its way from now on, whatever becomes of it.
    pub(super) fn is_sent(&mut self) {
        self.fate = Fate::Unanswered;
    }

    /// It never got to the API.
    pub(super) fn was_not_sent(mut self) {
        self.fate = Fate::Unsent;
    }

    /// The API has answered, or hung up: it does not have the request before it any more.
    pub(super) fn ended(mut self) {
        self.fate = Fate::Answered;
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let share = self.budget.share();
        self.budget.lock().free(self.place, self.from, self.fate, share, Instant::now());
        self.budget.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_is_let_be_for_as_long_as_it_says_within_reason() {
        assert_eq!(Budget::pause(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(Budget::pause(None), WINDOW);
        assert_eq!(Budget::pause(Some(Duration::MAX)), Places::MAX_CLOSURE);
    }

    #[tokio::test]
    async fn a_request_that_ends_gives_its_place_back() {
        let budget = Budget::new(WINDOW, Duration::ZERO, None, &Metrics::new());
        for _ in 0..100 {
            drop(budget.take().await.unwrap());
        }
        for _ in 0..REQUESTS {
            let mut request = budget.take().await.unwrap();
            request.is_sent();
            request.ended();
        }
        let Err(Spent(wait)) = budget.take().await else { panic!("one too many") };
        assert!(wait <= WINDOW && wait > WINDOW / 2, "{wait:?}");
    }

    #[test]
    fn whoever_has_lost_redis_takes_nothing_until_its_share_is_free() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut known = Known::default();
        assert_eq!(known.own_share(start), Ok(Some(Share::LEAST)));
        known.lose(start);
        assert_eq!(known.own_share(start), Ok(Some(Share::LEAST)), "there was nothing to lose");
        known.learn(4, start);
        assert_eq!(known.own_share(start), Ok(None));
        known.learn(4, after(10));
        known.lose(after(11));
        // To lose it again changes nothing.
        known.lose(after(20));
        assert_eq!(known.own_share(after(12)), Err(Spent(Duration::from_secs(14))));
        assert_eq!(known.own_share(after(26)), Ok(Some(Share::of(4))));
        // Who has just come, or gone, may not have been told of to all.
        known.learn(5, after(30));
        known.lose(after(34));
        assert_eq!(known.own_share(after(60)), Ok(Some(Share::LEAST)));
    }

    #[test]
    fn redis_is_not_asked_again_at_once_when_it_has_nothing_to_give() {
        let start = Instant::now();
        let [again, free] = [250, 4000].map(|millis| start + Duration::from_millis(millis));
        let known = Known { contact: Contact::Now, spent: Some([again, free]), ..Known::default() };
        assert_eq!(known.own_share(start), Err(Spent(Duration::from_secs(4))));
        assert_eq!(known.own_share(again), Ok(None));
    }
}
