//! A mock RPC node with replies set by the test. It checks and records the calls.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::fixtures;
use crate::raw_client::{TIMEOUT, free_port};
use crate::test_server::{TestServer, serve};

/// A node on a free loopback port. Dropping it stops it, and fails the test if it received an unexpected call.
#[derive(Debug)]
pub(crate) struct MockNode {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<NodeState>,
    /// Permits for replies to reads. Each reply takes one.
    gate: Semaphore,
}

#[derive(Debug)]
struct NodeState {
    /// `None`: the number in the path.
    chain_id: Option<u64>,
    /// Percentiles that polls request.
    percentiles: Value,
    /// Reply to polls.
    poll_reply: Reply,
    /// Reply to requests of the newest header.
    header_reply: Reply,
    /// Reply to reads. `None`: reads are unexpected.
    read_reply: Option<Reply>,
    /// True if `poll_reply` is the reply to every call.
    is_scripted: bool,
    /// Calls of polls and checks of the chain id; all calls of a scripted node.
    polls: Vec<Call>,
    /// Number of requests of the newest header.
    header_reads: usize,
    /// All other calls.
    reads: Vec<Read>,
    pending_reads: usize,
    max_pending_reads: usize,
    violations: Vec<String>,
}

/// A reply to a call.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A result.
    Result(Value),
    /// The bytes of a result.
    RawResult(String),
    /// A JSON-RPC error code.
    Error(i64),
    /// The bytes of an error object.
    RawError(String),
    /// A status and a body, in which `{id}` is replaced by the id of the call.
    Raw(u16, String),
    /// The newest blocks of this fee history, as many as requested.
    Newest(Arc<Value>),
    /// The same, for at most this many blocks, otherwise error −32602.
    NewestUpTo(usize, Arc<Value>),
    /// Another reply after a pause, which also delays `eth_chainId`.
    After(Duration, Box<Reply>),
    /// No response; the connection stays open.
    NoResponse,
    /// A reply computed for each call.
    Script(Script),
    /// A result once the semaphore has a permit.
    OnceReleased(Arc<Semaphore>, Value),
    /// A reply with a further header.
    WithHeader(&'static str, String, Box<Reply>),
    /// The parameters as the result.
    Echo,
}

/// Function from a call to its reply.
#[derive(Clone)]
pub(crate) struct Script(Arc<dyn Fn(&Call) -> Reply + Send + Sync>);

impl Reply {
    /// Builds the result of [`fee_history`].
    pub(crate) fn history(newest: u64, base_fee_gwei: u64, reward_gwei: u64) -> Self {
        Self::Result(fee_history(newest, base_fee_gwei, reward_gwei))
    }

    pub(crate) fn script(script: impl Fn(&Call) -> Self + Send + Sync + 'static) -> Self {
        Self::Script(Script(Arc::new(script)))
    }

    /// Builds a reply whose result is computed for each call from its number of reward columns.
    pub(crate) fn computed(compute: impl Fn(usize) -> Value + Send + Sync + 'static) -> Self {
        Self::script(move |call| {
            Self::Result(compute(call.params()[2].as_array().map_or(0, Vec::len)))
        })
    }

    pub(crate) fn with_header(self, name: &'static str, value: impl Into<String>) -> Self {
        Self::WithHeader(name, value.into(), Box::new(self))
    }

    /// Builds a reply with 20 blocks of this fee history, up to the block with index `mined` - 1.
    pub(crate) fn mined(history: &Value, mined: usize) -> Self {
        Self::Newest(Arc::new(fixtures::window(history, mined, 20)))
    }

    /// Returns the number of the newest block that a node with this reply has.
    fn newest_block(&self) -> u64 {
        let (Self::Newest(history) | Self::NewestUpTo(_, history)) = self else { return 1000 };
        let blocks = history["gasUsedRatio"].as_array().unwrap().len() as u64;
        fixtures::small_quantity(&history["oldestBlock"]) + blocks - 1
    }

    /// Builds a result after a pause.
    pub(crate) fn slow(pause: Duration, result: Value) -> Self {
        Self::After(pause, Box::new(Self::Result(result)))
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Script")
    }
}

