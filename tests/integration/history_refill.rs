//! The fee trend of the running service is filled with blocks from before its start.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::raw_client::TIMEOUT;
use crate::test_server::TestServer;

/// Blocks that a tip is computed from.
const WINDOW: u64 = 20;

/// Seconds between two blocks.
const SPACING: u64 = 400;

/// A node with a chain of blocks that are computed from their numbers.
struct ArchiveNode {
    url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// Blocks that the node has, and the calls that it got.
struct Shared {
    head: u64,
    head_time: u64,
    /// Blocks that one call may request.
    max_blocks: u64,
    /// Oldest block of a fee history.
    oldest: u64,
    state: Mutex<NodeState>,
}

#[derive(Default)]
struct NodeState {
    /// Requests with 429 before the next good one.
    refusals: usize,
    /// Requested ranges that are not up to the newest block.
    ranges: Vec<(u64, u64)>,
}

impl ArchiveNode {
    async fn start(max_blocks: u64, oldest_before_head: u64, refusals: usize) -> Self {
        let head = 50_000;
        let shared = Arc::new(Shared {
            head,
            head_time: seconds() - 3,
            max_blocks,
            oldest: head - oldest_before_head,
            state: Mutex::new(NodeState { refusals, ..NodeState::default() }),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/", post(answer)).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { url, shared, task }
    }

    fn config(&self, history: &str) -> String {
        format!(
            "[history]\n{history}\n[chains.a]\nchain_id = 7\nblock_time = \"10ms\"\nrpc_urls = [\"{}\"]\n\
             pricing.check_base_fees = false\n",
            self.url
        )
    }

    /// Returns all blocks from this second on: time, base fee, tip.
    fn blocks_from(&self, time: u64) -> Vec<(u64, u64, u64)> {
        let Shared { head, head_time, oldest, .. } = *self.shared;
        // The tip at a block is computed from the window up to it.
        let numbers = (oldest + WINDOW - 1..=head).map(|number| {
            let tip = (number + 1 - WINDOW..=number).map(reward).sum::<u64>() / WINDOW;
            (head_time - (head - number) * SPACING, base_fee(number), tip)
        });
        numbers.filter(|block| block.0 >= time).collect()
    }
}

impl Drop for ArchiveNode {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn base_fee(number: u64) -> u64 {
    1_000_000_000 + number * number % 7919
}

fn reward(number: u64) -> u64 {
    2_000_000_000 + number * 31 % 1009
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

fn quantity(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
}

async fn answer(State(shared): State<Arc<Shared>>, body: String) -> Response {
    let call: Value = serde_json::from_str(&body).unwrap();
    let (id, params) = (&call["id"], &call["params"]);
    let refused = json!({ "code": -32000, "message": "no such history" });
    let result = match call["method"].as_str().unwrap() {
        "eth_chainId" => Ok(json!("0x7")),
        "eth_getBlockByNumber" => {
            assert_eq!(params[1], false);
            let newest = params[0] == "latest";
            let number = if newest { shared.head } else { quantity(&params[0]) };
            // Headers older than that are gone.
            Ok(match shared.head.checked_sub(number) {
                Some(depth) if depth < 20_000 => json!({
                    "timestamp": format!("{:#x}", shared.head_time - depth * SPACING),
                    "extraData": "0x",
                }),
                _ => Value::Null,
            })
        }
        "eth_feeHistory" => {
            let is_poll = params[1] == "latest";
            let newest = if is_poll { shared.head } else { quantity(&params[1]) };
            let oldest = newest + 1 - quantity(&params[0]);
            let mut state = shared.state.lock().unwrap();
            if !is_poll && state.refusals > 0 {
                state.refusals -= 1;
                return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "0")]).into_response();
            }
            if !is_poll {
                state.ranges.push((oldest, newest));
            }
            let is_available = newest <= shared.head
                && (is_poll || oldest >= shared.oldest)
                && newest + 1 - oldest <= shared.max_blocks;
            is_available.then(|| history(oldest, newest)).ok_or(refused)
        }
        other => panic!("unexpected {other}"),
    };
    let (member, value) = match result {
        Ok(result) => ("result", result),
        Err(error) => ("error", error),
    };
    json!({ "jsonrpc": "2.0", "id": id, member: value }).to_string().into_response()
}

fn history(oldest: u64, newest: u64) -> Value {
    let hex = |value: u64| format!("{value:#x}");
    let numbers = || oldest..=newest;
    json!({
        "oldestBlock": hex(oldest),
        "baseFeePerGas": numbers().chain([newest + 1]).map(|it| hex(base_fee(it))).collect::<Vec<_>>(),
        "gasUsedRatio": numbers().map(|_| 0.5).collect::<Vec<_>>(),
        "reward": numbers().map(|it| [hex(reward(it))]).collect::<Vec<_>>(),
    })
}

/// Summarises blocks as the contract says: start, number of blocks, base fees, tips.
fn expected(blocks: &[(u64, u64, u64)], width: u64) -> Vec<(u64, u64, [u64; 3], [u64; 3])> {
    let mut groups: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for (time, base_fee, tip) in blocks {
        groups.entry(time - time % width).or_default().push((*base_fee, *tip));
    }
    let range = |mut values: Vec<u64>| {
        values.sort_unstable();
        [values[0], values[(values.len() - 1) / 2], values[values.len() - 1]]
    };
    let summary = |(start, group): (u64, Vec<(u64, u64)>)| {
        let (base_fees, tips): (Vec<u64>, Vec<u64>) = group.iter().copied().unzip();
        (start, group.len() as u64, range(base_fees), range(tips))
    };
    groups.into_iter().map(summary).collect()
}

fn shown(trend: &Value) -> Vec<(u64, u64, [u64; 3], [u64; 3])> {
    let buckets = trend["buckets"].as_array().unwrap().iter();
    let shown = |bucket: &Value| {
        let start = humantime::parse_rfc3339(bucket["start"].as_str().unwrap()).unwrap();
        let start = start.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let range = |name: &str| {
            ["min", "median", "max"]
                .map(|member| bucket[name][member].as_str().unwrap().parse().unwrap())
        };
        let fees = (range("base_fee_per_gas"), range("max_priority_fee_per_gas"));
        (start, bucket["blocks"].as_u64().unwrap(), fees.0, fees.1)
    };
    buckets.map(shown).collect()
}

/// Waits until all periods show the blocks of the node from the second `from` on, and nothing else.
async fn check_trend(service: &TestServer, node: &ArchiveNode, from: u64) {
    for (period, width, length) in [("7d", 3600, 168), ("24h", 600, 144), ("1h", 60, 60)] {
        let compare = |trend: &Value| {
            let now = seconds();
            let first = now - now % width - (length - 1) * width;
            let blocks = node.blocks_from(first.max(from));
            let (shown, expected) = (shown(trend), expected(&blocks, width));
            let pairs = shown.iter().zip(&expected);
            let first = pairs.clone().position(|(one, other)| one != other);
            if first.is_none() && shown.len() == expected.len() {
                return Ok(());
            }
            let index = first.unwrap_or(0);
            Err(format!(
                "{period}: {} buckets of {}, the one at {index} is {:?} and not {:?}",
                shown.len(),
                expected.len(),
                shown.get(index),
                expected.get(index)
            ))
        };
        let path = format!("/v1/a/fee-trend?period={period}");
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let response = service.get(&path).await;
            let difference = match response.status {
                200 => compare(&response.json()),
                status => Err(format!("status {status}")),
            };
            let Err(difference) = difference else { break };
            assert!(Instant::now() < deadline, "{difference}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let level = service.get("/v1/a/fee-trend").await.json()["level"].take();
    assert_ne!(level, Value::Null);
    assert_eq!(service.get("/v1/a/fee-market").await.json()["level"], level);
    assert_eq!(service.get("/v1/fee-markets").await.json()[0]["level"], level);
}

/// Returns the start of the hour of so many hours ago.
fn hours_ago(hours: u64) -> u64 {
    (seconds() - hours * 3600) / 3600 * 3600
}

#[tokio::test(flavor = "multi_thread")]
async fn a_week_before_the_start_is_read() {
    let node = ArchiveNode::start(1024, 10_000, 3).await;
    let service = TestServer::start(&node.config("days = 7")).await;
    check_trend(&service, &node, 0).await;
    let state = node.shared.state.lock().unwrap();
    assert!(state.ranges.iter().all(|(oldest, newest)| newest - oldest < 512));
    // One call each for seven days and the blocks since, and one each to see if they are there.
    assert!(state.ranges.len() <= 20, "{:?}", state.ranges);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_limit_and_little_history_is_read_as_far_as_it_goes() {
    let node = ArchiveNode::start(60, 700, 0).await;
    let service = TestServer::start(&node.config("days = 7")).await;
    check_trend(&service, &node, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gap_after_a_restart_is_read() {
    let directory = std::env::temp_dir().join(format!("gas-suggestion-{}-gap", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("history.json");
    let node = ArchiveNode::start(1024, 10_000, 0).await;
    // Two days are known, up to nine hours ago.
    let open = hours_ago(9);
    let (before, after): (Vec<_>, Vec<_>) =
        node.blocks_from(hours_ago(48)).into_iter().partition(|block| block.0 < open);
    let number = |time: u64| node.shared.head - (node.shared.head_time - time) / SPACING;
    let buckets = |width: u64| -> Vec<Value> {
        let groups = expected(&before, width).into_iter();
        let rows = groups.map(|(start, blocks, base_fees, tips)| {
            let first = before.iter().map(|block| block.0).find(|time| *time >= start).unwrap();
            json!([first, blocks, base_fees, tips, [0.5, 0.5, 0.5]])
        });
        rows.filter(|row| width == 3600 || row[0].as_u64().unwrap() + 86_400 > open).collect()
    };
    // The last known hour ended in its middle.
    let (time, base_fee, tip) = after[0];
    let saved = json!({
        "format": "gas-suggestion fee trend", "version": 1,
        "chains": [{ "chain_id": 7, "trend": {
            "newest_block": number(time), "newest_time": time,
            "minutes": [], "ten_minutes": buckets(600), "hours": buckets(3600),
            "open": { "start": open, "stride": 1,
                      "samples": [[number(time), time, base_fee, tip, 0.5]], "dropped": [] },
        } }],
    });
    std::fs::write(&path, saved.to_string()).unwrap();
    let history = format!("days = 2\npath = \"{}\"", path.display());
    let service = TestServer::start(&node.config(&history)).await;
    check_trend(&service, &node, hours_ago(47)).await;
    // What the file has is not read again.
    let first = number(time) - WINDOW;
    let ranges = node.shared.state.lock().unwrap().ranges.clone();
    assert!(ranges.iter().all(|(oldest, _)| *oldest >= first), "{ranges:?} {first}");
    service.stop().await.unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_short_run_does_not_keep_the_day_before_from_being_read() {
    let directory =
        std::env::temp_dir().join(format!("gas-suggestion-{}-short", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("history.json");
    let node = ArchiveNode::start(1024, 10_000, 0).await;
    let history = format!("days = 2\npath = \"{}\"", path.display());
    let short = TestServer::start(&node.config(&format!("{history}\nrefill = false"))).await;
    short.wait_for("/v1/a/fee-trend", |response| response.status == 200).await;
    short.stop().await.unwrap();
    assert!(path.exists());
    let service = TestServer::start(&node.config(&history)).await;
    check_trend(&service, &node, hours_ago(47)).await;
    service.stop().await.unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
}
