//! A mock RPC node with replies set by the test. It checks the calls.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A node on a free loopback port. Dropping it stops it, and fails the test if it got an unexpected call.
#[derive(Debug)]
pub(crate) struct MockNode {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    /// `None`: the second segment of the request's path is the chain id.
    chain_id: Option<u64>,
    percentiles: Value,
    reply: Reply,
    calls: Vec<Value>,
    violations: Vec<String>,
}

/// Reply to `eth_feeHistory`.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A result.
    Result(Value),
    /// A JSON-RPC error code.
    Error(i64),
    /// A result if the block count is an integer, otherwise error −32602.
    IntegerCountOnly(Value),
    /// A status and a body, in which `{id}` is replaced by the id of the call.
    Raw(u16, String),
    /// A result after a pause, which also delays `eth_chainId`.
    Slow(Duration, Value),
    /// A 307 redirect to this URL.
    Redirect(String),
    /// No response; the connection stays open.
    Silence,
    /// A result computed for each call.
    Computed(ComputeResult),
}

/// Function from the number of reward columns to a result.
#[derive(Clone)]
pub(crate) struct ComputeResult(Arc<dyn Fn(usize) -> Value + Send + Sync>);

impl Reply {
    /// Builds a reply whose result is computed for each call from its number of reward columns.
    pub(crate) fn computed(compute: impl Fn(usize) -> Value + Send + Sync + 'static) -> Self {
        Self::Computed(ComputeResult(Arc::new(compute)))
    }
}

impl fmt::Debug for ComputeResult {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ComputeResult")
    }
}

impl MockNode {
    /// Starts a node of `chain_id` that expects calls with the single reward percentile 60.
    pub(crate) async fn start(chain_id: u64, reply: Reply) -> Self {
        Self::with_percentiles(chain_id, json!([60]), reply).await
    }

    pub(crate) async fn with_percentiles(chain_id: u64, percentiles: Value, reply: Reply) -> Self {
        Self::bind(Some(chain_id), percentiles, reply).await
    }

    /// Starts a node that serves every chain: `/rpc/7` and all paths below it are chain 7.
    pub(crate) async fn for_every_chain(reply: Reply) -> Self {
        Self::bind(None, json!([60]), reply).await
    }

    async fn bind(chain_id: Option<u64>, percentiles: Value, reply: Reply) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (calls, violations) = (Vec::new(), Vec::new());
        let shared = Shared { chain_id, percentiles, reply, calls, violations };
        let shared = Arc::new(Mutex::new(shared));
        let app = Router::new().fallback(handle).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, shared, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/rpc", self.address)
    }

    pub(crate) fn set_reply(&self, reply: Reply) {
        self.shared.lock().unwrap().reply = reply;
    }

    /// Returns the number of calls of `method`.
    pub(crate) fn calls(&self, method: &str) -> usize {
        let shared = self.shared.lock().unwrap();
        shared.calls.iter().filter(|call| call["method"] == method).count()
    }

    /// Returns the number of fee history calls with a hex block count.
    pub(crate) fn hex_count_calls(&self) -> usize {
        let shared = self.shared.lock().unwrap();
        shared.calls.iter().filter(|call| call["params"][0].is_string()).count()
    }
}

impl Drop for MockNode {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            let violations = &self.shared.lock().unwrap().violations;
            assert!(violations.is_empty(), "unexpected calls: {violations:#?}");
        }
    }
}

async fn handle(State(shared): State<Arc<Mutex<Shared>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 * 1024).await.unwrap();
    let call: Value = serde_json::from_slice(&body).unwrap_or_default();
    let reply = {
        let mut shared = shared.lock().unwrap();
        let is_json =
            parts.headers.get("content-type").is_some_and(|kind| kind == "application/json");
        let path_chain_id =
            parts.uri.path().split('/').nth(2).and_then(|number| number.parse::<u64>().ok());
        let is_rpc_path = if shared.chain_id.is_some() {
            parts.uri == "/rpc"
        } else {
            parts.uri.path().starts_with("/rpc/") && path_chain_id.is_some()
        };
        if parts.method != Method::POST || !is_rpc_path || !is_json {
            shared.violations.push(format!("{} {} {:?}", parts.method, parts.uri, parts.headers));
        }
        if let Err(violation) = check(&call, &shared.percentiles) {
            shared.violations.push(format!("{violation}: {call}"));
        }
        shared.calls.push(call.clone());
        match call["method"].as_str() {
            Some("eth_chainId") => {
                let chain_id = shared.chain_id.or(path_chain_id).unwrap_or_default();
                let chain_id = json!(format!("{chain_id:#x}"));
                match shared.reply {
                    Reply::Slow(pause, _) => Reply::Slow(pause, chain_id),
                    _ => Reply::Result(chain_id),
                }
            }
            _ => shared.reply.clone(),
        }
    };
    let id = &call["id"];
    let envelope = |member: &str, value: Value| {
        (StatusCode::OK, json!({ "jsonrpc": "2.0", "id": id, member: value }).to_string())
            .into_response()
    };
    let error = |code: i64| envelope("error", json!({ "code": code, "message": "no" }));
    match reply {
        Reply::Result(result) => envelope("result", result),
        Reply::Error(code) => error(code),
        Reply::IntegerCountOnly(result) if call["params"][0].is_u64() => envelope("result", result),
        Reply::IntegerCountOnly(_) => error(-32602),
        Reply::Raw(status, body) => {
            (StatusCode::from_u16(status).unwrap(), body.replace("{id}", &id.to_string()))
                .into_response()
        }
        Reply::Slow(pause, result) => {
            tokio::time::sleep(pause).await;
            envelope("result", result)
        }
        Reply::Redirect(url) => {
            (StatusCode::TEMPORARY_REDIRECT, [("location", url)]).into_response()
        }
        Reply::Silence => std::future::pending().await,
        Reply::Computed(ComputeResult(compute)) => {
            envelope("result", compute(call["params"][2].as_array().map_or(0, Vec::len)))
        }
    }
}

/// Checks that a call is one of those that polls send: `eth_chainId` or `eth_feeHistory` with these parameters.
fn check(call: &Value, percentiles: &Value) -> Result<(), &'static str> {
    let members: Vec<_> = call.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    if members != ["id", "jsonrpc", "method", "params"] || call["jsonrpc"] != "2.0" {
        return Err("not a JSON-RPC 2.0 call");
    }
    if !call["id"].is_u64() {
        return Err("the id is not a number");
    }
    let params = &call["params"];
    match call["method"].as_str() {
        Some("eth_chainId") if *params == json!([]) => Ok(()),
        Some("eth_feeHistory")
            if *params == json!(["0x14", "latest", percentiles])
                || *params == json!([20, "latest", percentiles]) =>
        {
            Ok(())
        }
        _ => Err("an unexpected call"),
    }
}

/// Builds 20 equal blocks up to `newest` with this base fee and reward in gwei. The next base fee is the same.
pub(crate) fn fee_history(newest: u64, base_fee_gwei: u64, reward_gwei: u64) -> Value {
    let wei = |gwei: u64| format!("{:#x}", gwei * 1_000_000_000);
    json!({
        "oldestBlock": format!("{:#x}", newest - 19),
        "baseFeePerGas": vec![wei(base_fee_gwei); 21],
        "gasUsedRatio": vec![0.5; 20],
        "reward": vec![vec![wei(reward_gwei)]; 20],
    })
}

/// Returns a URL that refuses connections: its port was just released.
pub(crate) fn dead_url() -> String {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    format!("http://{}/rpc", listener.local_addr().unwrap())
}
