//! Descriptions of headers and bodies of look-ups that have no type of their own.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use utoipa::{IntoParams, IntoResponses, ToSchema};

use super::parameters::Uint256;

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct ApiKeyHeader {
    /// The client's own key for delegate.xyz's API, which is forwarded to it.
    #[param(rename = "X-API-KEY", nullable = false)]
    key: Option<String>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum ResponseSource {
    Api,
    Chain,
}

/// True if `to` may act for `from`.
#[derive(IntoResponses)]
#[response(
    status = 200,
    content_type = "application/json",
    headers(("X-Delegation-Source"), ("Cache-Control"), ("Age"), ("Vary")),
    example = json!(true)
)]
pub(crate) struct CheckResponse(bool);

/// The amount of the token for which `to` may act for `from`; the registry contract's amount is a decimal string.
#[derive(IntoResponses)]
#[response(
    status = 200,
    headers(("X-Delegation-Source"), ("Cache-Control"), ("Age"), ("Vary")),
    example = json!("1000000000000000000")
)]
pub(crate) struct AmountResponse(Uint256);

/// Response headers of look-ups.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct LookupHeaders {
    /// The source of the response: delegate.xyz's API or the registry contract.
    #[param(rename = "X-Delegation-Source", inline, nullable = false, example = "chain")]
    delegation_source: Option<ResponseSource>,
}
