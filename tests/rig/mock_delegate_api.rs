//! A mock of the delegate.xyz REST API that checks the headers of requests and their rate.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::test_server::{serve, wait_until};

/// An API on a free loopback port. Dropping it stops it, and fails the test if it received an invalid request, or more
/// requests without a key than the real API allows.
#[derive(Debug)]
pub(crate) struct MockDelegateApi {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    prefix: &'static str,
    state: Mutex<ApiState>,
    /// Path after `/registry/v2/` whose responses are held back, if any.
    held_path: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct ApiState {
    /// Responses by path after `/registry/v2/`. A key without a query applies to any query.
    responses: HashMap<String, StoredResponse>,
    /// Delay until a request arrives, like that of a network.
    delay: Duration,
    requests: Vec<ReceivedRequest>,
    rates: Rates,
    violations: Vec<String>,
}

/// Status, headers and body of a response.
type StoredResponse = (u16, Vec<(&'static str, String)>, String);

#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    /// Path after `/registry/v2/`.
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) key: Option<String>,
    pub(crate) at: Instant,
}

/// Rate limit of requests without a key: 25 per 10 s.
#[derive(Debug, Default)]
struct Rates {
    arrivals: Vec<Instant>,
    rejected: usize,
}

impl Rates {
    const LIMIT: usize = 25;
    const WINDOW: Duration = Duration::from_secs(10);

    /// Records a request. Returns `None` if it is allowed, otherwise the time until the next one is.
    ///
    /// The limit applies to every window of this length, so a fixed window of the API may begin at any request.
    fn record(&mut self, now: Instant) -> Option<Duration> {
        self.arrivals.push(now);
        let is_within = |at: &&Instant| now.duration_since(**at) < Self::WINDOW;
        let in_window: Vec<_> = self.arrivals.iter().filter(is_within).collect();
        if in_window.len() <= Self::LIMIT {
            return None;
        }
        self.rejected += 1;
        Some(Self::WINDOW.saturating_sub(now.duration_since(*in_window[0])))
    }
}

impl MockDelegateApi {
    pub(crate) async fn start() -> Self {
        Self::with_prefix("").await
    }

    /// Starts an API whose routes are below `prefix`.
    pub(crate) async fn with_prefix(prefix: &'static str) -> Self {
        let state = Mutex::new(ApiState::default());
        let shared = Arc::new(Shared { prefix, state, held_path: watch::Sender::new(None) });
        let app = Router::new().fallback(handle).with_state(Arc::clone(&shared));
        let (address, task) = serve(app).await;
        Self { address, shared, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.shared.prefix)
    }

    /// Sets the response for a target below `/registry/v2/`. A target without a query applies to any query. By default,
    /// lists are empty and nothing is delegated.
    pub(crate) fn set_response(&self, target: impl Into<String>, body: impl Into<String>) {
        self.set_response_with(target, 200, &[], body);
    }

    /// Like [`set_response`](Self::set_response), with a status and headers.
    pub(crate) fn set_response_with(
        &self,
        target: impl Into<String>,
        status: u16,
        headers: &[(&'static str, &str)],
        body: impl Into<String>,
    ) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.state().responses.insert(target.into(), (status, headers, body.into()));
    }

    pub(crate) fn set_delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// Holds responses for this path below `/registry/v2/` back until [`release`](Self::release).
    pub(crate) fn hold(&self, path: &str) {
        self.shared.held_path.send_replace(Some(path.to_owned()));
    }

    pub(crate) fn release(&self) {
        self.shared.held_path.send_replace(None);
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.state().requests.clone()
    }

    pub(crate) fn request_count(&self) -> usize {
        self.state().requests.len()
    }

    /// Returns path and query of the last request, after `/registry/v2/`.
    pub(crate) fn last_target(&self) -> String {
        let state = self.state();
        let ReceivedRequest { path, query, .. } = state.requests.last().expect("a request");
        format!("{path}?{query}")
    }

    pub(crate) async fn wait_for_requests(&self, count: usize) {
        let what = format!("{count} requests to the API");
        wait_until(&what, async || self.request_count() >= count).await;
    }

    fn state(&self) -> MutexGuard<'_, ApiState> {
        self.shared.state.lock().unwrap()
    }
}

impl Drop for MockDelegateApi {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            let state = self.state();
            let violations = &state.violations;
            assert!(violations.is_empty(), "invalid requests to the API: {violations:#?}");
            assert_eq!(state.rates.rejected, 0, "requests over the rate limit");
        }
    }
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let delay = shared.state.lock().unwrap().delay;
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 * 1024).await.unwrap();
    let path = parts.uri.path().to_owned();
    let path = path.strip_prefix(shared.prefix).and_then(|path| path.strip_prefix("/registry/v2/"));
    let path = path.unwrap_or_default().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let (stored, retry_after) = {
        let mut state = shared.state.lock().unwrap();
        let now = Instant::now();
        let key = parts.headers.get("x-api-key");
        let key = key.map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
        let has_key = key.is_some();
        let received = ReceivedRequest { path: path.clone(), query: query.clone(), key, at: now };
        state.requests.push(received);
        let checked =
            check_head(&parts).and_then(|()| if body.is_empty() { Ok(()) } else { Err("a body") });
        if let Err(violation) = checked {
            state.violations.push(format!("{violation}: {parts:?}"));
            return StatusCode::IM_A_TEAPOT.into_response();
        }
        let retry_after = if has_key { None } else { state.rates.record(now) };
        let target = format!("{path}?{query}");
        let stored = state.responses.get(&target).or_else(|| state.responses.get(&path)).cloned();
        let default = || (200, Vec::new(), empty_body(&path).to_owned());
        (stored.unwrap_or_else(default), retry_after)
    };
    if let Some(wait) = retry_after {
        let seconds = (wait.as_secs() + 1).to_string();
        let body = "{\"error\":\"Too many requests\"}";
        return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", seconds)], body).into_response();
    }
    let mut held_path = shared.held_path.subscribe();
    let _ = held_path.wait_for(|held_path| held_path.as_ref() != Some(&path)).await;
    let (status, headers, body) = stored;
    let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
    let all = response.headers_mut();
    all.insert("content-type", "application/json; charset=utf-8".parse().unwrap());
    for (name, value) in headers {
        all.append(name, value.parse().unwrap());
    }
    response
}

/// Returns the API's response body when nothing is delegated.
fn empty_body(path: &str) -> &'static str {
    match path {
        "check/all" | "check/contract" | "check/erc721" => "false",
        "check/erc20" | "check/erc1155" => "0",
        _ => "[]",
    }
}

/// Checks the method and the headers: none of the client's headers is forwarded except its key.
fn check_head(parts: &Parts) -> Result<(), &'static str> {
    const ALLOWED: [&str; 4] = ["host", "accept", "user-agent", "x-api-key"];
    let headers: &HeaderMap = &parts.headers;
    let text = |name| headers.get(name).map_or("", |value| value.to_str().unwrap_or_default());
    let is_empty_key = headers.get("x-api-key").is_some_and(HeaderValue::is_empty);
    let violations = [
        (parts.method != Method::GET, "not a GET"),
        (headers.keys().any(|name| !ALLOWED.contains(&name.as_str())), "an unneeded header"),
        (headers.len() != headers.keys_len(), "a header twice"),
        (text("accept") != "application/json", "accept is not JSON"),
        (!text("user-agent").starts_with("gas-suggestion/"), "another user agent"),
        (is_empty_key, "an empty key"),
    ];
    let found = violations.into_iter().find(|(is_violated, _)| *is_violated);
    found.map_or(Ok(()), |(_, violation)| Err(violation))
}
