//! Forwards a request to one configured upstream and returns the response, streamed or whole.
//!
//! The configuration and checked path segments decide where a request goes, never a client's path. A query that the URL
//! parser would change is rejected. Only the headers listed here pass, in both directions.
//!
//! Every request has one deadline from its start to the last byte of the response, and its own connection: nothing is
//! sent twice, and no request is lost to a connection that the upstream is closing. One client may have a quarter of
//! the concurrent requests, because requests that take minutes would otherwise keep all other clients out.
//!
//! Bodies are streamed in both directions. A response below 16 KiB is complete before any of it is sent. If the
//! upstream breaks it off, the client gets an error response. A longer one has begun by then, so the client's
//! connection is reset: a part must not look like the whole.

mod cancellable_body;
mod proxy_metrics;
mod response_body;

use std::error::Error;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{Method, Response, StatusCode};
use bytes::Bytes;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use cancellable_body::CancellableBody;
pub(crate) use cancellable_body::RequestBodyAborted;
use proxy_metrics::ProxyMetrics;
pub(crate) use proxy_metrics::RequestMetrics;
pub(crate) use response_body::{BodyError, UpstreamBody, collect};
use response_body::{MAX_BUFFERED_BYTES, Rest};

use crate::config::{self, UpstreamUrl};
use crate::http::client_limits;
use crate::http::client_limits::{ClientHandle, LongRequestKind};
use crate::http::problem::{Problem, ProblemCode};
use crate::observe::http_client;
use crate::observe::metrics::Metrics;
use crate::observe::traces::Span;

/// Proxy to one upstream. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    upstream: Arc<ProxyUpstream>,
}

#[derive(Debug)]
struct ProxyUpstream {
    http: reqwest::Client,
    url: UpstreamUrl,
    timeout: Duration,
    permits: Arc<Semaphore>,
    /// A quarter of `max_in_flight`, so that one client leaves capacity to others.
    max_per_client: usize,
    metrics: ProxyMetrics,
}

/// Limits of requests to one upstream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProxyLimits {
    /// From the start of the request to the last byte of the response.
    pub(crate) timeout: Duration,
    /// Concurrent requests.
    pub(crate) max_in_flight: NonZeroUsize,
}

/// Request to the upstream, without its body.
#[derive(Debug)]
pub(crate) struct ProxyRequest<'a> {
    pub(crate) method: Method,
    /// Path below the configured URL; empty: that URL with a final slash. Each segment has only characters that need no
    /// escape, and is neither `.` nor `..`.
    pub(crate) segments: &'a [&'a str],
    /// Percent-encoded query, without the `?`.
    pub(crate) query: Option<&'a str>,
    /// The client's headers, of which those in [`REQUEST_HEADERS`] are forwarded.
    pub(crate) headers: &'a HeaderMap,
    /// Further headers that are forwarded.
    pub(crate) credentials: &'a [HeaderName],
    /// Client that the request is for.
    pub(crate) client: ClientHandle,
}

/// Request headers that every upstream gets.
const REQUEST_HEADERS: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::ACCEPT, header::ACCEPT_ENCODING];

/// Response headers that the client gets. `Content-Length` follows from the body.
const RESPONSE_HEADERS: [HeaderName; 8] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    HeaderName::from_static("deprecation"),
    header::WARNING,
    header::RETRY_AFTER,
    header::CACHE_CONTROL,
    header::ETAG,
    header::VARY,
];

/// Permit of a request, held until its response is delivered or abandoned.
#[derive(Debug)]
struct InFlightPermit {
    _permit: OwnedSemaphorePermit,
    _client_permit: client_limits::ConcurrencyPermit,
    /// Cancels the request body, even if more of it is to come.
    _cancel_body: DropGuard,
}

/// Reason why there is no response. Reveals nothing about the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
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
    /// The request body was aborted. The caller knows why.
    #[error(transparent)]
    #[strum(serialize = "request_aborted")]
    RequestBodyAborted(RequestBodyAborted),
    /// No response before the deadline.
    #[error("no response within the deadline")]
    Timeout,
    /// An invalid response.
    #[error("the response has an informational status")]
    #[strum(serialize = "invalid")]
    InvalidResponse,
}

