//! The fee trend of the running service is filled with blocks from before its start.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::fixtures::{self, seconds, small_quantity, wei};
use crate::history_rows::{BucketKey, BucketRow, Directory, Rows};
use crate::http_client;
use crate::logged_process::LoggedProcess;
use crate::mock_node::{Call, MockNode, Reply};
use crate::test_server::{Response, TestServer, wait_for, wait_until};

/// Blocks that a tip is computed from.
const WINDOW: u64 = 20;

/// Seconds between two blocks.
const SPACING: u64 = 100;

/// A node with a chain of blocks that are computed from their numbers.
struct ArchiveNode {
    node: MockNode,
    state: Arc<Mutex<NodeState>>,
}

/// Time, base fee and tip of a block.
type BlockFacts = (u64, u64, u64);

/// Start of a bucket, number of blocks, base fees and tips.
pub(crate) type Summary = (u64, u64, [u64; 3], [u64; 3]);

/// Base fee that a node returns for a block of this depth below its head, instead of the right one.
type Lie = fn(u64, u64) -> u64;

/// Blocks that the node has, and the calls that it got.
#[derive(Clone)]
struct NodeState {
    lie: Lie,
    head: u64,
    head_time: u64,
    /// Blocks that one call may request.
    max_blocks: u64,
    /// Number of blocks before the head of which the node has the fee history.
    history: u64,
    /// Number of blocks of which it has the header.
    headers: u64,
    /// Requests with 429 before the next good one.
    refusals: usize,
    /// Requested ranges that are not up to the newest block.
    ranges: Vec<(u64, u64)>,
}

