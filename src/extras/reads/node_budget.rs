//! Budget of the calls that clients cause at one node, so that they leave the provider's quota to the polls.
//!
//! The limit is exact: a quarter of it may be sent at once, and the rest evenly, so no 60 s have more calls than the limit.
//! No client causes more than a quarter of them in any 60 s, so others always have a share. Calls of the service itself
//! are taken from it too while it has some left, and otherwise from a reserve of their own.
//!
//! Pure: instants in, waits out. Its size is bounded by the limit.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crate::nodes::Exhausted;

const MINUTE: Duration = Duration::from_mins(1);

/// Calls per minute of the service itself that do not depend on clients: 30 for the blocks of the chain, and 20 for
/// parameters of data fees and prices in dollars.
const RESERVE: NonZeroU32 = NonZeroU32::new(50).expect("50 is not 0");

/// Origin of a call, which decides what it is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOrigin {
    Client(IpAddr),
    /// The service itself: for what it serves now, or for old prices, which can wait.
    Service {
        can_wait: bool,
    },
}

/// Budget of one node.
#[derive(Debug)]
pub(crate) struct ReadBudget {
    /// Calls of clients and for old prices; `None`: no limit.
    rate: Option<Rate>,
    reserve: Rate,
    shares: ClientShares,
}

/// Calls at one node that are spread over each minute.
#[derive(Debug)]
struct Rate {
    /// Calls per minute.
    limit: NonZeroU32,
    /// Time at which all calls so far would have been sent, had they been spread evenly.
    even_end: Option<Instant>,
}

/// Calls of the last 60 s that clients caused.
#[derive(Debug, Default)]
struct ClientShares {
    /// Oldest first.
    sent: VecDeque<(Instant, IpAddr)>,
    /// The same calls by client.
    by_client: HashMap<IpAddr, VecDeque<Instant>>,
}

impl ReadBudget {
    /// Creates an unused budget of `limit` calls per minute; `None`: no limit.
    pub(crate) fn new(limit: Option<NonZeroU32>) -> Self {
        let rate = |limit| Rate { limit, even_end: None };
        Self { rate: limit.map(rate), reserve: rate(RESERVE), shares: ClientShares::default() }
    }

    /// Checks whether a call may be sent at `now`, without taking it from the budget. While the node `paused_for` this time,
    /// only those of the service for what it serves now may be sent.
    ///
    /// # Errors
    ///
    /// Returns the time until a call may be sent.
    pub(crate) fn check(
        &self,
        origin: CallOrigin,
        paused_for: Duration,
        now: Instant,
    ) -> Result<(), Exhausted> {
        let wait = self.rate.as_ref().map_or(Duration::ZERO, |rate| rate.wait(now));
        let node_wait = match origin {
            CallOrigin::Service { can_wait: false } => wait.min(self.reserve.wait(now)),
            CallOrigin::Client(_) | CallOrigin::Service { can_wait: true } => paused_for.max(wait),
        };
        let client_wait = match (origin, &self.rate) {
            (CallOrigin::Client(client), Some(rate)) => {
                self.shares.wait(client, rate.quarter(), now)
            }
            _ => Duration::ZERO,
        };
        available(node_wait, client_wait)
    }

    /// Takes one call, which is sent at `now`.
    ///
    /// # Errors
    ///
    /// Like [`check`](Self::check). Nothing is taken then.
    pub(crate) fn try_take(
        &mut self,
        origin: CallOrigin,
        paused_for: Duration,
        now: Instant,
    ) -> Result<(), Exhausted> {
        self.check(origin, paused_for, now)?;
        let Some(rate) = &mut self.rate else { return Ok(()) };
        let is_reserved = !rate.wait(now).is_zero();
        if is_reserved { &mut self.reserve } else { rate }.take(now);
        if let CallOrigin::Client(client) = origin {
            self.shares.record(client, now);
        }
        Ok(())
    }
}

impl Rate {
    /// Share of a limit that may be sent at once, and of one client, as a divisor.
    const DIVISOR: u32 = 4;

