//! The fee trend of the running service is filled with blocks from before its start. How blocks become buckets has
//! properties beside the code.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::fixtures::{self, seconds, small_quantity, wei};
use crate::history_rows::{Directory, Rows};
use crate::http_client;
use crate::logged_process::LoggedProcess;
use crate::mock_node::{Call, MockNode, Reply};
use crate::test_server::{Response, TestServer, wait_for, wait_until};

/// Seconds between two blocks.
const SPACING: u64 = 100;
/// Base fees of the chain are from this on, and below this and 10,000.
const LOWEST: u64 = 1_000_000_000;
const TREND: &str = "/v1/a/fee-trend?period=7d";

/// A node with a chain of blocks that are computed from their numbers.
struct ArchiveNode {
    node: MockNode,
    state: Arc<Mutex<NodeState>>,
}

/// Base fee that a node returns for a block of this depth below its head, instead of the right one.
type Lie = fn(u64, u64) -> u64;

/// Blocks that the node has, and the calls that it got.
#[derive(Clone)]
struct NodeState {
    lie: Lie,
    head_time: u64,
    /// Blocks that one call may request.
    max_blocks: u64,
    /// Number of blocks before the head of which the node has the fee history.
    history: u64,
    /// Requests with 429 before the next good one.
    refusals: usize,
    /// Requested ranges that are not up to the newest block.
    ranges: Vec<(u64, u64)>,
}

const HEAD: u64 = 50_000;

impl ArchiveNode {
    /// Starts a node with a change of its state. It has 10,000 blocks of history, of which a call may request 1,024.
    async fn start(change: impl FnOnce(&mut NodeState)) -> Self {
        let mut state = NodeState {
            lie: |_, base_fee| base_fee,
            head_time: seconds() - 3,
            max_blocks: 1024,
            history: 10_000,
            refusals: 0,
            ranges: Vec::new(),
        };
        change(&mut state);
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let node =
            MockNode::scripted(7, move |call| answer(&mut shared.lock().unwrap(), call)).await;
        Self { node, state }
    }

    fn ranges(&self) -> Vec<(u64, u64)> {
        self.state.lock().unwrap().ranges.clone()
    }

    /// Returns a configuration with these lines of `[history]`.
    fn config(&self, history: &str, check_base_fees: bool) -> String {
        let more = format!(
            "block_time = \"{SPACING}s\"\nmax_age = \"1day\"\nstall_after = \"0s\"\n\
             pricing.strategy = \"network\"\npricing.ask_interval = 0\n\
             pricing.check_base_fees = {check_base_fees}"
        );
        format!("[history]\n{history}\n{}", self.node.chain("a", &more))
    }

    async fn serve(&self, history: &str) -> TestServer {
        TestServer::start(&self.config(history, false)).await
    }
}

fn base_fee(number: u64) -> u64 {
    LOWEST + number * number % 7919
}

fn answer(state: &mut NodeState, call: &Call) -> Reply {
    let params = call.params();
    match call.method.as_str() {
        "eth_chainId" => Reply::Result(json!("0x7")),
        "eth_getBlockByNumber" => {
            assert_eq!(params[1], false);
            let number = if params[0] == "latest" { HEAD } else { small_quantity(&params[0]) };
            let time = state.head_time - (HEAD - number) * SPACING;
            Reply::Result(json!({ "timestamp": format!("{time:#x}"), "extraData": "0x" }))
        }
        "eth_feeHistory" => {
            let is_poll = params[1] == "latest";
            let newest = if is_poll { HEAD } else { small_quantity(&params[1]) };
            let oldest = newest + 1 - small_quantity(&params[0]);
            if !is_poll && state.refusals > 0 {
                state.refusals -= 1;
                return Reply::Raw(429, String::new()).with_header("retry-after", "0");
            }
            if !is_poll {
                state.ranges.push((oldest, newest));
            }
            if oldest < HEAD - state.history || newest + 1 - oldest > state.max_blocks {
                return Reply::Error(-32000);
            }
            let base_fee = |number| (state.lie)(HEAD.saturating_sub(number), base_fee(number));
            let rewards = |_| vec![2 * u128::from(LOWEST)];
            let history =
                fixtures::computed_history(oldest..=newest, |it| base_fee(it).into(), rewards);
            Reply::Result(history)
        }
        "eth_getCode" | "eth_estimateGas" => Reply::Error(-32601),
        other => panic!("unexpected {other}"),
    }
}

/// Returns the number of blocks in all buckets. Fails if a base fee is not of the chain.
pub(crate) fn blocks(trend: &Value) -> u64 {
    let count = |bucket: &Value| {
        for member in ["min", "median", "max"] {
            let fee = wei(&bucket["base_fee_per_gas"][member]);
            assert!((LOWEST.into()..u128::from(LOWEST) * 10).contains(&fee), "{fee} in {trend}");
        }
        bucket["blocks"].as_u64().unwrap()
    };
    trend["buckets"].as_array().unwrap().iter().map(count).sum()
}

