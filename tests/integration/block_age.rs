//! Nodes whose replies look well but whose newest block is old: they sync, lag, or stand at the genesis block.

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::fixtures;
use crate::mock_node::{MockNode, Reply, chain_of, fee_history};
use crate::test_server::{Response, TestServer};

const SUGGESTION: &str = "/v1/a/gas-suggestion";
const HOUR: u64 = 3600;

/// A chain with a block per 100 ms, as seen by a node that is so many seconds behind.
#[derive(Debug, Clone, Copy)]
struct View {
    started: Instant,
    first_block: u64,
    seconds_behind: u64,
}

impl View {
    fn new(first_block: u64, seconds_behind: u64) -> Self {
        Self { started: Instant::now(), first_block, seconds_behind }
    }

    fn head(self) -> u64 {
        self.first_block + u64::try_from(self.started.elapsed().as_millis() / 100).unwrap()
    }

    fn polls(self, base_fee_gwei: u64) -> Reply {
        Reply::computed(move |_| fee_history(self.head(), base_fee_gwei, 30))
    }

    fn header(self) -> Reply {
        Reply::computed(move |_| header(self.head(), self.seconds_behind))
    }

    async fn node(self, base_fee_gwei: u64) -> MockNode {
        let node = MockNode::start(7, self.polls(base_fee_gwei)).await;
        node.set_header_reply(self.header());
        node
    }
}

fn is_fresh(response: &Response) -> bool {
    response.header("x-stale").is_empty()
}

async fn assert_stale_at_first(service: &TestServer) {
    assert_eq!(service.wait_for_ok(SUGGESTION).await.header("x-stale"), "true");
}

/// Header of a block that is so many seconds old.
fn header(number: u64, age: u64) -> Value {
    let now = fixtures::seconds();
    json!({"number": format!("{number:#x}"), "timestamp": format!("{:#x}", now - age)})
}

fn config(nodes: &[&MockNode], more: &str) -> String {
    chain_of(nodes, &format!("block_time = \"100ms\"\n{more}"))
}

async fn chain_summary(service: &TestServer) -> Value {
    service.get("/v1/chains").await.json()[0].clone()
}

#[tokio::test]
async fn node_that_is_behind_is_served_as_stale_from_the_first_reply() {
    let node = View::new(1000, 2 * HOUR).node(3).await;
    let service = TestServer::start(&config(&[&node], "")).await;
    assert_stale_at_first(&service).await;
    // New blocks at the pace of the chain change nothing.
    let polls = node.polls();
    let stays_stale = |response: &Response| {
        assert!(!is_fresh(response), "{response:?}");
        node.polls() > polls + 5
    };
    service.wait_for(SUGGESTION, stays_stale).await;
    let two_hours_ago = SystemTime::now() - Duration::from_secs(2 * HOUR - 60);
    let two_hours_ago = humantime::format_rfc3339_millis(two_hours_ago).to_string();
    // Now and then the node has got another block between a poll and the reading of the header.
    let has_own_header = |chains: &Response| {
        chains.json()[0]["newest_block_at"].as_str().unwrap() < two_hours_ago.as_str()
    };
    let chain = service.wait_for("/v1/chains", has_own_header).await.json()[0].clone();
    assert_eq!([&chain["status"], &chain["reason"]], ["stale", "old_block"]);
    assert_eq!(service.get("/v1/a/fee-market").await.json()["stale"], true);
    assert!(chain["observed_at"].as_str().unwrap() > two_hours_ago.as_str(), "{chain}");
    // The node catches up.
    node.set_header_reply(View::new(1000, 0).header());
    service.wait_for(SUGGESTION, is_fresh).await;
    assert_eq!(chain_summary(&service).await["reason"], Value::Null);
}

#[tokio::test]
async fn node_without_headers_is_stale_while_it_syncs() {
    // The node lacks the method, or always fails.
    for code in [-32601, -32000] {
        let view = View::new(1000, 0);
        let node = MockNode::start(7, view.polls(3)).await;
        node.set_header_reply(Reply::Error(code));
        node.set_syncing_reply(Reply::Result(json!({"currentBlock": "0x3e8"})));
        let service = TestServer::start(&config(&[&node], "")).await;
        assert_stale_at_first(&service).await;
        assert_eq!(chain_summary(&service).await["reason"], "old_block");
        node.set_syncing_reply(Reply::Result(json!(false)));
        service.wait_for(SUGGESTION, is_fresh).await;
    }
}

#[tokio::test]
async fn genesis_block_with_a_base_fee_of_0_is_no_price_of_a_known_chain() {
    let genesis = || {
        json!({"oldestBlock": "0x0", "baseFeePerGas": ["0x0", "0x0"], "gasUsedRatio": [0.0],
            "reward": [["0x0"]]})
    };
    let legacy = fixtures::suggestion("Local chain", "legacy", 0, [1_000_000_000, 1_200_000_000]);
    for (chain_id, expected) in [(1, None), (137, None), (31_337, Some(legacy))] {
        let node = MockNode::start(chain_id, Reply::Result(genesis())).await;
        let more = "block_time = \"100ms\"\npricing.priority_fee_floor = \"1 gwei\"";
        let service = TestServer::start(&node.chain("a", more)).await;
        service.wait_for(SUGGESTION, |_| node.polls() > 3).await;
        let response = service.get(SUGGESTION).await;
        match expected {
            Some(body) => assert_eq!(response.body, body),
            None => response.assert_problem(503, "no_data"),
        }
    }
}

#[tokio::test]
async fn chain_halts_with_a_standing_head_and_restarts_with_an_old_block() {
    let header_age = |seconds| Reply::computed(move |_| header(1000, seconds));
    let node = MockNode::start(7, Reply::history(1000, 3, 30)).await;
    node.set_header_reply(header_age(0));
    let toml = config(&[&node], "max_block_age = \"2s\"\nstall_after = \"1h\"");
    let service = TestServer::start(&toml).await;
    assert!(is_fresh(&service.wait_for_ok(SUGGESTION).await));
    service.wait_for(SUGGESTION, |response| !is_fresh(response)).await;
    assert_eq!(chain_summary(&service).await["reason"], "standing_head");
    node.set_header_reply(header_age(3));
    let restarted = TestServer::start(&toml).await;
    restarted.wait_for(SUGGESTION, |response| !is_fresh(response)).await;
    assert_eq!(chain_summary(&restarted).await["reason"], "old_block");
}

#[tokio::test]
async fn header_of_a_current_node_is_read_once_in_half_a_minute() {
    let node = View::new(1000, 0).node(3).await;
    let more = "[history]\nrefill = false";
    let service = TestServer::start(&config(&[&node], more)).await;
    service.wait_for(SUGGESTION, |_| node.polls() > 10).await;
    assert_eq!(node.header_reads(), 1);
    // A failed poll makes it due.
    node.set_reply(Reply::Error(-32000));
    let polls = node.polls();
    service.wait_for(SUGGESTION, |_| node.polls() > polls + 1).await;
    node.set_reply(View::new(1500, 0).polls(3));
    service.wait_for(SUGGESTION, |response| response.header("x-newest-block") >= "1500").await;
    assert!(node.header_reads() > 1);
    drop(service);
    let unchecked = config(&[&node], &format!("max_block_age = \"0s\"\n{more}"));
    let off = TestServer::start(&unchecked).await;
    let (reads, polls) = (node.header_reads(), node.polls());
    off.wait_for(SUGGESTION, |_| node.polls() > polls + 10).await;
    assert_eq!(node.header_reads(), reads);
}
