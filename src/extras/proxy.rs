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

mod error;
pub(crate) mod proxy_metrics;
mod request_body;
mod response_body;

use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{Method, Response, StatusCode};
use bytes::Bytes;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::DropGuard;

pub(crate) use error::ProxyError;
use proxy_metrics::ProxyMetrics;
pub(crate) use request_body::RequestBody;
use request_body::Upload;
pub(crate) use response_body::UpstreamBody;
use response_body::{MAX_BUFFERED_BYTES, MAX_STREAMED_BYTES, Rest};

use crate::config::{self, UpstreamUrl};
use crate::http::client_limits::{ClientHandle, Slot, SlotKind};
use crate::http::problem::{Problem, ProblemCode};
use crate::observe::http_client;
use crate::observe::metrics::Metrics;
use crate::observe::traces::Span;

/// Proxy to one upstream.
#[derive(Debug)]
pub(crate) struct Proxy {
    http: reqwest::Client,
    url: UpstreamUrl,
    timeout: Duration,
    permits: Arc<Semaphore>,
    /// A quarter of `max_in_flight`, so that one client leaves capacity to others.
    max_per_client: usize,
    metrics: ProxyMetrics,
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

/// Longest `Retry-After` of an upstream that is forwarded.
pub(crate) const MAX_RETRY_AFTER: Duration = Duration::from_mins(5);

/// Permit of a request, held until its response is delivered or abandoned.
#[derive(Debug)]
struct InFlightPermit {
    _permit: OwnedSemaphorePermit,
    _client_permit: Option<Slot>,
    /// Cancels the request body, even if more of it is to come.
    _cancel_body: DropGuard,
}

impl Proxy {
    /// An upstream that has not accepted a connection by then is considered down.
    const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    /// Creates the proxy to `url`, for `max_in_flight` requests at a time. Each has this `timeout` from its start to the
    /// last byte of the response. Logs and metrics call the upstream `name`.
    ///
    /// # Errors
    ///
    /// Fails if the TLS backend cannot start.
    pub(crate) fn new(
        name: &'static str,
        url: UpstreamUrl,
        upstream: &config::Upstream,
        timeout: Duration,
        max_in_flight: NonZeroUsize,
        metrics: &Metrics,
    ) -> Result<Self, reqwest::Error> {
        // Connections are not reused: requests are rare, and one that is sent while the upstream closes an idle
        // connection could not be sent again.
        let http = http_client::builder(upstream)?
            .connect_timeout(Self::CONNECT_TIMEOUT.min(timeout))
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self {
            http,
            url,
            timeout,
            permits: Arc::new(Semaphore::new(max_in_flight.get())),
            max_per_client: (max_in_flight.get() / 4).max(1),
            metrics: ProxyMetrics::new(name, metrics),
        })
    }

    /// Sends one request and returns the upstream's response once status, headers and the first bytes have arrived. The
    /// rest is streamed until the deadline. Dropping the future or the response cancels the request.
    ///
    /// # Errors
    ///
    /// Fails if there is no usable response.
    pub(crate) async fn forward(
        &self,
        proxy_request: &ProxyRequest<'_>,
        body: Option<RequestBody>,
    ) -> Result<Response<UpstreamBody>, ProxyError> {
        let url = target_url(&self.url, proxy_request)?;
        // If the client disconnects, this future is dropped and the guard counts it.
        let outcome_guard = self.metrics.start_request();
        let mut span = Span::for_upstream_request(&proxy_request.method, self.metrics.name);
        let upload = body.as_ref().map(|body| Arc::clone(&body.upload)).unwrap_or_default();
        let result = self.try_forward(url, proxy_request, body, &upload).await;
        match &result {
            Ok(response) => span.record_status(response.status()),
            Err(error) => span.record_failure(error.reason()),
        }
        outcome_guard.record(&result);
        result.map_err(|error| match (&error, upload.timeout_problem()) {
            (ProxyError::Timeout, Some(problem)) => ProxyError::RequestBodyAborted(problem),
            _ => error,
        })
    }

