//! A mock node that records its calls and whose head follows the clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chain_model::{self, ChainModel};
use crate::mock_node::{self, MockNode, Reply};
use crate::test_server::wait_until;

/// A mock node on a free loopback port. Its head advances by one block per block time. Dropping it stops it, and
/// fails the test if it has received an unexpected call.
///
/// Its paths are `/rpc` and `/rpc/{client}`; the second identifies the calling replica.
#[derive(Debug)]
pub(crate) struct MockClockNode {
    node: MockNode,
    clock: Clock,
}

/// The state of the node, with which tests compare responses of the service.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Arc<Mutex<NodeState>>);

#[derive(Debug)]
struct NodeState {
    chain_id: u64,
    model: ChainModel,
    delay: Duration,
    behaviour: Behaviour,
    calls: Vec<Call>,
    /// Number of blocks and newest block of the readings of rewards, which polls do not request.
    readings: Vec<(u64, u64)>,
    violations: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Healthy,
    Failing,
    /// Never responds.
    Silent,
    /// Claims this many blocks more than there are.
    Ahead(u64),
    /// Responds with 429 and a `Retry-After` of this many seconds.
    RateLimited(u64),
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) at: Instant,
    /// The path segment after `/rpc/`, which identifies the replica. Empty for `/rpc`.
    pub(crate) client: String,
    method: String,
    /// The newest block of the returned fee history and the time of the response. `None` if no fee history was
    /// returned.
    response: Option<(u64, Instant)>,
}

impl MockClockNode {
    /// Starts a chain with one block per `block_time`.
    pub(crate) async fn start(chain_id: u64, block_time: Duration) -> Self {
        let clock = Clock(Arc::new(Mutex::new(NodeState {
            chain_id,
            model: ChainModel::new(Some(block_time)),
            delay: Duration::ZERO,
            behaviour: Behaviour::Healthy,
            calls: Vec::new(),
            readings: Vec::new(),
            violations: Vec::new(),
        })));
        let shared = clock.clone();
        let node = MockNode::scripted(chain_id, move |call| receive(&shared, call)).await;
        Self { node, clock }
    }

    pub(crate) fn url(&self) -> String {
        self.node.url()
    }

    /// Returns a URL that identifies the replica `client` to the node.
    pub(crate) fn url_for(&self, client: &str) -> String {
        format!("{}/{client}", self.url())
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn state(&self) -> MutexGuard<'_, NodeState> {
        self.clock.state()
    }

