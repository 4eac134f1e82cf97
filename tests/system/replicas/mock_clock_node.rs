//! A mock node that records its calls and whose head follows the clock.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::fixtures;

const GWEI: u128 = 1_000_000_000;

/// A mock node on a free loopback port. Its head advances by one block per block time. Dropping it stops it, and
/// fails the test if it has received an unexpected call.
///
/// Its paths are `/rpc` and `/rpc/{client}`; the second identifies the calling replica.
#[derive(Debug)]
pub(crate) struct MockClockNode {
    address: SocketAddr,
    state: Arc<Mutex<NodeState>>,
    task: JoinHandle<()>,
}

/// The state of the node, with which tests compare responses of the service.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Arc<Mutex<NodeState>>);

#[derive(Debug)]
struct NodeState {
    chain_id: u64,
    block_time: Duration,
    /// A block number and the time at which it was the head.
    started_at: (u64, Instant),
    /// Delay before each response.
    delay: Duration,
    behaviour: Behaviour,
    calls: Vec<Call>,
    violations: Vec<String>,
}

/// Reaction of the node to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Healthy,
    /// Responds with 500.
    Failing,
    /// Never responds.
    Silent,
    /// Claims this many blocks more than there are.
    Ahead(u64),
    /// Responds with 429 and a `Retry-After` of this many seconds.
    RateLimited(u64),
}

/// A received call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) at: Instant,
    /// The path segment after `/rpc/`, which identifies the replica. Empty for `/rpc`.
    pub(crate) client: String,
    pub(crate) method: String,
    /// The newest block of the returned fee history and the time of the response. `None` if no fee history was
    /// returned.
    pub(crate) response: Option<(u64, Instant)>,
}

impl MockClockNode {
    /// The head at the start, larger than any window.
    pub(crate) const FIRST_HEAD: u64 = 10_000_000;

    /// Starts a chain with one block per `block_time`.
    pub(crate) async fn start(chain_id: u64, block_time: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(NodeState {
            chain_id,
            block_time,
            started_at: (Self::FIRST_HEAD, Instant::now()),
            delay: Duration::ZERO,
            behaviour: Behaviour::Healthy,
            calls: Vec::new(),
            violations: Vec::new(),
        }));
        let app = Router::new().fallback(handle_call).with_state(Arc::clone(&state));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, state, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/rpc", self.address)
    }

    /// Returns a URL that identifies the replica `client` to the node.
    pub(crate) fn url_for(&self, client: &str) -> String {
        format!("http://{}/rpc/{client}", self.address)
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock(Arc::clone(&self.state))
    }

    pub(crate) fn head(&self) -> u64 {
        self.state().head()
    }

    /// Sets the head; the chain continues from there.
    pub(crate) fn reset_head(&self, head: u64) {
        self.state().started_at = (head, Instant::now());
    }

    /// Makes no block for this time from now on.
    pub(crate) fn pause(&self, time: Duration) {
        let mut state = self.state();
        state.started_at = (state.head(), Instant::now() + time);
    }

    pub(crate) fn set_behaviour(&self, behaviour: Behaviour) {
        self.state().behaviour = behaviour;
    }

    /// Sets the delay before each response.
    pub(crate) fn set_delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// Returns the current head and the number of calls of all methods so far.
    pub(crate) fn progress(&self) -> Progress {
        let state = self.state();
        Progress { head: state.head(), calls: state.calls.len() }
    }

    /// Returns all calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// Returns the times of the polls, which request a fee history, from call `first` on.
    pub(crate) fn polls(&self, first: usize) -> Vec<Instant> {
        let state = self.state();
        let polls = state.calls[first..].iter().filter(|call| call.method == "eth_feeHistory");
        polls.map(|call| call.at).collect()
    }

    /// Returns the number of calls per method, from call `first` on.
    pub(crate) fn calls_by_method(&self, first: usize) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for call in &self.state().calls[first..] {
            *counts.entry(call.method.clone()).or_default() += 1;
        }
        counts
    }

    /// Returns the times of the fee history responses, from call `first` on.
    pub(crate) fn response_times(&self, first: usize) -> Vec<Instant> {
        let state = self.state();
        state.calls[first..].iter().filter_map(|call| Some(call.response?.1)).collect()
    }

    /// Returns the newest block and the time of the last fee history response, if any.
    pub(crate) fn last_response(&self) -> Option<(u64, Instant)> {
        self.state().calls.iter().filter_map(|call| call.response).max_by_key(|(_, at)| *at)
    }

    fn state(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock().unwrap()
    }
}

