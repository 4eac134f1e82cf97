//! Errors as `application/problem+json` (RFC 9457). The status of each is known here alone.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use opentelemetry::trace::TraceId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::book::{Chain, Unavailable};
use crate::proxy::Failure;

/// What a client is told went wrong. It travels in the response's extensions until [`write()`] knows
/// the request's id.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    code: Code,
    detail: Cow<'static, str>,
    /// In seconds.
    retry_after: Option<u64>,
}

/// The closed list of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProblemCode)]
pub(super) enum Code {
    BadRequest,
    InvalidParameter,
    NotFound,
    UnknownChain,
    MethodNotAllowed,
    RequestTimeout,
    PayloadTooLarge,
    UriTooLong,
    UnsupportedMediaType,
    HeadersTooLarge,
    InternalError,
    RateLimited,
    NoData,
    StaleData,
    Overloaded,
    NotReady,
    UpstreamUnreachable,
    UpstreamInvalid,
    RegistryAbsent,
    UpstreamTimeout,
}

impl Code {
    fn status(self) -> StatusCode {
        match self {
            Self::BadRequest | Self::InvalidParameter => StatusCode::BAD_REQUEST,
            Self::NotFound | Self::UnknownChain => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UriTooLong => StatusCode::URI_TOO_LONG,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::NoData | Self::StaleData | Self::Overloaded | Self::NotReady => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::UpstreamUnreachable | Self::UpstreamInvalid | Self::RegistryAbsent => {
                StatusCode::BAD_GATEWAY
            }
            Self::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

impl Problem {
    pub(super) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into(), retry_after: None }
    }

    pub(super) fn unknown_chain() -> Self {
        Self::new(Code::UnknownChain, "no such chain here; GET /v1/chains lists those there are")
    }

    /// Why `chain` has nothing to serve, and when to ask again: after the next poll.
    pub(super) fn unavailable(chain: &Chain, why: Unavailable) -> Self {
        let (code, detail) = match why {
            Unavailable::NoData => (Code::NoData, "no data of this chain was read yet"),
            Unavailable::Expired => {
                (Code::StaleData, "the newest data of this chain is too old to be served")
            }
        };
        let retry_after = whole_seconds(chain.config().block_time);
        Self { retry_after: Some(retry_after), ..Self::new(code, detail) }
    }

    /// The client has spent what it may and gets more after `wait`.
    pub(super) fn rate_limited(wait: Duration) -> Self {
        let problem = Self::new(Code::RateLimited, "more requests than one client may make");
        Self { retry_after: Some(whole_seconds(wait)), ..problem }
    }

    /// An upstream's budget for everybody is spent; there is some of it again after `wait`.
    pub(super) fn budget_spent(wait: Duration) -> Self {
        let detail = "more look-ups than the service may make at a time";
        Self { retry_after: Some(whole_seconds(wait)), ..Self::new(Code::RateLimited, detail) }
    }

    /// The client has as many requests of this kind under way as one may have.
    pub(super) fn too_many_at_a_time() -> Self {
        let detail = "more such requests at a time than one client may have";
        Self { retry_after: Some(1), ..Self::new(Code::RateLimited, detail) }
    }

    /// There is no room for another request of this kind at the moment.
    pub(super) fn overloaded() -> Self {
        let detail = "too many such requests or answers at a time";
        Self { retry_after: Some(1), ..Self::new(Code::Overloaded, detail) }
    }

    /// Bodies are taken as they are.
    pub(super) fn encoded_body() -> Self {
        Self::new(Code::UnsupportedMediaType, "the body must not have a Content-Encoding")
    }

    /// Why the upstream that clients know by `name` did not answer.
    pub(super) fn of_upstream(failure: Failure, name: &str) -> Self {
        let (code, detail) = match failure {
            Failure::Overloaded => return Self::overloaded(),
            Failure::TooManyOfClient => return Self::too_many_at_a_time(),
            Failure::Astray => return Self::of_framework(StatusCode::INTERNAL_SERVER_ERROR),
            Failure::Query => {
                let detail = "the query has a character that must be percent-encoded";
                return Self::new(Code::InvalidParameter, detail);
            }
            Failure::Interrupted(_) => {
                return Self::new(Code::BadRequest, "the request body cannot be read");
            }
            Failure::Unreachable => {
                (Code::UpstreamUnreachable, format!("no connection to the {name} could be made"))
            }
            Failure::Broken => (
                Code::UpstreamUnreachable,
                format!("the {name} ended the connection without a whole answer"),
            ),
            Failure::Timeout => {
                (Code::UpstreamTimeout, format!("the {name} gave no answer within the time it has"))
            }
            Failure::Invalid => {
                (Code::UpstreamInvalid, format!("what the {name} answered is no answer"))
            }
        };
        Self::new(code, detail)
    }

    /// The problem that a status means which the framework or the listener decided.
    pub(super) fn of_framework(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::new(Code::NotFound, "there is nothing at this path"),
            StatusCode::METHOD_NOT_ALLOWED => Self::new(
                Code::MethodNotAllowed,
                "this path does not answer this method; the Allow header lists those it answers",
            ),
            StatusCode::REQUEST_TIMEOUT => {
                Self::new(Code::RequestTimeout, "the request took too long")
            }
            StatusCode::PAYLOAD_TOO_LARGE => {
                Self::new(Code::PayloadTooLarge, "the request body is too large")
            }
            StatusCode::URI_TOO_LONG => Self::new(Code::UriTooLong, "the request URI is too long"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                Self::new(Code::UnsupportedMediaType, "the Content-Type is not supported")
            }
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                Self::new(Code::HeadersTooLarge, "the request headers are too large")
            }
            StatusCode::TOO_MANY_REQUESTS => {
                let detail = "more connections than one client may have";
                Self { retry_after: Some(1), ..Self::new(Code::RateLimited, detail) }
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                let detail = "the service has as many connections as it may have";
                Self { retry_after: Some(1), ..Self::new(Code::Overloaded, detail) }
            }
            status if status.is_client_error() => {
                Self::new(Code::BadRequest, "the request cannot be understood")
            }
            _ => Self::new(Code::InternalError, "the service failed; the log has the request id"),
        }
    }

    /// This path has no answer to this method, but to `allowed`.
    pub(super) fn method_not_allowed(allowed: &'static str) -> Response {
        let problem = Self::of_framework(StatusCode::METHOD_NOT_ALLOWED);
        ([(header::ALLOW, allowed)], problem).into_response()
    }

    /// What a client is told, for tests of what makes problems.
    #[cfg(test)]
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    pub(super) fn code(&self) -> Code {
        self.code
    }

    /// The body of the answer with that id.
    pub(super) fn body(&self, request_id: &str, trace_id: Option<String>) -> Vec<u8> {
        let status = self.code.status();
        let body = Body {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: &self.detail,
            code: self.code,
            request_id,
            trace_id,
        };
        serde_json::to_vec(&body).expect("a struct of strings serialises")
    }
}

/// Rounded up, and never none.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}

/// Marks a response whose errors are somebody else's and stand as they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotOurs;

/// Makes an error response a problem of the request `id`: the one that it carries, or the one that
/// its status means where the framework made it.
pub(super) fn write(response: &mut Response, id: &HeaderValue, trace_id: Option<TraceId>) {
    if response.extensions_mut().remove::<NotOurs>().is_some() {
        return;
    }
    let status = response.status();
    let problem =
        response.extensions_mut().remove().unwrap_or_else(|| Problem::of_framework(status));
    *response.body_mut() =
        problem.body(id.to_str().unwrap_or_default(), trace_id.map(|id| id.to_string())).into();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if problem.code == Code::BadRequest {
        // What comes behind a request that cannot be understood cannot be either.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(seconds) = problem.retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// What went wrong (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct Body<'a> {
    r#type: &'static str,
    /// The status in words.
    title: &'static str,
    status: u16,
    /// What went wrong this time, for people.
    detail: &'a str,
    /// What went wrong, for programs.
    code: Code,
    /// As in `X-Request-Id`.
    request_id: &'a str,
    /// The OpenTelemetry trace, where spans are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    trace_id: Option<String>,
}
