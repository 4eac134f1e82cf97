//! A node whose replies look well but whose newest block is old: how the routes label it, and what the check costs. The
//! simulator has nodes that sync, lag and halt.

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

/// Header of a block that is so many seconds old.
fn header(number: u64, age: u64) -> Value {
    let now = fixtures::seconds();
    json!({"number": format!("{number:#x}"), "timestamp": format!("{:#x}", now - age)})
}

fn config(nodes: &[&MockNode], more: &str) -> String {
    chain_of(nodes, &format!("block_time = \"100ms\"\n{more}"))
}

#[tokio::test]
async fn node_that_is_behind_is_served_as_stale_from_the_first_reply() {
    let node = View::new(1000, 2 * HOUR).node(3).await;
    let service = TestServer::start(&config(&[&node], "")).await;
    assert!(!is_fresh(&service.wait_for_ok(SUGGESTION).await));
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
    assert_eq!(service.get("/v1/chains").await.json()[0]["reason"], Value::Null);
}

/// When a header is due has unit tests.
#[tokio::test]
async fn header_of_a_current_node_costs_no_call_per_poll_and_none_if_it_is_off() {
    for (max_block_age, reads) in [("1h", 1), ("0s", 0)] {
        let node = View::new(1000, 0).node(3).await;
        let more = format!("max_block_age = \"{max_block_age}\"\n[history]\nrefill = false");
        let service = TestServer::start(&config(&[&node], &more)).await;
        service.wait_for(SUGGESTION, |_| node.polls() > 5).await;
        assert_eq!(node.header_reads(), reads, "{max_block_age}");
    }
}
