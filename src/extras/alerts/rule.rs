//! When an alert sends its state. Pure.

use std::time::{Duration, Instant};

use serde::Serialize;
use strum::{Display, EnumString, IntoStaticStr};

use super::section::Side;

/// State of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(super) enum AlertState {
    /// The price is beyond the limit.
    Reached,
    /// The price is 2 % of the limit back.
    Over,
}

/// Decides which states are sent, and remembers the last one.
#[derive(Debug, Clone, Copy)]
pub(super) struct AlertRule {
    pub(super) side: Side,
    repeat: Duration,
    /// Shortest time between two webhooks.
    pause: Duration,
    /// The last state. `None`: none was sent yet.
    pub(super) sent: Option<Sent>,
}

/// A state that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) state: AlertState,
    /// Time until another state may be sent.
    pub(super) pause: Duration,
    /// `None`: longer ago than anything counts.
    pub(super) at: Option<Instant>,
}

impl Sent {
    /// Returns the text that other processes parse.
    pub(super) fn text(&self) -> String {
        format!("{} {}", self.state, self.pause.as_millis())
    }

    /// Parses the text of a state that was sent at `at`.
    pub(super) fn parse(text: &str, at: Option<Instant>) -> Option<Self> {
        let (state, pause) = text.split_once(' ')?;
        let pause = Duration::from_millis(pause.parse().ok()?);
        Some(Self { state: state.parse().ok()?, pause, at })
    }
}

impl AlertRule {
    pub(super) fn new(side: Side, repeat: Duration, pause: Duration) -> Self {
        Self { side, repeat, pause, sent: None }
    }

    /// Looks at a price, in wei as the limit. Returns the state to send now, if there is one. A price that is in doubt
    /// does not reach the limit.
    pub(super) fn look(
        &self,
        price: u128,
        limit: u128,
        is_doubted: bool,
        now: Instant,
    ) -> Option<Sent> {
        // Two percent, rounded up. The band keeps a price at the limit from sending many webhooks.
        let band = limit.div_ceil(50);
        let (is_beyond, is_back) = match self.side {
            Side::Below => (price <= limit, price >= limit.saturating_add(band)),
            Side::Above => (price >= limit, price <= limit.saturating_sub(band)),
        };
        let state = match (is_beyond, is_back) {
            (true, _) if is_doubted => return None,
            (true, _) => AlertState::Reached,
            (false, true) => AlertState::Over,
            (false, false) => return None,
        };
        Some(Sent { state, pause: self.next_pause(state, now)?, at: Some(now) })
    }