impl Drop for MockClockNode {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            let violations = &self.state().violations;
            assert!(violations.is_empty(), "unexpected calls at the mock node: {violations:#?}");
        }
    }
}

/// The head and the number of calls at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) head: u64,
    pub(crate) calls: usize,
}

impl Progress {
    /// Returns the number of blocks and of calls since `before`.
    pub(crate) fn since(self, before: Self) -> (u64, u64) {
        (self.head - before.head, (self.calls - before.calls) as u64)
    }
}

impl Clock {
    pub(crate) fn head(&self) -> u64 {
        self.0.lock().unwrap().head()
    }

    /// Checks the `seconds` of age of a suggestion from block `newest` that was requested at `requested` and has just
    /// arrived. One second of difference is allowed. The node may have returned that block more than once.
    pub(crate) fn check_age(
        &self,
        newest: u64,
        requested: Instant,
        seconds: u64,
    ) -> Result<(), String> {
        let state = self.0.lock().unwrap();
        let responses = state.calls.iter().rev().filter_map(|call| call.response);
        let times: Vec<_> =
            responses.filter(|(head, _)| *head == newest).map(|(_, at)| at).collect();
        let (Some(last), Some(first)) = (times.first(), times.last()) else {
            return Err(format!("the node never returned {newest}"));
        };
        let since_last = requested.saturating_duration_since(*last).as_secs();
        let possible = since_last.saturating_sub(1)..=first.elapsed().as_secs() + 1;
        if possible.contains(&seconds) {
            Ok(())
        } else {
            Err(format!("an age of {seconds} s at {newest}, not one in {possible:?}"))
        }
    }
}

impl NodeState {
    fn head(&self) -> u64 {
        let (head, at) = self.started_at;
        let passed = at.elapsed().as_nanos() / self.block_time.as_nanos();
        head + u64::try_from(passed).unwrap()
    }

    /// Returns the result of a call at this `head`; the error describes an unexpected call.
    fn result_of(&self, call: &Value, head: u64) -> Result<Value, String> {
        let members: Vec<_> =
            call.as_object().into_iter().flatten().map(|(name, _)| name).collect();
        if members != ["id", "jsonrpc", "method", "params"] || call["jsonrpc"] != "2.0" {
            return Err("not a JSON-RPC 2.0 call".into());
        }
        let params = &call["params"];
        match call["method"].as_str() {
            Some("eth_chainId") if *params == json!([]) => {
                Ok(json!(format!("{:#x}", self.chain_id)))
            }
            Some("eth_feeHistory") => {
                let [count, tag, percentiles] = params.as_array().map_or(&[][..], Vec::as_slice)
                else {
                    return Err("not three parameters".into());
                };
                let count = count.as_str().and_then(|count| count.strip_prefix("0x"));
                let count = count.and_then(|count| u64::from_str_radix(count, 16).ok());
                let percentiles: Option<Vec<_>> =
                    percentiles.as_array().and_then(|all| all.iter().map(Value::as_u64).collect());
                match (count, tag.as_str(), percentiles) {
                    (Some(count @ 1..=1024), Some("latest"), Some(percentiles)) => {
                        Ok(history(head, &PricingSettings { window: count, percentiles }))
                    }
                    _ => Err("no parameters of a poll".into()),
                }
            }
            _ => Err("an unexpected call".into()),
        }
    }
}

