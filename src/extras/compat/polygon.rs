//! Polygon's gas station, version 2.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use serde_json::Number;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::content::DocumentContent;
use super::documents::{Document, Documents, json};
use super::gwei::GweiNumber;
use super::openapi::ChainIdParam;
use super::{Format, TAG, no_root_routes};
use crate::api::extractors::ChainParam;
use crate::api::openapi::components::{IfNoneMatch, NotModified};
use crate::fees::Tier;
use crate::http::problem::Problem;

/// Polygon's gas station, version 2.
pub(crate) const FORMAT: Format = Format {
    name: "polygon",
    routes: || OpenApiRouter::new().routes(routes!(polygon)),
    root_routes: no_root_routes,
    examples: &[("/compat/polygon/{chain_id}/v2", &FEES)],
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

/// Fees by speed in the format of Polygon's gas station
#[utoipa::path(
    get,
    path = "/compat/polygon/{chain_id}/v2",
    operation_id = "getPolygonFees",
    tag = TAG,
    params(ChainIdParam, IfNoneMatch),
    responses(
        NotModified,
        (status = 200, description = "The fees.", body = GasStation,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn polygon(
    State(documents): State<Documents>,
    ChainParam(chain): ChainParam,
) -> Result<Response, Problem> {
    documents.respond(&chain, &FEES)
}
