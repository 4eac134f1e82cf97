//! A stand-in of the REST API of delegate.xyz, which checks what it is asked and how often.

mod tests;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::raw::PATIENCE;

/// An API on a free loopback port. When it is dropped it stops, and the test fails if it was ever asked
/// what the API does not know, or more often than it allows without a key.
#[derive(Debug)]
pub(crate) struct DelegateApi {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    prefix: &'static str,
    state: Mutex<Known>,
    /// What is held back, as it stands behind `/registry/v2/`.
    held: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct Known {
    /// By what stands behind `/registry/v2/`, with the query or for every query.
    answers: HashMap<String, Said>,
    /// For how long requests are on their way.
    way: Duration,
    asked: Vec<Asked>,
    rates: Rates,
    violations: Vec<String>,
}

/// An answer: status, headers, body.
type Said = (u16, Vec<(&'static str, String)>, String);

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Behind `/registry/v2/`.
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) key: Option<String>,
    pub(crate) at: Instant,
}

/// How often requests without a key have come.
#[derive(Debug, Default)]
struct Rates {
    arrivals: Vec<Instant>,
    /// Windows, each of which began with a request, and the requests in them.
    windows: Vec<(Instant, usize)>,
    refusals: usize,
}

impl Rates {
    const MOST: usize = 25;
    const WINDOW: Duration = Duration::from_secs(10);

    /// Whether a request is one too many, and when the next one would not be: by a window that slides,
    /// and by all that stand still from a request on.
    fn take(&mut self, now: Instant) -> Option<Duration> {
        self.arrivals.push(now);
        self.windows.push((now, 0));
        let is_within = |from: Instant| now.duration_since(from) < Self::WINDOW;
        let sliding = self.arrivals.iter().filter(|at| is_within(**at)).count();
        for (from, count) in &mut self.windows {
            *count += usize::from(is_within(*from));
        }
        let fixed = self.windows.iter().filter(|(from, _)| is_within(*from));
        let most = fixed.map(|(_, count)| *count).max().unwrap_or_default().max(sliding);
        if most <= Self::MOST {
            return None;
        }
        self.refusals += 1;
        let oldest = self.arrivals.iter().find(|at| is_within(**at));
        oldest.map(|oldest| Self::WINDOW.saturating_sub(now.duration_since(*oldest)))
    }
}

impl DelegateApi {
    pub(crate) async fn start() -> Self {
        Self::below("").await
    }

    /// Whose routes are below this path.
    pub(crate) async fn below(prefix: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Mutex::new(Known::default());
        let shared = Arc::new(Shared { prefix, state, held: watch::Sender::new(None) });
        let app = Router::new().fallback(reply).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, shared, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.shared.prefix)
    }

    /// Says this to what is asked below `/registry/v2/`, with a query or without regard to it. Else lists
    /// are empty, and nobody may act for anybody.
    pub(crate) fn say(&self, target: impl Into<String>, body: impl Into<String>) {
        self.say_with(target, 200, &[], body);
    }

    /// The same with this status and these headers.
    pub(crate) fn say_with(
        &self,
        target: impl Into<String>,
        status: u16,
        headers: &[(&'static str, &str)],
        body: impl Into<String>,
    ) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.state().answers.insert(target.into(), (status, headers, body.into()));
    }

    /// Lets the requests to come be on their way for so long before they arrive.
    pub(crate) fn is_away(&self, way: Duration) {
        self.state().way = way;
    }

    /// Answers nothing at this path below `/registry/v2/` until [`release`](Self::release).
    pub(crate) fn hold(&self, path: &str) {
        self.shared.held.send_replace(Some(path.to_owned()));
    }

    pub(crate) fn release(&self) {
        self.shared.held.send_replace(None);
    }

    /// All that came so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state().asked.clone()
    }

    /// How many came so far.
    pub(crate) fn count(&self) -> usize {
        self.state().asked.len()
    }

    /// The last that came, as it stood behind `/registry/v2/`.
    pub(crate) fn last(&self) -> String {
        let state = self.state();
        let Asked { path, query, .. } = state.asked.last().expect("a request");
        format!("{path}?{query}")
    }

    /// Waits until as many have come in all.
    pub(crate) async fn wait_for(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.count() < count {
            assert!(Instant::now() < deadline, "{:?}", self.asked());
            tokio::task::yield_now().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, Known> {
        self.shared.state.lock().unwrap()
    }
}

impl Drop for DelegateApi {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            let state = self.state();
            assert!(
                state.violations.is_empty(),
                "the API was asked what it does not know: {:#?}",
                state.violations
            );
            assert_eq!(state.rates.refusals, 0, "the API was asked too often");
        }
    }
}

