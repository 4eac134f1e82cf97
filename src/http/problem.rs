//! Errors as `application/problem+json` (RFC 9457). This module alone maps errors to statuses.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use opentelemetry::trace::TraceId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::config::nearest::nearest;
use crate::observe::memory_budget::MemoryExhausted;

/// Error of a request. It travels in the response's extensions until [`write_problem`] adds the request id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: ProblemCode,
    pub(crate) detail: Cow<'static, str>,
    /// `Retry-After` in seconds.
    retry_after: Option<u64>,
}

/// Stable error codes.
// Some codes belong to extras. The iterator keeps them without their extra.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema, strum::EnumIter)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProblemCode)]
pub(crate) enum ProblemCode {
    BadRequest,
    InvalidParameter,
    NotFound,
    UnknownChain,
    MethodNotAllowed,
    RequestTimeout,
    PayloadTooLarge,
    UriTooLong,
    UnsupportedMediaType,
    MisdirectedRequest,
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
    TooManyDelegations,
    UpstreamTimeout,
}

impl ProblemCode {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::BadRequest | Self::InvalidParameter => StatusCode::BAD_REQUEST,
            Self::NotFound | Self::UnknownChain => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UriTooLong => StatusCode::URI_TOO_LONG,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::MisdirectedRequest => StatusCode::MISDIRECTED_REQUEST,
            Self::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::NoData | Self::StaleData | Self::Overloaded | Self::NotReady => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::UpstreamUnreachable
            | Self::UpstreamInvalid
            | Self::RegistryAbsent
            | Self::TooManyDelegations => StatusCode::BAD_GATEWAY,
            Self::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

impl Problem {
    pub(crate) fn new(code: ProblemCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into(), retry_after: None }
    }

    /// Returns the problem of the `name` of a chain that is not among the configured `keys`.
    pub(crate) fn unknown_chain<'a>(name: &str, keys: impl IntoIterator<Item = &'a str>) -> Self {
        let near = nearest(name, keys);
        let hint = near.map(|key| format!(" did you mean `{key}`?")).unwrap_or_default();
        let detail = format!("unknown chain;{hint} GET /v1/chains lists the configured chains");
        Self::new(ProblemCode::UnknownChain, detail)
    }

    /// Returns the problem of a feature that is switched off. `switch` says what switches it on.
    pub(crate) fn switched_off(feature: &str, switch: &str) -> Self {
        let detail = format!("{feature} is off; {switch} to switch it on");
        Self::new(ProblemCode::NotFound, detail)
    }

    /// Returns the problem with another detail.
    pub(crate) fn with_detail(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Returns the problem with the time after which a retry can succeed.
    pub(crate) fn with_retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(whole_seconds(wait)), ..self }
    }

    /// Returns the problem of a client that exceeded its rate limit and can retry after `wait`.
    pub(crate) fn rate_limited(wait: Duration) -> Self {
        Self::new(ProblemCode::RateLimited, "client rate limit exceeded; retry later")
            .with_retry_after(wait)
    }

    /// Returns the problem of a client with too many concurrent requests of this kind.
    pub(crate) fn too_many_concurrent() -> Self {
        let detail = "too many concurrent requests of this kind from this client";
        Self::new(ProblemCode::RateLimited, detail).with_retry_after(SOON)
    }

    /// Returns the problem of a service without capacity for another request of this kind.
    pub(crate) fn overloaded() -> Self {
        let detail = "too many concurrent requests of this kind; retry later";
        Self::new(ProblemCode::Overloaded, detail).with_retry_after(SOON)
    }

    /// Maps a status that the framework or the listener chose to its problem.
    pub(crate) fn from_status(status: StatusCode) -> Self {
        let (code, detail) = match status {
            StatusCode::NOT_FOUND => (ProblemCode::NotFound, "no such route"),
            StatusCode::METHOD_NOT_ALLOWED => (
                ProblemCode::MethodNotAllowed,
                "this route does not support the method; the Allow header lists those it does",
            ),
            StatusCode::REQUEST_TIMEOUT => (ProblemCode::RequestTimeout, "the request timed out"),
            StatusCode::URI_TOO_LONG => (ProblemCode::UriTooLong, "the request URI is too long"),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                (ProblemCode::HeadersTooLarge, "the request headers are too large")
            }
            StatusCode::TOO_MANY_REQUESTS => {
                (ProblemCode::RateLimited, "too many connections from this client")
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                (ProblemCode::Overloaded, "the service has reached its connection limit")
            }
            status if status.is_client_error() => (ProblemCode::BadRequest, "malformed request"),
            _ => (ProblemCode::InternalError, "internal error; the log has the request id"),
        };
        let problem = Self::new(code, detail);
        match code {
            ProblemCode::RateLimited | ProblemCode::Overloaded => problem.with_retry_after(SOON),
            _ => problem,
        }
    }

    /// Writes the headers of the error's response.
    pub(crate) fn write_headers(&self, headers: &mut HeaderMap) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
    }

    /// Serialises the body with this request id.
    pub(crate) fn body(&self, request_id: &str, trace_id: Option<String>) -> Vec<u8> {
        let status = self.code.status();
        let body = ProblemBody {
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

/// Wait of a client that there is no capacity for at the moment.
const SOON: Duration = Duration::from_secs(1);

/// Rounds up to whole seconds, at least 1.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}

/// Marks a response that keeps its body although it is an error: one of an upstream, or one in the format of another
/// service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassThroughError;

/// Turns an error response into the problem of the request `id`: the problem that the response carries, or the one of
/// its status if the framework made it.
pub(crate) fn write_problem(
    response: &mut Response,
    request_id: &HeaderValue,
    trace_id: Option<TraceId>,
) {
    if response.extensions_mut().remove::<PassThroughError>().is_some() {
        return;
    }
    let status = response.status();
    let problem =
        response.extensions_mut().remove().unwrap_or_else(|| Problem::from_status(status));
    *response.body_mut() = problem
        .body(request_id.to_str().unwrap_or_default(), trace_id.map(|id| id.to_string()))
        .into();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    problem.write_headers(headers);
    if problem.code == ProblemCode::BadRequest {
        // After a malformed request the rest of the connection cannot be parsed.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

impl From<MemoryExhausted> for Problem {
    fn from(_: MemoryExhausted) -> Self {
        Self::overloaded()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Error response (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody<'a> {
    r#type: &'static str,
    /// Reason phrase of the status.
    title: &'static str,
    status: u16,
    /// Description of this occurrence, for people.
    detail: &'a str,
    /// Stable error code, for programs.
    code: ProblemCode,
    /// As in `X-Request-Id`.
    request_id: &'a str,
    /// Id of the OpenTelemetry trace, if tracing is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    trace_id: Option<String>,
}
