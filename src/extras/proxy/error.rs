//! Errors of forwarded requests.

use axum::http::StatusCode;

use crate::http::problem::{Problem, ProblemCode};

/// Reason why there is no response, or no end of it. Reveals nothing about the upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum ProxyError {
    /// The maximum number of requests is in flight.
    #[error("too many requests in flight")]
    Overloaded,
    /// The client has its maximum number of requests in flight.
    #[error("too many requests of this client in flight")]
    #[strum(serialize = "client_limit")]
    TooManyPerClient,
    /// The query contains a character that cannot be sent unchanged.
    #[error("the query cannot be forwarded unchanged")]
    #[strum(serialize = "query")]
    InvalidQuery,
    /// The target would be outside the configured URL. Callers must prevent this.
    #[error("the request path escapes the base URL")]
    #[strum(serialize = "path_escape")]
    EscapesBaseUrl,
    /// No connection.
    #[error("cannot connect")]
    Unreachable,
    /// The connection ended before a response began, or within a short response.
    #[error("the connection failed")]
    #[strum(serialize = "connection_closed")]
    ConnectionLost,
    /// The request body was aborted.
    #[error("the request body was aborted")]
    #[strum(serialize = "request_aborted")]
    RequestBodyAborted(Problem),
    /// No response before the deadline.
    #[error("no response within the deadline")]
    Timeout,
    /// An invalid response.
    #[error("the response has an invalid status, or is too long")]
    #[strum(serialize = "invalid")]
    InvalidResponse,
}

impl ProxyError {
    /// Labels of the errors of requests that could be sent.
    pub(super) const COUNTED: [&str; 7] = [
        "overloaded",
        "client_limit",
        "unreachable",
        "connection_closed",
        "request_aborted",
        "timeout",
        "invalid",
    ];

    /// Returns the problem of a forwarded request. Details name the upstream as `upstream_name`, never by its address.
    pub(crate) fn problem(self, upstream_name: &str) -> Problem {
        let (code, detail) = match self {
            Self::Overloaded => return Problem::overloaded(),
            Self::TooManyPerClient => return Problem::too_many_concurrent(),
            Self::EscapesBaseUrl => {
                return Problem::from_status(StatusCode::INTERNAL_SERVER_ERROR);
            }
            Self::InvalidQuery => {
                let detail = "the query contains a character that must be percent-encoded";
                return Problem::new(ProblemCode::InvalidParameter, detail);
            }
            Self::RequestBodyAborted(problem) => return problem,
            Self::Unreachable => {
                (ProblemCode::UpstreamUnreachable, format!("cannot connect to the {upstream_name}"))
            }
            Self::ConnectionLost => (
                ProblemCode::UpstreamUnreachable,
                format!("the {upstream_name} closed the connection before completing its response"),
            ),
            Self::Timeout => (
                ProblemCode::UpstreamTimeout,
                format!("the {upstream_name} did not respond in time"),
            ),
            Self::InvalidResponse => (
                ProblemCode::UpstreamInvalid,
                format!("the {upstream_name} returned an invalid response"),
            ),
        };
        Problem::new(code, detail)
    }

    /// Label of the error, from a closed list.
    pub(super) fn reason(&self) -> &'static str {
        self.into()
    }
}
