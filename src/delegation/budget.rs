//! How often the API may be asked without a key: so many times in any so long (the network document's
//! section 8).
//!
//! A request takes a place before it is sent and keeps it for the whole window after its answer has come:
//! the API got it no later than that. So whatever the way there takes, no window of the API's own ever
//! holds more answered requests than there are places, which a bucket that refills could not promise. Of one
//! that is not answered nobody knows when the API gets it, if ever; it keeps its place for another window.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The places of one API. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    shared: Arc<Mutex<Shared>>,
    /// A request has ended by then.
    timeout: Duration,
    /// For how long a request may wait for a place that gets free.
    patience: Duration,
}

#[derive(Debug)]
struct Shared {
    places: [Place; Budget::REQUESTS],
    /// The API has said that it is asked too often: until then nothing is sent.
    closed_until: Option<Instant>,
    /// What the last answer at each place took.
    took: [Duration; Budget::REQUESTS],
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// From then on; `None`: it was never taken.
    FreeFrom(Option<Instant>),
    /// Its request was sent then.
    Taken(Instant),
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

/// What is known of a request when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unsent,
    Answered,
    Unanswered,
}

/// All places are taken: after this long one is free, as far as the requests under way are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spent(pub(super) Duration);

impl Budget {
    /// In one window.
    const REQUESTS: usize = 25;
    const WINDOW: Duration = Duration::from_secs(10);
    /// No more than a client can be told in seconds: so whoever comes back when it was told to does not come
    /// a moment too early.
    pub(super) const PATIENCE: Duration = Duration::from_secs(1);
    /// For no longer is the API believed to be asked too often.
    const MAX_CLOSURE: Duration = Duration::from_mins(5);

    /// Nothing was asked yet. A request may take as long as `timeout`, once it has waited for a place for as
    /// long as its `patience`.
    pub(super) fn new(timeout: Duration, patience: Duration) -> Self {
        let places = [Place::FreeFrom(None); Self::REQUESTS];
        let took = [Duration::ZERO; Self::REQUESTS];
        let shared = Shared { places, closed_until: None, took };
        Self { shared: Arc::new(Mutex::new(shared)), timeout, patience }
    }

    /// A place for one request.
    pub(super) fn take(&self, now: Instant) -> Result<Request, Spent> {
        let mut shared = self.lock();
        let closed_for = shared
            .closed_until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        let longest = shared.took.into_iter().max().unwrap_or_default();
        let wait_for = |place: &Place| match place {
            Place::FreeFrom(None) => Duration::ZERO,
            Place::FreeFrom(Some(from)) => from.saturating_duration_since(now),
            Place::Taken(sent) => {
                // Whoever comes back will wait for a moment, which is the least that an answer takes.
                let usual = *sent + longest.max(Self::PATIENCE);
                let end = if now <= usual { usual } else { *sent + self.timeout };
                (Self::WINDOW + end.saturating_duration_since(now)).saturating_sub(Self::PATIENCE)
            }
        };
        let is_free = |place: &Place| matches!(place, Place::FreeFrom(_));
        let places = shared.places.iter_mut().enumerate();
        let next = places.min_by_key(|(_, place)| (wait_for(place), !is_free(place)));
        let Some((index, place)) = next else { return Err(Spent(Self::WINDOW)) };
        let wait = wait_for(place).max(closed_for);
        if wait > self.patience || !is_free(place) {
            return Err(Spent(wait));
        }
        let from = now + wait;
        *place = Place::Taken(from);
        Ok(Request { budget: self.clone(), place: index, from, fate: Fate::Unanswered })
    }

    /// For how long an API that is asked too often is let be: as long as it asks for, or for a window.
    pub(super) fn pause(retry_after: Option<Duration>) -> Duration {
        retry_after.unwrap_or(Self::WINDOW).min(Self::MAX_CLOSURE)
    }

    /// Sends nothing for this long.
    pub(super) fn close(&self, now: Instant, pause: Duration) {
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
        self.fate = Fate::Unsent;
    }

