//! `GET /v1/{chain}/score` of the running service. Its grades have unit tests; a script compares them in tests/system.

use std::sync::Arc;

use serde_json::json;

use crate::fixtures;
use crate::mock_node::{MockNode, Reply, fee_history, start_service};
use crate::test_server::{Response, TestServer};

const CHAIN: &str = "block_time = \"20ms\"\nmax_age = \"3s\"\n";

/// Builds a reply with rewards of 5 gwei (percentile 10) and 20 (50).
fn blocks(newest: u64) -> Reply {
    let mut history = fee_history(newest, 3, 40);
    let row = ["0x12a05f200", "0x4a817c800"];
    history["reward"] = json!(vec![row; 20]);
    Reply::Result(history)
}

async fn score_with_heads(service: &TestServer, heads: u64) -> Response {
    let has_heads =
        |response: &Response| response.status == 200 && response.json()["window"]["heads"] == heads;
    service.wait_for("/v1/a/score", has_heads).await
}

#[tokio::test]
async fn by_default_the_rest_is_null_with_reasons() {
    let (node, service) = start_service("", CHAIN).await;
    score_with_heads(&service, 1).await;
    node.set_reply(Reply::history(1001, 3, 40));
    let response = score_with_heads(&service, 2).await;
    assert_eq!(response.header("x-newest-block"), "1001");
    fixtures::assert_snapshot("score-default", &format!("{:#}", response.json()));
    assert_eq!(service.get("/v1/b/score").await.status, 404);
}

#[tokio::test]
async fn with_percentiles_10_and_50_the_score_is_complete() {
    let node = MockNode::with_percentiles(7, json!([10, 50]), blocks(1000)).await;
    let percentiles = "pricing.reward_percentiles = [10, 50]\n";
    let service = TestServer::start(&node.chain("a", &format!("{CHAIN}{percentiles}"))).await;
    score_with_heads(&service, 1).await;
    for newest in 1001..=1026 {
        node.set_reply(blocks(newest));
        score_with_heads(&service, newest - 999).await;
    }
    let score = score_with_heads(&service, 27).await.json();
    assert_eq!(score["tips_decide"], true);
    // The tips are 5 and 20 gwei, the fair one 5, the base fee 3.
    fixtures::assert_snapshot("score-complete", &format!("{:#}", score["tiers"]));
    // A caller's tip is compared with percentile 10.
    let query = "max_fee_per_gas=20000000000&max_priority_fee_per_gas=5000000000";
    let inclusion = service.get(&format!("/v1/a/inclusion?{query}")).await.json();
    assert_eq!((&inclusion["percentile"], &inclusion["enough_in"]), (&json!(10), &json!(20)));
    let market = service.get("/v1/a/fee-market").await.json();
    assert_eq!(market["window"]["reward_percentiles"], json!([10, 50]));
    assert_eq!(market["strategy"], "network");
    assert_eq!(
        market["expected_price_per_gas"],
        json!({ "low": "8000000000", "medium": "8000000000", "high": "23000000000" })
    );
    assert_eq!(market["low"], market["suggestion"]["medium"]);

    let metrics = service.admin("/metrics").await.body;
    // Two heads are 25 deep.
    let lines = metrics.lines().filter(|line| line.starts_with("gas_suggestion_score_"));
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    fixtures::assert_snapshot("score-metrics", &lines.join("\n"));
}

#[tokio::test]
async fn a_calibrated_chain_shows_its_targets() {
    let node = MockNode::with_percentiles(7, json!([10, 60]), long_history(1000)).await;
    let strategy = "pricing.reward_percentiles = [10, 60]\npricing.targets = { high = 0.98 }\n";
    let service = TestServer::start(&node.chain("a", &format!("{CHAIN}{strategy}"))).await;
    score_with_heads(&service, 1).await;
    node.set_reply(long_history(1001));
    let score = score_with_heads(&service, 2).await.json();
    let [medium, high] = ["medium", "high"].map(|tier| &score["tiers"][tier]);
    assert_eq!((&score["strategy"], &medium["target"]), (&json!("calibrated"), &json!(0.95)));
    assert_eq!(high["target"], 0.98);
    assert_eq!(medium["outbid"], json!({ "10": 1.0, "50": null, "60": 0.0 }));
    assert!((medium["calibration_error"].as_f64().unwrap() - 0.05).abs() < 1e-9);
    let line = "gas_suggestion_score_target_ratio{chain=\"a\",tier=\"high\"} 0.98\n";
    service.wait_for_sample(line).await;
}

/// Builds a reply of 250 blocks with rewards of 5 and 40 gwei.
fn long_history(newest: u64) -> Reply {
    let rewards = |_| vec![5_000_000_000, 40_000_000_000];
    let history = fixtures::computed_history(newest - 249..=newest, |_| 3_000_000_000, rewards);
    Reply::Newest(Arc::new(history))
}
