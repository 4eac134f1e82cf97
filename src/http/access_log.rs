//! Access log: metrics, log line and span of every request.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::MatchedPath;
use axum::http::{HeaderValue, Method, Request, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;

use super::request_id;
use crate::observe::clock;
use crate::observe::metrics::{Durations, Metrics, RequestCounter, RequestLabels, RouteLabels};
use crate::observe::redaction;
use crate::observe::traces::Span;

/// Target of request log lines, for log filters.
const TARGET: &str = "gas_suggestion::requests";

/// Route label of requests that were refused before routing or that match no route.
const NO_ROUTE: &str = "none";

/// The route of the fast path.
pub(super) const SUGGESTION_ROUTE: &str = "/v1/{chain}/gas-suggestion";

/// Access log and request metrics of one listener.
#[derive(Debug)]
pub(crate) struct AccessLog {
    listener: &'static str,
    base_path: String,
    metrics: Metrics,
    /// `None` if the listener has no suggestion route.
    suggestion_metrics: Option<SuggestionMetrics>,
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct RequestContext {
    /// When the request arrived.
    pub(super) started_at: Instant,
    /// The route, if the fast path has responded. For other requests the router names it.
    pub(super) route: Option<&'static str>,
    pub(super) span: Span,
    pub(super) request_id: HeaderValue,
    method: Method,
    uri: Uri,
}

/// Metrics of the route that gets nearly all requests, looked up once.
#[derive(Debug)]
struct SuggestionMetrics {
    durations: Durations,
    counters: Vec<(Method, StatusCode, RequestCounter)>,
}

impl RequestContext {
    /// Starts a request: takes the time and its id, and starts its span.
    pub(super) fn new<B>(request: &Request<B>) -> Self {
        Self {
            started_at: clock::now(),
            route: None,
            span: Span::for_request(request),
            request_id: request_id::for_request(request.headers()),
            method: request.method().clone(),
            uri: request.uri().clone(),
        }
    }
}

impl AccessLog {
    pub(crate) fn new(
        listener: &'static str,
        base_path: &str,
        has_suggestions: bool,
        metrics: &Metrics,
    ) -> Self {
        let mut log = Self {
            listener,
            base_path: base_path.to_owned(),
            metrics: metrics.clone(),
            suggestion_metrics: None,
        };
        if has_suggestions {
            log.suggestion_metrics = Some(SuggestionMetrics::new(&log));
        }
        log
    }

    /// Counts and logs the response, and takes the matched route out of it.
    pub(crate) fn record(&self, context: &mut RequestContext, response: &mut Response) {
        let status = response.status();
        let elapsed = clock::elapsed(context.started_at);
        let matched_path = response.extensions_mut().remove::<MatchedPath>();
        let template = matched_path.as_ref().map(|path| self.route_template(path));
        let route = context.route.or(template);
        context.span.record_response(&context.method, route, status);
        self.count_request(route.unwrap_or(NO_ROUTE), &context.method, status, elapsed);
        self.log_request(route.unwrap_or(NO_ROUTE), context, status, elapsed);
    }

    /// Returns a route without the base path.
    fn route_template<'a>(&self, path: &'a MatchedPath) -> &'a str {
        let path = path.as_str();
        match path.strip_prefix(&self.base_path) {
            Some("") => "/",
            Some(relative_path) if relative_path.starts_with('/') => relative_path,
            _ => path,
        }
    }

    fn count_request(&self, route: &str, method: &Method, status: StatusCode, elapsed: Duration) {
        let prepared = self.suggestion_metrics.as_ref().filter(|_| route == SUGGESTION_ROUTE);
        if prepared.is_some_and(|metrics| metrics.try_record(method, status, elapsed)) {
            return;
        }
        self.counter(route, method, status).increment();
        self.durations(route).record(elapsed);
    }

    /// Returns the counter of requests with this response.
    fn counter(&self, route: &str, method: &Method, status: StatusCode) -> RequestCounter {
        let method = match *method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::POST => "POST",
            Method::OPTIONS => "OPTIONS",
            _ => "other",
        };
        // Only an upstream can return a status without a standard reason.
        let status = if status.canonical_reason().is_some() { status.as_str() } else { "other" };
        self.metrics.http_requests_total.get_or_create_owned(&RequestLabels {
            listener: self.listener,
            route: route.to_owned(),
            method,
            status: status.to_owned(),
        })
    }

    /// Returns the durations of the route's requests.
    fn durations(&self, route: &str) -> Durations {
        let labels = RouteLabels { listener: self.listener, route: route.to_owned() };
        self.metrics.http_request_duration_seconds.get_or_create_owned(&labels)
    }

    fn log_request(
        &self,
        route: &str,
        context: &RequestContext,
        status: StatusCode,
        elapsed: Duration,
    ) {
        const MAX_METHOD_BYTES: usize = 32;
        const MAX_PATH_BYTES: usize = 256;
        const MS_PER_SECOND: f64 = 1e3;
        const STEPS_PER_MS: f64 = 1e3;
        // Probes and scrapes would hide other lines.
        let is_routine = self.listener == "admin" || matches!(route, "/livez" | "/readyz");
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    target: TARGET,
                    $level,
                    method = truncated(context.method.as_str(), MAX_METHOD_BYTES),
                    path = truncated(&redaction::without_path_key(context.uri.path()), MAX_PATH_BYTES),
                    status = status.as_u16(),
                    duration_ms = (elapsed.as_secs_f64() * MS_PER_SECOND * STEPS_PER_MS).round() / STEPS_PER_MS,
                    request_id = context.request_id.to_str().unwrap_or_default(),
                    trace_id = context.span.trace_id().map(tracing::field::display),
                    "request completed"
                )
            };
        }
        if is_routine { line!(tracing::Level::DEBUG) } else { line!(tracing::Level::INFO) }
    }
}

/// Returns the beginning of `text`, of at most `max_bytes`.
fn truncated(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or_default()
}

impl SuggestionMetrics {
    fn new(log: &AccessLog) -> Self {
        let mut counters = Vec::new();
        for method in [Method::GET, Method::HEAD] {
            for status in [StatusCode::OK, StatusCode::NOT_MODIFIED] {
                let counter = log.counter(SUGGESTION_ROUTE, &method, status);
                counters.push((method.clone(), status, counter));
            }
        }
        Self { durations: log.durations(SUGGESTION_ROUTE), counters }
    }

    /// Counts the response if its method and status have a prepared counter. Returns false otherwise.
    fn try_record(&self, method: &Method, status: StatusCode, elapsed: Duration) -> bool {
        let known = self.counters.iter().find(|known| known.0 == *method && known.1 == status);
        if let Some((_, _, counter)) = known {
            counter.increment();
            self.durations.record(elapsed);
        }
        known.is_some()
    }
}

/// Middleware that records the matched route in the response's extensions.
pub(crate) async fn record_matched_path(
    path: Option<MatchedPath>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    if let Some(path) = path {
        response.extensions_mut().insert(path);
    }
    response
}