    /// Returns a quarter of the limit, at least 1.
    fn quarter(&self) -> u32 {
        (self.limit.get() / Self::DIVISOR).max(1)
    }

    /// Returns the time per call at which the burst and the calls of 60 s after it are the limit together.
    fn interval(&self) -> Duration {
        let window = MINUTE + MINUTE / (Self::DIVISOR - 1);
        // Rounded up, so that the limit is never exceeded.
        window / self.limit.get() + Duration::from_nanos(1)
    }

    /// Returns the time until a call may be sent.
    fn wait(&self, now: Instant) -> Duration {
        let max_ahead = self.interval().saturating_mul(self.quarter().saturating_sub(1));
        let ahead = self.even_end.map_or(Duration::ZERO, |end| remaining(end, now));
        ahead.saturating_sub(max_ahead)
    }

    fn take(&mut self, now: Instant) {
        let end = self.even_end.map_or(now, |end| end.max(now));
        self.even_end = Some(end + self.interval());
    }
}

impl ClientShares {
    /// Returns the time until `client` may cause another call, of which it may cause `max` in 60 s.
    fn wait(&self, client: IpAddr, max: u32, now: Instant) -> Duration {
        let Some(sent) = self.by_client.get(&client) else { return Duration::ZERO };
        // The last `max` calls, of which the first has to be a minute ago.
        let first = sent.len().checked_sub(usize::try_from(max).unwrap_or(usize::MAX));
        let first = first.and_then(|index| sent.get(index));
        first.map_or(Duration::ZERO, |sent_at| remaining(*sent_at + MINUTE, now))
    }

    fn record(&mut self, client: IpAddr, now: Instant) {
        while let Some((_, client)) = self.sent.pop_front_if(|(at, _)| *at + MINUTE <= now) {
            let Some(sent) = self.by_client.get_mut(&client) else { continue };
            sent.pop_front();
            if sent.is_empty() {
                self.by_client.remove(&client);
            }
        }
        self.sent.push_back((now, client));
        self.by_client.entry(client).or_default().push_back(now);
    }
}

fn available(node_wait: Duration, client_wait: Duration) -> Result<(), Exhausted> {
    let wait = node_wait.max(client_wait);
    if wait.is_zero() { Ok(()) } else { Err(Exhausted { wait, is_share: client_wait > node_wait }) }
}

