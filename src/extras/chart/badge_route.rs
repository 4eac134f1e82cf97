//! `GET /v1/{chain}/badge.svg`: the expected medium price as a small image for READMEs and pages.

use axum::extract::RawQuery;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::Badge;
use super::openapi::BadgeQuery;
use super::routes::SVG_POLICY;
use crate::api::extractors::ChainParam;
use crate::api::freshness::write_snapshot_headers;
use crate::api::openapi::components::{
    CommonErrors, FeesUnavailable, IfNoneMatch, NotModified, UnknownChain,
};
use crate::api::problems;
use crate::fees::gwei::rounded_price;
use crate::http::parameters::{Parameters, invalid_parameter};
use crate::http::problem::Problem;
use crate::store::etag;

/// Label of a badge without `label`.
const DEFAULT_LABEL: &str = "gas";
const MAX_LABEL_CHARACTERS: usize = 40;

/// Price of gas as a badge
///
/// It shows the expected medium price of the next block: `expected_price_per_gas.medium` of the fee market, with three
/// digits. The response is 304 if the client's copy is current.
#[utoipa::path(
    get,
    path = "/v1/{chain}/badge.svg",
    operation_id = "getBadge",
    tag = "Gas",
    params(ChainParam, BadgeQuery, IfNoneMatch),
    responses(
        CommonErrors, NotModified, UnknownChain, FeesUnavailable,
        (status = 200, description = "An SVG document.", content_type = "image/svg+xml", body = String,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(crate) async fn get_badge(
    ChainParam(chain): ChainParam,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let parameters = Parameters::from_query(query.as_deref())?;
    let label = parameters.optional("label", parse_label)?;
    let label = label.as_deref().unwrap_or(DEFAULT_LABEL);
    let current =
        chain.servable_snapshot().map_err(|reason| problems::unavailable(&chain, reason))?;
    let value = rounded_price(current.snapshot.market.expected_price());
    let svg = Badge { label, value: &value, is_stale: current.is_stale() }.render();
    let etag = etag::for_body(svg.as_bytes());
    let headers =
        [(header::CONTENT_TYPE, "image/svg+xml"), (header::CONTENT_SECURITY_POLICY, SVG_POLICY)];
    let mut response = (headers, svg).into_response();
    let headers = response.headers_mut();
    headers.insert(header::ETAG, etag);
    write_snapshot_headers(headers, &chain, &current);
    Ok(response)
}

/// Accepts at most [`MAX_LABEL_CHARACTERS`] characters that XML allows in a line. Spaces are joined.
fn parse_label(name: &str, text: &str) -> Result<String, Problem> {
    let is_allowed =
        |character: char| !character.is_control() && !matches!(character, '\u{fffe}' | '\u{ffff}');
    if text.chars().count() > MAX_LABEL_CHARACTERS || !text.chars().all(is_allowed) {
        let requirement = format!(
            "must have at most {MAX_LABEL_CHARACTERS} characters, without control characters"
        );
        return Err(invalid_parameter(name, requirement));
    }
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}