/// A received read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) method: String,
    pub(crate) params: String,
}

/// A received call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    jsonrpc: String,
    id: u64,
    pub(crate) method: String,
    params: Box<RawValue>,
    /// The path of the request.
    #[serde(skip)]
    pub(crate) path: String,
}

impl Call {
    pub(crate) fn params(&self) -> Value {
        serde_json::from_str(self.params.get()).unwrap()
    }
}

impl MockNode {
    /// Starts a node of `chain_id` for a service with the single reward percentile 60.
    pub(crate) async fn start(chain_id: u64, reply: Reply) -> Self {
        Self::bind(Some(chain_id), reply).await
    }

    pub(crate) async fn with_percentiles(chain_id: u64, percentiles: Value, reply: Reply) -> Self {
        let node = Self::start(chain_id, reply).await;
        node.state().percentiles = percentiles;
        node
    }

    /// Starts a node of every chain: `/rpc/7` and all paths below it are chain 7.
    pub(crate) async fn for_every_chain(reply: Reply) -> Self {
        Self::bind(None, reply).await
    }

    /// Starts a node of chain 2020 at block 1000 that replies to every read with `reply`.
    pub(crate) async fn for_reads(reply: Reply) -> Self {
        let node = Self::start(2020, Reply::history(1000, 3, 30)).await;
        node.set_read_reply(reply);
        node
    }

    /// Starts a node of `chain_id` that replies to each call with what `script` returns. It accepts all calls, which
    /// [`calls`](Self::calls) counts.
    pub(crate) async fn scripted(
        chain_id: u64,
        script: impl Fn(&Call) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let node = Self::start(chain_id, Reply::script(script)).await;
        node.state().is_scripted = true;
        node
    }

    async fn bind(chain_id: Option<u64>, poll_reply: Reply) -> Self {
        let state = NodeState {
            chain_id,
            percentiles: json!([60]),
            poll_reply,
            header_reply: Reply::computed(|_| {
                let now = fixtures::seconds();
                json!({"number": "0x0", "timestamp": format!("{now:#x}"), "extraData": "0x"})
            }),
            read_reply: None,
            is_scripted: false,
            polls: Vec::new(),
            header_reads: 0,
            reads: Vec::new(),
            pending_reads: 0,
            max_pending_reads: 0,
            violations: Vec::new(),
        };
        let gate = Semaphore::new(Semaphore::MAX_PERMITS);
        let shared = Arc::new(Shared { state: Mutex::new(state), gate });
        let app = Router::new().fallback(handle).with_state(Arc::clone(&shared));
        let (address, task) = serve(app).await;
        Self { address, shared, task }
    }