async fn handle_call(State(state): State<Arc<Mutex<NodeState>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 * 1024).await.unwrap();
    let call: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (index, behaviour, delay) = {
        let mut state = state.lock().unwrap();
        let client = match parts.uri.path() {
            "/rpc" => Some(""),
            path => path.strip_prefix("/rpc/"),
        };
        let is_json =
            parts.headers.get("content-type").is_some_and(|kind| kind == "application/json");
        let is_call = parts.method == Method::POST && client.is_some() && is_json;
        let head = state.head();
        let violation =
            if is_call { state.result_of(&call, head).err() } else { Some("no call".into()) };
        if let Some(violation) = violation {
            let description = format!("{violation}: {} {} {call}", parts.method, parts.uri);
            eprintln!("unexpected calls at the mock node: {description}");
            state.violations.push(description);
            return StatusCode::NOT_IMPLEMENTED.into_response();
        }
        state.calls.push(Call {
            at: Instant::now(),
            client: client.unwrap_or_default().to_owned(),
            method: call["method"].as_str().unwrap().to_owned(),
            response: None,
        });
        (state.calls.len() - 1, state.behaviour, state.delay)
    };
    tokio::time::sleep(delay).await;
    match behaviour {
        Behaviour::Healthy | Behaviour::Ahead(_) => {
            let mut state = state.lock().unwrap();
            let lead = if let Behaviour::Ahead(blocks) = behaviour { blocks } else { 0 };
            let head = state.head() + lead;
            let result = state.result_of(&call, head).unwrap();
            if call["method"] == "eth_feeHistory" {
                state.calls[index].response = Some((head, Instant::now()));
            }
            json!({ "jsonrpc": "2.0", "id": call["id"], "result": result })
                .to_string()
                .into_response()
        }
        Behaviour::Failing => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Behaviour::Silent => std::future::pending().await,
        Behaviour::RateLimited(seconds) => {
            (StatusCode::TOO_MANY_REQUESTS, [("retry-after", seconds.to_string())]).into_response()
        }
    }
}

/// The settings by which the tests' chain configurations differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PricingSettings {
    pub(crate) window: u64,
    pub(crate) percentiles: Vec<u64>,
}

impl Default for PricingSettings {
    fn default() -> Self {
        Self { window: 20, percentiles: vec![60] }
    }
}

impl PricingSettings {
    /// Calculates the suggestion for the window that ends with `newest`, independently of the service. Every `newest`
    /// yields a different suggestion.
    pub(crate) fn expected_suggestion(&self, name: &str, newest: u64) -> String {
        let blocks = || newest + 1 - self.window..=newest;
        let average = |value: &dyn Fn(u64) -> u128| {
            blocks().map(value).sum::<u128>() / u128::from(self.window)
        };
        let base = 2 * average(&base_fee);
        let medium = average(&|number| tip(number, self.percentiles[0]));
        let high = match self.percentiles.get(1) {
            Some(percentile) => average(&|number| tip(number, *percentile)),
            None => medium * 12 / 10,
        };
        fixtures::suggestion(name, "eip-1559", base, [medium, high])
    }
}

/// Returns the base fee of a block in wei, above any floor.
fn base_fee(number: u64) -> u128 {
    10 * GWEI + 1000 * u128::from(number)
}

/// Returns the reward of a block at `percentile` in wei.
fn tip(number: u64, percentile: u64) -> u128 {
    u128::from(100 + percentile) * GWEI + 1000 * u128::from(number)
}

fn history(newest: u64, PricingSettings { window, percentiles }: &PricingSettings) -> Value {
    let tips = |number| percentiles.iter().map(|percentile| tip(number, *percentile)).collect();
    fixtures::computed_history(newest + 1 - window..=newest, base_fee, tips)
}