    /// The API has answered, or hung up: it does not have the request before it any more.
    pub(super) fn ended(mut self) {
        self.fate = Fate::Answered;
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut shared = self.budget.lock();
        let free_from = match self.fate {
            Fate::Unsent => self.from,
            Fate::Answered => {
                if let Some(took) = shared.took.get_mut(self.place) {
                    *took = now.saturating_duration_since(self.from);
                }
                now + Budget::WINDOW
            }
            Fate::Unanswered => now + 2 * Budget::WINDOW,
        };
        if let Some(place) = shared.places.get_mut(self.place) {
            *place = Place::FreeFrom(Some(free_from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn spend(count: usize, budget: &Budget, now: Instant) {
        let requests: Vec<_> = (0..count).map(|_| budget.take(now).unwrap()).collect();
        assert!(requests.iter().all(|request| request.from() == now));
        requests.into_iter().for_each(Request::ended);
    }

    #[test]
    fn as_many_requests_as_the_api_allows_are_sent_and_no_more_until_a_window_after_their_end() {
        let budget = Budget::new(TIMEOUT, Budget::PATIENCE);
        let now = Instant::now();
        spend(25, &budget, now);
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
        let budget = Budget::new(TIMEOUT, Budget::PATIENCE);
        let now = Instant::now();
        let mut under_way: Vec<_> = (0..25).map(|_| budget.take(now).unwrap()).collect();
        let wait = |at: Instant| budget.take(at).map(drop).unwrap_err().0;
        // They may be answered at once, or as late as they may be.
        assert_eq!(wait(now), Budget::WINDOW);
        let later = now + Duration::from_secs(3);
        assert_eq!(wait(later) + Budget::PATIENCE, Budget::WINDOW + Duration::from_secs(2));
        let much_later = now + Budget::WINDOW * 10;
        assert_eq!(wait(much_later) + Budget::PATIENCE, Budget::WINDOW);
        under_way.pop().unwrap().ended();
        assert!(budget.take(much_later).is_ok());
    }

    #[test]
    fn an_answer_is_expected_to_take_as_long_as_others_did() {
        let budget = Budget::new(TIMEOUT, Budget::PATIENCE);
        let now = Instant::now();
        budget.take(now.checked_sub(Duration::from_secs(3)).unwrap()).unwrap().ended();
        budget.lock().places = [Place::Taken(now); Budget::REQUESTS];
        let wait = budget.take(now + Duration::from_secs(1)).map(drop).unwrap_err().0;
        let difference =
            (wait + Budget::PATIENCE).abs_diff(Budget::WINDOW + Duration::from_secs(2));
        assert!(difference < Duration::from_secs(1), "{wait:?}");
    }

    #[test]
    fn a_request_that_is_not_answered_may_still_be_on_its_way() {
        let budget = Budget::new(TIMEOUT, Budget::PATIENCE);
        let now = Instant::now();
        drop((0..25).map(|_| budget.take(now).unwrap()).collect::<Vec<_>>());
        assert!(budget.take(now + Budget::WINDOW + Budget::WINDOW / 2).is_err());
        assert!(budget.take(now + 2 * Budget::WINDOW + Duration::from_secs(5)).is_ok());
    }

    #[test]
    fn a_place_that_gets_free_in_a_moment_is_waited_for_by_one_request_alone() {
        let budget = Budget::new(TIMEOUT, Budget::PATIENCE);
        let now = Instant::now();
        let others: Vec<_> = (0..24).map(|_| budget.take(now).unwrap()).collect();
        budget.take(now).unwrap().ended();
        let Err(Spent(wait)) = budget.take(now) else { panic!("one too many") };
        let a_moment_before = now + wait.saturating_sub(Duration::from_millis(200));
        let request = budget.take(a_moment_before).unwrap();
        assert!(request.from() > a_moment_before, "{request:?}");
        assert!(budget.take(a_moment_before).is_err());
        drop(others);
    }

    #[test]
    fn without_patience_no_place_is_waited_for() {
        let budget = Budget::new(TIMEOUT, Duration::ZERO);
        let now = Instant::now();
        spend(25, &budget, now);
        let wait = budget.take(now).map(drop).unwrap_err().0;
        let a_moment_before = now + wait.saturating_sub(Duration::from_millis(1));
        assert!(budget.take(a_moment_before).is_err());
        assert!(budget.take(now + wait + Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn what_was_not_sent_costs_nothing() {
        let budget = Budget::new(TIMEOUT, Budget::PATIENCE);
        let now = Instant::now();
        for _ in 0..100 {
            budget.take(now).unwrap().was_not_sent();
        }
        spend(25, &budget, now);
        assert!(budget.take(now).is_err());
    }

    #[test]
    fn an_api_that_is_asked_too_often_is_let_be_for_as_long_as_it_says_within_reason() {
        let budget = Budget::new(TIMEOUT, Budget::PATIENCE);
        let now = Instant::now();
        let wait = |budget: &Budget| budget.take(now).map(drop).unwrap_err().0;
        budget.close(now, Budget::pause(Some(Duration::from_secs(7))));
        assert_eq!(wait(&budget), Duration::from_secs(7));
        budget.close(now, Budget::pause(Some(Duration::from_secs(3))));
        assert_eq!(wait(&budget), Duration::from_secs(7));
        budget.close(now, Budget::pause(None));
        assert_eq!(wait(&budget), Budget::WINDOW);
        budget.close(now, Budget::pause(Some(Duration::MAX)));
        assert_eq!(wait(&budget), Budget::MAX_CLOSURE);
        assert!(budget.take(now + Budget::MAX_CLOSURE).is_ok());
    }
}
