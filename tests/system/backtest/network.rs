//! Blocks from a node: a mock node, and anvil.

use std::sync::atomic::{AtomicBool, Ordering};

use gas_suggestion::extras::demo::DemoRecording;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::{ETHEREUM, row, run_failing, run_json};
use crate::anvil::Anvil;
use crate::fixtures::{self, small_quantity};
use crate::mock_node::{Call, MockNode, Reply, dead_url};
use crate::process::File;

/// A node that serves the recorded blocks.
struct RecordedNode(MockNode);

/// Restrictions of the node.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    /// Returns at most this many blocks per call.
    AtMost(usize),
    /// Accepts only integer block counts.
    Integers,
    /// Returns an error to every call but the first.
    FirstOnly,
    /// Always returns the newest blocks.
    Newest,
}

impl RecordedNode {
    async fn start(behaviour: Behaviour) -> Self {
        let recording = fixtures::recording(ETHEREUM);
        let was_called = AtomicBool::new(false);
        let script = move |params: &Value| {
            let is_first = !was_called.swap(true, Ordering::Relaxed);
            if params[0].is_u64() != (behaviour == Behaviour::Integers) {
                return Reply::RawError("{\"code\":-32602,\"message\":\"canary\"}".into());
            }
            if behaviour == Behaviour::FirstOnly && !is_first {
                return Reply::RawError("{\"code\":-32000,\"message\":\"canary\"}".into());
            }
            let count = params[0].as_u64().unwrap_or_else(|| small_quantity(&params[0]));
            let last = if params[1] == "latest" || behaviour == Behaviour::Newest {
                recording.blocks() - 1
            } else {
                usize::try_from(small_quantity(&params[1]) - recording.oldest_block).unwrap()
            };
            let most = if let Behaviour::AtMost(most) = behaviour { most } else { 1024 };
            let first = (last + 1).saturating_sub(usize::try_from(count).unwrap().min(most));
            Reply::Result(fee_history(&recording, first, last, &params[2]))
        };
        Self(MockNode::scripted(1, move |call| script(&call.params())).await)
    }

    fn url(&self) -> String {
        self.0.url().replace("http://", "http://canary:canary@") + "/canarykey"
    }

    /// Returns the parameters of all calls.
    fn calls(&self) -> Vec<Value> {
        let calls = self.0.scripted_calls();
        assert!(calls.iter().all(|call| call.method == "eth_feeHistory"), "{calls:?}");
        calls.iter().map(Call::params).collect()
    }
}

/// Returns the result of `eth_feeHistory` for the recorded blocks from `first` to `last`.
fn fee_history(recording: &DemoRecording, first: usize, last: usize, percentiles: &Value) -> Value {
    // The recorded percentiles are 0, 5, …, 100.
    let nearest =
        |percentile: &Value| usize::try_from((percentile.as_u64().unwrap() + 2) / 5).unwrap();
    let columns: Vec<_> = percentiles.as_array().unwrap().iter().map(nearest).collect();
    let quantity = |wei: &u64| format!("{wei:#x}");
    let rows = recording.reward[first..=last].iter();
    let rows = rows.map(|row| columns.iter().map(|column| quantity(&row[*column])).collect());
    json!({
        "oldestBlock": quantity(&(recording.oldest_block + first as u64)),
        "baseFeePerGas": recording.base_fee_per_gas[first..=last + 1].iter().map(quantity).collect::<Vec<_>>(),
        "gasUsedRatio": recording.gas_used_ratio[first..=last],
        "reward": rows.collect::<Vec<Vec<_>>>(),
    })
}

/// Runs the blocking command, while the runtime serves the node.
fn run_on(node: &RecordedNode, blocks: &str) -> Value {
    block_in_place(|| run_json(&["--rpc-url", &node.url(), "--blocks", blocks]))
}

/// Returns the error, which must not have the node's URL.
fn error_on(node: &RecordedNode, blocks: &str) -> String {
    let arguments = ["--rpc-url", &node.url(), "--blocks", blocks];
    let (code, stderr) = block_in_place(|| run_failing(&arguments));
    assert!(code == Some(1) && !stderr.contains("canary"), "{code:?} {stderr}");
    stderr
}

