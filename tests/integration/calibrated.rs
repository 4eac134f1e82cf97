//! The calibrated strategy in the running service: its tips come from asks, which a second reading brings or polls have.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::read::GzDecoder;
use gas_suggestion::extras::demo::DemoRecording;
use serde_json::{Value, json};

use crate::fixtures;
use crate::mock_node::{Call, MockNode, Reply};
use crate::test_server::{Response, TestServer};

const ETHEREUM: &str = "src/extras/demo/recordings/ethereum.json.gz";

/// A node that plays a recording, up to a head that the test moves.
struct Player {
    recording: DemoRecording,
    /// Index of the newest block.
    head: AtomicUsize,
    /// Index from which on each tip is tripled, as on another branch.
    dearer_from: AtomicUsize,
}

impl Player {
    async fn start(head: usize) -> (Arc<Self>, MockNode) {
        let recording = fixtures::recording(ETHEREUM);
        let dearer_from = usize::MAX.into();
        let player = Arc::new(Self { recording, head: head.into(), dearer_from });
        let of_node = Arc::clone(&player);
        (player, MockNode::scripted(7, move |call| of_node.reply(call)).await)
    }

    fn reply(&self, call: &Call) -> Reply {
        match call.method.as_str() {
            "eth_chainId" => Reply::Result(json!("0x7")),
            "eth_feeHistory" => Reply::Result(self.fee_history(&call.params())),
            _ => Reply::Error(-32601),
        }
    }

    fn fee_history(&self, params: &Value) -> Value {
        let head = self.head.load(Ordering::Relaxed);
        let oldest = self.recording.oldest_block;
        let mined = match params[1].as_str() {
            Some("latest") => head + 1,
            _ => usize::try_from(fixtures::small_quantity(&params[1]) - oldest).unwrap() + 1,
        };
        let count = usize::try_from(fixtures::small_quantity(&params[0])).unwrap();
        let percentiles: Vec<f64> =
            params[2].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
        let mut history = fixtures::recorded_history(&self.recording, mined, &percentiles);
        let dearer_from = self.dearer_from.load(Ordering::Relaxed);
        for row in history["reward"].as_array_mut().unwrap().iter_mut().skip(dearer_from) {
            for tip in row.as_array_mut().unwrap() {
                *tip = json!(format!("{:#x}", 3 * fixtures::quantity(tip)));
            }
        }
        for ratio in history["gasUsedRatio"].as_array_mut().unwrap().iter_mut().skip(dearer_from) {
            *ratio = json!(ratio.as_f64().unwrap() / 2.0);
        }
        fixtures::window(&history, mined, count.min(mined))
    }

    /// Number of the block with this index.
    fn number(&self, index: usize) -> u64 {
        self.recording.oldest_block + index as u64
    }

    async fn move_to(&self, service: &TestServer, head: usize) -> Value {
        self.head.store(head, Ordering::Relaxed);
        service.wait_for_block("/v1/a/gas-suggestion", self.number(head)).await.json()
    }
}

async fn start_service(node: &MockNode, more: &str) -> TestServer {
    TestServer::start(&node.chain(
        "a",
        &format!("block_time = \"100ms\"\nmax_age = \"20s\"\npricing.ask_interval = 10\n{more}"),
    ))
    .await
}

/// Waits until asks up to the block `number` are known, and a suggestion was made with them.
async fn wait_for_asks(service: &TestServer, number: u64) {
    let is_read = |response: &Response| {
        response.status == 200 && response.json()["rewards_to"].as_u64() >= Some(number)
    };
    service.wait_for("/v1/a/fees", is_read).await;
}

fn tips(suggestion: &Value) -> [String; 2] {
    ["medium", "high"]
        .map(|tier| suggestion[tier]["max_priority_fee_per_gas"].as_str().unwrap().to_owned())
}

/// Reads the expected tips of medium and high after each block.
fn expected_tips() -> Vec<[String; 2]> {
    let file = fixtures::read("tests/fixtures/expected/calibrated-ethereum.csv.gz");
    let mut text = String::new();
    GzDecoder::new(&*file).read_to_string(&mut text).unwrap();
    let row = |line: &str| {
        let columns: Vec<_> = line.split(',').collect();
        [2, 3].map(|column| columns[column].to_owned())
    };
    text.lines().skip(1).map(row).collect()
}

/// Returns the parameters of all requests for a fee history.
fn fee_histories(node: &MockNode) -> Vec<Value> {
    let calls = node.scripted_calls().into_iter().filter(|call| call.method == "eth_feeHistory");
    calls.map(|call| call.params()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_readings_bring_the_tips_and_polls_stay_as_documented() {
    let (player, node) = Player::start(455).await;
    let service = start_service(&node, "").await;
    let expected = expected_tips();
    // At the start all is read up to the head, later up to each multiple of the 50 blocks in 5 s.
    for (head, read_to) in [(455, 455), (466, 466), (475, 466), (484, 466)] {
        player.move_to(&service, head).await;
        wait_for_asks(&service, player.number(read_to)).await;
        let suggestion = player.move_to(&service, head + 1).await;
        assert_eq!(tips(&suggestion), expected[read_to], "{head}");
    }
    let market = service.get("/v1/a/fee-market").await.json();
    assert_eq!(market["strategy"], "calibrated");
    let later = start_service(&node, "").await;
    wait_for_asks(&later, player.number(466)).await;
    let suggestion = player.move_to(&service, 486).await;
    assert_eq!(player.move_to(&later, 486).await, suggestion);
    let polls = fee_histories(&node).into_iter().filter(|params| params[1] == "latest");
    assert!(polls.into_iter().all(|params| params == json!(["0x14", "latest", [60]])));
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_with_both_percentiles_read_once_and_have_the_tips_of_each_head() {
    let (player, node) = Player::start(455).await;
    let service = start_service(&node, "pricing.reward_percentiles = [10, 60]").await;
    let expected = expected_tips();
    wait_for_asks(&service, player.number(455)).await;
    for (head, expected) in expected.iter().enumerate().take(490).skip(456) {
        let suggestion = player.move_to(&service, head).await;
        assert_eq!(tips(&suggestion), *expected, "{head}");
    }
    let calls = fee_histories(&node);
    let (polls, readings): (Vec<_>, Vec<_>) =
        calls.into_iter().partition(|params| params[1] == "latest");
    assert!(polls.into_iter().all(|params| params == json!(["0x14", "latest", [10, 60]])));
    // The node has no block before the recording, so a second call asks for the rest of the first one.
    assert_eq!(readings.len(), 2, "{readings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reorg_of_five_blocks_the_suggestion_is_that_of_a_fresh_start() {
    const HEAD: usize = 450;
    let (player, node) = Player::start(HEAD).await;
    let both = "pricing.reward_percentiles = [10, 60]";
    let service = start_service(&node, both).await;
    wait_for_asks(&service, player.number(HEAD)).await;
    // The newest five blocks are replaced, and one follows.
    player.dearer_from.store(HEAD - 4, Ordering::Relaxed);
    let after = player.move_to(&service, HEAD + 1).await;
    assert_ne!(tips(&after), expected_tips()[HEAD + 1]);
    let fresh = start_service(&node, both).await;
    wait_for_asks(&fresh, player.number(HEAD + 1)).await;
    let suggestions = [&service, &fresh].map(|service| player.move_to(service, HEAD + 2));
    let [after, of_fresh] = futures_util::future::join_all(suggestions).await.try_into().unwrap();
    assert_eq!(after, of_fresh);
}
