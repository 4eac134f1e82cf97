//! A node whose chain goes on by the clock, and which tells a test who asked it for what.

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

const GWEI: u128 = 1_000_000_000;

/// A node on a free loopback port. Its head moves by one block per block time. When it is dropped it stops,
/// and the test fails if it was ever asked anything that a node should not be asked.
///
/// Its paths are `/rpc` and `/rpc/{who}`, the same node for whoever has to be told apart.
#[derive(Debug)]
pub(crate) struct ClockNode {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
}

/// The node's clock, for those who compare what they read with it.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    chain_id: u64,
    block_time: Duration,
    /// The head at this instant.
    from: (u64, Instant),
    /// How long it takes over an answer.
    pause: Duration,
    mood: Mood,
    calls: Vec<Asked>,
    violations: Vec<String>,
}

/// What the node does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// Answers 500.
    Broken,
    /// Answers nothing, for as long as anybody waits.
    Silent,
    /// Answers 429, and for how many seconds it wants to be left alone.
    Limited(u64),
}

/// A call that came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    /// The path's second segment; empty where there is none.
    pub(crate) who: String,
    pub(crate) method: String,
    /// The newest block of the fee history that was answered, and when.
    pub(crate) answered: Option<(u64, Instant)>,
}

impl ClockNode {
    /// How long the chain is when it starts: longer than any window.
    pub(crate) const FIRST_HEAD: u64 = 10_000_000;

    /// A chain with a block each `block_time` from now on.
    pub(crate) async fn start(chain_id: u64, block_time: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared {
            chain_id,
            block_time,
            from: (Self::FIRST_HEAD, Instant::now()),
            pause: Duration::ZERO,
            mood: Mood::Well,
            calls: Vec::new(),
            violations: Vec::new(),
        }));
        let app = Router::new().fallback(reply).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, shared, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/rpc", self.address)
    }

    /// The URL by which one client is told from others.
    pub(crate) fn url_of(&self, who: &str) -> String {
        format!("http://{}/rpc/{who}", self.address)
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock(Arc::clone(&self.shared))
    }

    pub(crate) fn head(&self) -> u64 {
        self.shared().head()
    }

    /// From now on the head is this one, and goes on from it.
    pub(crate) fn start_over_at(&self, head: u64) {
        self.shared().from = (head, Instant::now());
    }

    pub(crate) fn is(&self, mood: Mood) {
        self.shared().mood = mood;
    }

    /// Takes so long over each answer.
    pub(crate) fn takes(&self, pause: Duration) {
        self.shared().pause = pause;
    }

    /// The head and the number of calls so far, of all methods, at one moment.
    pub(crate) fn tally(&self) -> Tally {
        let shared = self.shared();
        Tally { head: shared.head(), calls: shared.calls.len() }
    }

    /// All calls so far.
    pub(crate) fn calls(&self) -> Vec<Asked> {
        self.shared().calls.clone()
    }

    /// How often each method was called, of the calls from `first` on.
    pub(crate) fn methods(&self, first: usize) -> BTreeMap<String, usize> {
        let mut methods = BTreeMap::new();
        for call in &self.shared().calls[first..] {
            *methods.entry(call.method.clone()).or_default() += 1;
        }
        methods
    }

    /// When it answered a fee history, from the call with this number on.
    pub(crate) fn answers(&self, first: usize) -> Vec<Instant> {
        let shared = self.shared();
        shared.calls[first..].iter().filter_map(|call| Some(call.answered?.1)).collect()
    }

    /// The last fee history that it answered: its newest block, and when.
    pub(crate) fn last_answer(&self) -> Option<(u64, Instant)> {
        self.shared().calls.iter().filter_map(|call| call.answered).max_by_key(|(_, at)| *at)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }
}

impl Drop for ClockNode {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            let violations = &self.shared().violations;
            assert!(
                violations.is_empty(),
                "the node was asked what it should not be: {violations:#?}"
            );
        }
    }
}

/// A head and a number of calls at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) head: u64,
    pub(crate) calls: usize,
}

impl Tally {
    /// The blocks and the calls from `before` to this.
    pub(crate) fn since(self, before: Self) -> (u64, u64) {
        (self.head - before.head, (self.calls - before.calls) as u64)
    }
}

impl Clock {
    pub(crate) fn head(&self) -> u64 {
        self.0.lock().unwrap().head()
    }