#[tokio::test(flavor = "multi_thread")]
async fn node_gets_one_call_for_the_needed_percentiles() {
    let node = RecordedNode::start(Behaviour::AtMost(1024)).await;
    let mut result = run_on(&node, "1024");
    let calls = node.calls();
    assert_eq!(calls.len(), 1);
    let percentiles = json!([0, 5, 10, 15, 20, 30, 33, 40, 45, 50, 60, 70, 90]);
    assert_eq!(calls[0], json!(["0x400", "latest", percentiles]));

    let recording = fixtures::recording(ETHEREUM);
    let mut blocks = fee_history(&recording, 0, recording.blocks() - 1, &percentiles);
    blocks["rewardPercentiles"] = percentiles;
    let file = File::new("node-blocks", &blocks.to_string());
    let mut recorded = block_in_place(|| run_json(&[file.path()]));
    assert_eq!(result["estimators"].take(), recorded["estimators"].take());
    assert_eq!(result["name"], "the node's newest blocks");
    assert_eq!(result["oldest_block"], recorded["oldest_block"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_repeat_for_capped_nodes_and_those_that_need_integers() {
    let whole = run_on(&RecordedNode::start(Behaviour::AtMost(1024)).await, "250");
    assert_eq!((&whole["quotes"], &whole["newest_block"]), (&176.into(), &23_598_757.into()));
    let before = |blocks: u64| format!("{:#x}", 23_598_757 - blocks);
    let capped = json!([["0xfa", "latest"], ["0x96", before(100)], ["0x32", before(200)]]);
    let integers = json!([["0xfa", "latest"], [250, "latest"]]);
    for (behaviour, expected) in [(Behaviour::AtMost(100), capped), (Behaviour::Integers, integers)]
    {
        let node = RecordedNode::start(behaviour).await;
        assert_eq!(run_on(&node, "250"), whole);
        let calls = node.calls();
        let calls: Vec<_> = calls.iter().map(|params| [&params[0], &params[1]]).collect();
        assert_eq!(json!(calls), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_errors_do_not_reveal_its_url() {
    for (behaviour, blocks, error) in [
        // The recording has fewer blocks and starts after genesis, so the command requests 76 older blocks. This node
        // returns its newest ones instead.
        (
            Behaviour::Newest,
            "1100",
            "eth_feeHistory of 76 blocks up to 23597733 returned other blocks",
        ),
        (
            Behaviour::AtMost(1),
            "300",
            "256 calls of eth_feeHistory returned only 256 blocks; request fewer with --blocks",
        ),
        (
            Behaviour::FirstOnly,
            "2000",
            "eth_feeHistory of 976 blocks up to 23597733 failed: the node returned error -32000: ***",
        ),
    ] {
        let node = RecordedNode::start(behaviour).await;
        assert_eq!(error_on(&node, blocks), format!("error: {error}\n"));
    }

    let gone = dead_url().replace("http://", "http://canary:canary@");
    let (code, stderr) = run_failing(&["--rpc-url", &gone]);
    let expected = "error: eth_feeHistory of the newest 1024 blocks failed: cannot connect";
    assert!(code == Some(1) && stderr.starts_with(expected), "{stderr}");
    assert!(!stderr.contains("canary"), "{stderr}");

    let (code, stderr) = run_failing(&["--rpc-url", "canary"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("expected an http:// or https:// URL"), "{stderr}");
}

#[tokio::test]
async fn anvil_blocks_are_scored_from_genesis() {
    let anvil = Anvil::start(&[]);
    anvil.call("anvil_mine", json!(["0x5a"])).await;
    let result = run_json(&["--rpc-url", &anvil.url(), "--blocks", "1000"]);
    // Blocks 0 to 90, all empty.
    assert_eq!((&result["oldest_block"], &result["newest_block"]), (&0.into(), &90.into()));
    assert_eq!(result["quotes"], 17);
    let alloy = row(&result, "alloy");
    // None of them has an ask.
    assert_eq!((&alloy["included_next"], &alloy["overpaid_p50"]), (&Value::Null, &Value::Null));
    assert_eq!(alloy["tip_covered"], Value::Null);
}
