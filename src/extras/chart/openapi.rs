//! Descriptions of the parameters of a badge.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use utoipa::IntoParams;

/// The text on a badge.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct BadgeQuery {
    /// Text of the left part, at most 40 characters, without control characters. Default: `gas`. Empty: only the price.
    #[param(nullable = false, max_length = 40, pattern = r"^[^\x00-\x1f\x7f-\x9f\ufffe\uffff]*$")]
    label: Option<String>,
}
