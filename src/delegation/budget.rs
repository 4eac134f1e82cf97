//! How often the API may be asked without a key: so many times in any so long (the network document's
//! section 8).
//!
//! A request takes a place before it is sent and keeps it for the whole window after its answer has come:
//! the API got it no later than that. So whatever the way there takes, no window of the API's own ever
//! holds more requests than there are places, which a bucket that refills could not promise.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The places of one API. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    shared: Arc<Mutex<Shared>>,
    /// A request has ended by then.
    timeout: Duration,
}

#[derive(Debug)]
struct Shared {
    places: [Place; Budget::REQUESTS],
    /// The API has said that it is asked too often: until then nothing is sent.
    closed_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// From then on; `None`: it was never taken.
    FreeFrom(Option<Instant>),
    /// Its request ends then at the latest.
    Taken(Instant),
}

/// One request's place; to drop it is to have ended.
#[derive(Debug)]
pub(super) struct Request {
    budget: Budget,
    place: usize,
    /// When it may be sent.
    from: Instant,
    was_sent: bool,
}

/// All places are taken: after this long at the latest one is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spent(pub(super) Duration);

impl Budget {
    /// In one window.
    const REQUESTS: usize = 25;
    const WINDOW: Duration = Duration::from_secs(10);
    /// A request may wait for this long for a place that gets free, so that whoever comes back when it
    /// was told to does not come a moment too early.
    const PATIENCE: Duration = Duration::from_millis(250);
    /// For no longer is the API believed to be asked too often.
    const MAX_CLOSURE: Duration = Duration::from_mins(5);

    /// Nothing was asked yet. A request may take as long as `timeout`.
    pub(super) fn new(timeout: Duration) -> Self {
        let places = [Place::FreeFrom(None); Self::REQUESTS];
        let shared = Arc::new(Mutex::new(Shared { places, closed_until: None }));
        Self { shared, timeout }
    }

    /// A place for one request.
    pub(super) fn take(&self, now: Instant) -> Result<Request, Spent> {
        let mut shared = self.lock();
        let closed_for = shared
            .closed_until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        let wait_for = |place: &Place| match place {
            Place::FreeFrom(None) => Duration::ZERO,
            Place::FreeFrom(Some(from)) => from.saturating_duration_since(now),
            // Whoever came back sooner might come in vain.
            Place::Taken(until) => Self::WINDOW + until.saturating_duration_since(now),
        };
        let is_free = |place: &Place| matches!(place, Place::FreeFrom(_));
        let places = shared.places.iter_mut().enumerate();
        let next = places.min_by_key(|(_, place)| (wait_for(place), !is_free(place)));
        let Some((index, place)) = next else { return Err(Spent(Self::WINDOW)) };
        let wait = wait_for(place).max(closed_for);
        if wait > Self::PATIENCE || !is_free(place) {
            return Err(Spent(wait));
        }
        let from = now + wait;
        *place = Place::Taken(from + self.timeout);
        Ok(Request { budget: self.clone(), place: index, from, was_sent: true })
    }

    /// Sends nothing for as long as the API asks for, or for a window.
    pub(super) fn close(&self, now: Instant, retry_after: Option<Duration>) {
        let pause = retry_after.unwrap_or(Self::WINDOW).min(Self::MAX_CLOSURE);
        let mut shared = self.lock();
        shared.closed_until = shared.closed_until.max(Some(now + pause));
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    /// When it may be sent: now, or in a moment.
    pub(super) fn from(&self) -> Instant {
        self.from
    }

    /// It never got to the API.
    pub(super) fn was_not_sent(mut self) {
        self.was_sent = false;
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let free_from = if self.was_sent { Instant::now() + Budget::WINDOW } else { self.from };
        if let Some(place) = self.budget.lock().places.get_mut(self.place) {
            *place = Place::FreeFrom(Some(free_from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn ended(count: usize, budget: &Budget, now: Instant) {
        let requests: Vec<_> = (0..count).map(|_| budget.take(now).unwrap()).collect();
        assert!(requests.iter().all(|request| request.from() == now));
    }

    #[test]
    fn as_many_requests_as_the_api_allows_are_sent_and_no_more_until_a_window_after_their_end() {
        let budget = Budget::new(TIMEOUT);
        let now = Instant::now();
        ended(25, &budget, now);
        let Err(Spent(wait)) = budget.take(now) else { panic!("one too many") };
        // They ended a moment later.
        assert!(
            wait >= Budget::WINDOW && wait < Budget::WINDOW + Duration::from_secs(5),
            "{wait:?}"
        );
        let just_before = now + wait.saturating_sub(Budget::PATIENCE + Duration::from_nanos(1));
        assert!(budget.take(just_before).is_err());
        assert!(budget.take(now + wait).is_ok());
    }

    #[test]
    fn a_request_under_way_keeps_its_place_however_long_it_takes() {
        let budget = Budget::new(TIMEOUT);
        let now = Instant::now();
        let mut under_way: Vec<_> = (0..25).map(|_| budget.take(now).unwrap()).collect();
        // One of them may end as late as that.
        let spent = Err(Spent(Budget::WINDOW + TIMEOUT));
        assert_eq!(budget.take(now).map(drop), spent);
        let later = now + Duration::from_secs(3);
        let spent = Err(Spent(Budget::WINDOW + Duration::from_secs(2)));
        assert_eq!(budget.take(later).map(drop), spent);
        let much_later = now + Budget::WINDOW * 10;
        assert_eq!(budget.take(much_later).map(drop), Err(Spent(Budget::WINDOW)));
        under_way.pop();
        assert!(budget.take(much_later).is_ok());
    }

    #[test]
    fn a_place_that_gets_free_in_a_moment_is_waited_for_by_one_request_alone() {
        let budget = Budget::new(TIMEOUT);
        let now = Instant::now();
        let others: Vec<_> = (0..24).map(|_| budget.take(now).unwrap()).collect();
        drop(budget.take(now).unwrap());
        let Err(Spent(wait)) = budget.take(now) else { panic!("one too many") };
        let a_moment_before = now + wait.saturating_sub(Duration::from_millis(200));
        let request = budget.take(a_moment_before).unwrap();
        assert!(request.from() > a_moment_before, "{request:?}");
        assert!(budget.take(a_moment_before).is_err());
        drop(others);
    }

    #[test]
    fn what_was_not_sent_costs_nothing() {
        let budget = Budget::new(TIMEOUT);
        let now = Instant::now();
        for _ in 0..100 {
            budget.take(now).unwrap().was_not_sent();
        }
        ended(25, &budget, now);
        assert!(budget.take(now).is_err());
    }

    #[test]
    fn an_api_that_is_asked_too_often_is_let_be_for_as_long_as_it_says_within_reason() {
        let budget = Budget::new(TIMEOUT);
        let now = Instant::now();
        let wait = |budget: &Budget| budget.take(now).map(drop).unwrap_err().0;
        budget.close(now, Some(Duration::from_secs(7)));
        assert_eq!(wait(&budget), Duration::from_secs(7));
        budget.close(now, Some(Duration::from_secs(3)));
        assert_eq!(wait(&budget), Duration::from_secs(7));
        budget.close(now, None);
        assert_eq!(wait(&budget), Budget::WINDOW);
        budget.close(now, Some(Duration::MAX));
        assert_eq!(wait(&budget), Budget::MAX_CLOSURE);
        assert!(budget.take(now + Budget::MAX_CLOSURE).is_ok());
    }
}
