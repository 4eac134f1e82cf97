//! The calibrated strategy in the running service: it remembers the blocks that one poll does not return.

use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use gas_suggestion::extras::demo::DemoRecording;
use serde_json::{Value, json};

use crate::fixtures;
use crate::mock_node::{MockNode, Reply};
use crate::test_server::TestServer;

const ETHEREUM: &str = "src/extras/demo/recordings/ethereum.json.gz";

/// Blocks that the tips depend on.
const BLOCKS: usize = 400;

/// Fee history up to the recorded block `head`, with percentiles 10 and 60. From index `dearer_from` on, each tip is
/// tripled.
fn history(recording: &DemoRecording, head: usize, dearer_from: usize) -> Arc<Value> {
    let mut history = fixtures::recorded_history(recording, head + 1, &[10.0, 60.0]);
    for row in history["reward"].as_array_mut().unwrap().iter_mut().skip(dearer_from) {
        for tip in row.as_array_mut().unwrap() {
            *tip = json!(format!("{:#x}", 3 * fixtures::quantity(tip)));
        }
    }
    Arc::new(history)
}

fn reply(recording: &DemoRecording, head: usize) -> Reply {
    Reply::Newest(history(recording, head, usize::MAX))
}

async fn start_node(reply: Reply) -> MockNode {
    MockNode::with_percentiles(7, json!([10, 60]), reply).await
}

async fn start_service(node: &MockNode) -> TestServer {
    let more = "block_time = \"10ms\"\npricing.strategy = \"calibrated\"";
    TestServer::start(&node.chain("a", more)).await
}

/// Waits for the suggestion at the block with this index, and returns it.
async fn suggestion_at(service: &TestServer, recording: &DemoRecording, index: usize) -> Value {
    let number = recording.oldest_block + index as u64;
    service.wait_for_block("/v1/a/gas-suggestion", number).await.json()
}

fn tips(suggestion: &Value) -> [String; 2] {
    ["medium", "high"]
        .map(|tier| suggestion[tier]["max_priority_fee_per_gas"].as_str().unwrap().to_owned())
}

/// Reads the expected tips of both tiers after each block.
fn expected_tips() -> Vec<[String; 2]> {
    let file = fixtures::read("tests/fixtures/expected/calibrated-ethereum.csv.gz");
    let mut text = String::new();
    GzDecoder::new(&*file).read_to_string(&mut text).unwrap();
    let row = |line: &str| {
        let columns: Vec<_> = line.split(',').collect();
        [1, 2].map(|column| columns[column].to_owned())
    };
    text.lines().skip(1).map(row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_starts_later_suggests_the_same() {
    let recording = fixtures::recording(ETHEREUM);
    let node = start_node(reply(&recording, 395)).await;
    let first = start_service(&node).await;
    let expected = expected_tips();
    for (head, expected) in (395..).zip(&expected[395..415]) {
        node.set_reply(reply(&recording, head));
        let suggestion = suggestion_at(&first, &recording, head).await;
        assert_eq!(tips(&suggestion), *expected, "{head}");
    }
    let later = start_service(&node).await;
    for (head, expected) in (415..).zip(&expected[415..430]) {
        node.set_reply(reply(&recording, head));
        let suggestion = suggestion_at(&first, &recording, head).await;
        assert_eq!(suggestion_at(&later, &recording, head).await, suggestion, "{head}");
        assert_eq!(tips(&suggestion), *expected, "{head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reorg_of_five_blocks_the_suggestion_is_that_of_a_fresh_start() {
    const HEAD: usize = 450;
    let recording = fixtures::recording(ETHEREUM);
    let node = start_node(reply(&recording, HEAD)).await;
    let service = start_service(&node).await;
    let before = suggestion_at(&service, &recording, HEAD).await;
    // The newest five blocks are replaced, and one follows.
    node.set_reply(Reply::Newest(history(&recording, HEAD + 1, HEAD - 4)));
    let after = suggestion_at(&service, &recording, HEAD + 1).await;
    let fresh = start_service(&node).await;
    assert_eq!(suggestion_at(&fresh, &recording, HEAD + 1).await, after);
    assert_ne!(tips(&after), tips(&before));
    assert_ne!(tips(&after), expected_tips()[HEAD + 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_large_request_is_sent_at_the_start_and_after_a_gap() {
    let recording = fixtures::recording(ETHEREUM);
    let node = start_node(reply(&recording, 450)).await;
    let service = start_service(&node).await;
    suggestion_at(&service, &recording, 450).await;
    // Averages are those of the window, not of all blocks that the tips depend on.
    let market = service.get("/v1/a/fee-market").await.json();
    let oldest = recording.oldest_block + 431;
    let window = json!({ "oldest_block": oldest, "blocks": 20, "reward_percentiles": [10, 60] });
    assert_eq!(market["window"], window);
    node.wait_for_poll().await;
    assert_eq!(node.requested_blocks(BLOCKS), 1);
    // Thirty blocks later, the twenty of a usual poll do not adjoin the known ones. Nothing is published before the rest
    // is known.
    node.set_reply(reply(&recording, 480));
    let suggestion = suggestion_at(&service, &recording, 480).await;
    assert_eq!(tips(&suggestion), expected_tips()[480]);
    // Each poll that saw the jump sent one, until the jump was confirmed.
    let requested = node.requested_blocks(BLOCKS);
    assert!(requested >= 2, "{requested}");
    for _ in 0..3 {
        node.wait_for_poll().await;
    }
    assert_eq!(node.requested_blocks(BLOCKS), requested);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_refuses_so_many_blocks_is_asked_for_the_window_at_once() {
    let recording = fixtures::recording(ETHEREUM);
    let reply = |head| Reply::NewestUpTo(128, history(&recording, head, usize::MAX));
    let node = start_node(reply(100)).await;
    let service = start_service(&node).await;
    for head in 100..130 {
        node.set_reply(reply(head));
        suggestion_at(&service, &recording, head).await;
    }
    // The service remembers the blocks from the 81st on.
    let market = service.get("/v1/a/fee-history?blocks=100").await.json();
    assert_eq!(market["blocks"].as_array().unwrap().len(), 49);
    let failed = "gas_suggestion_polls_total{chain=\"a\",outcome=\"failed\"} 0\n";
    service.wait_for_sample(failed).await;
}