    /// Whether so many seconds are the age that a suggestion up to block `newest` has, to a second, when it
    /// was asked for at `asked` and is here now. The node may have told of that block more than once.
    pub(crate) fn is_age(&self, newest: u64, asked: Instant, seconds: u64) -> Result<(), String> {
        let shared = self.0.lock().unwrap();
        let answered = shared.calls.iter().rev().filter_map(|call| call.answered);
        let times: Vec<_> =
            answered.filter(|(head, _)| *head == newest).map(|(_, at)| at).collect();
        let (Some(last), Some(first)) = (times.first(), times.last()) else {
            return Err(format!("the node never told of {newest}"));
        };
        let since_last = asked.saturating_duration_since(*last).as_secs();
        let possible = since_last.saturating_sub(1)..=first.elapsed().as_secs() + 1;
        if possible.contains(&seconds) {
            Ok(())
        } else {
            Err(format!("an age of {seconds} s at {newest}, not one in {possible:?}"))
        }
    }
}

impl Shared {
    fn head(&self) -> u64 {
        let (head, at) = self.from;
        let passed = at.elapsed().as_nanos() / self.block_time.as_nanos();
        head + u64::try_from(passed).unwrap()
    }

    /// The result of a call when `head` is the newest block, or what is wrong with the call.
    fn answer(&self, call: &Value, head: u64) -> Result<Value, String> {
        let members: Vec<_> =
            call.as_object().into_iter().flatten().map(|(name, _)| name).collect();
        if members != ["id", "jsonrpc", "method", "params"] || call["jsonrpc"] != "2.0" {
            return Err("not a JSON-RPC 2.0 call".into());
        }
        let params = &call["params"];
        match call["method"].as_str() {
            Some("eth_chainId") if *params == json!([]) => Ok(quantity(self.chain_id.into())),
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
                        Ok(history(head, &Terms { window: count, percentiles }))
                    }
                    _ => Err("no parameters of a poll".into()),
                }
            }
            _ => Err("an unexpected call".into()),
        }
    }
}

async fn reply(State(shared): State<Arc<Mutex<Shared>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 * 1024).await.unwrap();
    let call: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (place, mood, pause) = {
        let mut shared = shared.lock().unwrap();
        let who = match parts.uri.path() {
            "/rpc" => Some(""),
            path => path.strip_prefix("/rpc/"),
        };
        let is_json =
            parts.headers.get("content-type").is_some_and(|kind| kind == "application/json");
        let is_call = parts.method == Method::POST && who.is_some() && is_json;
        let head = shared.head();
        let violation =
            if is_call { shared.answer(&call, head).err() } else { Some("no call".into()) };
        if let Some(violation) = violation {
            let told = format!("{violation}: {} {} {call}", parts.method, parts.uri);
            eprintln!("the node was asked what it should not be: {told}");
            shared.violations.push(told);
            return StatusCode::NOT_IMPLEMENTED.into_response();
        }
        shared.calls.push(Asked {
            at: Instant::now(),
            who: who.unwrap_or_default().to_owned(),
            method: call["method"].as_str().unwrap().to_owned(),
            answered: None,
        });
        (shared.calls.len() - 1, shared.mood, shared.pause)
    };
    tokio::time::sleep(pause).await;
    match mood {
        Mood::Well => {
            let mut shared = shared.lock().unwrap();
            let head = shared.head();
            let result = shared.answer(&call, head).unwrap();
            if call["method"] == "eth_feeHistory" {
                shared.calls[place].answered = Some((head, Instant::now()));
            }
            json!({ "jsonrpc": "2.0", "id": call["id"], "result": result })
                .to_string()
                .into_response()
        }
        Mood::Broken => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Mood::Silent => std::future::pending().await,
        Mood::Limited(seconds) => {
            (StatusCode::TOO_MANY_REQUESTS, [("retry-after", seconds.to_string())]).into_response()
        }
    }
}

/// By what a chain's configuration differs from another's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) window: u64,
    pub(crate) percentiles: Vec<u64>,
}

impl Default for Terms {
    fn default() -> Self {
        Self { window: 20, percentiles: vec![60] }
    }
}

impl Terms {
    /// The suggestion for the window that ends with `newest`, worked out apart from the service. No two
    /// blocks have the same.
    pub(crate) fn suggestion(&self, name: &str, newest: u64) -> String {
        let blocks = || newest + 1 - self.window..=newest;
        let average =
            |of: &dyn Fn(u64) -> u128| blocks().map(of).sum::<u128>() / u128::from(self.window);
        let base = 2 * average(&base_fee);
        let medium = average(&|number| tip(number, self.percentiles[0]));
        let high = match self.percentiles.get(1) {
            Some(percentile) => average(&|number| tip(number, *percentile)),
            None => medium * 12 / 10,
        };
        format!(
            "{{\"chain_name\":\"{name}\",\"type\":\"eip-1559\",\"base_fee_per_gas\":\"{base}\",\
             \"medium\":{{\"max_priority_fee_per_gas\":\"{medium}\",\"max_fee_per_gas\":\"{}\"}},\
             \"high\":{{\"max_priority_fee_per_gas\":\"{high}\",\"max_fee_per_gas\":\"{}\"}}}}",
            base + medium,
            base + high,
        )
    }
}