/// Waits until each period shows the blocks that the node has, of at most `most` blocks ago.
async fn wait_for_blocks(service: &TestServer, most: u64) {
    for (period, width, length) in [("7d", 3600, 168), ("24h", 600, 144), ("1h", 60, 60)] {
        let is_whole = |response: &Response| {
            response.status == 200 && {
                let now = seconds();
                let from = now - now % width - (length - 1) * width;
                let expected = ((now - from) / SPACING).min(most);
                // A poll dates its blocks by when it saw them.
                blocks(&response.json()).abs_diff(expected) <= 1
            }
        };
        service.wait_for(&format!("/v1/a/fee-trend?period={period}"), is_whole).await;
    }
    let level = service.get("/v1/a/fee-trend").await.json()["level"].take();
    assert_ne!(level, Value::Null);
    assert_eq!(service.get("/v1/a/fee-market").await.json()["level"], level);
    assert_eq!(service.get("/v1/fee-markets").await.json()[0]["level"], level);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_week_before_the_start_is_read_as_far_as_the_node_goes() {
    let refusing = ArchiveNode::start(|state| state.refusals = 3).await;
    wait_for_blocks(&refusing.serve("days = 7").await, u64::MAX).await;
    let ranges = refusing.ranges();
    assert!(ranges.iter().all(|(oldest, newest)| newest - oldest < 512));
    // One call each for seven days and the blocks since, and one each to see if they are there.
    assert!(ranges.len() <= 20, "{ranges:?}");
    let limited = ArchiveNode::start(|state| (state.max_blocks, state.history) = (60, 300)).await;
    // The tip of a block needs the twenty up to it.
    wait_for_blocks(&limited.serve("days = 7").await, 300 - 19).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gap_after_a_restart_is_read() {
    let (directory, node) = (Directory::new("gap"), ArchiveNode::start(|_| {}).await);
    // A week is known, up to nine hours ago.
    let open = u32::try_from(seconds() / 3600 * 3600).unwrap() - 9 * 3600;
    let mut saved = Rows::default();
    for (width, count) in [(600, 143), (3600, 167)] {
        for start in (1..=count).map(|index| open - index * width) {
            let row = (start, width / 100, [LOWEST; 3], [LOWEST; 3], [0; 3], LOWEST);
            saved.buckets.insert((7, width, start), row);
        }
    }
    saved.write(&directory.file());
    let service = node.serve(&directory.setting()).await;
    wait_for_blocks(&service, u64::MAX).await;
    // The days before are not read again: one call has the blocks of fourteen hours.
    let ranges = node.ranges();
    assert_eq!(ranges.len(), 1, "{ranges:?}");
    service.stop().await.unwrap();
}

/// Lies about old blocks: the reported one first.
const LIES: [(&str, Lie); 2] = [
    ("a thousand times too high", |depth, fee| if depth > 40 { fee * 1000 } else { fee }),
    // The first call has 492 blocks that are new, so the lie begins with the second one.
    ("from one call to the next", |depth, fee| if depth > 491 { fee / 1000 } else { fee }),
];

#[tokio::test(flavor = "multi_thread")]
async fn old_blocks_of_a_lying_node_are_not_shown() {
    for (name, lie) in LIES {
        let liar = ArchiveNode::start(|state| state.lie = lie).await;
        let process = LoggedProcess::start("refill", &liar.config("days = 7", true));
        let has_ended = async || process.log().contains("from fee history");
        wait_until("the refill has not ended", has_ended).await;
        let url = format!("http://{}{TREND}", process.addresses[0]);
        let trend = wait_for(&http_client::new(), &url, |it| it.status == 200).await.json();
        let log = process.stop();
        assert!(log.contains("old blocks of an upstream contradict known ones"), "{name}: {log}");
        assert!(log.contains("contradicts the known blocks"), "{name}: {log}");
        let blocks = blocks(&trend);
        assert!((20..1200).contains(&blocks), "{name}: {blocks} blocks");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lying_node_is_replaced_by_the_next_one() {
    let honest = ArchiveNode::start(|_| {}).await;
    let liar = ArchiveNode::start(|state| state.lie = |_, fee| fee * 1000).await;
    let urls = [liar.node.url(), honest.node.url()];
    let config = format!("{}read_urls = {urls:?}\n", honest.config("days = 7", true));
    let service = TestServer::start(&config).await;
    wait_for_blocks(&service, u64::MAX).await;
    assert!(!liar.ranges().is_empty());
}