impl ArchiveNode {
    /// Starts a node with a change of its state. It has 10,000 blocks of history, of which a call may request 1,024.
    async fn start(change: impl FnOnce(&mut NodeState)) -> Self {
        let mut state = NodeState {
            lie: |_, base_fee| base_fee,
            head: 50_000,
            head_time: seconds() - 3,
            max_blocks: 1024,
            history: 10_000,
            headers: 20_000,
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

    fn state(&self) -> NodeState {
        self.state.lock().unwrap().clone()
    }

    fn config(&self, history: &str) -> String {
        let more = format!(
            "block_time = \"{SPACING}s\"\nmax_age = \"1day\"\nstall_after = \"0s\"\n\
             pricing.strategy = \"network\"\npricing.ask_interval = 0\npricing.check_base_fees = false"
        );
        format!("[history]\n{history}\n{}", self.node.chain("a", &more))
    }

    /// Returns a configuration with a week of history, whose base fees are checked.
    fn checking_config(&self) -> String {
        self.config("days = 7").replace("check_base_fees = false", "check_base_fees = true")
    }

    /// Starts a service with these lines of `[history]`.
    async fn serve(&self, history: &str) -> TestServer {
        TestServer::start(&self.config(history)).await
    }

    /// Returns all blocks from this second on. The blocks of the first poll in the open hour have the time at which it saw
    /// them, `delay` seconds after that of their headers. Those of earlier hours are read again.
    fn blocks_from(&self, time: u64, delay: u64) -> Vec<BlockFacts> {
        let NodeState { head, head_time, history, .. } = self.state();
        let polled_from = head + 1 - WINDOW;
        let open = (head_time + delay) / 3600;
        let numbers = (head - history + WINDOW - 1..=head).map(|number| {
            let time = head_time - (head - number) * SPACING;
            let is_polled = number >= polled_from && (time + delay) / 3600 == open;
            // The tip at a block is computed from the window up to it, as far as it was known.
            let from = if is_polled { polled_from } else { number + 1 - WINDOW };
            let tip = (from..=number).map(reward).sum::<u64>() / (number + 1 - from);
            let delay = if is_polled { delay } else { 0 };
            (time + delay, base_fee(number), tip)
        });
        numbers.filter(|block| block.0 >= time).collect()
    }
}

fn base_fee(number: u64) -> u64 {
    1_000_000_000 + number * number % 7919
}

fn reward(number: u64) -> u64 {
    2_000_000_000 + number * 31 % 1009
}

fn answer(state: &mut NodeState, call: &Call) -> Reply {
    let NodeState { head, head_time, .. } = *state;
    let params = call.params();
    match call.method.as_str() {
        "eth_chainId" => Reply::Result(json!("0x7")),
        "eth_getBlockByNumber" => {
            assert_eq!(params[1], false);
            let newest = params[0] == "latest";
            let number = if newest { head } else { small_quantity(&params[0]) };
            // Older headers are gone.
            Reply::Result(match head.checked_sub(number) {
                Some(depth) if depth < state.headers => json!({
                    "timestamp": format!("{:#x}", head_time - depth * SPACING),
                    "extraData": "0x",
                }),
                _ => Value::Null,
            })
        }
        "eth_feeHistory" => {
            let is_poll = params[1] == "latest";
            let newest = if is_poll { head } else { small_quantity(&params[1]) };
            let oldest = newest + 1 - small_quantity(&params[0]);
            if !is_poll && state.refusals > 0 {
                state.refusals -= 1;
                return Reply::Raw(429, String::new()).with_header("retry-after", "0");
            }
            if !is_poll {
                state.ranges.push((oldest, newest));
            }
            let is_available = newest <= head
                && (is_poll || oldest >= head - state.history)
                && newest + 1 - oldest <= state.max_blocks;
            if is_available {
                Reply::Result(history(oldest, newest, head, state.lie))
            } else {
                Reply::Error(-32000)
            }
        }
        "eth_getCode" | "eth_estimateGas" => Reply::Error(-32601),
        other => panic!("unexpected {other}"),
    }
}

fn history(oldest: u64, newest: u64, head: u64, lie: Lie) -> Value {
    let base_fee = |number: u64| lie(head.saturating_sub(number), base_fee(number)).into();
    fixtures::computed_history(oldest..=newest, base_fee, |number| vec![reward(number).into()])
}

/// Returns the least value, the lower median and the largest one.
pub(crate) fn range<T: Copy>(mut values: Vec<T>, order: fn(&T, &T) -> Ordering) -> [T; 3] {
    values.sort_unstable_by(order);
    [values[0], values[(values.len() - 1) / 2], values[values.len() - 1]]
}

/// Summarises blocks as the contract says.
fn expected(blocks: &[BlockFacts], width: u64) -> Vec<Summary> {
    let mut groups: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for (time, base_fee, tip) in blocks {
        groups.entry(time - time % width).or_default().push((*base_fee, *tip));
    }
    let summary = |(start, group): (u64, Vec<(u64, u64)>)| {
        let (base_fees, tips): (Vec<u64>, Vec<u64>) = group.iter().copied().unzip();
        (start, group.len() as u64, range(base_fees, u64::cmp), range(tips, u64::cmp))
    };
    groups.into_iter().map(summary).collect()
}

/// Reads the buckets of a trend.
pub(crate) fn shown(trend: &Value) -> Vec<Summary> {
    let buckets = trend["buckets"].as_array().unwrap().iter();
    let shown = |bucket: &Value| {
        let start = humantime::parse_rfc3339(bucket["start"].as_str().unwrap()).unwrap();
        let start = start.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let range = |name: &str| {
            ["min", "median", "max"].map(|member| wei(&bucket[name][member]).try_into().unwrap())
        };
        let fees = (range("base_fee_per_gas"), range("max_priority_fee_per_gas"));
        (start, bucket["blocks"].as_u64().unwrap(), fees.0, fees.1)
    };
    buckets.map(shown).collect()
}

/// Waits until all periods show the blocks of the node, and nothing else. A poll sees a block up to half a minute after the
/// time of its header.
async fn check_trend(service: &TestServer, node: &ArchiveNode) {
    for (period, width, length) in [("7d", 3600, 168), ("24h", 600, 144), ("1h", 60, 60)] {
        let expected_after = |delay: u64| {
            let now = seconds();
            expected(&node.blocks_from(now - now % width - (length - 1) * width, delay), width)
        };
        let is_right = |response: &Response| {
            response.status == 200 && {
                let shown = shown(&response.json());
                let blocks = |buckets: &[Summary]| buckets.iter().map(|it| it.1).sum::<u64>();
                // The delay is tried once all blocks are there.
                blocks(&shown) == blocks(&expected_after(0))
                    && (0..30).any(|delay| shown == expected_after(delay))
            }
        };
        service.wait_for(&format!("/v1/a/fee-trend?period={period}"), is_right).await;
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
async fn a_week_before_the_start_is_read_as_far_as_the_node_goes() {
    let refusing = ArchiveNode::start(|state| state.refusals = 3).await;
    let limited = ArchiveNode::start(|state| (state.max_blocks, state.history) = (60, 300)).await;
    for node in [&refusing, &limited] {
        check_trend(&node.serve("days = 7").await, node).await;
    }
    let ranges = refusing.state().ranges;
    assert!(ranges.iter().all(|(oldest, newest)| newest - oldest < 512));
    // One call each for seven days and the blocks since, and one each to see if they are there.
    assert!(ranges.len() <= 20, "{ranges:?}");
}

/// Builds the row of a bucket whose first block has this time.
fn bucket_row(width: u64, summary: Summary, first: u64) -> (BucketKey, BucketRow) {
    let (start, blocks, base_fees, tips) = summary;
    let [width, start, first, blocks] =
        [width, start, first, blocks].map(|number| u32::try_from(number).unwrap());
    let ratios = [0.5_f64.to_bits(); 3];
    ((7, width, start), (first, blocks, base_fees, tips, ratios, base_fees[1] + tips[1]))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gap_after_a_restart_is_read() {
    let directory = Directory::new("gap");
    let node = ArchiveNode::start(|_| {}).await;
    // A week is known, up to nine hours ago.
    let open = hours_ago(9);
    let week = open - (168 - 9) * 3600;
    let (before, after): (Vec<_>, Vec<_>) =
        node.blocks_from(week, 0).into_iter().partition(|block| block.0 < open);
    let mut saved = Rows::default();
    for width in [600, 3600] {
        for summary in expected(&before, width) {
            let mut times = before.iter().map(|block| block.0);
            let first = times.find(|time| *time >= summary.0).unwrap();
            if width == 3600 || first + 86_400 > open {
                saved.buckets.extend([bucket_row(width, summary, first)]);
            }
        }
    }
    // The service stopped after the first block of the next hour.
    let (time, base_fee, tip) = after[0];
    for width in [60, 600, 3600] {
        let summary = (time / width * width, 1, [base_fee; 3], [tip; 3]);
        saved.buckets.extend([bucket_row(width, summary, time)]);
    }
    saved.write(&directory.file());
    let service = node.serve(&directory.setting()).await;
    check_trend(&service, &node).await;
    // The days before are not read again: one call has the blocks of fourteen hours.
    let ranges = node.state().ranges;
    assert_eq!(ranges.len(), 1, "{ranges:?}");
    service.stop().await.unwrap();
}

/// Starts the program with a log of this chain, and waits until its refill has ended.
async fn start_process(config: &str) -> LoggedProcess {
    let process = LoggedProcess::start("refill", config);
    wait_until("the refill has not ended", async || process.log().contains("from fee history"))
        .await;
    process
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
        let process = start_process(&liar.checking_config()).await;
        let url = format!("http://{}/v1/a/fee-trend?period=7d", process.addresses[0]);
        let trend = wait_for(&http_client::new(), &url, |it| it.status == 200).await.json();
        let log = process.stop();
        assert!(log.contains("old blocks of an upstream contradict known ones"), "{name}: {log}");
        assert!(log.contains("contradicts the known blocks"), "{name}: {log}");
        let buckets = shown(&trend);
        for fee in buckets.iter().flat_map(|(_, _, base_fees, _)| base_fees) {
            assert!((1_000_000_000..1_000_010_000).contains(fee), "{name}: {fee} in {trend}");
        }
        let blocks: u64 = buckets.iter().map(|(_, blocks, ..)| blocks).sum();
        assert!((WINDOW..1200).contains(&blocks), "{name}: {blocks} blocks");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lying_node_is_replaced_by_the_next_one() {
    let honest = ArchiveNode::start(|_| {}).await;
    let liar = ArchiveNode::start(|state| state.lie = |_, fee| fee * 1000).await;
    let urls = [liar.node.url(), honest.node.url()];
    let config = format!("{}read_urls = {urls:?}\n", honest.checking_config());
    let service = TestServer::start(&config).await;
    check_trend(&service, &honest).await;
    assert!(!liar.state().ranges.is_empty());
}
