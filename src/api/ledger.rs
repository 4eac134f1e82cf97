//! What is counted and logged of every request.

use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use metrics::{Counter, Histogram};

use super::problem;
use super::request_id::X_REQUEST_ID;
use crate::metrics::Metrics;
use crate::traces::Span;

/// Where log filters find requests.
const TARGET: &str = "gas_suggestion::requests";

/// The route of what was refused before it had one, or has none.
const NO_ROUTE: &str = "none";

/// The books of one listener.
#[derive(Debug)]
pub(super) struct Ledger {
    listener: &'static str,
    base_path: String,
    metrics: Metrics,
    /// `None`: the listener has no such route.
    suggestions: Option<OfRoute>,
}

/// One request under way.
#[derive(Debug)]
pub(super) struct Entry {
    started: Instant,
    method: Method,
    uri: Uri,
    id: HeaderValue,
    pub(super) span: Span,
}

/// Which route answered.
#[derive(Debug, Clone)]
pub(super) enum Route {
    /// That of one chain's suggestion.
    Suggestion,
    /// What the router found.
    Matched(MatchedPath),
    None,
}

/// The counts of the route that nearly all requests want, at hand.
#[derive(Debug)]
struct OfRoute {
    duration: Histogram,
    counts: Vec<(Method, StatusCode, Counter)>,
}

impl Ledger {
    pub(super) const SUGGESTION: &str = "/v1/{chain}/gas-suggestion";

    pub(super) fn new(
        listener: &'static str,
        base_path: &str,
        has_suggestions: bool,
        metrics: &Metrics,
    ) -> Self {
        let suggestions = || OfRoute::new(listener, Self::SUGGESTION, metrics);
        let suggestions = has_suggestions.then(suggestions);
        let (base_path, metrics) = (base_path.to_owned(), metrics.clone());
        Self { listener, base_path, metrics, suggestions }
    }

    /// Closes the books on a request: its answer gets the request's id and, where it is an error, its
    /// problem body, is counted and logged.
    pub(super) fn close(
        &self,
        mut entry: Entry,
        route: &Route,
        mut response: Response,
    ) -> Response {
        let status = response.status();
        let trace_id = entry.span.trace_id();
        if status.is_client_error() || status.is_server_error() {
            problem::write(&mut response, &entry.id, trace_id);
        }
        let took = entry.started.elapsed();
        let route = match route {
            Route::Suggestion => Some(Self::SUGGESTION),
            Route::Matched(path) => Some(self.template(path)),
            Route::None => None,
        };
        entry.span.answered(&entry.method, route, status);
        let route = route.unwrap_or(NO_ROUTE);
        self.count(route, &entry.method, status, took);
        self.log(route, &entry, status, took);
        response.headers_mut().insert(X_REQUEST_ID, entry.id);
        response
    }

    /// A route as it would be without a base path.
    fn template<'a>(&self, path: &'a MatchedPath) -> &'a str {
        let path = path.as_str();
        match path.strip_prefix(&self.base_path) {
            Some("") => "/",
            Some(below) if below.starts_with('/') => below,
            _ => path,
        }
    }

    fn count(&self, route: &str, method: &Method, status: StatusCode, took: Duration) {
        let at_hand = self.suggestions.as_ref().filter(|_| route == Self::SUGGESTION);
        if at_hand.is_some_and(|counts| counts.count(method, status, took)) {
            return;
        }
        let route = route.to_owned().into();
        let (requests, duration) = self.metrics.http(self.listener, route, method, status);
        requests.increment(1);
        duration.record(took);
    }

    fn log(&self, route: &str, entry: &Entry, status: StatusCode, took: Duration) {
        const LONGEST_PATH: usize = 256;
        const MS_PER_SECOND: f64 = 1e3;
        const PER_MS: f64 = 1e3;
        // What an orchestrator and a scraper ask is of interest to nobody.
        let is_routine = self.listener == "admin" || matches!(route, "/livez" | "/readyz");
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    target: TARGET,
                    $level,
                    method = entry.method.as_str(),
                    path = entry.uri.path().get(..LONGEST_PATH).unwrap_or(entry.uri.path()),
                    status = status.as_u16(),
                    duration_ms = (took.as_secs_f64() * MS_PER_SECOND * PER_MS).round() / PER_MS,
                    request_id = entry.id.to_str().unwrap_or_default(),
                    trace_id = entry.span.trace_id().map(tracing::field::display),
                    "answered"
                )
            };
        }
        if is_routine { line!(tracing::Level::DEBUG) } else { line!(tracing::Level::INFO) }
    }
}

impl Entry {
    pub(super) fn open<B>(request: &axum::http::Request<B>, id: HeaderValue) -> Self {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        Self { started: Instant::now(), method, uri, id, span: Span::of_request(request) }
    }

    /// What could not be read as a request.
    pub(super) fn of_nothing(id: HeaderValue) -> Self {
        let method = Method::from_bytes(b"UNKNOWN").expect("letters are a method");
        let (started, uri) = (Instant::now(), Uri::default());
        Self { started, method, uri, id, span: Span::default() }
    }
}

impl OfRoute {
    fn new(listener: &'static str, route: &'static str, metrics: &Metrics) -> Self {
        let of = |method: &Method, status| metrics.http(listener, route.into(), method, status);
        let statuses = [StatusCode::OK, StatusCode::NOT_MODIFIED];
        let counts = [Method::GET, Method::HEAD].iter().flat_map(|method| {
            statuses.map(|status| (method.clone(), status, of(method, status).0))
        });
        Self { counts: counts.collect(), duration: of(&Method::GET, StatusCode::OK).1 }
    }

    /// Whether such an answer is one of those that are counted here.
    fn count(&self, method: &Method, status: StatusCode, took: Duration) -> bool {
        let mut counts = self.counts.iter();
        let found = counts.find(|(of, with, _)| of == method && *with == status);
        let Some((_, _, count)) = found else { return false };
        count.increment(1);
        self.duration.record(took);
        true
    }
}

/// Has the response tell the route that the request found.
pub(super) async fn tell_route(
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    response.extensions_mut().insert(path.map_or(Route::None, Route::Matched));
    response
}