fn remaining(until: Instant, now: Instant) -> Duration {
    until.saturating_duration_since(now)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NO_PAUSE: Duration = Duration::ZERO;

    fn budget(limit: u32) -> (ReadBudget, Instant) {
        (ReadBudget::new(NonZeroU32::new(limit)), Instant::now())
    }

    /// Returns a client that no other test has.
    const SERVICE: CallOrigin = CallOrigin::Service { can_wait: false };

    fn new_client() -> CallOrigin {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        CallOrigin::Client(Ipv4Addr::from_bits(NEXT.fetch_add(1, Ordering::Relaxed)).into())
    }

    /// Takes all calls that the budget allows clients at `now`.
    fn take_all(budget: &mut ReadBudget, now: Instant) -> usize {
        let take = |_: &_| budget.try_take(new_client(), NO_PAUSE, now).is_ok();
        (0..10_000).take_while(take).count()
    }

    #[test]
    fn no_minute_has_more_calls_than_the_limit() {
        for limit in [1, 2, 3, 4, 5, 7, 8, 99, 150, 1000] {
            let (mut budget, start) = budget(limit);
            let step = Duration::from_millis(100);
            let taken: Vec<_> =
                (0..3000).map(|index| take_all(&mut budget, start + step * index)).collect();
            // A window of 60 s that includes both of its ends.
            let most = taken.windows(601).map(|counts| counts.iter().sum::<usize>()).max();
            let most = u32::try_from(most.unwrap()).unwrap();
            assert!(most <= limit, "{most} of {limit}");
            let average = u32::try_from(taken.iter().sum::<usize>() / 5).unwrap();
            assert!(average >= limit * 7 / 10, "{average} of {limit}");
        }
    }

    #[test]
    fn a_refused_call_can_be_sent_after_the_returned_wait() {
        let (mut budget, mut now) = budget(60);
        assert_eq!(take_all(&mut budget, now), 15);
        for _ in 0..10 {
            let exhausted = budget.check(new_client(), NO_PAUSE, now).unwrap_err();
            assert!(exhausted.wait <= 2 * SECOND, "{exhausted:?}");
            assert_eq!(budget.try_take(new_client(), NO_PAUSE, now), Err(exhausted));
            now += exhausted.wait;
            assert_eq!(budget.try_take(new_client(), NO_PAUSE, now), Ok(()));
        }
    }

    #[test]
    fn calls_of_clients_wait_while_the_node_pauses() {
        let (mut budget, now) = budget(0);
        let refused = Exhausted { wait: 5 * SECOND, is_share: false };
        assert_eq!(budget.try_take(new_client(), 5 * SECOND, now), Err(refused));
        assert_eq!(budget.try_take(SERVICE, 5 * SECOND, now), Ok(()));
        assert_eq!(take_all(&mut budget, now), 10_000);
    }

    #[test]
    fn one_client_has_a_quarter_in_any_minute_and_others_the_rest() {
        let [greedy, other] = [1, 2].map(|last| CallOrigin::Client([192, 0, 2, last].into()));
        for (limit, share) in [(600, 150), (40, 10), (7, 1), (3, 1)] {
            let (mut budget, start) = budget(limit);
            let mut sent = Vec::new();
            for step in 0..3000 {
                let now = start + Duration::from_millis(100) * step;
                while budget.try_take(greedy, NO_PAUSE, now).is_ok() {
                    sent.push(now);
                }
            }
            let in_a_minute = |from: &Instant| {
                sent.iter().filter(|at| (*from..*from + MINUTE).contains(*at)).count()
            };
            let most = sent.iter().map(in_a_minute).max().unwrap();
            assert_eq!(most, share, "of {limit}");
            assert!(sent.len() >= 4 * share, "of {limit}");
            assert!(budget.shares.sent.len() <= 2 * share, "what is over is forgotten");
        }
        let (mut budget, now) = budget(40);
        (0..10).for_each(|_| assert_eq!(budget.try_take(greedy, NO_PAUSE, now), Ok(())));
        let later = now + 20 * SECOND;
        let refused = Exhausted { wait: 40 * SECOND, is_share: true };
        assert_eq!(budget.try_take(greedy, NO_PAUSE, later), Err(refused));
        // The others, and the service itself, have what the node allows.
        assert_eq!(budget.try_take(other, NO_PAUSE, later), Ok(()));
        assert_eq!(budget.try_take(SERVICE, NO_PAUSE, later), Ok(()));
        assert_eq!(budget.try_take(greedy, NO_PAUSE, later + refused.wait), Ok(()));
        // Without a limit there is no share.
        let (mut unlimited, now) = self::budget(0);
        (0..1000).for_each(|_| assert_eq!(unlimited.try_take(greedy, NO_PAUSE, now), Ok(())));
        assert!(unlimited.shares.sent.is_empty());
    }

    #[test]
    fn the_service_has_a_reserve_that_no_client_can_use() {
        for limit in [1, 40, 600] {
            let (mut budget, start) = budget(limit);
            let mut taken = 0;
            for step in 0..600 {
                let now = start + SECOND * step / 10;
                take_all(&mut budget, now);
                taken += u32::from(budget.try_take(SERVICE, NO_PAUSE, now).is_ok());
            }
            assert!((40..=RESERVE.get()).contains(&taken), "{taken} beside {limit}");
        }
        // What clients leave is the service's too.
        let (mut budget, now) = budget(600);
        let taken =
            (0..1000).take_while(|_| budget.try_take(SERVICE, NO_PAUSE, now).is_ok()).count();
        assert_eq!(taken, 150 + 12);
        assert_eq!(take_all(&mut budget, now), 0);
        assert!(budget.try_take(CallOrigin::Service { can_wait: true }, NO_PAUSE, now).is_err());
    }
}
