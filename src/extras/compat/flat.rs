//! One object of prices by speed, as the oracles of bridges and relayers have it.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
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
use crate::http::problem::Problem;

/// One object of prices by speed.
pub(crate) const FORMAT: Format = Format {
    name: "flat",
    routes: || OpenApiRouter::new().routes(routes!(flat)),
    root_routes: no_root_routes,
    examples: &[("/compat/flat/{chain_id}", &PRICES)],
};

pub(super) static PRICES: Document =
    Document { name: "flat", render: |content| Some(json(&FlatPrices::new(content))) };

/// Prices per gas by speed, for transactions without a separate tip.
#[derive(Serialize, ToSchema)]
#[schema(as = FlatPrices)]
pub(crate) struct FlatPrices {
    /// For a transaction that can wait.
    slow: GweiNumber,
    /// The medium tier.
    standard: GweiNumber,
    /// The medium tier.
    average: GweiNumber,
    /// The high tier.
    fast: GweiNumber,
    /// The high tier.
    instant: GweiNumber,
}

impl FlatPrices {
    pub(crate) fn new(content: &DocumentContent) -> Self {
        let prices = content.prices.tiers.map(GweiNumber);
        Self {
            slow: prices.low,
            standard: prices.medium,
            average: prices.medium,
            fast: prices.high,
            instant: prices.high,
        }
    }
}

/// Prices by speed in one object
#[utoipa::path(
    get,
    path = "/compat/flat/{chain_id}",
    operation_id = "getFlatPrices",
    tag = TAG,
    params(ChainIdParam, IfNoneMatch),
    responses(
        NotModified,
        (status = 200, description = "The prices.", body = FlatPrices,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn flat(
    State(documents): State<Documents>,
    ChainParam(chain): ChainParam,
) -> Result<Response, Problem> {
    documents.respond(&chain, &PRICES)
}
