//! A mock RPC node that responds to polls by itself, and to reads with replies set by the test.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::mock_node::fee_history;
use crate::raw_client::TIMEOUT;
use crate::test_server::TestServer;

/// A node of chain 2020 on a free loopback port. Dropping it stops it, and fails the test if it got a request that
/// is not a JSON-RPC call.
#[derive(Debug)]
pub(crate) struct MockReadNode {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    /// Permits to reply. Each reply to a read takes one.
    gate: Arc<Semaphore>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    chain_id: u64,
    newest_block: u64,
    /// Replies to the next reads. The last one is repeated.
    replies: VecDeque<Reply>,
    /// All calls except those that polls send.
    reads: Vec<Read>,
    polls: usize,
    chain_checks: usize,
    pending: usize,
    max_pending: usize,
    violations: Vec<String>,
}

/// Reply to a read.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Raw JSON of the `result`.
    Result(String),
    /// Raw JSON of the `error`.
    Error(String),
    /// A status and a body, in which `{id}` is replaced by the id of the call.
    Raw(u16, String),
    /// The parameters of the read as the `result`.
    Echo,
    /// A reply per method. Any other method fails the test.
    PerMethod(Vec<(&'static str, Reply)>),
}

impl Reply {
    /// Returns the reply to reads of `method`.
    fn for_method(self, method: &str) -> Self {
        let Self::PerMethod(replies) = self else { return self };
        let (_, reply) = replies.into_iter().find(|(name, _)| *name == method).expect(method);
        reply
    }
}

/// A received read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) method: String,
    pub(crate) params: String,
}

