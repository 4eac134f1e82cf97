//! A mock node that records its calls and whose head follows the clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chain_model::{self, ChainModel, Window};
use crate::mock_node::{self, MockNode, Reply};

/// A mock node on a free loopback port. Its head advances by one block per block time. Dropping it stops it, and
/// fails the test if it has received an unexpected call.
///
/// Its paths are `/rpc` and `/rpc/{client}`; the second identifies the calling replica.
#[derive(Debug)]
pub(crate) struct MockClockNode {
    node: MockNode,
    state: Arc<Mutex<NodeState>>,
}

/// The state of the node, with which tests compare responses of the service.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Arc<Mutex<NodeState>>);

#[derive(Debug)]
struct NodeState {
    chain_id: u64,
    model: ChainModel,
    /// Delay before each response.
    delay: Duration,
    behaviour: Behaviour,
    calls: Vec<Call>,
    readings: Vec<Reading>,
    violations: Vec<String>,
}

/// A reading of rewards that polls do not request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The path segment after `/rpc/`.
    pub(crate) client: String,
    pub(crate) blocks: u64,
    pub(crate) newest: u64,
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
    /// Starts a chain with one block per `block_time`.
    pub(crate) async fn start(chain_id: u64, block_time: Duration) -> Self {
        let state = Arc::new(Mutex::new(NodeState {
            chain_id,
            model: ChainModel::new(Some(block_time)),
            delay: Duration::ZERO,
            behaviour: Behaviour::Healthy,
            calls: Vec::new(),
            readings: Vec::new(),
            violations: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        let node = MockNode::scripted(chain_id, move |call| receive(&shared, call)).await;
        Self { node, state }
    }

    pub(crate) fn url(&self) -> String {
        self.node.url()
    }

    /// Returns a URL that identifies the replica `client` to the node.
    pub(crate) fn url_for(&self, client: &str) -> String {
        format!("{}/{client}", self.url())
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock(Arc::clone(&self.state))
    }

    pub(crate) fn head(&self) -> u64 {
        self.state().model.head()
    }

    /// Sets the head; the chain continues from there.
    pub(crate) fn reset_head(&self, head: u64) {
        self.state().model.continue_from(head, Duration::ZERO);
    }

    /// Makes no block for this time from now on.
    pub(crate) fn pause(&self, time: Duration) {
        let model = &mut self.state().model;
        model.continue_from(model.head(), time);
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
        Progress { head: state.model.head(), calls: state.calls.len() }
    }

    /// Returns all calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// Returns all readings of rewards so far.
    pub(crate) fn readings(&self) -> Vec<Reading> {
        self.state().readings.clone()
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
        self.0.lock().unwrap().model.head()
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

/// Returns block count and percentiles of a poll. `None` for other parameters.
fn poll_parameters(params: &Value) -> Option<(u64, Vec<u64>)> {
    let [count, tag, percentiles] = params.as_array()?.as_slice() else { return None };
    let count = u64::from_str_radix(count.as_str()?.strip_prefix("0x")?, 16).ok()?;
    let percentiles: Option<_> = percentiles.as_array()?.iter().map(Value::as_u64).collect();
    (tag == "latest" && (1..=1024).contains(&count)).then_some((count, percentiles?))
}

/// Returns block count and newest block of a reading of rewards. `None` for other parameters.
fn reading_parameters(params: &Value) -> Option<(u64, u64)> {
    let number = |value: &Value| u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok();
    let [count, newest, percentiles] = params.as_array()?.as_slice() else { return None };
    (*percentiles == json!([10, 60])).then_some((number(count)?, number(newest)?))
}

/// Returns the path segment that identifies the calling replica.
fn client_of(call: &mock_node::Call) -> String {
    call.path.trim_start_matches("/rpc").trim_start_matches('/').to_owned()
}

/// Records a call and returns its reply, which depends on the state at the end of the delay.
fn receive(shared: &Arc<Mutex<NodeState>>, call: &mock_node::Call) -> Reply {
    let (params, method) = (call.params(), call.method.clone());
    let poll = poll_parameters(&params).filter(|_| method == "eth_feeHistory");
    let mut state = shared.lock().unwrap();
    if let Some((blocks, newest)) = reading_parameters(&params) {
        let client = client_of(call);
        state.readings.push(Reading { client, blocks, newest });
        return Reply::Result(chain_model::history_at(newest, blocks, &[10, 60]));
    }
    if poll.is_none() && (method != "eth_chainId" || params != json!([])) {
        eprintln!("unexpected call at the mock node: {call:?}");
        state.violations.push(format!("{call:?}"));
        return Reply::Raw(501, String::new());
    }
    let client = client_of(call);
    state.calls.push(Call { at: Instant::now(), client, method, response: None });
    let (index, behaviour) = (state.calls.len() - 1, state.behaviour);
    let shared = Arc::clone(shared);
    let reply = Reply::script(move |_| match behaviour {
        Behaviour::Healthy | Behaviour::Ahead(_) => {
            let mut state = shared.lock().unwrap();
            let Some((count, percentiles)) = &poll else {
                return Reply::Result(json!(format!("{:#x}", state.chain_id)));
            };
            let lead = if let Behaviour::Ahead(blocks) = behaviour { blocks } else { 0 };
            let head = state.model.head() + lead;
            state.calls[index].response = Some((head, Instant::now()));
            Reply::Result(chain_model::history_at(head, *count, percentiles))
        }
        Behaviour::Failing => Reply::Raw(500, String::new()),
        Behaviour::Silent => Reply::NoResponse,
        Behaviour::RateLimited(seconds) => {
            Reply::Raw(429, String::new()).with_header("retry-after", seconds.to_string())
        }
    });
    Reply::After(state.delay, Box::new(reply))
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
    /// Calculates the suggestion for the window that ends with `newest`.
    pub(crate) fn expected_suggestion(&self, name: &str, newest: u64) -> String {
        Window::new(newest, self.window, &self.percentiles).body(name)
    }
}
