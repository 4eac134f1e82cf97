//! The custom gas provider of rrelayer.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use super::gwei::Gwei;
use super::quote::Quote;
use crate::fees::Tier;

/// Fees by speed as rrelayer reads them.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RrelayerFees)]
pub(crate) struct GasEstimate {
    /// For a transaction that can wait.
    slow: Speed,
    /// The medium tier.
    medium: Speed,
    /// The high tier.
    fast: Speed,
    /// The high tier with its tip times the chain's `high_multiplier`.
    super_fast: Speed,
}

/// Fees of one speed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RrelayerSpeed)]
struct Speed {
    /// The tip.
    suggested_max_priority_fee_per_gas: Gwei,
    suggested_max_fee_per_gas: Gwei,
    /// One block time, in seconds rounded up; `null`: no block had rewards.
    #[schema(required)]
    min_wait_time_estimate: Option<u64>,
    /// Block time after the longest run of the newest blocks that were not seen to accept the fees, in seconds rounded up;
    /// `null`: no block had rewards.
    #[schema(required)]
    max_wait_time_estimate: Option<u64>,
}

impl GasEstimate {
    pub(crate) fn new(quote: &Quote) -> Self {
        let tiers = quote.tiers();
        let speeds = tiers.map(|tier| Speed::new(quote, tier));
        Self {
            slow: speeds.low,
            medium: speeds.medium,
            fast: speeds.high,
            super_fast: Speed::new(quote, super_fast(quote, tiers.high)),
        }
    }
}

/// Returns the high tier with a higher tip over the same base fee.
fn super_fast(quote: &Quote, high: Tier) -> Tier {
    let tip = high.max_priority_fee_per_gas;
    let tip = quote.chain.pricing.high_multiplier.apply(tip).unwrap_or(tip).max(tip);
    let max_fee_per_gas = quote.market.suggestion.base_fee_per_gas.saturating_add(tip);
    Tier { max_priority_fee_per_gas: tip, max_fee_per_gas }
}

impl Speed {
    fn new(quote: &Quote, tier: Tier) -> Self {
        let waits = quote.has_outcomes().then(|| quote.wait_times(tier));
        Self {
            suggested_max_priority_fee_per_gas: Gwei(tier.max_priority_fee_per_gas),
            suggested_max_fee_per_gas: Gwei(tier.max_fee_per_gas),
            min_wait_time_estimate: waits.map(|waits| seconds_rounded_up(waits.shortest)),
            max_wait_time_estimate: waits.map(|waits| seconds_rounded_up(waits.longest)),
        }
    }
}

fn seconds_rounded_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
