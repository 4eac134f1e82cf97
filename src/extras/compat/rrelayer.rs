//! The custom gas provider of rrelayer.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use super::Format;
use super::chain_route::{ChainRoute, schema_of};
use super::content::DocumentContent;
use super::documents::{Document, json};
use super::gwei::Gwei;
use crate::fees::{Tier, Tiers};

/// The custom gas provider of rrelayer.
pub(crate) const FORMAT: Format = Format {
    chain_routes: &[ChainRoute {
        path: "/compat/rrelayer/{chain_id}",
        operation_id: "getRrelayerFees",
        summary: "Fees by speed in the format of rrelayer's custom gas provider",
        description: None,
        response: "The fees.",
        document: &FEES,
        schema: schema_of::<GasEstimate>,
    }],
    ..Format::new("rrelayer")
};

pub(super) static FEES: Document =
    Document { name: "rrelayer", render: |content| Some(json(&GasEstimate::new(content))) };

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
    /// Time of the fewest blocks (1, 2, 3, 5, 10 or 25) of which one would have included the fees at 90 % of the last hour's
    /// heads; 25 if none is enough. In seconds rounded up; `null`: no block had rewards. Until that is known, one block more
    /// than the longest run of the newest blocks that were not seen to accept the fees.
    #[schema(required)]
    max_wait_time_estimate: Option<u64>,
}

impl GasEstimate {
    pub(crate) fn new(content: &DocumentContent) -> Self {
        let tiers = content.tiers();
        let speeds = tiers.zip(content.longest_waits(tiers));
        let speeds = speeds.map(|(tier, wait)| Speed::new(content, tier, wait));
        // The fastest speed pays no less than the high tier, so it waits no longer.
        let fastest = super_fast(content, tiers.high);
        let waits = content.longest_waits(Tiers { high: fastest, ..tiers });
        Self {
            slow: speeds.low,
            medium: speeds.medium,
            fast: speeds.high,
            super_fast: Speed::new(content, fastest, waits.high),
        }
    }
}

/// Returns the high tier with a higher tip over the same base fee.
fn super_fast(content: &DocumentContent, high: Tier) -> Tier {
    let tip = high.max_priority_fee_per_gas;
    let tip = content.chain.pricing.high_multiplier.apply(tip).unwrap_or(tip).max(tip);
    let max_fee_per_gas = content.market.suggestion.base_fee_per_gas.saturating_add(tip);
    Tier { max_priority_fee_per_gas: tip, max_fee_per_gas }
}

impl Speed {
    fn new(content: &DocumentContent, tier: Tier, longest_wait: Duration) -> Self {
        let rounded_up =
            |wait: Duration| u64::try_from(wait.as_nanos().div_ceil(1_000_000_000)).ok();
        let seconds = |wait| rounded_up(wait).filter(|_| content.has_outcomes());
        Self {
            suggested_max_priority_fee_per_gas: Gwei(tier.max_priority_fee_per_gas),
            suggested_max_fee_per_gas: Gwei(tier.max_fee_per_gas),
            min_wait_time_estimate: seconds(content.block_time),
            max_wait_time_estimate: seconds(longest_wait),
        }
    }
}
