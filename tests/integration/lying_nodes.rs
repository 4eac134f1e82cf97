//! Nodes that report false amounts.

use serde_json::json;

use crate::mock_node::{MockNode, Reply, chain_of, fee_history};
use crate::test_server::{Response, TestServer};

const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// Starts a service that polls these nodes in this order. Their heads stand still.
async fn serve(nodes: &[&MockNode], more: &str) -> TestServer {
    let chain = format!("block_time = \"100ms\"\nstall_after = \"1m\"\n{more}");
    TestServer::start(&chain_of(nodes, &chain)).await
}

#[tokio::test]
async fn outlying_rewards_are_published_and_reported_and_absurd_ones_rejected() {
    let node = MockNode::start(7, Reply::history(1000, 3, 3)).await;
    let service = serve(&[&node], "").await;
    service.wait_for_ok(SUGGESTION).await;
    for (newest, reward, sample) in [
        (1001, 0x0001_10d9_316e_c000, "gas_suggestion_outlying_reward_blocks{chain=\"a\"} 1"),
        (1002, 1_u128 << 100, "outcome=\"above_maximum\""),
    ] {
        let mut history = fee_history(newest, 3, 3);
        history["reward"][3] = json!([format!("{reward:#x}")]);
        node.set_reply(Reply::Result(history));
        service.wait_for_sample(sample).await;
    }
}

#[tokio::test]
async fn agreement_publishes_what_most_upstreams_confirm() {
    let liar = MockNode::start(7, Reply::history(1000, 3000, 3000)).await;
    let honest = MockNode::start(7, Reply::history(1000, 3, 3)).await;
    let ahead = MockNode::start(7, Reply::history(1001, 3, 3)).await;
    let all = [&liar, &honest, &ahead];
    let service = serve(&all, "agreement = 3").await;
    let response = service.wait_for_ok(SUGGESTION).await;
    assert_eq!(response.json()["base_fee_per_gas"], "6000000000");
    let has_counted = |response: &Response| {
        let mut lines = response.body.lines();
        let name = "gas_suggestion_upstream_disagreements_total";
        lines.any(|line| line.starts_with(name) && !line.ends_with(" 0"))
    };
    service.wait_for_admin("/metrics", has_counted).await;
    // Two that disagree publish nothing.
    let service = serve(&all[..2], "agreement = 2").await;
    service.wait_for_sample("outcome=\"disagrees\"").await;
    assert_eq!(service.get(SUGGESTION).await.status, 503);
    // One more decides, and one that fails is replaced by the next.
    for reply in [Reply::history(1000, 3000, 3000), Reply::Error(-32000)] {
        liar.set_reply(reply);
        let response = serve(&all, "agreement = 2").await.wait_for_ok(SUGGESTION).await;
        assert_eq!(response.json()["base_fee_per_gas"], "6000000000");
    }
}
