//! States of alerts. Pure.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::section::Side;

/// State of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum AlertState {
    /// The price is beyond the limit.
    Reached,
    /// The price is 2 % of the limit back.
    Over,
}

/// The state of an alert, and when it was last told.
#[derive(Debug, Clone, Copy)]
pub(super) struct AlertRule {
    side: Side,
    repeat: Duration,
    /// When the state was entered or last told; `None`: the price is not beyond the limit.
    reached: Option<Instant>,
}

impl AlertState {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Over => "over",
        }
    }
}

impl AlertRule {
    pub(super) fn new(side: Side, repeat: Duration) -> Self {
        Self { side, repeat, reached: None }
    }

    /// Looks at a price, in wei as the limit. Returns the state to tell; `None`: there is nothing to tell.
    pub(super) fn look(&mut self, price: u128, limit: u128, now: Instant) -> Option<AlertState> {
        // Two percent, rounded up. The band keeps a price at the limit from sending many webhooks.
        let band = limit.div_ceil(50);
        let (is_beyond, is_back) = match self.side {
            Side::Below => (price <= limit, price >= limit.saturating_add(band)),
            Side::Above => (price >= limit, price <= limit.saturating_sub(band)),
        };
        match self.reached {
            None if is_beyond => {
                self.reached = Some(now);
                Some(AlertState::Reached)
            }
            Some(_) if is_back && !is_beyond => {
                self.reached = None;
                Some(AlertState::Over)
            }
            Some(told) if is_beyond && now.duration_since(told) >= self.repeat => {
                self.reached = Some(now);
                Some(AlertState::Reached)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AlertState::{Over, Reached};

    /// Looks at one price a minute. Returns the changes with their minutes.
    fn told(side: Side, limit: u128, prices: &[u128]) -> Vec<(usize, AlertState)> {
        let mut rule = AlertRule::new(side, Duration::from_mins(5));
        let start = Instant::now();
        let minute = |index: usize| start + Duration::from_mins(u64::try_from(index).unwrap());
        let states = prices
            .iter()
            .enumerate()
            .filter_map(|(index, price)| Some((index, rule.look(*price, limit, minute(index))?)));
        states.collect()
    }

    #[test]
    fn a_crossing_is_told_once_and_its_end_after_the_band() {
        let prices = [120, 101, 100, 99, 101, 100, 101, 102, 101, 100, 90];
        let expected = [(2, Reached), (7, Over), (9, Reached)];
        assert_eq!(told(Side::Below, 100, &prices), expected);
        let prices = [90, 100, 99, 98, 99, 100, 101];
        assert_eq!(told(Side::Above, 100, &prices), [(1, Reached), (3, Over), (5, Reached)]);
    }

    #[test]
    fn a_lasting_state_is_told_again_while_the_price_is_beyond() {
        assert_eq!(told(Side::Below, 100, &[90; 12]), [(0, Reached), (5, Reached), (10, Reached)]);
        // Within the band it is neither repeated nor over.
        assert_eq!(
            told(Side::Below, 100, &[100, 101, 101, 101, 101, 101, 101, 100]),
            [(0, Reached), (7, Reached)]
        );
    }

    #[test]
    fn a_limit_of_zero_and_the_largest_one_work() {
        assert_eq!(told(Side::Below, 0, &[1, 0, 0, 1]), [(1, Reached), (3, Over)]);
        assert_eq!(told(Side::Above, u128::MAX, &[0, u128::MAX, 0]), [(1, Reached), (2, Over)]);
    }
}
