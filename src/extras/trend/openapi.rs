//! Descriptions of the parameters and errors of the fee trend.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use utoipa::{IntoParams, IntoResponses, ToSchema};

use crate::http::problem::ProblemBody;

/// The time that a fee trend shows.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TrendQuery {
    /// One hour in minutes, a day in steps of ten minutes, a week in hours, 30 days in steps of six hours, or a year in
    /// days. Longer ones than a week need `history.path`, and all of them as many `history.days`. Default: `24h`.
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
    #[schema(rename = "30d")]
    Month,
    #[schema(rename = "1y")]
    Year,
}

/// The chain was never read and has no restored trend, or the service is overloaded.
#[derive(IntoResponses)]
#[response(
    status = 503,
    headers(("Retry-After")),
    examples(("no_data" = ()), ("overloaded" = ()))
)]
pub(crate) struct NoTrend(ProblemBody<'static>);