impl MockReadNode {
    /// Starts a node at block 1000 that replies to every read with `reply`.
    pub(crate) async fn start(reply: Reply) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared {
            chain_id: 2020,
            newest_block: 1000,
            replies: VecDeque::from([reply]),
            reads: Vec::new(),
            polls: 0,
            chain_checks: 0,
            pending: 0,
            max_pending: 0,
            violations: Vec::new(),
        }));
        let gate = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        let app =
            Router::new().fallback(handle).with_state((Arc::clone(&shared), Arc::clone(&gate)));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, shared, gate, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/rpc", self.address)
    }

    pub(crate) fn set_reply(&self, reply: Reply) {
        self.shared.lock().unwrap().replies = VecDeque::from([reply]);
    }

    /// Holds the replies to later reads back until [`release_reads`](Self::release_reads).
    pub(crate) fn hold_reads(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn release_reads(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    pub(crate) fn set_chain_id(&self, chain_id: u64) {
        self.shared.lock().unwrap().chain_id = chain_id;
    }

    pub(crate) fn set_newest_block(&self, newest_block: u64) {
        self.shared.lock().unwrap().newest_block = newest_block;
    }

    /// Returns the reads so far.
    pub(crate) fn reads(&self) -> Vec<Read> {
        self.shared.lock().unwrap().reads.clone()
    }

    pub(crate) fn polls(&self) -> usize {
        self.shared.lock().unwrap().polls
    }

    pub(crate) fn chain_checks(&self) -> usize {
        self.shared.lock().unwrap().chain_checks
    }

    /// Returns the largest number of reads that were pending at the same time.
    pub(crate) fn max_pending(&self) -> usize {
        self.shared.lock().unwrap().max_pending
    }

    /// Waits until exactly `count` reads are pending.
    pub(crate) async fn wait_for_pending(&self, count: usize) {
        let deadline = Instant::now() + TIMEOUT;
        while self.shared.lock().unwrap().pending != count {
            assert!(Instant::now() < deadline, "{:?}", self.shared.lock().unwrap());
            tokio::task::yield_now().await;
        }
    }

    /// Waits until `count` reads have arrived in total.
    pub(crate) async fn wait_for_reads(&self, count: usize) {
        let deadline = Instant::now() + TIMEOUT;
        while self.reads().len() < count {
            assert!(Instant::now() < deadline, "{:?}", self.reads());
            tokio::task::yield_now().await;
        }
    }

    /// Waits for another poll.
    pub(crate) async fn wait_for_poll(&self) {
        let (polls, deadline) = (self.polls(), Instant::now() + TIMEOUT);
        while self.polls() == polls {
            assert!(Instant::now() < deadline, "no poll arrived");
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for MockReadNode {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            let violations = &self.shared.lock().unwrap().violations;
            assert!(violations.is_empty(), "requests that are not calls: {violations:#?}");
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    jsonrpc: String,
    id: u64,
    method: String,
    params: Box<RawValue>,
}

async fn handle(
    State((shared, gate)): State<(Arc<Mutex<Shared>>, Arc<Semaphore>)>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1024 * 1024).await.unwrap();
    let is_json = parts.headers.get("content-type").is_some_and(|kind| kind == "application/json");
    let call: Call = match serde_json::from_slice(&body) {
        Ok(call) if is_json && parts.uri == "/rpc" => call,
        _ => {
            let violation = format!("{parts:?} {}", String::from_utf8_lossy(&body));
            shared.lock().unwrap().violations.push(violation);
            return StatusCode::BAD_REQUEST.into_response();
        }
    };
    assert_eq!(call.jsonrpc, "2.0");
    let result = |json: &str| envelope(call.id, "result", json);
    let poll_reply = |method: &str, value: Value| (call.method == method).then_some(value);
    {
        let mut shared = shared.lock().unwrap();
        let percentiles = call.params.get().contains("60");
        if let Some(history) = poll_reply("eth_feeHistory", fee_history(shared.newest_block, 3, 30))
            && percentiles
        {
            shared.polls += 1;
            return result(&history.to_string());
        }
        let chain_id = json!(format!("{:#x}", shared.chain_id));
        // Chain checks of the service and reads of `eth_chainId` get the same reply.
        if let Some(chain_id) = poll_reply("eth_chainId", chain_id) {
            shared.chain_checks += 1;
            return result(&chain_id.to_string());
        }
        let params = call.params.get().to_owned();
        shared.reads.push(Read { method: call.method.clone(), params });
        shared.pending += 1;
        shared.max_pending = shared.max_pending.max(shared.pending);
    }
    let _waiting = PendingGuard(Arc::clone(&shared));
    gate.acquire().await.unwrap().forget();
    let reply = {
        let mut shared = shared.lock().unwrap();
        if shared.replies.len() > 1 {
            shared.replies.pop_front()
        } else {
            shared.replies.front().cloned()
        }
    };
    match reply.expect("the last reply is repeated").for_method(&call.method) {
        Reply::Result(json) => result(&json),
        Reply::Error(json) => envelope(call.id, "error", &json),
        Reply::Raw(status, body) => {
            let body = body.replace("{id}", &call.id.to_string());
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        }
        Reply::Echo => result(call.params.get()),
        Reply::PerMethod(_) => unreachable!("a reply per method cannot be nested"),
    }
}

struct PendingGuard(Arc<Mutex<Shared>>);

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.0.lock().unwrap().pending -= 1;
    }
}

fn envelope(id: u64, name: &str, json: &str) -> Response {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{name}\":{json}}}").into_response()
}

/// Returns the configuration of chain 2020 with these nodes. The block time is one hour unless `more` sets it.
pub(crate) fn chain(nodes: &[&MockReadNode], more: &str) -> String {
    let urls: Vec<_> = nodes.iter().map(|node| node.url()).collect();
    let is_set = more.lines().any(|line| line.starts_with("block_time ="));
    let block_time = if is_set { "" } else { "block_time = \"1h\"\nmax_age = \"1day\"\n" };
    format!("[chains.ronin]\nchain_id = 2020\nrpc_urls = {urls:?}\n{block_time}{more}\n")
}

/// Waits until the service has polled the chain.
pub(crate) async fn wait_until_polled(service: &TestServer) {
    service.wait_for("/v1/ronin/gas-suggestion", |response| response.status == 200).await;
}
