//! An RPC node that answers polls by itself and reads as a test tells it to.

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

use crate::fake_node::fee_history;
use crate::raw::PATIENCE;

/// A node of chain 2020 on a free loopback port. When it is dropped it stops, and the test fails if
/// it was ever sent what is no JSON-RPC call.
#[derive(Debug)]
pub(crate) struct ReadNode {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    /// How many reads may be answered; each takes one.
    gate: Arc<Semaphore>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    chain_id: u64,
    newest_block: u64,
    /// What the next reads are told; the last one stays.
    says: VecDeque<Say>,
    /// Every call but those of polls, as it came.
    reads: Vec<Read>,
    polls: usize,
    chain_checks: usize,
    waiting: usize,
    most_waiting: usize,
    violations: Vec<String>,
}

/// What the node says to a read.
#[derive(Debug, Clone)]
pub(crate) enum Say {
    /// This text as the `result`.
    Result(String),
    /// This text as the `error`.
    Error(String),
    /// This status and body, `{id}` being replaced by the call's.
    Raw(u16, String),
    /// The read's own parameters as the `result`.
    Echo,
    /// This to reads with this method, which are all that come.
    Each(Vec<(&'static str, Say)>),
}

impl Say {
    /// What is said to reads with this method.
    fn to(self, method: &str) -> Self {
        let Self::Each(says) = self else { return self };
        let (_, say) = says.into_iter().find(|(name, _)| *name == method).expect(method);
        say
    }
}

/// A read as the node got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) method: String,
    pub(crate) params: String,
}

impl ReadNode {
    /// A node at block 1000 that says `say` to every read.
    pub(crate) async fn start(say: Say) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared {
            chain_id: 2020,
            newest_block: 1000,
            says: VecDeque::from([say]),
            reads: Vec::new(),
            polls: 0,
            chain_checks: 0,
            waiting: 0,
            most_waiting: 0,
            violations: Vec::new(),
        }));
        let gate = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        let app =
            Router::new().fallback(reply).with_state((Arc::clone(&shared), Arc::clone(&gate)));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, shared, gate, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/rpc", self.address)
    }

    pub(crate) fn say(&self, say: Say) {
        self.shared.lock().unwrap().says = VecDeque::from([say]);
    }

    /// Answers no read from now on, until [`open`](Self::open).
    pub(crate) fn close(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn open(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    pub(crate) fn serve_chain(&self, chain_id: u64) {
        self.shared.lock().unwrap().chain_id = chain_id;
    }

    pub(crate) fn mine(&self, newest_block: u64) {
        self.shared.lock().unwrap().newest_block = newest_block;
    }

    /// The reads that came so far.
    pub(crate) fn reads(&self) -> Vec<Read> {
        self.shared.lock().unwrap().reads.clone()
    }

    pub(crate) fn polls(&self) -> usize {
        self.shared.lock().unwrap().polls
    }

    pub(crate) fn chain_checks(&self) -> usize {
        self.shared.lock().unwrap().chain_checks
    }

    /// The most reads that it had before it at one time.
    pub(crate) fn most_waiting(&self) -> usize {
        self.shared.lock().unwrap().most_waiting
    }

    /// Waits until as many reads are before it that it has not answered.
    pub(crate) async fn wait_for_waiting(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.shared.lock().unwrap().waiting != count {
            assert!(Instant::now() < deadline, "{:?}", self.shared.lock().unwrap());
            tokio::task::yield_now().await;
        }
    }

    /// Waits until as many reads have come in all.
    pub(crate) async fn wait_for_reads(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.reads().len() < count {
            assert!(Instant::now() < deadline, "{:?}", self.reads());
            tokio::task::yield_now().await;
        }
    }

    /// Waits until another poll has come.
    pub(crate) async fn wait_for_poll(&self) {
        let (polls, deadline) = (self.polls(), Instant::now() + PATIENCE);
        while self.polls() == polls {
            assert!(Instant::now() < deadline, "no poll came");
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for ReadNode {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            let violations = &self.shared.lock().unwrap().violations;
            assert!(violations.is_empty(), "the node was sent what is no call: {violations:#?}");
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

async fn reply(
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
    let of_poll = |method: &str, value: Value| (call.method == method).then_some(value);
    {
        let mut shared = shared.lock().unwrap();
        let percentiles = call.params.get().contains("60");
        if let Some(history) = of_poll("eth_feeHistory", fee_history(shared.newest_block, 3, 30))
            && percentiles
        {
            shared.polls += 1;
            return result(&history.to_string());
        }
        let chain_id = json!(format!("{:#x}", shared.chain_id));
        // A read has no parameters there, a check has an empty list: both are the same here.
        if let Some(chain_id) = of_poll("eth_chainId", chain_id) {
            shared.chain_checks += 1;
            return result(&chain_id.to_string());
        }
        let params = call.params.get().to_owned();
        shared.reads.push(Read { method: call.method.clone(), params });
        shared.waiting += 1;
        shared.most_waiting = shared.most_waiting.max(shared.waiting);
    }
    let _waiting = Waiting(Arc::clone(&shared));
    gate.acquire().await.unwrap().forget();
    let say = {
        let mut shared = shared.lock().unwrap();
        if shared.says.len() > 1 { shared.says.pop_front() } else { shared.says.front().cloned() }
    };
    match say.expect("the last one stays").to(&call.method) {
        Say::Result(json) => result(&json),
        Say::Error(json) => envelope(call.id, "error", &json),
        Say::Raw(status, body) => {
            let body = body.replace("{id}", &call.id.to_string());
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        }
        Say::Echo => result(call.params.get()),
        Say::Each(_) => unreachable!("each method has one thing said to it"),
    }
}

struct Waiting(Arc<Mutex<Shared>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.lock().unwrap().waiting -= 1;
    }
}

fn envelope(id: u64, name: &str, json: &str) -> Response {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{name}\":{json}}}").into_response()
}