/// A block's base fee in wei, above any floor.
fn base_fee(number: u64) -> u128 {
    10 * GWEI + 1000 * u128::from(number)
}

/// What a block's transactions paid at a percentile.
fn tip(number: u64, percentile: u64) -> u128 {
    u128::from(100 + percentile) * GWEI + 1000 * u128::from(number)
}

fn quantity(number: u128) -> Value {
    format!("{number:#x}").into()
}

fn history(newest: u64, Terms { window, percentiles }: &Terms) -> Value {
    let oldest = newest + 1 - window;
    let row = |number| percentiles.iter().map(|p| quantity(tip(number, *p))).collect();
    json!({
        "oldestBlock": quantity(oldest.into()),
        "baseFeePerGas": (oldest..=newest + 1).map(|n| quantity(base_fee(n))).collect::<Value>(),
        "gasUsedRatio": (0..*window).map(|_| 0.5).collect::<Vec<_>>(),
        "reward": (oldest..=newest).map(row).collect::<Vec<Value>>(),
    })
}

/// Asks as the service does.
#[cfg(test)]
async fn ask(url: &str, method: &str, params: Value) -> (u16, Value) {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let answer = reqwest::Client::new().post(url).json(&call).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

#[tokio::test]
async fn its_head_moves_by_the_clock_and_its_calls_are_counted_by_method_and_by_who_asks() {
    let node = ClockNode::start(7, Duration::from_millis(50)).await;
    let (_, chain_id) = ask(&node.url_of("b"), "eth_chainId", json!([])).await;
    assert_eq!(chain_id["result"], "0x7");
    let params = json!(["0xa", "latest", [60, 100]]);
    let newest = async || {
        let (status, history) = ask(&node.url(), "eth_feeHistory", params.clone()).await;
        assert_eq!(status, 200);
        let result = &history["result"];
        assert_eq!(result["reward"].as_array().unwrap().len(), 10);
        assert_eq!(result["reward"][0].as_array().unwrap().len(), 2);
        let oldest = result["oldestBlock"].as_str().unwrap();
        u64::from_str_radix(&oldest[2..], 16).unwrap() + 9
    };
    let first = newest().await;
    let deadline = Instant::now() + Duration::from_mins(1);
    while newest().await < first + 3 {
        assert!(Instant::now() < deadline, "it stands");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let passed = node.shared().from.1.elapsed().as_millis() / 50;
    assert!(u128::from(node.head() - ClockNode::FIRST_HEAD) >= passed);
    let calls = node.calls();
    assert_eq!((calls[0].who.as_str(), calls[1].who.as_str()), ("b", ""));
    assert_eq!(node.methods(0)["eth_chainId"], 1);
    assert_eq!(node.methods(1)["eth_feeHistory"], calls.len() - 1);
    assert_eq!(node.last_answer().unwrap(), calls.last().unwrap().answered.unwrap());
    node.start_over_at(1000);
    assert_eq!(newest().await / 10, 100);
}

#[tokio::test]
async fn its_moods_are_seen_and_counted() {
    let node = ClockNode::start(7, Duration::from_secs(1)).await;
    let status = async || ask(&node.url(), "eth_chainId", json!([])).await.0;
    node.is(Mood::Broken);
    assert_eq!(status().await, 500);
    node.is(Mood::Limited(3));
    assert_eq!(status().await, 429);
    node.is(Mood::Silent);
    assert!(tokio::time::timeout(Duration::from_millis(200), status()).await.is_err());
    node.is(Mood::Well);
    assert_eq!(status().await, 200);
    assert_eq!(node.tally().calls, 4);
}

#[tokio::test]
async fn what_no_poll_asks_is_a_violation() {
    for (method, params) in [
        ("eth_blockNumber", json!([])),
        ("eth_chainId", json!([1])),
        ("eth_feeHistory", json!(["0x14", "pending", [60]])),
        ("eth_feeHistory", json!([20, "latest", [60]])),
        ("eth_feeHistory", json!(["0x14", "latest"])),
    ] {
        let node = ClockNode::start(7, Duration::from_secs(1)).await;
        assert_eq!(ask(&node.url(), method, params).await.0, 501);
        assert_eq!(std::mem::take(&mut node.shared().violations).len(), 1, "{method}");
        assert_eq!(node.tally().calls, 0);
    }
}
