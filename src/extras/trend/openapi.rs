//! Description of the errors of the fee trend.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use utoipa::IntoResponses;

use crate::http::problem::ProblemBody;

/// The chain was never read and has no restored trend, the history database cannot be read, or the service is overloaded.
#[derive(IntoResponses)]
#[response(
    status = 503,
    headers(("Retry-After")),
    examples(("no_data" = ()), ("not_ready" = ()), ("overloaded" = ()))
)]
pub(crate) struct NoTrend(ProblemBody<'static>);
