//! Blocks from a node: a mock node, and anvil.

use std::sync::atomic::{AtomicBool, Ordering};

use gas_suggestion::extras::demo::DemoRecording;
use serde_json::{Value, json};

use super::{ETHEREUM, row, run_failing, run_json};
use crate::anvil::Anvil;
use crate::fixtures::{self, small_quantity};
use crate::mock_node::{Call, MockNode, Reply};
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
        let recording = DemoRecording::from_gzip(&fixtures::read(ETHEREUM)).unwrap();
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
    let columns: Vec<_> = percentiles.as_array().unwrap().iter().map(column).collect();
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

/// Returns the recording's column of this percentile, or of the nearest recorded one.
fn column(percentile: &Value) -> usize {
    // The recorded percentiles are 0, 5, …, 100.
    usize::try_from((percentile.as_u64().unwrap() + 2) / 5).unwrap()
}

/// Runs the blocking command off the runtime, which serves the node meanwhile.
async fn run_blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(run).await.unwrap()
}

async fn run_json_on(node: &RecordedNode, blocks: &str) -> Value {
    let (url, blocks) = (node.url(), blocks.to_owned());
    run_blocking(move || run_json(&["--rpc-url", &url, "--blocks", &blocks])).await
}

async fn error_on(node: &RecordedNode) -> String {
    let url = node.url();
    let (code, stderr) =
        run_blocking(move || run_failing(&["--rpc-url", &url, "--blocks", "300"])).await;
    assert_eq!(code, Some(1), "{stderr}");
    assert!(!stderr.contains("canary"), "{stderr}");
    stderr
}

#[tokio::test(flavor = "multi_thread")]
async fn node_gets_one_call_for_the_needed_percentiles() {
    let node = RecordedNode::start(Behaviour::AtMost(1024)).await;
    let mut result = run_json_on(&node, "1024").await;
    let calls = node.calls();
    assert_eq!(calls.len(), 1);
    let percentiles = json!([0, 5, 10, 15, 20, 30, 33, 40, 45, 50, 60, 70, 90]);
    assert_eq!(calls[0], json!(["0x400", "latest", percentiles]));

    let recording = DemoRecording::from_gzip(&fixtures::read(ETHEREUM)).unwrap();
    let mut blocks = fee_history(&recording, 0, recording.blocks() - 1, &percentiles);
    blocks["rewardPercentiles"] = percentiles;
    let file = File::new("node-blocks", &blocks.to_string());
    let mut recorded = run_blocking(move || run_json(&[file.path()])).await;
    assert_eq!(result["estimators"].take(), recorded["estimators"].take());
    assert_eq!(result["name"], "the node's newest blocks");
    assert_eq!(result["oldest_block"], recorded["oldest_block"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_repeat_until_a_capped_node_has_returned_all_blocks() {
    let node = RecordedNode::start(Behaviour::AtMost(100)).await;
    let all = run_json_on(&node, "250").await;
    assert_eq!((&all["quotes"], &all["newest_block"]), (&176.into(), &23_598_757.into()));
    let calls = node.calls();
    let calls: Vec<_> = calls.iter().map(|params| [&params[0], &params[1]]).collect();
    let before = |blocks: u64| format!("{:#x}", 23_598_757 - blocks);
    let expected = [
        [json!("0xfa"), json!("latest")],
        [json!("0x96"), json!(before(100))],
        [json!("0x32"), json!(before(200))],
    ];
    assert_eq!(calls, expected.each_ref().map(|[count, newest]| [count, newest]));
    let whole = RecordedNode::start(Behaviour::AtMost(1024)).await;
    assert_eq!(run_json_on(&whole, "250").await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn integer_block_counts_are_sent_to_nodes_that_need_them() {
    let node = RecordedNode::start(Behaviour::Integers).await;
    let result = run_json_on(&node, "250").await;
    assert_eq!(result["quotes"], 176);
    let counts: Vec<_> = node.calls().into_iter().map(|mut params| params[0].take()).collect();
    assert_eq!(counts, [json!("0xfa"), json!(250)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn node_errors_do_not_reveal_its_url() {
    let node = RecordedNode::start(Behaviour::Newest).await;
    let url = node.url();
    let (code, stderr) =
        run_blocking(move || run_failing(&["--rpc-url", &url, "--blocks", "1100"])).await;
    // The recording has fewer blocks and starts after genesis, so the command requests 76 older blocks. This node
    // returns its newest ones instead.
    assert_eq!(code, Some(1));
    assert_eq!(stderr, "error: eth_feeHistory of 76 blocks up to 23597733 returned other blocks\n");

    let few = RecordedNode::start(Behaviour::AtMost(1)).await;
    let stderr = error_on(&few).await;
    assert_eq!(
        stderr,
        "error: 256 calls of eth_feeHistory returned only 256 blocks; request fewer with --blocks\n"
    );

    let gone = few.url();
    drop(few);
    let (code, stderr) = run_blocking(move || run_failing(&["--rpc-url", &gone])).await;
    assert_eq!(code, Some(1));
    assert!(
        stderr
            .starts_with("error: eth_feeHistory of the newest 1024 blocks failed: cannot connect"),
        "{stderr}"
    );
    assert!(!stderr.contains("canary"), "{stderr}");

    let (code, stderr) = run_blocking(|| run_failing(&["--rpc-url", "canary"])).await;
    assert_eq!(code, Some(2));
    assert!(stderr.contains("expected an http:// or https:// URL"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn node_error_after_the_first_call_fails_the_run() {
    let node = RecordedNode::start(Behaviour::FirstOnly).await;
    let url = node.url();
    let (code, stderr) =
        run_blocking(move || run_failing(&["--rpc-url", &url, "--blocks", "2000"])).await;
    let expected = "error: eth_feeHistory of 976 blocks up to 23597733 failed: the node returned error -32000: ***\n";
    assert_eq!((code, stderr.as_str()), (Some(1), expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn anvil_blocks_are_scored_from_genesis() {
    let anvil = Anvil::start(0, &[]);
    anvil.call("anvil_mine", json!(["0x5a"])).await;
    let url = anvil.url();
    let result = run_blocking(move || run_json(&["--rpc-url", &url, "--blocks", "1000"])).await;
    // Blocks 0 to 90, all empty.
    assert_eq!((&result["oldest_block"], &result["newest_block"]), (&0.into(), &90.into()));
    assert_eq!(result["quotes"], 17);
    let alloy = row(&result, "alloy");
    assert_eq!((&alloy["included_next"], &alloy["overpaid_p50"]), (&1.0.into(), &"1".into()));
    assert_eq!(alloy["tip_covered"], Value::Null);
}
