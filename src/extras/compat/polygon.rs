//! Polygon's gas station, version 2.

use std::time::Duration;

use serde::Serialize;
use serde_json::Number;
use utoipa::ToSchema;

use super::Format;
use super::chain_route::{ChainRoute, schema_of};
use super::content::DocumentContent;
use super::documents::{Document, json};
use super::gwei::GweiNumber;
use crate::fees::Tier;

/// Polygon's gas station, version 2.
pub(crate) const FORMAT: Format = Format {
    chain_routes: &[ChainRoute {
        path: "/compat/polygon/{chain_id}/v2",
        operation_id: "getPolygonFees",
        summary: "Fees by speed in the format of Polygon's gas station",
        description: None,
        response: "The fees.",
        document: &FEES,
        schema: schema_of::<GasStation>,
    }],
    ..Format::new("polygon")
};

pub(super) static FEES: Document =
    Document { name: "polygon", render: |content| Some(json(&GasStation::new(content))) };

/// Fees by speed as Polygon's gas station has them.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PolygonFees)]
pub(crate) struct GasStation {
    /// For a transaction that can wait.
    safe_low: Fees,
    /// The medium tier.
    standard: Fees,
    /// The high tier.
    fast: Fees,
    /// Base fee of the next block.
    estimated_base_fee: GweiNumber,
    /// Block time in seconds: a whole number from one second on.
    #[schema(value_type = f64)]
    block_time: Number,
    /// The newest block.
    block_number: u64,
}

/// Fees of one speed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PolygonSpeed)]
struct Fees {
    /// The tip.
    max_priority_fee: GweiNumber,
    max_fee: GweiNumber,
}

impl GasStation {
    pub(crate) fn new(content: &DocumentContent) -> Self {
        let fees = content.tiers().map(Fees::from);
        Self {
            safe_low: fees.low,
            standard: fees.medium,
            fast: fees.high,
            estimated_base_fee: GweiNumber(content.next_base_fee()),
            block_time: seconds(content.block_time),
            block_number: content.newest_block,
        }
    }
}

impl From<Tier> for Fees {
    fn from(tier: Tier) -> Self {
        Self {
            max_priority_fee: GweiNumber(tier.max_priority_fee_per_gas),
            max_fee: GweiNumber(tier.max_fee_per_gas),
        }
    }
}

/// Returns whole seconds, because readers expect an integer; a fraction if it is less than one second.
fn seconds(duration: Duration) -> Number {
    let whole = duration.as_secs_f64().round();
    let fraction = Number::from_f64(duration.as_secs_f64()).filter(|_| whole < 1.0);
    fraction.unwrap_or_else(|| {
        let rounded = duration.saturating_add(Duration::from_millis(500)).as_secs();
        rounded.max(1).into()
    })
}