    fn state(&self) -> MutexGuard<'_, NodeState> {
        self.shared.state.lock().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/rpc", self.address)
    }

    /// Returns the configuration of the chain `key` at this node, with `more` lines.
    pub(crate) fn chain(&self, key: &str, more: &str) -> String {
        self.chain_at(&[self.url()], key, more)
    }

    /// Returns the configuration of this node's chain at these URLs.
    fn chain_at(&self, urls: &[String], key: &str, more: &str) -> String {
        let id = self.state().chain_id.expect("a node of one chain");
        format!("[chains.{key}]\nchain_id = {id}\nrpc_urls = {urls:?}\n{more}\n")
    }

    /// Sets the reply to polls.
    pub(crate) fn set_reply(&self, reply: Reply) {
        self.state().poll_reply = reply;
    }

    /// Sets the reply to requests of the newest header, which is a header of block 0 that was mined now by default.
    pub(crate) fn set_header_reply(&self, reply: Reply) {
        self.state().header_reply = reply;
    }

    pub(crate) fn header_reads(&self) -> usize {
        self.state().header_reads
    }

    pub(crate) fn set_read_reply(&self, reply: Reply) {
        self.state().read_reply = Some(reply);
    }

    pub(crate) fn set_chain_id(&self, chain_id: u64) {
        self.state().chain_id = Some(chain_id);
    }

    /// Holds the replies to later reads back until [`release_reads`](Self::release_reads).
    pub(crate) fn hold_reads(&self) {
        self.shared.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn release_reads(&self) {
        self.shared.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    /// Returns the number of polls (`eth_feeHistory`) or chain checks (`eth_chainId`).
    pub(crate) fn calls(&self, method: &str) -> usize {
        self.state().calls(method)
    }

    /// Returns all calls of a scripted node.
    pub(crate) fn scripted_calls(&self) -> Vec<Call> {
        self.state().polls.clone()
    }

    pub(crate) fn polls(&self) -> usize {
        self.calls("eth_feeHistory")
    }

    /// Returns the number of checks of the chain id, by polls and by reads.
    pub(crate) fn chain_checks(&self) -> usize {
        self.calls("eth_chainId")
    }

    /// Returns the number of polls with a hex block count.
    pub(crate) fn hex_count_calls(&self) -> usize {
        self.state().polls.iter().filter(|call| call.params.get().starts_with("[\"")).count()
    }

    pub(crate) fn reads(&self) -> Vec<Read> {
        self.state().reads.clone()
    }

    /// Returns the largest number of reads that were pending at the same time.
    pub(crate) fn max_pending(&self) -> usize {
        self.state().max_pending_reads
    }

    /// Waits until exactly `count` reads are pending.
    pub(crate) async fn wait_for_pending(&self, count: usize) {
        self.wait_until(|state| state.pending_reads == count).await;
    }

    /// Waits until `count` reads have arrived in total.
    pub(crate) async fn wait_for_reads(&self, count: usize) {
        self.wait_until(|state| state.reads.len() >= count).await;
    }

    /// Waits for another poll.
    pub(crate) async fn wait_for_poll(&self) {
        let polls = self.polls();
        self.wait_until(|state| state.calls("eth_feeHistory") > polls).await;
    }

    async fn wait_until(&self, is_met: impl Fn(&NodeState) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !is_met(&self.state()) {
            assert!(Instant::now() < deadline, "{:?}", self.state());
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for MockNode {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            let violations = &self.state().violations;
            assert!(violations.is_empty(), "unexpected calls: {violations:#?}");
        }
    }
}

impl NodeState {
    fn calls(&self, method: &str) -> usize {
        self.polls.iter().filter(|call| call.method == method).count()
    }

    /// Checks a call and records it. Returns the reply to a poll; `None`: the call is a read.
    fn receive(&mut self, call: &Call, path_chain_id: Option<u64>) -> Option<Reply> {
        if self.is_scripted {
            self.polls.push(call.clone());
            return Some(self.poll_reply.clone());
        }
        let (method, params) = (call.method.as_str(), call.params());
        if method == "eth_getBlockByNumber" && params == json!(["latest", false]) {
            self.header_reads += 1;
            return Some(self.header_reply.clone());
        }
        if self.is_poll(method, &params) {
            self.polls.push(call.clone());
            let quantity = |number: u64| json!(format!("{number:#x}"));
            return Some(match (method, &self.poll_reply) {
                ("eth_feeHistory", reply) => reply.clone(),
                ("eth_blockNumber", reply) => Reply::Result(quantity(reply.newest_block())),
                (_, reply) => {
                    let chain_id = quantity(self.chain_id.or(path_chain_id).unwrap_or_default());
                    match reply {
                        Reply::After(pause, _) => Reply::slow(*pause, chain_id),
                        _ => Reply::Result(chain_id),
                    }
                }
            });
        }
        if self.read_reply.is_some() && !is_fact(method, &params) {
            self.reads.push(Read { method: method.into(), params: call.params.get().into() });
            self.pending_reads += 1;
            self.max_pending_reads = self.max_pending_reads.max(self.pending_reads);
            return None;
        }
        Some(match method {
            "eth_syncing" => Reply::Error(-32601),
            // The node has no old blocks, so the fee trend is not filled.
            "eth_getBlockByNumber" => Reply::Result(Value::Null),
            _ => {
                if !is_optional(method, &params) {
                    self.violations.push(format!("an unexpected call: {call:?}"));
                }
                Reply::Error(-32601)
            }
        })
    }

    /// Returns true if the call is one of those of polls.
    fn is_poll(&self, method: &str, params: &Value) -> bool {
        match method {
            "eth_chainId" => *params == json!([]),
            "eth_blockNumber" => self.read_reply.is_none() && *params == json!([]),
            "eth_feeHistory" => {
                let has_any_count =
                    matches!(self.poll_reply, Reply::Newest(_) | Reply::NewestUpTo(..));
                let is_count = has_any_count || params[0] == "0x14" || params[0] == 20;
                is_count && params[1] == "latest" && params[2] == self.percentiles
            }
            _ => false,
        }
    }
}

/// Returns true for the calls by which a chain tells its data fee and the gas of a transfer.
fn is_fact(method: &str, params: &Value) -> bool {
    let address = if method == "eth_getCode" { &params[0] } else { &params[0]["to"] };
    let known =
        ["4200000000000000000000000000000000000015", "0000000000000000000000000000000000000064"];
    let is_contract = known.iter().any(|digits| *address == format!("0x{digits}"));
    let is_recipient = *address == "0x000000000000000000000000000000000000dEaD";
    (method == "eth_getCode" && is_contract) || (method == "eth_estimateGas" && is_recipient)
}

/// Returns true for the calls of readings of rewards, costs and price feeds, which not every node has to answer.
fn is_optional(method: &str, params: &Value) -> bool {
    match method {
        "eth_feeHistory" => params[2] == json!([10, 60]) && params[1] != "latest",
        "eth_call" => {
            ["0x7284e416", "0x313ce567", "0xfeaf968c"].iter().any(|data| params[0]["data"] == *data)
        }
        "eth_getTransactionByBlockNumberAndIndex" => true,
        _ => is_fact(method, params),
    }
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1024 * 1024).await.unwrap();
    let path_chain_id =
        parts.uri.path().split('/').nth(2).and_then(|number| number.parse::<u64>().ok());
    let path = parts.uri.path().to_owned();
    let call = serde_json::from_slice(&body).ok().map(|call| Call { path: path.clone(), ..call });
    let call = call.filter(|call: &Call| call.jsonrpc == "2.0");
    let poll_reply = {
        let mut state = shared.state.lock().unwrap();
        let is_json =
            parts.headers.get("content-type").is_some_and(|kind| kind == "application/json");
        let is_rpc_path = match state.chain_id {
            Some(_) if state.is_scripted => path == "/rpc" || path.starts_with("/rpc/"),
            Some(_) => parts.uri == "/rpc",
            None => path.starts_with("/rpc/") && path_chain_id.is_some(),
        };
        let call = call.as_ref().filter(|_| parts.method == Method::POST && is_rpc_path && is_json);
        let Some(call) = call else {
            let violation = format!("{parts:?} {}", String::from_utf8_lossy(&body));
            state.violations.push(violation);
            return StatusCode::BAD_REQUEST.into_response();
        };
        state.receive(call, path_chain_id)
    };
    let call = call.expect("checked above");
    if let Some(reply) = poll_reply {
        return respond(&call, reply).await;
    }
    let _pending = PendingGuard(Arc::clone(&shared));
    shared.gate.acquire().await.unwrap().forget();
    let reply = shared.state.lock().unwrap().read_reply.clone().expect("reads are expected");
    respond(&call, reply).await
}

async fn respond(call: &Call, reply: Reply) -> Response {
    let id = call.id;
    let envelope = |member: &str, json: &str| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{member}\":{json}}}").into_response()
    };
    let error =
        |code: i64| envelope("error", &json!({ "code": code, "message": "no" }).to_string());
    let reply = match reply {
        Reply::Script(Script(script)) => script(call),
        reply => reply,
    };
    match reply {
        Reply::RawResult(json) => envelope("result", &json),
        Reply::Error(code) => error(code),
        Reply::RawError(json) => envelope("error", &json),
        Reply::Raw(status, body) => {
            (StatusCode::from_u16(status).unwrap(), body.replace("{id}", &id.to_string()))
                .into_response()
        }
        Reply::NewestUpTo(most, _) if requested_count(call) > most => error(-32602),
        Reply::Result(result) => envelope("result", &result.to_string()),
        Reply::Newest(history) | Reply::NewestUpTo(_, history) => {
            let all = history["gasUsedRatio"].as_array().unwrap().len();
            let newest = fixtures::window(&history, all, all.min(requested_count(call)));
            envelope("result", &newest.to_string())
        }
        Reply::After(pause, reply) => {
            tokio::time::sleep(pause).await;
            Box::pin(respond(call, *reply)).await
        }
        Reply::NoResponse => std::future::pending().await,
        Reply::OnceReleased(permits, result) => {
            let _permit = permits.acquire().await.unwrap();
            envelope("result", &result.to_string())
        }
        Reply::WithHeader(name, value, reply) => {
            let mut response = Box::pin(respond(call, *reply)).await;
            response.headers_mut().insert(name, HeaderValue::from_str(&value).unwrap());
            response
        }
        Reply::Echo => envelope("result", call.params.get()),
        Reply::Script(_) => unreachable!("scripts are not nested"),
    }
}

