//! An RPC node that says what a test tells it to, and checks what it is asked.

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

/// A node on a free loopback port. When it is dropped it stops, and the test fails if it was ever
/// asked anything that a node should not be asked.
#[derive(Debug)]
pub(crate) struct FakeNode {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    /// `None`: the number that is the second segment of the path.
    chain_id: Option<u64>,
    percentiles: Value,
    answer: Answer,
    calls: Vec<Value>,
    violations: Vec<String>,
}

/// What the node says to `eth_feeHistory`.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// This result.
    Result(Value),
    /// This JSON-RPC error code.
    Error(i64),
    /// A result for a block count that is an integer, −32602 for any other.
    IntegerCountOnly(Value),
    /// This status and body, `{id}` being replaced by the call's.
    Raw(u16, String),
    /// This result after a pause, which the chain id takes too.
    Slow(Duration, Value),
    /// A redirect that asks for the same call at this URL.
    Redirect(String),
    /// Nothing, for as long as anybody waits.
    Silence,
    /// A result that is made anew for each call.
    Made(Made),
}

/// Makes a result of as many reward columns as it is told.
#[derive(Clone)]
pub(crate) struct Made(Arc<dyn Fn(usize) -> Value + Send + Sync>);

impl Made {
    pub(crate) fn by(make: impl Fn(usize) -> Value + Send + Sync + 'static) -> Answer {
        Answer::Made(Self(Arc::new(make)))
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Made")
    }
}

impl FakeNode {
    /// A node of `chain_id` that answers `answer`, for a chain whose one percentile is 60.
    pub(crate) async fn start(chain_id: u64, answer: Answer) -> Self {
        Self::with_percentiles(chain_id, json!([60]), answer).await
    }

    pub(crate) async fn with_percentiles(
        chain_id: u64,
        percentiles: Value,
        answer: Answer,
    ) -> Self {
        Self::of(Some(chain_id), percentiles, answer).await
    }

    /// A node of all chains: `/rpc/7` is that of chain 7, whatever follows in the path.
    pub(crate) async fn of_every_chain(answer: Answer) -> Self {
        Self::of(None, json!([60]), answer).await
    }

    async fn of(chain_id: Option<u64>, percentiles: Value, answer: Answer) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (calls, violations) = (Vec::new(), Vec::new());
        let shared = Shared { chain_id, percentiles, answer, calls, violations };
        let shared = Arc::new(Mutex::new(shared));
        let app = Router::new().fallback(reply).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, shared, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/rpc", self.address)
    }

    pub(crate) fn say(&self, answer: Answer) {
        self.shared.lock().unwrap().answer = answer;
    }

    /// How often `method` was called.
    pub(crate) fn calls(&self, method: &str) -> usize {
        let shared = self.shared.lock().unwrap();
        shared.calls.iter().filter(|call| call["method"] == method).count()
    }

    /// How often a fee history was asked for with a hex block count.
    pub(crate) fn count_of_quantities(&self) -> usize {
        let shared = self.shared.lock().unwrap();
        shared.calls.iter().filter(|call| call["params"][0].is_string()).count()
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            let violations = &self.shared.lock().unwrap().violations;
            assert!(
                violations.is_empty(),
                "the node was asked what it should not be: {violations:#?}"
            );
        }
    }
}

async fn reply(State(shared): State<Arc<Mutex<Shared>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 * 1024).await.unwrap();
    let call: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = {
        let mut shared = shared.lock().unwrap();
        let is_json =
            parts.headers.get("content-type").is_some_and(|kind| kind == "application/json");
        let of_path =
            parts.uri.path().split('/').nth(2).and_then(|number| number.parse::<u64>().ok());
        let is_place = if shared.chain_id.is_some() {
            parts.uri == "/rpc"
        } else {
            parts.uri.path().starts_with("/rpc/") && of_path.is_some()
        };
        if parts.method != Method::POST || !is_place || !is_json {
            shared.violations.push(format!("{} {} {:?}", parts.method, parts.uri, parts.headers));
        }
        if let Err(violation) = check(&call, &shared.percentiles) {
            shared.violations.push(format!("{violation}: {call}"));
        }
        shared.calls.push(call.clone());
        match call["method"].as_str() {
            Some("eth_chainId") => {
                let chain_id = shared.chain_id.or(of_path).unwrap_or_default();
                let chain_id = json!(format!("{chain_id:#x}"));
                match shared.answer {
                    Answer::Slow(pause, _) => Answer::Slow(pause, chain_id),
                    _ => Answer::Result(chain_id),
                }
            }
            _ => shared.answer.clone(),
        }
    };
    let id = &call["id"];
    let envelope = |member: &str, value: Value| {
        (StatusCode::OK, json!({ "jsonrpc": "2.0", "id": id, member: value }).to_string())
            .into_response()
    };
    let error = |code: i64| envelope("error", json!({ "code": code, "message": "no" }));
    match answer {
        Answer::Result(result) => envelope("result", result),
        Answer::Error(code) => error(code),
        Answer::IntegerCountOnly(result) if call["params"][0].is_u64() => {
            envelope("result", result)
        }
        Answer::IntegerCountOnly(_) => error(-32602),
        Answer::Raw(status, body) => {
            (StatusCode::from_u16(status).unwrap(), body.replace("{id}", &id.to_string()))
                .into_response()
        }
        Answer::Slow(pause, result) => {
            tokio::time::sleep(pause).await;
            envelope("result", result)
        }
        Answer::Redirect(url) => {
            (StatusCode::TEMPORARY_REDIRECT, [("location", url)]).into_response()
        }
        Answer::Silence => std::future::pending().await,
        Answer::Made(Made(make)) => {
            envelope("result", make(call["params"][2].as_array().map_or(0, Vec::len)))
        }
    }
}

/// The two calls that the service makes, to the letter.
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

/// 20 equal blocks up to `newest`, each with this base fee and reward in gwei; the next block's
/// base fee is the same.
pub(crate) fn fee_history(newest: u64, base_fee_gwei: u64, reward_gwei: u64) -> Value {
    let wei = |gwei: u64| format!("{:#x}", gwei * 1_000_000_000);
    json!({
        "oldestBlock": format!("{:#x}", newest - 19),
        "baseFeePerGas": vec![wei(base_fee_gwei); 21],
        "gasUsedRatio": vec![0.5; 20],
        "reward": vec![vec![wei(reward_gwei)]; 20],
    })
}
