//! Etherscan's members with the numbers that Safe needs.

use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;

use super::chain_route::{ChainIdParam, ChainIdPath};
use super::documents::{Document, Documents, json};
use super::etherscan::{ErrorBody, GasOracle, etherscan_error};
use super::{Format, TAG};
use crate::api::routes::routes;

/// The high tier for Safe.
pub(crate) const FORMAT: Format =
    Format { others: || OpenApiRouter::new().routes(routes!(safe)), ..Format::new("safe") };

pub(super) static ORACLE: Document =
    Document { name: "safe", render: |content| Some(json(&GasOracle::for_safe(content))) };

/// High tier in Etherscan's format, for Safe
///
/// Safe computes from it exactly the fees of the high tier.
#[utoipa::path(
    get,
    path = "/compat/safe/{chain_id}",
    operation_id = "getSafeOracle",
    tag = TAG,
    params(ChainIdParam),
    responses(
        (status = "default", description = "An error.", body = ErrorBody),
        (status = 200, description = "The oracle's answer.", body = GasOracle,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn safe(State(documents): State<Documents>, path: ChainIdPath) -> Response {
    let response = documents.respond_to_path(path, &ORACLE);
    response.unwrap_or_else(|problem| etherscan_error(&problem))
}
