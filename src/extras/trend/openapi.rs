//! Descriptions of the parameters and errors of the fee trend.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use utoipa::{IntoParams, IntoResponses, ToSchema};

use crate::http::problem::ProblemBody;

/// The time that a fee trend shows.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TrendQuery {
    /// One hour in minutes, a day in steps of ten minutes, or a week in hours. Default: `24h`.
    #[param(inline, nullable = false)]
    period: Option<TrendPeriod>,
}

#[derive(ToSchema)]
pub(crate) enum TrendPeriod {
    #[schema(rename = "1h")]
    Hour,
    #[schema(rename = "24h")]
    Day,
    #[schema(rename = "7d")]
    Week,
}

/// The chain was never read and has no restored trend, or the service is overloaded.
#[derive(IntoResponses)]
#[response(
    status = 503,
    headers(("Retry-After")),
    examples(("no_data" = ()), ("overloaded" = ()))
)]
pub(crate) struct NoTrend(ProblemBody<'static>);