struct PendingGuard(Arc<Shared>);

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().pending_reads -= 1;
    }
}

/// Returns the number of blocks that a call requests, in either form.
fn requested_count(call: &Call) -> usize {
    let params = call.params();
    let count = params[0].as_u64().unwrap_or_else(|| fixtures::small_quantity(&params[0]));
    usize::try_from(count).unwrap()
}

/// Builds 20 equal blocks up to `newest` with this base fee and reward in gwei. The next base fee is the same.
pub(crate) fn fee_history(newest: u64, base_fee_gwei: u64, reward_gwei: u64) -> Value {
    let wei = |gwei: u64| u128::from(gwei) * 1_000_000_000;
    let rewards = |_| vec![wei(reward_gwei)];
    fixtures::computed_history(newest - 19..=newest, |_| wei(base_fee_gwei), rewards)
}

/// Returns a URL that refuses connections.
pub(crate) fn dead_url() -> String {
    format!("http://127.0.0.1:{}/rpc", free_port())
}

/// Returns the configuration of the chain `a` with these nodes, and with `more` lines.
pub(crate) fn chain_of(nodes: &[&MockNode], more: &str) -> String {
    nodes[0].chain_at(&urls(nodes), "a", more)
}

fn urls(nodes: &[&MockNode]) -> Vec<String> {
    nodes.iter().map(|node| node.url()).collect()
}

