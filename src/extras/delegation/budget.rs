//! Rate limit of the API without a key: a number of requests in any window of 10 s (the network document's section 8).
//!
//! Each request has one of as many slots, from before it is sent until a whole window after its response. The API received
//! it before it responded, so no window of the API has more requests than the limit, whatever the latency. A request that
//! timed out may still reach the API and has its slot for one more window.
//!
//! A client may use all slots while no other one asks, and a quarter as soon as another one has asked in the same window.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use enum_map::{Enum, EnumMap};
use parking_lot::Mutex;

use super::{DelegationMetrics, OutcomeLabels};
use crate::nodes::Exhausted;
use crate::observe::clock;
use crate::observe::metrics::{Counter, Metrics, counters};

/// Limit of the API.
const REQUESTS_PER_WINDOW: usize = 25;
/// Requests of one client while others ask.
const REQUESTS_PER_CLIENT: usize = REQUESTS_PER_WINDOW / 4;
const WINDOW: Duration = Duration::from_secs(10);

/// Budget of one API.
#[derive(Debug)]
pub(crate) struct RateBudget {
    slots: Mutex<Slots>,
    counters: EnumMap<BudgetOutcome, Counter>,
}

/// Slots of this process. Pure: instants in, waits out.
#[derive(Debug)]
struct Slots {
    slots: [Slot; REQUESTS_PER_WINDOW],
    askers: Askers,
    /// The API returned 429: no request is sent until then.
    paused_until: Instant,
    /// Longest time until the slot of a request that is sent now is free.
    max_hold: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Client of the last request; `None`: one without a limit.
    client: Option<IpAddr>,
    free_at: Instant,
}

/// The client that asked last, and the last time that any other one did.
#[derive(Debug, Default)]
struct Askers {
    last: Option<(IpAddr, Instant)>,
    other_asked_at: Option<Instant>,
}

#[derive(Debug, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum BudgetOutcome {
    Local,
    Exhausted,
}

/// Permit of one request. If it is dropped without an outcome, the request counts for its time-out and a window.
#[derive(Debug)]
pub(crate) struct RequestPermit<'a> {
    budget: &'a RateBudget,
    /// Its index, and when it is free.
    slot: (usize, Instant),
}

impl RateBudget {
    /// Hold of a request that never reached the API.
    pub(crate) const UNSENT: Duration = Duration::ZERO;
    /// Hold of a request that has ended, with or without a response.
    pub(crate) const ENDED: Duration = WINDOW;
    /// Hold of a request that may still reach the API.
    pub(crate) const UNANSWERED: Duration = Duration::from_secs(20);
    /// Longest pause after a 429.
    const MAX_COOL_DOWN: Duration = Duration::from_mins(5);

    /// Creates an unused budget for requests that take at most `timeout`.
    pub(crate) fn new(timeout: Duration, metrics: &Metrics) -> Self {
        let own = metrics.set::<DelegationMetrics>();
        let counters = counters(&own.delegation_budget_total, |outcome| OutcomeLabels { outcome });
        Self { slots: Mutex::new(Slots::new(timeout + WINDOW, clock::now())), counters }
    }

    /// Takes a permit for one request of `client`.
    ///
    /// # Errors
    ///
    /// Returns the time until a request may be sent.
    pub(crate) fn acquire(&self, client: Option<IpAddr>) -> Result<RequestPermit<'_>, Exhausted> {
        let slot = self.slots.lock().take(client, clock::now());
        let outcome = if slot.is_ok() { BudgetOutcome::Local } else { BudgetOutcome::Exhausted };
        self.counters[outcome].increment();
        Ok(RequestPermit { budget: self, slot: slot? })
    }

    /// Cool-down after a 429: `Retry-After`, or one window.
    pub(crate) fn cool_down_for(retry_after: Option<Duration>) -> Duration {
        retry_after.unwrap_or(WINDOW).min(Self::MAX_COOL_DOWN)
    }

    /// Sends no request for `duration`, after a 429.
    pub(crate) fn start_cool_down(&self, duration: Duration) {
        let mut slots = self.slots.lock();
        slots.paused_until = slots.paused_until.max(clock::now() + duration);
    }
}

impl Slots {
    fn new(max_hold: Duration, now: Instant) -> Self {
        let slots = [Slot { client: None, free_at: now }; REQUESTS_PER_WINDOW];
        Self { slots, askers: Askers::default(), paused_until: now, max_hold }
    }

    /// Takes a slot for a request of `client`. Returns its index, and when it is free.
    fn take(
        &mut self,
        client: Option<IpAddr>,
        now: Instant,
    ) -> Result<(usize, Instant), Exhausted> {
        let has_others = client.is_some_and(|client| self.askers.record(client, now));
        let own = self.slots.iter().filter(|slot| has_others && slot.client == client);
        let mut own: Vec<_> = own.map(|slot| slot.free_at).collect();
        own.sort_unstable();
        // From then on fewer slots than a client's share are in use by this one.
        let share_free_at = own.iter().nth_back(REQUESTS_PER_CLIENT - 1).copied().unwrap_or(now);
        let slots = self.slots.iter_mut().enumerate();
        let (index, slot) = slots.min_by_key(|(_, slot)| slot.free_at).expect("a slot");
        let all_free_at = slot.free_at.max(self.paused_until);
        let wait = all_free_at.max(share_free_at).saturating_duration_since(now);
        if !wait.is_zero() {
            return Err(Exhausted { wait, is_share: share_free_at > all_free_at });
        }
        *slot = Slot { client, free_at: now + self.max_hold };
        Ok((index, slot.free_at))
    }

