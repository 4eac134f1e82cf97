//! Access log: metrics, log line and span of every request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::MatchedPath;
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::{HeaderValue, Method, Request, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;

use super::problem;
use super::request_id::{RequestIdGenerator, X_REQUEST_ID};
use crate::observe::clock;
use crate::observe::metrics::{Counter, Metrics, RequestDurations, RequestLabels, RouteLabels};
use crate::observe::redaction;
use crate::observe::traces::Span;

/// Target of request log lines, for log filters.
const TARGET: &str = "gas_suggestion::requests";

/// Route label of requests that were refused before routing or that match no route.
const NO_ROUTE: &str = "none";

/// Access log and request metrics of one listener. Each serving thread has its own.
#[derive(Debug)]
pub(crate) struct AccessLog {
    listener: &'static str,
    base_path: Arc<str>,
    request_ids: RequestIdGenerator,
    metrics: Metrics,
    /// `None` if the listener has no suggestion route.
    suggestion_metrics: Option<RouteMetrics>,
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct RequestContext {
    started_at: Instant,
    method: Method,
    uri: Uri,
    request_id: HeaderValue,
    /// True if the fast path has responded. For other requests the router names the route.
    is_suggestion: bool,
    pub(crate) span: Span,
}

/// Counters of the route that gets nearly all requests, looked up once.
#[derive(Debug)]
struct RouteMetrics {
    durations: RequestDurations,
    counters: Vec<(Method, StatusCode, Counter)>,
}

impl AccessLog {
    pub(crate) const SUGGESTION_ROUTE: &str = "/v1/{chain}/gas-suggestion";

    pub(crate) fn new(
        listener: &'static str,
        base_path: &str,
        has_suggestions: bool,
        metrics: &Metrics,
    ) -> Self {
        let suggestion_metrics = || RouteMetrics::new(listener, Self::SUGGESTION_ROUTE, metrics);
        let suggestion_metrics = has_suggestions.then(suggestion_metrics);
        Self {
            listener,
            base_path: base_path.into(),
            request_ids: RequestIdGenerator::new(),
            metrics: metrics.clone(),
            suggestion_metrics,
        }
    }

    /// Returns the same log for another thread.
    pub(crate) fn for_thread(&self) -> Self {
        Self {
            listener: self.listener,
            base_path: Arc::clone(&self.base_path),
            request_ids: RequestIdGenerator::new(),
            metrics: self.metrics.clone(),
            suggestion_metrics: self.suggestion_metrics.as_ref().map(RouteMetrics::for_thread),
        }
    }

    /// Starts a request: takes the time and its id, and starts its span.
    pub(crate) fn start<B>(&self, request: &Request<B>) -> RequestContext {
        RequestContext {
            started_at: clock::now(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            request_id: self.request_ids.for_request(request.headers()),
            is_suggestion: false,
            span: Span::for_request(request),
        }
    }

    /// Finishes a request: adds the headers of every response and, to an error, its problem body; counts and logs the response.
    pub(crate) fn finish(&self, mut context: RequestContext, mut response: Response) -> Response {
        let status = response.status();
        let trace_id = context.span.trace_id();
        if status.is_client_error() || status.is_server_error() {
            problem::write_problem(&mut response, &context.request_id, trace_id);
        }
        let elapsed = clock::elapsed(context.started_at);
        let matched_path: Option<MatchedPath>;
        let route_template = if context.is_suggestion {
            Some(Self::SUGGESTION_ROUTE)
        } else {
            matched_path = response.extensions_mut().remove();
            matched_path.as_ref().map(|path| self.route_template(path))
        };
        context.span.record_response(&context.method, route_template, status);
        let route_name = route_template.unwrap_or(NO_ROUTE);
        self.count_request(route_name, &context.method, status, elapsed);
        self.log_request(route_name, &context, status, elapsed);
        let headers = response.headers_mut();
        headers.insert(X_REQUEST_ID, context.request_id);
        // A browser never takes the data of a response for a script or a page.
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    /// Returns a route without the base path.
    fn route_template<'a>(&self, path: &'a MatchedPath) -> &'a str {
        let path = path.as_str();
        match path.strip_prefix(&*self.base_path) {
            Some("") => "/",
            Some(relative_path) if relative_path.starts_with('/') => relative_path,
            _ => path,
        }
    }

    fn count_request(&self, route: &str, method: &Method, status: StatusCode, elapsed: Duration) {
        let preregistered =
            self.suggestion_metrics.as_ref().filter(|_| route == Self::SUGGESTION_ROUTE);
        if preregistered.is_some_and(|counts| counts.try_record(method, status, elapsed)) {
            return;
        }
        let (requests, durations) =
            http_metrics(&self.metrics, self.listener, route, method, status);
        requests.increment();
        durations.record(elapsed);
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

impl RequestContext {
    /// When the request arrived.
    pub(crate) fn started_at(&self) -> Instant {
        self.started_at
    }

    /// Records that the fast path responds.
    pub(crate) fn set_suggestion_route(&mut self) {
        self.is_suggestion = true;
    }
}

impl RouteMetrics {
    fn new(listener: &'static str, route: &'static str, metrics: &Metrics) -> Self {
        let http_metrics =
            |method: &Method, status| http_metrics(metrics, listener, route, method, status);
        let statuses = [StatusCode::OK, StatusCode::NOT_MODIFIED];
        let counters = [Method::GET, Method::HEAD].iter().flat_map(|method| {
            statuses.map(|status| (method.clone(), status, http_metrics(method, status).0))
        });
        Self {
            counters: counters.collect(),
            durations: http_metrics(&Method::GET, StatusCode::OK).1,
        }
    }

    fn for_thread(&self) -> Self {
        let of_thread = |(method, status, counter): &(Method, StatusCode, Counter)| {
            (method.clone(), *status, counter.for_thread())
        };
        Self {
            durations: self.durations.for_thread(),
            counters: self.counters.iter().map(of_thread).collect(),
        }
    }

    /// Counts the response if its method and status have a prepared counter. Returns false otherwise.
    fn try_record(&self, method: &Method, status: StatusCode, elapsed: Duration) -> bool {
        let mut counters = self.counters.iter();
        let found =
            counters.find(|(counted_method, with, _)| counted_method == method && *with == status);
        let Some((_, _, counter)) = found else { return false };
        counter.increment();
        self.durations.record(elapsed);
        true
    }
}

/// Counter of requests with this response, and durations of the route's requests.
fn http_metrics(
    metrics: &Metrics,
    listener: &'static str,
    route: &str,
    method: &Method,
    status: StatusCode,
) -> (Counter, RequestDurations) {
    let method = match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    };
    // Only an upstream can return a status without a standard reason.
    let status = if status.canonical_reason().is_some() { status.as_str() } else { "other" };
    let route_labels = RouteLabels { listener, route: route.to_owned() };
    let (route, status) = (route.to_owned(), status.to_owned());
    let labels = RequestLabels { listener, route, method, status };
    (
        metrics.http_requests_total.get_or_create_owned(&labels),
        metrics.http_request_duration_seconds.get_or_create_owned(&route_labels),
    )
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