    pub(crate) fn head(&self) -> u64 {
        self.clock.head()
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

    pub(crate) fn set_delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    pub(crate) fn progress(&self) -> Progress {
        let state = self.state();
        Progress { head: state.model.head(), calls: state.calls.len() }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    pub(crate) fn readings(&self) -> Vec<(u64, u64)> {
        self.state().readings.clone()
    }

    /// Returns the times of the polls, which request a fee history, from call `first` on.
    pub(crate) fn polls(&self, first: usize) -> Vec<Instant> {
        let calls = self.calls().into_iter().skip(first);
        calls.filter(|call| call.method == "eth_feeHistory").map(|call| call.at).collect()
    }

    /// Returns the number of calls per method, from call `first` on.
    pub(crate) fn calls_by_method(&self, first: usize) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for call in self.calls().into_iter().skip(first) {
            *counts.entry(call.method).or_default() += 1;
        }
        counts
    }

    /// Returns the number of fee history responses, from call `first` on.
    pub(crate) fn response_count(&self, first: usize) -> usize {
        self.state().calls[first..].iter().filter(|call| call.response.is_some()).count()
    }

    /// Returns the newest block and the time of the last fee history response, if any.
    pub(crate) fn last_response(&self) -> Option<(u64, Instant)> {
        self.state().calls.iter().filter_map(|call| call.response).max_by_key(|(_, at)| *at)
    }

    /// Waits until the node has received this many calls.
    pub(crate) async fn wait_for_calls(&self, count: usize) {
        wait_until("calls", async || self.progress().calls >= count).await;
    }

    pub(crate) async fn wait_for_blocks(&self, count: u64) {
        let last = self.head() + count;
        wait_until("blocks", async || self.head() >= last).await;
    }

    /// Waits for `count` blocks and checks that the node is called about once for each.
    pub(crate) async fn check_one_call_per_block(&self, count: u64) {
        let before = self.progress();
        self.wait_for_blocks(count).await;
        let (blocks, calls) = self.progress().since(before);
        assert!((blocks - 1..=blocks + 1).contains(&calls), "{calls} calls in {blocks} blocks");
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
    pub(crate) fn since(self, before: Self) -> (u64, u64) {
        (self.head - before.head, (self.calls - before.calls) as u64)
    }
}

impl Clock {
    fn state(&self) -> MutexGuard<'_, NodeState> {
        self.0.lock().unwrap()
    }

    pub(crate) fn head(&self) -> u64 {
        self.state().model.head()
    }

    /// Checks the `seconds` of age of a suggestion from block `newest` that was requested at `requested` and has just
    /// arrived. One second of difference is allowed. The node may have returned that block more than once.
    pub(crate) fn check_age(
        &self,
        newest: u64,
        requested: Instant,
        seconds: u64,
    ) -> Result<(), String> {
        let state = self.state();
        let responses = state.calls.iter().filter_map(|call| call.response);
        let mut times = responses.filter(|(head, _)| *head == newest).map(|(_, at)| at);
        let first = times.next().ok_or_else(|| format!("the node never returned {newest}"))?;
        let since_last = requested.saturating_duration_since(times.next_back().unwrap_or(first));
        let possible = since_last.as_secs().saturating_sub(1)..=first.elapsed().as_secs() + 1;
        let is_possible = possible.contains(&seconds);
        is_possible
            .then_some(())
            .ok_or_else(|| format!("an age of {seconds} s at {newest}, not one in {possible:?}"))
    }
}

/// Returns block count, newest block (`None`: the latest) and percentiles of a request of a fee history. `None` for other
/// parameters.
fn history_parameters(params: &Value) -> Option<(u64, Option<u64>, Vec<u64>)> {
    let number = |value: &Value| u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok();
    let [count, newest, percentiles] = params.as_array()?.as_slice() else { return None };
    let percentiles: Option<_> = percentiles.as_array()?.iter().map(Value::as_u64).collect();
    let newest = if newest == "latest" { None } else { Some(number(newest)?) };
    Some((number(count)?, newest, percentiles?))
}

/// Records a call and returns its reply, which depends on the state at the end of the delay.
fn receive(clock: &Clock, call: &mock_node::Call) -> Reply {
    let (params, method) = (call.params(), call.method.clone());
    let history = history_parameters(&params).filter(|_| method == "eth_feeHistory");
    let mut state = clock.state();
    let poll = match history {
        Some((blocks, Some(newest), percentiles)) if percentiles == [10, 60] => {
            state.readings.push((blocks, newest));
            return Reply::Result(chain_model::history_at(newest, blocks, &percentiles));
        }
        Some((count @ 1..=1024, None, percentiles)) => Some((count, percentiles)),
        None if method == "eth_chainId" && params == json!([]) => None,
        _ => {
            eprintln!("unexpected call at the mock node: {call:?}");
            state.violations.push(format!("{call:?}"));
            return Reply::Raw(501, String::new());
        }
    };
    let client = call.path.trim_start_matches("/rpc").trim_start_matches('/').to_owned();
    state.calls.push(Call { at: Instant::now(), client, method, response: None });
    let (index, behaviour) = (state.calls.len() - 1, state.behaviour);
    let clock = clock.clone();
    let reply = Reply::script(move |_| match behaviour {
        Behaviour::Healthy | Behaviour::Ahead(_) => {
            let mut state = clock.state();
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
