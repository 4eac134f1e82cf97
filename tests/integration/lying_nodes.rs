//! Nodes that report a false head, false amounts, or the data of another chain.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::mock_node::{MockNode, Reply, chain_of, fee_history};
use crate::test_server::{Response, TestServer};

const BLOCK_TIME: Duration = Duration::from_millis(500);
const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// A chain with a block per [`BLOCK_TIME`].
#[derive(Debug, Clone, Copy)]
struct Chain(Instant);

impl Chain {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn head(self) -> u64 {
        1000 + u64::try_from(self.0.elapsed().as_millis() / BLOCK_TIME.as_millis()).unwrap()
    }

    /// Reply of a node that claims this many blocks more and these base fees.
    fn reply(self, lead: u64, base_fee_gwei: u64) -> Reply {
        Reply::computed(move |_| fee_history(self.head() + lead, base_fee_gwei, base_fee_gwei))
    }

    /// Reply of a node that tells the truth.
    fn truth(self) -> Reply {
        self.reply(0, 3)
    }
}

/// Starts nodes with these replies, and a service that polls them in this order.
async fn start(replies: &[Reply], more: &str) -> (Vec<MockNode>, TestServer) {
    let mut nodes = Vec::new();
    for reply in replies {
        nodes.push(MockNode::start(7, reply.clone()).await);
    }
    let service = serve(&nodes, more).await;
    (nodes, service)
}

async fn serve(nodes: &[MockNode], more: &str) -> TestServer {
    let nodes: Vec<_> = nodes.iter().collect();
    TestServer::start(&chain_of(&nodes, &format!("block_time = \"500ms\"\n{more}"))).await
}

/// Reads the suggestion for some blocks. Fails if it is wrong and not labelled, which is later than the chain's head or
/// with the liar's prices, or if it does not follow the head.
async fn assert_follows(name: &str, service: &TestServer, chain: Chain, blocks: u32) {
    let until = Instant::now() + BLOCK_TIME * blocks;
    let mut last = 0;
    while Instant::now() < until {
        let response = service.get(SUGGESTION).await;
        let head = chain.head();
        if response.status == 200 && response.header("x-stale").is_empty() {
            last = response.newest_block();
            let base_fee = &response.json()["base_fee_per_gas"];
            let is_right = last <= head && base_fee == "6000000000";
            assert!(is_right, "{name}: {last} at head {head}, base fee {base_fee}");
        }
        tokio::time::sleep(BLOCK_TIME / 10).await;
    }
    assert!(last + 2 >= chain.head(), "{name}: {last} is not the head {}", chain.head());
}

/// A lead that the chain could have is served for a few blocks.
#[tokio::test]
async fn small_lead_of_a_spare_is_corrected_soon() {
    let run = async |lead: u64| {
        let chain = Chain::new();
        let (nodes, service) = start(&[chain.truth(), chain.reply(lead, 3000)], "").await;
        service.wait_for_ok(SUGGESTION).await;
        nodes[0].set_reply(Reply::Error(-32000));
        service.wait_for(SUGGESTION, |_| nodes[1].polls() >= 1).await;
        nodes[0].set_reply(chain.truth());
        let hiccup_until = chain.head() + 10;
        service.wait_for(SUGGESTION, |_| chain.head() >= hiccup_until).await;
        assert_follows(&format!("{lead} ahead"), &service, chain, 10).await;
    };
    tokio::join!(run(1), run(2), run(3), run(4));
}

#[tokio::test]
async fn outlying_rewards_are_published_and_reported_and_absurd_ones_rejected() {
    let chain = Chain::new();
    let (nodes, service) = start(&[chain.truth()], "").await;
    service.wait_for_ok(SUGGESTION).await;
    for (reward, sample) in [
        (0x0001_10d9_316e_c000, "gas_suggestion_outlying_reward_blocks{chain=\"a\"} 1"),
        (1_u128 << 100, "outcome=\"above_maximum\""),
    ] {
        let row = json!([format!("{reward:#x}")]);
        nodes[0].set_reply(Reply::computed(move |_| {
            let mut history = fee_history(chain.head(), 3, 3);
            history["reward"][3] = row.clone();
            history
        }));
        service.wait_for_sample(sample).await;
    }
}

#[tokio::test]
async fn agreement_publishes_what_most_upstreams_confirm() {
    let chain = Chain::new();
    let replies = [chain.reply(0, 3000), chain.truth(), chain.reply(1, 3)];
    let (nodes, service) = start(&replies, "agreement = 3").await;
    let response = service.wait_for_ok(SUGGESTION).await;
    assert_eq!(response.json()["base_fee_per_gas"], "6000000000");
    let has_counted = |response: &Response| {
        let mut lines = response.body.lines();
        let name = "gas_suggestion_upstream_disagreements_total";
        lines.any(|line| line.starts_with(name) && !line.ends_with(" 0"))
    };
    service.wait_for_admin("/metrics", has_counted).await;
    // Two that disagree publish nothing.
    let service = serve(&nodes[..2], "agreement = 2").await;
    service.wait_for_sample("outcome=\"disagrees\"").await;
    assert_eq!(service.get(SUGGESTION).await.status, 503);
    // One more decides.
    let service = serve(&nodes, "agreement = 2").await;
    service.wait_for_ok(SUGGESTION).await;
    assert_follows("one more", &service, chain, 10).await;
    // One that fails is replaced by the next.
    nodes[0].set_reply(Reply::Error(-32000));
    serve(&nodes, "agreement = 2").await.wait_for_ok(SUGGESTION).await;
}