impl ProxyError {
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
            Self::RequestBodyAborted(_) => {
                return Problem::new(ProblemCode::BadRequest, "the request body cannot be read");
            }
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
    fn reason(self) -> &'static str {
        self.into()
    }
}

impl Proxy {
    /// An upstream that has not accepted a connection by then is considered down.
    const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    /// Creates the proxy to `url`. Logs and metrics call it `name`.
    ///
    /// # Errors
    ///
    /// Fails if the TLS backend cannot start.
    pub(crate) fn new(
        name: &'static str,
        url: UpstreamUrl,
        upstream: &config::Upstream,
        limits: ProxyLimits,
        metrics: &Metrics,
    ) -> Result<Self, reqwest::Error> {
        let ProxyLimits { timeout, max_in_flight } = limits;
        let connect_timeout = Self::CONNECT_TIMEOUT.min(timeout);
        // Connections are not reused: requests are rare, and one that is sent while the upstream closes an idle
        // connection could not be sent again.
        let http = http_client::builder(upstream)?
            .connect_timeout(connect_timeout)
            .pool_max_idle_per_host(0)
            .build()?;
        let proxy_metrics = ProxyMetrics::new(name, metrics);
        let permits = Arc::new(Semaphore::new(max_in_flight.get()));
        let max_per_client = (max_in_flight.get() / 4).max(1);
        let upstream =
            ProxyUpstream { http, url, timeout, permits, max_per_client, metrics: proxy_metrics };
        Ok(Self { upstream: Arc::new(upstream) })
    }

    /// Sends one request and returns the upstream's response once status, headers and the first bytes have arrived. The
    /// rest is streamed until the deadline. Dropping the future or the response cancels the request.
    ///
    /// # Errors
    ///
    /// Fails if there is no usable response.
    pub(crate) async fn forward<B>(
        &self,
        proxy_request: &ProxyRequest<'_>,
        body: Option<B>,
    ) -> Result<Response<UpstreamBody>, ProxyError>
    where
        B: Body<Data = Bytes> + Send + Sync + 'static,
        B::Error: Into<BoxError>,
    {
        let cancel_body = CancellationToken::new();
        let body = body.map(|body| CancellableBody::new(body, cancel_body.clone()));
        let body = body.map(reqwest::Body::wrap);
        // If the client disconnects, this future is dropped and the guard counts it.
        let proxy_metrics = &self.upstream.metrics;
        let outcome_guard = proxy_metrics.start_request();
        let mut span =
            Span::for_upstream_request(&proxy_request.method, proxy_metrics.upstream_name());
        let result = self.try_forward(proxy_request, body, cancel_body.drop_guard()).await;
        match &result {
            Ok(answer) => span.record_status(answer.status()),
            Err(failure) => span.record_failure(failure.reason()),
        }
        outcome_guard.record(&result);
        result
    }

