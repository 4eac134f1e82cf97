//! The second, slow reading: rewards that polls do not request, by which suggestions are graded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::fixtures::{computed_history, small_quantity};
use crate::mock_node::{Call, MockNode, Reply, chain_of};
use crate::process::Process;
use crate::test_server::{Response, TestServer};

/// Half a second a block: ten blocks take 5 s.
const CHAIN: &str = "block_time = \"500ms\"\nmax_age = \"20s\"\nmax_polls_per_block = 10\n\
    pricing.base_fee_floor = \"0 wei\"\n";
const GWEI: u64 = 1_000_000_000;

/// A chain whose blocks follow from their numbers, with a head that the test moves.
#[derive(Debug)]
pub(crate) struct Model {
    head: AtomicU64,
    /// First block of another branch.
    branch_from: AtomicU64,
    /// True if the node refuses block numbers.
    is_refusing: AtomicBool,
    /// Most blocks of one call.
    most_blocks: u64,
}

impl Model {
    pub(crate) fn new(head: u64) -> Self {
        Self {
            head: head.into(),
            branch_from: u64::MAX.into(),
            is_refusing: false.into(),
            most_blocks: 1024,
        }
    }

    /// Starts a node of the chain.
    pub(crate) async fn start(self) -> (Arc<Self>, MockNode) {
        let model = Arc::new(self);
        let of_node = Arc::clone(&model);
        (model, MockNode::scripted(7, move |call| of_node.reply(call)).await)
    }

    fn reply(&self, call: &Call) -> Reply {
        match call.method.as_str() {
            "eth_chainId" => Reply::Result(json!("0x7")),
            "eth_feeHistory" => self.fee_history(&call.params()),
            _ => Reply::Error(-32601),
        }
    }

    fn fee_history(&self, params: &Value) -> Reply {
        let count = small_quantity(&params[0]);
        let newest = if params[1] == "latest" {
            self.head.load(Ordering::Relaxed)
        } else if self.is_refusing.load(Ordering::Relaxed) || count > self.most_blocks {
            return Reply::Error(-32602);
        } else {
            small_quantity(&params[1])
        };
        let percentiles = params[2].as_array().unwrap();
        let rewards = |block| percentiles.iter().map(|it| self.reward(block, it).into()).collect();
        let base_fee = |block| (3 * GWEI + block % 4 + self.branch(block)).into();
        let numbers = (newest + 1).saturating_sub(count)..=newest;
        Reply::Result(computed_history(numbers, base_fee, rewards))
    }

    /// Returns 1 for a block of the other branch.
    fn branch(&self, block: u64) -> u64 {
        u64::from(block >= self.branch_from.load(Ordering::Relaxed))
    }

    fn reward(&self, block: u64, percentile: &Value) -> u64 {
        match percentile.as_u64() {
            Some(10) => (1 + self.branch(block)) * GWEI + block * 7919 % 997 * 10_000_000,
            Some(60) => (20 + block * 53 % 13 + self.branch(block)) * GWEI,
            _ => panic!("{percentile}"),
        }
    }
}

/// Returns the readings that the node was asked for, number of blocks and newest block. Fails unless all polls were the
/// documented call.
fn readings(node: &MockNode) -> Vec<(u64, u64)> {
    let calls = node.scripted_calls().into_iter().filter(|call| call.method == "eth_feeHistory");
    let (polls, readings): (Vec<_>, Vec<_>) =
        calls.map(|call| call.params()).partition(|params| params[1] == "latest");
    assert!(!polls.is_empty());
    for params in polls {
        assert_eq!(params, json!(["0x14", "latest", [60]]));
    }
    let reading = |params: Value| {
        assert_eq!(params[2], json!([10, 60]));
        (small_quantity(&params[0]), small_quantity(&params[1]))
    };
    readings.into_iter().map(reading).collect()
}

/// Waits until so many readings have had this outcome.
async fn wait_for_readings(service: &TestServer, outcome: &str, count: u64) {
    let labels = format!("{{chain=\"a\",outcome=\"{outcome}\"}}");
    let sample = format!("gas_suggestion_reward_readings_total{labels} {count}\n");
    service.wait_for_sample(&sample).await;
}

pub(crate) fn with_asks(node: &MockNode, interval: u64) -> String {
    chain_of(&[node], &format!("{CHAIN}pricing.ask_interval = {interval}\n"))
}

async fn move_to(model: &Model, service: &TestServer, head: u64) {
    model.head.store(head, Ordering::Relaxed);
    service.wait_for_block("/v1/a/gas-suggestion", head).await;
}