async fn reply(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let way = shared.state.lock().unwrap().way;
    if !way.is_zero() {
        tokio::time::sleep(way).await;
    }
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 * 1024).await.unwrap();
    let path = parts.uri.path().to_owned();
    let path = path.strip_prefix(shared.prefix).and_then(|path| path.strip_prefix("/registry/v2/"));
    let path = path.unwrap_or_default().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let (said, too_often) = {
        let mut state = shared.state.lock().unwrap();
        let now = Instant::now();
        let key = parts.headers.get("x-api-key");
        let key = key.map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
        state.asked.push(Asked {
            path: path.clone(),
            query: query.clone(),
            key: key.clone(),
            at: now,
        });
        let checked = check_head(&parts).and_then(|()| check_target(&path, &query));
        let checked = checked.and_then(|()| if body.is_empty() { Ok(()) } else { Err("a body") });
        if let Err(violation) = checked {
            state.violations.push(format!("{violation}: {parts:?}"));
            return StatusCode::IM_A_TEAPOT.into_response();
        }
        let too_often = if key.is_none() { state.rates.take(now) } else { None };
        let whole = format!("{path}?{query}");
        let said = state.answers.get(&whole).or_else(|| state.answers.get(&path)).cloned();
        let otherwise = || (200, Vec::new(), nothing(&path).to_owned());
        (said.unwrap_or_else(otherwise), too_often)
    };
    if let Some(wait) = too_often {
        let seconds = (wait.as_secs() + 1).to_string();
        let body = "{\"error\":\"Too many requests\"}";
        return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", seconds)], body).into_response();
    }
    let mut held = shared.held.subscribe();
    let _ = held.wait_for(|held| held.as_ref() != Some(&path)).await;
    let (status, headers, body) = said;
    let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
    let all = response.headers_mut();
    all.insert("content-type", "application/json; charset=utf-8".parse().unwrap());
    for (name, value) in headers {
        all.append(name, value.parse().unwrap());
    }
    response
}

/// What the API says where nothing is delegated.
fn nothing(path: &str) -> &'static str {
    match path {
        "check/all" | "check/contract" | "check/erc721" => "false",
        "check/erc20" | "check/erc1155" => "0",
        _ => "[]",
    }
}

/// Nothing of a client's goes on but its key.
fn check_head(parts: &Parts) -> Result<(), &'static str> {
    const NEEDED: [&str; 4] = ["host", "accept", "user-agent", "x-api-key"];
    if parts.method != Method::GET {
        return Err("not a GET");
    }
    let headers: &HeaderMap = &parts.headers;
    if headers.keys().any(|name| !NEEDED.contains(&name.as_str())) {
        return Err("a header that nobody needs");
    }
    let is = |name, value| headers.get(name).is_some_and(|found| found == value);
    if headers.len() != headers.keys_len() {
        return Err("a header twice");
    }
    if !is("accept", "application/json") {
        return Err("it takes what is not JSON");
    }
    if !headers["user-agent"].to_str().unwrap().starts_with("gas-suggestion/") {
        return Err("somebody else asks");
    }
    if headers.get("x-api-key").is_some_and(HeaderValue::is_empty) {
        return Err("an empty key");
    }
    Ok(())
}

/// The routes and parameters that there are.
fn check_target(path: &str, query: &str) -> Result<(), &'static str> {
    let mut parameters = HashMap::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').ok_or("a parameter without a value")?;
        if parameters.insert(name, value).is_some() {
            return Err("a parameter twice");
        }
    }
    let chain_id = parameters.remove("chainId").ok_or("no chain")?;
    if !is_decimal(chain_id) || chain_id.starts_with('0') {
        return Err("a chain that is no number");
    }
    if let Some(rights) = parameters.remove("rights")
        && !is_hex(rights, 64)
    {
        return Err("rights that are not 32 bytes");
    }
    let needed: &[&str] = match path {
        "check/all" => &["to", "from"],
        "check/contract" | "check/erc20" => &["to", "from", "contract"],
        "check/erc721" | "check/erc1155" => &["to", "from", "contract", "tokenId"],
        address if is_hex(address, 40) && !query.contains("rights") => &[],
        _ => return Err("a path that there is not"),
    };
    for name in needed {
        let value = parameters.remove(name).ok_or("a parameter is missing")?;
        let is_right = if *name == "tokenId" { is_decimal(value) } else { is_hex(value, 40) };
        if !is_right {
            return Err("a parameter that cannot be right");
        }
    }
    if parameters.is_empty() { Ok(()) } else { Err("a parameter that there is not") }
}

fn is_hex(text: &str, digits: usize) -> bool {
    let text = text.strip_prefix("0x");
    text.is_some_and(|text| {
        text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

fn is_decimal(text: &str) -> bool {
    (1..=78).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}