    /// Returns the pause after the webhook with this state; `None`: it is not sent now.
    fn next_pause(&self, state: AlertState, now: Instant) -> Option<Duration> {
        let Some(sent) = self.sent else {
            return (state == AlertState::Reached).then_some(self.pause);
        };
        // The configuration may have changed since.
        let pause = sent.pause.clamp(self.pause, self.repeat);
        let elapsed = sent.at.map_or(Duration::MAX, |at| now.saturating_duration_since(at));
        let is_due = match state {
            _ if sent.state != state => elapsed >= pause,
            AlertState::Reached => elapsed >= self.repeat,
            AlertState::Over => false,
        };
        is_due.then(|| {
            let doubled = pause.saturating_mul(2);
            match elapsed {
                _ if elapsed >= self.repeat => self.pause,
                _ if elapsed < doubled => doubled.min(self.repeat),
                _ => pause,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AlertState::{Over, Reached};

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_mins(1);

    /// Looks at these prices, one each `interval`, without those in doubt. Returns the states that were sent, with the index of
    /// the price.
    fn sent(rule: AlertRule, interval: Duration, prices: &[(u128, bool)]) -> Vec<(usize, Sent)> {
        let (mut rule, mut now, mut all) = (rule, Instant::now(), Vec::new());
        for (index, (price, is_doubted)) in prices.iter().enumerate() {
            if let Some(sent) = rule.look(*price, 100, *is_doubted, now) {
                rule.sent = Some(sent);
                all.push((index, sent));
            }
            now += interval;
        }
        all
    }

    /// Looks at one price a minute. Returns the states that were sent, with their minutes.
    fn minutes(side: Side, prices: &[u128]) -> Vec<(usize, AlertState)> {
        let rule = AlertRule::new(side, Duration::from_mins(5), MINUTE);
        let prices: Vec<_> = prices.iter().map(|price| (*price, false)).collect();
        sent(rule, MINUTE, &prices).into_iter().map(|(at, sent)| (at, sent.state)).collect()
    }

    #[test]
    fn a_crossing_is_sent_once_and_its_end_after_the_band() {
        let prices = [120, 101, 100, 99, 101, 100, 101, 102, 101, 100, 90];
        let expected = [(2, Reached), (7, Over), (9, Reached)];
        assert_eq!(minutes(Side::Below, &prices), expected);
        let prices = [90, 100, 99, 98, 99, 100, 101];
        assert_eq!(minutes(Side::Above, &prices), [(1, Reached), (3, Over), (5, Reached)]);
    }

    #[test]
    fn a_lasting_state_is_sent_again_while_the_price_is_beyond() {
        assert_eq!(minutes(Side::Below, &[90; 12]), [(0, Reached), (5, Reached), (10, Reached)]);
        // Within the band it is neither repeated nor over.
        assert_eq!(
            minutes(Side::Below, &[100, 101, 101, 101, 101, 101, 101, 100]),
            [(0, Reached), (7, Reached)]
        );
    }

    #[test]
    fn a_price_that_swings_is_sent_less_and_less_often_until_it_rests() {
        let swinging = (0..400).map(|second| (if second % 2 == 0 { 90 } else { 110 }, false));
        // Nothing is sent in the last minute and a half.
        let resting = std::iter::repeat_n((110, false), 90);
        let prices: Vec<_> = swinging.chain(resting).chain([(90, false), (110, false)]).collect();
        let rule = AlertRule::new(Side::Below, MINUTE, SECOND);
        let seconds = |(at, sent): (usize, Sent)| (at, sent.pause.as_secs());
        let all: Vec<_> = sent(rule, SECOND, &prices).into_iter().map(seconds).collect();
        let first = [(0, 1), (1, 2), (4, 4), (9, 8), (18, 16), (35, 32), (68, 60)];
        assert_eq!(all[..7], first, "{all:?}");
        assert_eq!(all.last_chunk(), Some(&[(490, 1), (491, 2)]), "{all:?}");
    }

    #[test]
    fn a_doubted_price_reaches_no_limit_and_ends_what_was_reached() {
        let rule = AlertRule::new(Side::Below, Duration::from_mins(5), MINUTE);
        let prices = [(90, true), (90, false), (90, true), (110, true), (90, true), (90, false)];
        let states = sent(rule, MINUTE, &prices).into_iter().map(|(at, sent)| (at, sent.state));
        assert_eq!(states.collect::<Vec<_>>(), [(1, Reached), (3, Over), (5, Reached)]);
    }

    #[test]
    fn a_state_from_before_a_restart_counts_until_it_is_too_old() {
        let (now, pause) = (Instant::now(), Duration::from_secs(3));
        let rule = |text: &str, at| {
            let sent = Sent::parse(text, at);
            AlertRule { sent, ..AlertRule::new(Side::Below, MINUTE, SECOND) }
        };
        let state = |rule: AlertRule, price| Some(rule.look(price, 100, false, now)?.state);
        let text = Sent { state: Reached, pause, at: None }.text();
        let [recent, later] = [2, 3].map(|ago| rule(&text, now.checked_sub(ago * SECOND)));
        assert_eq!([state(recent, 90), state(recent, 110)], [None, None]);
        assert_eq!([state(later, 90), state(later, 110)], [None, Some(Over)]);
        assert_eq!(state(rule(&text, None), 90), Some(Reached));
        for text in ["", "reached", "reached x", "other 1000"] {
            assert_eq!(state(rule(text, Some(now)), 90), Some(Reached), "{text}");
        }
    }

    #[test]
    fn a_limit_of_zero_and_the_largest_one_work() {
        let state = |side, price, limit| {
            let rule = AlertRule::new(side, MINUTE, SECOND);
            Some(rule.look(price, limit, false, Instant::now())?.state)
        };
        assert_eq!([0, 1].map(|price| state(Side::Below, price, 0)), [Some(Reached), None]);
        let largest = u128::MAX;
        assert_eq!([0, largest].map(|it| state(Side::Above, it, largest)), [None, Some(Reached)]);
    }
}
