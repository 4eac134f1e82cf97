//! Bound of the requests with clients' own keys. What each key allows is not known here, but the API may count requests
//! with keys that it does not know against this server's address.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::budget::{REQUESTS_PER_WINDOW, Refused, WINDOW};

/// Requests of the last window. Its size is bounded. Pure: instants in, waits out.
#[derive(Debug, Default)]
pub(crate) struct KeyBudget {
    /// Oldest first. `None`: of a client without a limit.
    sent: VecDeque<(Instant, Option<IpAddr>)>,
}

impl KeyBudget {
    /// Requests of all clients together in a window. Of one client there may be as many as without a key.
    const MAX_REQUESTS: usize = 10 * REQUESTS_PER_WINDOW;

    /// Takes one request, which `client` sends at `now`.
    ///
    /// # Errors
    ///
    /// Returns the time until it may be sent.
    pub(crate) fn try_take(&mut self, client: Option<IpAddr>, now: Instant) -> Result<(), Refused> {
        while self.sent.pop_front_if(|(at, _)| *at + WINDOW <= now).is_some() {}
        let of_client =
            self.sent.iter().filter(|(_, sender)| client.is_some() && *sender == client);
        let share = time_left(of_client, REQUESTS_PER_WINDOW, now);
        let wait = share.max(time_left(self.sent.iter(), Self::MAX_REQUESTS, now));
        if !wait.is_zero() {
            return Err(Refused { wait, is_share: share == wait });
        }
        self.sent.push_back((now, client));
        Ok(())
    }
}

/// Returns the time until fewer than `max` of these requests are in the window.
fn time_left<'a>(
    mut requests: impl DoubleEndedIterator<Item = &'a (Instant, Option<IpAddr>)>,
    max: usize,
    now: Instant,
) -> Duration {
    let oldest = requests.nth_back(max - 1);
    oldest.map_or(Duration::ZERO, |(at, _)| (*at + WINDOW).saturating_duration_since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_with_own_keys_are_bounded_per_client_and_together() {
        let client = |last| Some(IpAddr::from([192, 0, 2, last]));
        let (mut budget, now) = (KeyBudget::default(), Instant::now());
        let second = Duration::from_secs(1);
        let mut take_all = |client, now| {
            let taken = (0..1000).take_while(|_| budget.try_take(client, now).is_ok()).count();
            (taken, budget.try_take(client, now).unwrap_err())
        };
        let share = Refused { wait: WINDOW, is_share: true };
        assert_eq!(take_all(client(0), now), (25, share));
        let all = Refused { wait: WINDOW.saturating_sub(second), is_share: false };
        for last in 1..10 {
            assert_eq!(take_all(client(last), now + second).0, 25);
        }
        assert_eq!(take_all(client(10), now + second), (0, all));
        assert_eq!(take_all(client(10), now + WINDOW).0, 25);
        // One without a limit has what is left.
        assert_eq!(take_all(None, now + WINDOW + second).0, 225);
    }
}
