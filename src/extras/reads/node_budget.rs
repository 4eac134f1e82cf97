//! Budget of the calls that clients cause at one node, so that they leave the provider's quota to the polls.
//!
//! The limit is exact: a quarter of it may be sent at once, and the rest evenly, so no 60 s have more calls than the limit.
//! No client causes more than a quarter of them in any 60 s, so others always have a share.
//!
//! Pure: instants in, waits out. Its size is bounded by the limit.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crate::nodes::Exhausted;

const MINUTE: Duration = Duration::from_mins(1);

/// Budget of one node.
#[derive(Debug)]
pub(crate) struct ReadBudget {
    /// Calls per minute; `None`: no limit.
    limit: Option<NonZeroU32>,
    /// Time at which all calls so far would have been sent, had they been spread evenly.
    even_end: Option<Instant>,
    shares: ClientShares,
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
    /// Share of a limit that may be sent at once, and of one client, as a divisor.
    const DIVISOR: u32 = 4;

    /// Creates an unused budget of `limit` calls per minute; `None`: no limit.
    pub(crate) fn new(limit: Option<NonZeroU32>) -> Self {
        Self { limit, even_end: None, shares: ClientShares::default() }
    }

    /// Checks whether a call for `client` may be sent at `now`, without taking it from the budget. `None`: a call of the
    /// service itself. No call may be sent while the node `paused_for` this time.
    ///
    /// # Errors
    ///
    /// Returns the time until a call may be sent.
    pub(crate) fn check(
        &self,
        client: Option<IpAddr>,
        paused_for: Duration,
        now: Instant,
    ) -> Result<(), Exhausted> {
        let Some(limit) = self.limit else { return available(paused_for, Duration::ZERO) };
        let quarter = quarter(limit);
        let max_ahead = interval(limit).saturating_mul(quarter.saturating_sub(1));
        let ahead = self.even_end.map_or(Duration::ZERO, |end| remaining(end, now));
        let node_wait = paused_for.max(ahead.saturating_sub(max_ahead));
        let client_wait = client.map(|client| self.shares.wait(client, quarter, now));
        available(node_wait, client_wait.unwrap_or_default())
    }

    /// Takes one call for `client`, which is sent at `now`.
    ///
    /// # Errors
    ///
    /// Like [`check`](Self::check). Nothing is taken then.
    pub(crate) fn try_take(
        &mut self,
        client: Option<IpAddr>,
        paused_for: Duration,
        now: Instant,
    ) -> Result<(), Exhausted> {
        self.check(client, paused_for, now)?;
        if let Some(limit) = self.limit {
            let end = self.even_end.map_or(now, |end| end.max(now));
            self.even_end = Some(end + interval(limit));
            if let Some(client) = client {
                self.shares.record(client, now);
            }
        }
        Ok(())
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

/// Returns a quarter of a limit, at least 1.
fn quarter(limit: NonZeroU32) -> u32 {
    (limit.get() / ReadBudget::DIVISOR).max(1)
}

fn available(node_wait: Duration, client_wait: Duration) -> Result<(), Exhausted> {
    let wait = node_wait.max(client_wait);
    if wait.is_zero() { Ok(()) } else { Err(Exhausted { wait, is_share: client_wait > node_wait }) }
}

/// Returns the time per call at which the burst and the calls of 60 s after it are `limit` together.
fn interval(limit: NonZeroU32) -> Duration {
    let window = MINUTE + MINUTE / (ReadBudget::DIVISOR - 1);
    // Rounded up, so that the limit is never exceeded.
    window / limit.get() + Duration::from_nanos(1)
}

fn remaining(until: Instant, now: Instant) -> Duration {
    until.saturating_duration_since(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NO_PAUSE: Duration = Duration::ZERO;

    fn budget(limit: u32) -> (ReadBudget, Instant) {
        (ReadBudget::new(NonZeroU32::new(limit)), Instant::now())
    }

    /// Takes all calls that the budget allows at `now`.
    fn take_all(budget: &mut ReadBudget, now: Instant) -> usize {
        (0..10_000).take_while(|_| budget.try_take(None, NO_PAUSE, now).is_ok()).count()
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
            let exhausted = budget.check(None, NO_PAUSE, now).unwrap_err();
            assert!(exhausted.wait <= 2 * SECOND, "{exhausted:?}");
            assert_eq!(budget.try_take(None, NO_PAUSE, now), Err(exhausted));
            now += exhausted.wait;
            assert_eq!(budget.try_take(None, NO_PAUSE, now), Ok(()));
        }
    }

    #[test]
    fn calls_wait_while_the_node_pauses() {
        let (mut budget, now) = budget(0);
        let refused = Exhausted { wait: 5 * SECOND, is_share: false };
        assert_eq!(budget.try_take(None, 5 * SECOND, now), Err(refused));
        assert_eq!(take_all(&mut budget, now), 10_000);
    }

    #[test]
    fn one_client_has_a_quarter_in_any_minute_and_others_the_rest() {
        let [greedy, other] = [1, 2].map(|last| Some(IpAddr::from([192, 0, 2, last])));
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
        assert_eq!(budget.try_take(None, NO_PAUSE, later), Ok(()));
        assert_eq!(budget.try_take(greedy, NO_PAUSE, later + refused.wait), Ok(()));
        // Without a limit there is no share.
        let (mut unlimited, now) = self::budget(0);
        (0..1000).for_each(|_| assert_eq!(unlimited.try_take(greedy, NO_PAUSE, now), Ok(())));
        assert!(unlimited.shares.sent.is_empty());
    }
}