    /// Changes when a slot is free. After a sleep another request may have it.
    fn release(&mut self, (index, free_at): (usize, Instant), new: Instant) {
        let slot = self.slots.get_mut(index).filter(|slot| slot.free_at == free_at);
        if let Some(slot) = slot {
            slot.free_at = new;
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

impl RequestPermit<'_> {
    /// Ends the request, which still counts for this time.
    pub(crate) fn end(self, hold: Duration) {
        self.budget.slots.lock().release(self.slot, clock::now() + hold);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);
    const SECOND: Duration = Duration::from_secs(1);

    fn refused(wait: Duration, is_share: bool) -> Result<(usize, Instant), Exhausted> {
        Err(Exhausted { wait, is_share })
    }

    fn slots() -> (Slots, Instant) {
        let now = Instant::now();
        (Slots::new(TIMEOUT + WINDOW, now), now)
    }

    #[test]
    fn cool_down_follows_retry_after_up_to_a_maximum() {
        assert_eq!(RateBudget::cool_down_for(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(RateBudget::cool_down_for(None), WINDOW);
        assert_eq!(RateBudget::cool_down_for(Some(Duration::MAX)), RateBudget::MAX_COOL_DOWN);
    }

    #[test]
    fn a_request_that_may_still_reach_the_api_counts_for_longer() {
        for hold in [RateBudget::ENDED, RateBudget::UNANSWERED] {
            let budget = RateBudget::new(TIMEOUT, &Metrics::new());
            for _ in 0..REQUESTS_PER_WINDOW {
                budget.acquire(None).unwrap().end(hold);
            }
            let exhausted = budget.acquire(None).unwrap_err();
            assert!(exhausted.wait <= hold && exhausted.wait > hold / 2, "{exhausted:?}");
        }
    }

    #[test]
    fn a_request_that_ends_late_does_not_free_the_slot_of_another_one() {
        let (mut slots, now) = slots();
        let late = slots.take(None, now).unwrap();
        let after = now + 2 * (TIMEOUT + WINDOW);
        (0..REQUESTS_PER_WINDOW).for_each(|_| assert!(slots.take(None, after).is_ok()));
        slots.release(late, after);
        assert_eq!(slots.take(None, after), refused(TIMEOUT + WINDOW, false));
    }

    #[test]
    fn requests_count_while_in_flight_and_for_a_window_after_they_end() {
        let (mut slots, now) = slots();
        let taken: Vec<_> =
            (0..REQUESTS_PER_WINDOW).map(|_| slots.take(None, now).unwrap()).collect();
        assert_eq!(slots.take(None, now), refused(TIMEOUT + WINDOW, false));
        for slot in taken.into_iter().take(13) {
            slots.release(slot, now + SECOND + WINDOW);
        }
        let later = now + 2 * SECOND;
        assert_eq!(slots.take(None, later), refused(WINDOW.saturating_sub(SECOND), false));
        let free =
            |slots: &mut Slots, now| (0..100).take_while(|_| slots.take(None, now).is_ok()).count();
        assert_eq!(free(&mut slots, now + SECOND + WINDOW), 13);
        assert_eq!(free(&mut slots, now + TIMEOUT + WINDOW), 12);
    }

    #[test]
    fn one_client_has_all_alone_and_a_quarter_while_others_ask() {
        let [greedy, other, third] = [1, 2, 3].map(|last| Some(IpAddr::from([192, 0, 2, last])));
        let (mut slots, now) = slots();
        // Each request ends at once and counts for a window.
        let take = |slots: &mut Slots, client, now| {
            slots.take(client, now).inspect(|slot| slots.release(*slot, now + WINDOW))
        };
        let count = |slots: &mut Slots, client, now| {
            (0..100).take_while(|_| take(slots, client, now).is_ok()).count()
        };
        assert_eq!(count(&mut slots, greedy, now), 25);
        assert_eq!(
            take(&mut slots, other, now + SECOND),
            refused(WINDOW.saturating_sub(SECOND), false)
        );
        // After its wait the other client is served before the greedy one.
        let later = now + WINDOW;
        assert_eq!(count(&mut slots, greedy, later), 6);
        assert_eq!(take(&mut slots, greedy, later), refused(WINDOW, true));
        assert_eq!(count(&mut slots, other, later), 6);
        assert_eq!(count(&mut slots, third, later), 6);
        // No other client has asked for a window.
        assert_eq!(count(&mut slots, greedy, later + WINDOW), 25);
        // Requests in flight count too.
        let later = later + 3 * WINDOW;
        assert!(take(&mut slots, other, later).is_ok());
        (0..6).for_each(|_| assert!(slots.take(greedy, later).is_ok()));
        assert_eq!(slots.take(greedy, later), refused(TIMEOUT + WINDOW, true));
    }
}