    async fn try_forward(
        &self,
        proxy_request: &ProxyRequest<'_>,
        body: Option<reqwest::Body>,
        cancel_body: DropGuard,
    ) -> Result<Response<UpstreamBody>, ProxyError> {
        let upstream = &*self.upstream;
        let url = target_url(&upstream.url, proxy_request)?;
        let permit = Arc::clone(&upstream.permits).try_acquire_owned();
        let permit = permit.map_err(|_| ProxyError::Overloaded)?;
        let client_permit =
            proxy_request.client.acquire(LongRequestKind::Forwarded, upstream.max_per_client);
        let in_flight = InFlightPermit {
            _permit: permit,
            _client_permit: client_permit.map_err(|_| ProxyError::TooManyPerClient)?,
            _cancel_body: cancel_body,
        };
        let allowed = REQUEST_HEADERS.iter().chain(proxy_request.credentials);
        let request = upstream.http.request(proxy_request.method.clone(), url);
        let mut request = request.headers(filter_headers(proxy_request.headers, allowed));
        if let Some(body) = body {
            if body.size_hint().exact() == Some(0) {
                // The client library sends no `Content-Length` for an empty body, and some servers require it for POST
                // (RFC 9110, section 8.6).
                request = request.header(header::CONTENT_LENGTH, 0);
            }
            request = request.body(body);
        }
        let deadline = Instant::now() + upstream.timeout;
        let mut response = self.with_deadline(deadline, request.send()).await?;
        let status = response.status();
        if status.is_informational() {
            upstream.metrics.log_failure(ProxyError::InvalidResponse, None);
            return Err(ProxyError::InvalidResponse);
        }
        let mut headers = filter_headers(response.headers(), &RESPONSE_HEADERS);
        let is_bodyless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let is_head = proxy_request.method == Method::HEAD && !is_bodyless;
        let mut chunks = Vec::new();
        let mut received = 0_usize;
        let upstream_body = loop {
            if received >= MAX_BUFFERED_BYTES {
                break None;
            }
            match self.with_deadline(deadline, response.chunk()).await? {
                Some(chunk) => {
                    received = received.saturating_add(chunk.len());
                    chunks.push(chunk);
                }
                None if is_head || is_bodyless => break Some(response_body::absent()),
                None => break Some(response_body::complete(&chunks)),
            }
        };
        if upstream_body.is_none() || is_head {
            // A streamed body does not know its length, and the response to HEAD has that of the resource.
            headers.extend(filter_headers(response.headers(), [&header::CONTENT_LENGTH]));
        }
        let upstream_body = upstream_body.unwrap_or_else(|| {
            let truncated = upstream.metrics.truncated();
            response_body::streamed(chunks, Rest::new(response, deadline, in_flight, truncated))
        });
        let mut response = Response::new(upstream_body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    /// Returns the result of `step`, or a timeout at the deadline.
    async fn with_deadline<T>(
        &self,
        deadline: Instant,
        step: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, ProxyError> {
        let proxy_metrics = &self.upstream.metrics;
        let error = match timeout_at(deadline, step).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(_) => {
                proxy_metrics.log_failure(ProxyError::Timeout, None);
                return Err(ProxyError::Timeout);
            }
        };
        if let Some(aborted) = find_body_abort(&error) {
            return Err(ProxyError::RequestBodyAborted(aborted));
        }
        let proxy_error =
            if error.is_connect() { ProxyError::Unreachable } else { ProxyError::ConnectionLost };
        proxy_metrics.log_failure(proxy_error, Some(error));
        Err(proxy_error)
    }
}

/// Returns the abort of the request body, if that caused the error.
fn find_body_abort(error: &reqwest::Error) -> Option<RequestBodyAborted> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(interrupted) = error.downcast_ref() {
            return Some(*interrupted);
        }
        source = error.source();
    }
    None
}

/// Builds the target URL of the request.
fn target_url(
    base: &UpstreamUrl,
    proxy_request: &ProxyRequest<'_>,
) -> Result<reqwest::Url, ProxyError> {
    let base = base.expose();
    let mut url = base.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty();
        if proxy_request.segments.is_empty() {
            path.push("");
        }
        path.extend(proxy_request.segments);
    }
    url.set_query(proxy_request.query);
    // Checked segments cannot leave the base URL. This second check stops the request if one ever does.
    let prefix = base.path().strip_suffix('/').unwrap_or(base.path());
    let rest = url.path().strip_prefix(prefix).and_then(|path| path.strip_prefix('/'));
    let is_below = rest == Some(proxy_request.segments.join("/").as_str())
        && url.scheme() == base.scheme()
        && url.host() == base.host()
        && url.port() == base.port()
        && url.username() == base.username()
        && url.password() == base.password();
    if !is_below {
        tracing::error!("request rejected: its path escapes the upstream's base URL");
        return Err(ProxyError::EscapesBaseUrl);
    }
    if url.query() == proxy_request.query { Ok(url) } else { Err(ProxyError::InvalidQuery) }
}

/// Returns the allowed headers, without those named in `Connection`, which concern one hop only (RFC 9110, section
/// 7.6.1).
fn filter_headers<'a>(
    headers: &HeaderMap,
    allowed: impl IntoIterator<Item = &'a HeaderName>,
) -> HeaderMap {
    let mut filtered = HeaderMap::new();
    let connection = headers.get_all(header::CONNECTION);
    let is_connection_option = |name: &HeaderName| {
        let mut options =
            connection.iter().flat_map(|value| value.as_bytes().split(|b| *b == b','));
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
    };
    for name in allowed.into_iter().filter(|name| !is_connection_option(name)) {
        for value in headers.get_all(name) {
            filtered.append(name, value.clone());
        }
    }
    filtered
}

#[cfg(test)]
mod tests;
