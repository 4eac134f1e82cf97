//! `GET /v1/{chain}/badge.svg`: the expected medium price as a small image for READMEs and pages.

mod image;

use std::borrow::Cow;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;

use crate::api::extractors::ChainParam;
use crate::api::freshness::snapshot_response;
use crate::api::routes::routes;
use crate::assembly::{Assembly, Extra};
use crate::fees::gwei::rounded_price;
use crate::http::query::ValidQuery;
use crate::store::etag;
use image::{Badge, BadgeValue};

pub(crate) const EXTRA: Extra = Extra { name: "badge", sections: &[], command: None, join };

/// The image loads nothing.
const SVG_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Label of a badge without `label`.
const DEFAULT_LABEL: &str = "gas";
const MAX_LABEL_CHARACTERS: usize = 40;

/// Adds the route.
fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    let badge = OpenApiRouter::new().routes(routes!(get_badge));
    assembly.routes.timed.push(badge.with_state(assembly.store.clone()));
    Ok(())
}

/// The text on a badge.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct BadgeQuery {
    /// Text of the left part, at most 40 characters, without control characters. Default: `gas`. Empty: only the price.
    #[param(
        value_type = String,
        required = false,
        max_length = 40,
        pattern = r"^[^\x00-\x1f\x7f-\x9f\ufffe\uffff]*$"
    )]
    label: Option<Label>,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
struct Label(String);

/// Price of gas as a badge
///
/// It shows the expected medium price of the next block: `expected_price_per_gas.medium` of the fee market, with three
/// digits, in grey if it is stale. Without a price the badge is grey too, and says `no data`: a page would show a broken image
/// in place of an error. The response is 304 if the client's copy is current.
#[utoipa::path(
    get,
    path = "/v1/{chain}/badge.svg",
    operation_id = "getBadge",
    tag = "Gas",
    params(ChainParam, BadgeQuery),
    responses(
        (status = 200, description = "An SVG document.", content_type = "image/svg+xml", body = String,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn get_badge(
    ChainParam(chain): ChainParam,
    ValidQuery(query): ValidQuery<BadgeQuery>,
) -> Response {
    let label = query.label.as_ref().map_or(DEFAULT_LABEL, |Label(text)| text);
    let current = chain.servable_snapshot().ok();
    let value = current.as_ref().map(|current| {
        let price = rounded_price(current.snapshot.market.expected_price());
        if current.is_stale() { BadgeValue::Stale(price) } else { BadgeValue::Fresh(price) }
    });
    let svg = Badge { label, value: value.unwrap_or(BadgeValue::None) }.render();
    let etag = [(header::ETAG, etag::for_body(svg.as_bytes()))];
    let headers =
        [(header::CONTENT_TYPE, "image/svg+xml"), (header::CONTENT_SECURITY_POLICY, SVG_POLICY)];
    let response = (headers, etag, svg);
    match current {
        Some(current) => snapshot_response(&chain, &current, response),
        None => ([(header::CACHE_CONTROL, "no-cache")], response).into_response(),
    }
}

impl TryFrom<Cow<'_, str>> for Label {
    type Error = String;

    /// Accepts at most [`MAX_LABEL_CHARACTERS`] characters that XML allows in a line. Spaces are joined.
    fn try_from(text: Cow<'_, str>) -> Result<Self, String> {
        let is_allowed = |character: char| {
            !character.is_control() && !matches!(character, '\u{fffe}' | '\u{ffff}')
        };
        if text.chars().count() > MAX_LABEL_CHARACTERS || !text.chars().all(is_allowed) {
            return Err(format!(
                "must have at most {MAX_LABEL_CHARACTERS} characters, without control characters"
            ));
        }
        Ok(Self(text.split_whitespace().collect::<Vec<_>>().join(" ")))
    }
}