/// Returns the configuration of chain 2020 with these nodes. The block time is one hour and there are no flashblocks
/// unless `more` sets them.
pub(crate) fn read_chain(nodes: &[&MockNode], more: &str) -> String {
    let urls = urls(nodes);
    let is_set = |key: &str| more.lines().any(|line| line.starts_with(key));
    let block_time =
        if is_set("block_time =") { "" } else { "block_time = \"1h\"\nmax_age = \"1day\"\n" };
    let data_fee = if is_set("data_fee =") { "" } else { "data_fee = \"off\"\n" };
    let flashblocks = if is_set("flashblock_time =") { "" } else { "flashblock_time = \"0s\"\n" };
    format!(
        "[chains.ronin]\nchain_id = 2020\njson_rpc = true\n\
         rpc_urls = {urls:?}\n{data_fee}{block_time}{flashblocks}{more}\n"
    )
}

/// Starts a node of chain 7 at block 1000, and a service that has polled it, with these lines in `[server]` or in sections
/// after it, and in the chain `a`.
pub(crate) async fn start_service(server: &str, chain: &str) -> (MockNode, TestServer) {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let service = TestServer::with_server(server, &node.chain("a", chain)).await;
    service.wait_for_admin("/readyz", |response| response.status == 200).await;
    (node, service)
}

/// Starts a node that replies to reads with `reply`, and a service that has polled it, with these lines in `[server]` or in
/// sections after it, and in the chain of [`read_chain`].
pub(crate) async fn start_reads(server: &str, reply: Reply, chain: &str) -> (MockNode, TestServer) {
    let node = MockNode::for_reads(reply).await;
    let service = TestServer::with_server(server, &read_chain(&[&node], chain)).await;
    wait_until_polled(&service).await;
    (node, service)
}

/// Waits until the service has polled the chain of [`read_chain`].
pub(crate) async fn wait_until_polled(service: &TestServer) {
    service.wait_for_ok("/v1/ronin/gas-suggestion").await;
}
