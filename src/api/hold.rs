//! For how long a max fee has to hold: `hold` of a request, with the `probability` that it does.

use std::time::Duration;

use crate::config::Chain;
use crate::fees::{HeldBaseFee, PricingType, Target};
use crate::http::problem::Problem;
use crate::http::query::invalid_parameter;
use crate::store::{RecentBlocks, Snapshot};

/// Longest time of a request.
pub(crate) const MAX_TIME: Duration = Duration::from_mins(10);

/// How long a max fee has to hold, and the share of cases in which it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Whole seconds above 0.
    pub(crate) time: Duration,
    pub(crate) share: Target,
}

impl Hold {
    /// Parses both parameters. `None`: no hold is wanted.
    ///
    /// # Errors
    ///
    /// Returns the problem of a parameter that is not valid.
    pub(crate) fn parse(
        hold: Option<&str>,
        probability: Option<f64>,
        default_percent: u8,
    ) -> Result<Option<Self>, Problem> {
        let default = Target::from_percent(default_percent);
        let share = probability.map_or(Some(default), Target::new);
        let share =
            share.ok_or_else(|| invalid_parameter("probability", "must be from 0.5 to 0.999"))?;
        let time = hold.map_or(Some(Duration::ZERO), parse_time);
        let time = time.ok_or_else(|| {
            invalid_parameter("hold", "must be a duration up to 10m, such as 30s; 0 is none")
        })?;
        let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
        let time = Duration::from_secs(seconds);
        Ok((seconds > 0).then_some(Self { time, share }))
    }

    /// Estimates the base fee that holds, within the limits of the chain's pricing. `None`: pricing is legacy, so nothing has
    /// to hold. `blocks` are those of the snapshot.
    pub(crate) fn base_fee(
        self,
        chain: &Chain,
        snapshot: &Snapshot,
        blocks: &RecentBlocks,
    ) -> Option<HeldBaseFee> {
        let Snapshot { market, block_time, .. } = snapshot;
        if market.suggestion.pricing_type == PricingType::Legacy {
            return None;
        }
        let steps = blocks.base_fee_steps(*block_time);
        let held = HeldBaseFee::new(market, &steps, *block_time, self.time, self.share);
        let pricing = &chain.pricing;
        let base_fee = held.base_fee.max(pricing.base_fee_floor).min(pricing.max_base_fee);
        Some(HeldBaseFee { base_fee, ..held })
    }
}

/// Parses a duration of at most [`MAX_TIME`].
pub(crate) fn parse_time(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok().filter(|time| *time <= MAX_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{publish, store_with_chain};

    const GWEI: u128 = 1_000_000_000;

    #[test]
    fn a_hold_is_whole_seconds_up_to_ten_minutes() {
        let parse = |text| Hold::parse(Some(text), None, 95).ok();
        for none in ["0", "0s", "0ms"] {
            assert_eq!(parse(none), Some(None), "{none}");
        }
        for (text, seconds) in [("1ms", 1), ("1s", 1), ("1001ms", 2), ("1m30s", 90), ("10m", 600)] {
            let (time, share) = (Duration::from_secs(seconds), Target::from_percent(95));
            assert_eq!(parse(text), Some(Some(Hold { time, share })), "{text}");
        }
        for invalid in ["", "30", "-1s", "600001ms", "11m", "1e9s", "9999999999999999999999s"] {
            assert_eq!(parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn the_base_fee_is_within_the_limits_of_the_pricing() {
        let hold = Hold::parse(Some("10m"), Some(0.5), 95).unwrap().unwrap();
        // Without rises, it is twice the next base fee.
        for (keys, base_fee, expected) in [
            ("", GWEI, Some(2 * GWEI)),
            ("pricing.base_fee_floor = \"3 gwei\"", GWEI, Some(3 * GWEI)),
            ("pricing.max_base_fee = \"1.5 gwei\"", GWEI, Some(3 * GWEI / 2)),
            ("", 0, None),
        ] {
            let (_, chain, mut publisher) = store_with_chain(keys);
            publish(&mut publisher, 5, base_fee);
            let snapshot = chain.newest_snapshot().unwrap();
            let bound = chain.read_together(|it| hold.base_fee(chain.config(), &snapshot, it));
            assert_eq!(bound.map(|bound| bound.base_fee), expected, "{keys}");
        }
    }
}