    async fn try_forward(
        &self,
        url: reqwest::Url,
        proxy_request: &ProxyRequest<'_>,
        body: Option<RequestBody>,
        upload: &Upload,
    ) -> Result<Response<UpstreamBody>, ProxyError> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let client_permit = proxy_request.client.acquire(SlotKind::Forwarded, self.max_per_client);
        let in_flight = InFlightPermit {
            _permit: permit.map_err(|_| ProxyError::Overloaded)?,
            _client_permit: client_permit.map_err(|_| ProxyError::TooManyPerClient)?,
            _cancel_body: upload.cancel.clone().drop_guard(),
        };
        let allowed = REQUEST_HEADERS.iter().chain(proxy_request.credentials);
        let request = self.http.request(proxy_request.method.clone(), url);
        let mut request = request.headers(filter_headers(proxy_request.headers, allowed));
        if let Some(body) = body {
            if body.size_hint().exact() == Some(0) {
                // The client library sends no `Content-Length` for an empty body, and some servers require it for POST
                // (RFC 9110, section 8.6).
                request = request.header(header::CONTENT_LENGTH, 0);
            }
            request = request.body(reqwest::Body::wrap(body));
        }
        let deadline = Instant::now() + self.timeout;
        let mut response = self.with_deadline(deadline, upload, request.send()).await?;
        let status = response.status();
        if status.is_informational() || status.as_u16() >= 600 {
            self.metrics.log_failure(&ProxyError::InvalidResponse, None);
            return Err(ProxyError::InvalidResponse);
        }
        let mut headers = filter_headers(response.headers(), &RESPONSE_HEADERS);
        let is_bodyless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let is_head = proxy_request.method == Method::HEAD && !is_bodyless;
        let (chunks, is_complete) = self.first_chunks(deadline, upload, &mut response).await?;
        if !is_complete || is_head {
            // A streamed body does not know its length, and the response to HEAD has that of the resource.
            headers.extend(filter_headers(response.headers(), [&header::CONTENT_LENGTH]));
        }
        let upstream_body = if !is_complete {
            let rest = Rest {
                response,
                deadline,
                remaining: MAX_STREAMED_BYTES,
                truncated: Some(self.metrics.truncated()),
                _in_flight: in_flight,
            };
            response_body::streamed(chunks, rest)
        } else if is_head || is_bodyless {
            response_body::absent()
        } else {
            response_body::complete(&chunks)
        };
        let mut response = Response::new(upstream_body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    /// Receives the first chunks of a body. Returns true beside them if they are all of it.
    async fn first_chunks(
        &self,
        deadline: Instant,
        upload: &Upload,
        response: &mut reqwest::Response,
    ) -> Result<(Vec<Bytes>, bool), ProxyError> {
        let (mut chunks, mut received) = (Vec::new(), 0_usize);
        while received < MAX_BUFFERED_BYTES {
            let chunk = self.with_deadline(deadline, upload, response.chunk()).await?;
            let Some(chunk) = chunk else { return Ok((chunks, true)) };
            received = received.saturating_add(chunk.len());
            chunks.push(chunk);
        }
        Ok((chunks, false))
    }

    /// Returns the result of `step`, or a timeout at the deadline.
    async fn with_deadline<T>(
        &self,
        deadline: Instant,
        upload: &Upload,
        step: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, ProxyError> {
        let (proxy_error, cause) = match (timeout_at(deadline, step).await, upload.problem()) {
            (Ok(Ok(value)), _) => return Ok(value),
            (Ok(Err(_)), Some(problem)) => return Err(ProxyError::RequestBodyAborted(problem)),
            (Ok(Err(error)), None) if error.is_connect() => (ProxyError::Unreachable, Some(error)),
            (Ok(Err(error)), None) => (ProxyError::ConnectionLost, Some(error)),
            (Err(_), _) => (ProxyError::Timeout, None),
        };
        self.metrics.log_failure(&proxy_error, cause);
        Err(proxy_error)
    }
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

/// Returns the problem of a `feature` without an upstream. `switch` says what switches it on, unless the chains are recorded.
pub(crate) fn switched_off(feature: &str, switch: &str, is_recorded: bool) -> Problem {
    if is_recorded {
        let detail = format!("{feature} is not part of the demo");
        return Problem::new(ProblemCode::NotFound, detail);
    }
    Problem::switched_off(feature, switch)
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