/// Waits until the fee is compared with `of` blocks at this percentile.
async fn wait_for_inclusion(service: &TestServer, percentile: u64, of: u64, tip: u64) -> Value {
    let query = format!("max_fee_per_gas=90000000000&max_priority_fee_per_gas={tip}");
    let is_read = |response: &Response| {
        response.status == 200
            && response.json()["percentile"] == percentile
            && response.json()["of"] == of
    };
    service.wait_for(&format!("/v1/a/inclusion?{query}"), is_read).await.json()
}

#[tokio::test]
async fn every_tenth_block_is_followed_by_one_call_and_polls_stay_as_documented() {
    let (model, node) = Model::new(2003).start().await;
    let service = TestServer::start(&with_asks(&node, 10)).await;
    // The 20 blocks up to block 2000 are compared.
    let included = wait_for_inclusion(&service, 10, 20, 6 * GWEI).await;
    let is_enough = |block: &u64| model.reward(*block, &json!(10)) <= 6 * GWEI;
    let expected = (1981..=2000).filter(is_enough).count();
    assert!(expected > 0 && expected < 20);
    assert_eq!(included["enough_in"], expected);
    assert_eq!(readings(&node), [(1024, 2000)]);
    for head in [2006, 2009, 2010, 2011, 2014, 2019, 2022, 2023] {
        move_to(&model, &service, head).await;
    }
    wait_for_readings(&service, "ok", 3).await;
    assert_eq!(readings(&node), [(1024, 2000), (10, 2010), (10, 2020)]);
    // The score compares with the percentile that was read.
    let is_graded =
        |response: &Response| response.json()["tiers"]["high"]["outbid"]["10"].is_number();
    service.wait_for("/v1/a/score", is_graded).await;
    // A reorganisation replaces blocks 2016 to 2023, so five of those that were read are unknown.
    model.branch_from.store(2016, Ordering::Relaxed);
    move_to(&model, &service, 2024).await;
    wait_for_readings(&service, "ok", 4).await;
    assert_eq!(readings(&node)[3..], [(5, 2020)]);
    // A gap leaves nothing of what was read.
    move_to(&model, &service, 2100).await;
    wait_for_readings(&service, "ok", 5).await;
    assert_eq!(readings(&node)[4..], [(1024, 2100)]);
    // The blocks before the first poll came by readings, with the rewards that polls have.
    let history = service.get("/v1/a/fee-history?blocks=1000").await.json();
    let blocks = history["blocks"].as_array().unwrap();
    assert_eq!((blocks.len(), &blocks[0]["number"]), (1000, &json!(1101)));
    let reward = model.reward(1101, &json!(60)).to_string();
    assert_eq!(blocks[0]["rewards"], json!([reward]));
}

#[tokio::test]
async fn a_node_that_limits_the_blocks_of_a_call_is_read_in_parts() {
    let (_, node) = Model { most_blocks: 300, ..Model::new(1500) }.start().await;
    let service = TestServer::start(&with_asks(&node, 10)).await;
    wait_for_inclusion(&service, 10, 20, GWEI).await;
    // 1,024 and 512 blocks are refused. The oldest block of each call is repeated in the next one.
    let expected =
        [(1024, 1500), (512, 1500), (256, 1500), (256, 1245), (256, 990), (256, 735), (4, 480)];
    assert_eq!(readings(&node), expected);
}

#[tokio::test]
async fn a_reading_that_was_refused_leaves_no_hole() {
    let (model, node) = Model::new(2003).start().await;
    let service = TestServer::start(&with_asks(&node, 10)).await;
    wait_for_inclusion(&service, 10, 20, GWEI).await;
    model.is_refusing.store(true, Ordering::Relaxed);
    move_to(&model, &service, 2011).await;
    wait_for_readings(&service, "failed", 1).await;
    model.is_refusing.store(false, Ordering::Relaxed);
    move_to(&model, &service, 2021).await;
    wait_for_readings(&service, "ok", 2).await;
    assert_eq!(readings(&node), [(1024, 2000), (10, 2010), (20, 2020)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strategy_on_the_command_line_is_that_of_all_chains() {
    let (_, node) = Model::new(2003).start().await;
    for strategy in ["network", "calibrated"] {
        let arguments = ["serve", "--strategy", strategy, "--rpc-url", &node.url()];
        let service = Process::start(&arguments, &[("GAS_LOG__FORMAT", "json")]);
        let is_served =
            |response: &Response| response.status == 200 && response.json()["strategy"] == strategy;
        service.wait_for("/v1/7/fee-market", is_served).await;
    }
}
