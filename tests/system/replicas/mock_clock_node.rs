//! A mock node that records its calls and whose head follows the clock.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chain_model::{self, ChainModel};
use crate::fixtures;
use crate::mock_node::{self, MockNode, Reply};
use crate::test_server::wait_until;

/// A mock node on a free loopback port. Its head advances by one block per block time. Dropping it stops it, and
/// fails the test if it has received an unexpected call, which poisons its state.
///
/// Its paths are `/rpc` and `/rpc/{client}`; the second identifies the calling replica.
#[derive(Debug)]
pub(crate) struct MockClockNode {
    node: MockNode,
    pub(crate) clock: Clock,
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Healthy,
    Failing,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) at: Instant,
    /// The path segment after `/rpc/`, which identifies the replica. Empty for `/rpc`.
    pub(crate) client: String,
    pub(crate) method: String,
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

    pub(crate) fn set_behaviour(&self, behaviour: Behaviour) {
        self.clock.state().behaviour = behaviour;
    }

    pub(crate) fn set_delay(&self, delay: Duration) {
        self.clock.state().delay = delay;
    }

    pub(crate) fn progress(&self) -> Progress {
        let state = self.clock.state();
        Progress { head: state.model.head(), calls: state.calls.len() }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.clock.state().calls.clone()
    }

    pub(crate) fn readings(&self) -> Vec<(u64, u64)> {
        self.clock.state().readings.clone()
    }

    /// Returns the times of the calls of a method, from call `first` on. Polls call `eth_feeHistory`.
    pub(crate) fn calls_of(&self, method: &str, first: usize) -> Vec<Instant> {
        let calls = self.calls().into_iter().skip(first);
        calls.filter(|call| call.method == method).map(|call| call.at).collect()
    }

    /// Returns the number of fee history responses, from call `first` on.
    pub(crate) fn response_count(&self, first: usize) -> usize {
        self.clock.state().calls[first..].iter().filter(|call| call.response.is_some()).count()
    }

    /// Returns the newest block and the time of the last fee history response, if any.
    pub(crate) fn last_response(&self) -> Option<(u64, Instant)> {
        self.clock.state().calls.iter().filter_map(|call| call.response).max_by_key(|(_, at)| *at)
    }

    /// Waits until the node has received this many calls.
    pub(crate) async fn wait_for_calls(&self, count: usize) {
        wait_until("calls", async || self.progress().calls >= count).await;
    }

    pub(crate) async fn wait_for_blocks(&self, count: u64) {
        let last = self.clock.head() + count;
        wait_until("blocks", async || self.clock.head() >= last).await;
    }

    /// Waits for `count` polls and checks that there is about one block for each. The time is from poll to poll, because
    /// polls and blocks have any phase to each other.
    pub(crate) async fn check_one_poll_per_block(&self, count: u64) {
        let first = self.progress().calls;
        let polls = || self.calls_of("eth_feeHistory", first).len() as u64;
        wait_until("a poll", async || polls() > 0).await;
        let head = self.clock.head();
        wait_until("polls", async || polls() > count).await;
        let (blocks, polls) = (self.clock.head() - head, polls() - 1);
        assert!((blocks - 1..=blocks + 1).contains(&polls), "{polls} polls in {blocks} blocks");
    }
}

impl Drop for MockClockNode {
    fn drop(&mut self) {
        let is_well = !self.clock.0.is_poisoned();
        assert!(is_well || std::thread::panicking(), "an unexpected call at the mock node");
    }
}

/// The head and the number of calls at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) head: u64,
    pub(crate) calls: usize,
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
        let error = || format!("an age of {seconds} s at {newest}, not one in {possible:?}");
        possible.contains(&seconds).then_some(()).ok_or_else(error)
    }
}

/// Records a call and returns its reply, which depends on the state at the end of the delay.
fn receive(clock: &Clock, call: &mock_node::Call) -> Reply {
    let mut state = clock.state();
    let parameters = serde_json::from_value::<(Value, Value, Vec<u64>)>(call.params());
    let poll = match (call.method.as_str(), parameters) {
        ("eth_feeHistory", Ok((count, newest, percentiles))) => {
            let count = fixtures::small_quantity(&count);
            if newest == "latest" {
                assert!((1..=1024).contains(&count), "{call:?}");
                Some((count, percentiles))
            } else {
                assert_eq!(percentiles, [10, 60], "{call:?}");
                let newest = fixtures::small_quantity(&newest);
                state.readings.push((count, newest));
                return Reply::Result(chain_model::history_at(newest, count, &percentiles));
            }
        }
        ("eth_chainId", _) if call.params() == json!([]) => None,
        _ => panic!("an unexpected call at the mock node: {call:?}"),
    };
    let client = call.path.trim_start_matches("/rpc").trim_start_matches('/').to_owned();
    let method = call.method.clone();
    state.calls.push(Call { at: Instant::now(), client, method, response: None });
    let (index, behaviour) = (state.calls.len() - 1, state.behaviour);
    let clock = clock.clone();
    let reply = Reply::script(move |_| match behaviour {
        Behaviour::Healthy => {
            let mut state = clock.state();
            let Some((count, percentiles)) = &poll else {
                return Reply::Result(json!(format!("{:#x}", state.chain_id)));
            };
            let head = state.model.head();
            state.calls[index].response = Some((head, Instant::now()));
            Reply::Result(chain_model::history_at(head, *count, percentiles))
        }
        Behaviour::Failing => Reply::Raw(500, String::new()),
    });
    Reply::After(state.delay, Box::new(reply))
}
