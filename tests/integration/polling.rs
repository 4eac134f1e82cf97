//! Polling of nodes over HTTP: valid, invalid and missing responses.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::fixtures;
use crate::http_client;
use crate::mock_node::{MockNode, Reply, chain_of, fee_history};
use crate::test_server::{Response, TestServer};

const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// Returns the configuration of a chain that is polled every 50 ms.
fn fast_chain(key: &str, node: &MockNode) -> String {
    node.chain(key, "block_time = \"50ms\"\nstall_after = \"0s\"")
}

/// Starts a node with this reply to polls, and a service that polls it.
async fn start(reply: Reply) -> (MockNode, TestServer) {
    let node = MockNode::start(7, reply).await;
    let service = TestServer::start(&fast_chain("a", &node)).await;
    (node, service)
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_keeps_the_last_good_suggestion() {
    let (node, service) = start(Reply::history(1000, 3, 40)).await;
    let good = service.wait_for_ok(SUGGESTION).await.body;
    let gwei = 1_000_000_000;
    assert_eq!(good, fixtures::suggestion("a", "eip-1559", 6 * gwei, [40 * gwei, 48 * gwei]));
    let redirected = MockNode::start(7, Reply::history(2000, 99, 99)).await;
    node.set_reply(Reply::Raw(307, String::new()).with_header("location", redirected.url()));
    // When the second call arrives, the service has processed the response to the first.
    let polls = node.polls();
    let kept = service.wait_for(SUGGESTION, |_| node.polls() >= polls + 2).await;
    assert_eq!((kept.status, kept.body, redirected.polls()), (200, good, 0));
}

#[tokio::test]
async fn only_the_preferred_url_is_polled_while_it_is_healthy() {
    let started = Instant::now();
    let growing = || {
        let head = move || 1000 + u64::try_from(started.elapsed().as_millis() / 50).unwrap();
        Reply::computed(move |_| fee_history(head(), 3, 40))
    };
    let first = MockNode::start(7, growing()).await;
    let second = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let chain = chain_of(&[&first, &second], "block_time = \"50ms\"\nstall_after = \"1m\"");
    let service = TestServer::start(&chain).await;
    service.wait_for(SUGGESTION, |_| first.polls() >= 10).await;
    // At the start both are asked once.
    assert!(second.polls() <= 1);
    first.set_reply(Reply::Error(-32000));
    service.wait_for(SUGGESTION, |_| second.polls() >= 2).await;
    let last = service.get(SUGGESTION).await.newest_block();
    first.set_reply(growing());
    let is_newer = |response: &Response| response.newest_block() > last;
    service.wait_for(SUGGESTION, is_newer).await;
}

#[tokio::test]
async fn node_that_requires_an_integer_count_gets_one_from_then_on() {
    let accepting = |is_accepted: fn(&Value) -> bool| {
        let history = fee_history(1000, 3, 40);
        Reply::script(move |call| {
            let is_accepted = is_accepted(&call.params()[0]);
            if is_accepted { Reply::Result(history.clone()) } else { Reply::Error(-32602) }
        })
    };
    let (node, service) = start(accepting(Value::is_number)).await;
    service.wait_for_ok(SUGGESTION).await;
    // The first poll took two calls: one with a hex quantity, one with an integer. Later polls use the integer at once.
    let polls = node.polls();
    service.wait_for(SUGGESTION, |_| node.polls() >= polls + 3).await;
    assert_eq!((node.hex_count_calls(), node.calls("eth_chainId")), (1, 1));
    // The node is replaced by one that requires a quantity.
    node.set_reply(accepting(Value::is_string));
    service.wait_for(SUGGESTION, |_| node.hex_count_calls() >= 3).await;
    let integers = || node.polls() - node.hex_count_calls();
    let before = integers();
    service.wait_for(SUGGESTION, |_| node.hex_count_calls() >= 6).await;
    assert_eq!(integers(), before);
}

#[tokio::test]
async fn node_that_refuses_more_blocks_than_exist_is_asked_for_fewer() {
    let history = fee_history(19, 3, 40);
    let young = Arc::new(fixtures::window(&history, 3, 3));
    let (node, service) = start(Reply::NewestUpTo(3, young)).await;
    let has = |newest: u64, blocks: u64| {
        move |response: &Response| {
            let market = response.json();
            market["newest_block"] == newest && market["window"]["blocks"] == blocks
        }
    };
    service.wait_for("/v1/a/fee-market", has(2, 3)).await;
    // The chain grows to the window, and the usual request is answered. A smaller one may still be on its way.
    node.set_reply(Reply::Newest(Arc::new(fee_history(1000, 3, 40))));
    service.wait_for("/v1/a/fee-market", has(1000, 20)).await;
}

#[tokio::test]
async fn a_thousand_requests_cause_no_upstream_call_also_in_an_outage() {
    let outage = Reply::Raw(503, String::new());
    for (reply, status) in [(Reply::history(1000, 3, 40), 200), (outage, 503)] {
        let node = MockNode::start(7, reply).await;
        // One poll at the start, the next after an hour.
        let chain = fast_chain("a", &node).replace("50ms", "1h") + "max_age = \"3h\"\n";
        let service = TestServer::start(&chain).await;
        service
            .wait_for(SUGGESTION, |response| response.status == status && node.polls() > 0)
            .await;

        let began = Instant::now();
        let client = http_client::new();
        let url = service.url(SUGGESTION);
        join_all((0..50).map(async |_| {
            for _ in 0..20 {
                assert_eq!(client.get(&url).send().await.unwrap().status(), status);
            }
        }))
        .await;
        // A poll that fails is repeated, but not each second.
        let repeated = if status == 200 { 0 } else { began.elapsed().as_secs() + 2 };
        assert!(node.polls() as u64 <= 1 + repeated, "{} polls", node.polls());
        assert!(node.calls("eth_chainId") as u64 <= 1 + repeated);
    }
}

/// The node responds to `eth_chainId` only after it has received `eth_feeHistory`.
#[tokio::test]
async fn first_poll_sends_its_two_calls_concurrently() {
    let history_requested = Arc::new(tokio::sync::Semaphore::new(0));
    let node = MockNode::scripted(7, move |call| {
        if call.method == "eth_chainId" {
            return Reply::OnceReleased(Arc::clone(&history_requested), json!("0x7"));
        }
        history_requested.add_permits(1);
        Reply::history(1000, 3, 40)
    })
    .await;
    let chain = fast_chain("a", &node).replace("50ms", "1m") + "max_age = \"3m\"\n";
    let service = TestServer::start(&chain).await;
    service.wait_for_ok(SUGGESTION).await;
    assert_eq!(service.count("gas_suggestion_polls_total{chain=\"a\",outcome=\"ok\"}").await, 1);
}

#[tokio::test]
async fn unusable_and_outlying_replies_are_counted_by_their_reason() {
    let with_reward = |reward: u128| {
        let mut history = fee_history(1000, 3, 3);
        history["reward"][3] = json!([format!("{reward:#x}")]);
        Reply::Result(history)
    };
    let genesis = json!({
        "oldestBlock": "0x0", "baseFeePerGas": ["0x0", "0x0"], "gasUsedRatio": [0.0], "reward": [["0x0"]],
    });
    // The body is valid, but not compressed.
    let compressed = Reply::history(1000, 3, 40).with_header("content-encoding", "gzip");
    let replies = [
        (7, Reply::Error(-32601), "unsupported"),
        (8, compressed, "unexpected_encoding"),
        (9, with_reward(1 << 100), "above_maximum"),
        (137, Reply::Result(genesis), "genesis"),
        (11, with_reward(300_000_000_000_000), "ok"),
    ];
    let (mut nodes, mut chains) = (Vec::new(), String::new());
    for (id, reply, _) in &replies {
        let node = MockNode::start(*id, reply.clone()).await;
        chains += &fast_chain(&format!("c{id}"), &node);
        nodes.push(node);
    }
    let service = TestServer::start(&chains).await;
    for (id, _, reason) in replies {
        let labels = format!("{{chain=\"c{id}\",upstream=\"0\",outcome=\"{reason}\"}}");
        let counter = format!("gas_suggestion_upstream_attempts_total{labels}");
        service.wait_for_sample(&counter).await;
        let status = if reason == "ok" { 200 } else { 503 };
        assert_eq!(service.get(&format!("/v1/{id}/gas-suggestion")).await.status, status, "{id}");
    }
    service.wait_for_sample("gas_suggestion_outlying_reward_blocks{chain=\"c11\"} 1").await;
    // A lower head is published once it has been repeated.
    nodes[4].set_reply(Reply::history(900, 3, 3));
    service.wait_for_sample("gas_suggestion_head_regressions_total{chain=\"c11\"} 1").await;
}

#[tokio::test]
async fn agreement_publishes_what_most_upstreams_confirm_and_counts_the_others() {
    let liar = MockNode::start(7, Reply::history(1000, 3000, 3000)).await;
    let honest = MockNode::start(7, Reply::history(1000, 3, 3)).await;
    let ahead = MockNode::start(7, Reply::history(1001, 3, 3)).await;
    let serve = async |nodes: &[&MockNode], agreement| {
        let chain =
            format!("block_time = \"100ms\"\nstall_after = \"1m\"\nagreement = {agreement}");
        TestServer::start(&chain_of(nodes, &chain)).await
    };
    let service = serve(&[&liar, &honest, &ahead], 3).await;
    let response = service.wait_for_ok(SUGGESTION).await;
    assert_eq!(response.json()["base_fee_per_gas"], "6000000000");
    let has_counted = |response: &Response| {
        let mut lines = response.body.lines();
        let name = "gas_suggestion_upstream_disagreements_total";
        lines.any(|line| line.starts_with(name) && !line.ends_with(" 0"))
    };
    service.wait_for_admin("/metrics", has_counted).await;
    // Two that disagree publish nothing.
    let service = serve(&[&liar, &honest], 2).await;
    service.wait_for_sample("outcome=\"disagrees\"").await;
    assert_eq!(service.get(SUGGESTION).await.status, 503);
    // One more decides, and one that fails is replaced by the next.
    for reply in [Reply::history(1000, 3000, 3000), Reply::Error(-32000)] {
        liar.set_reply(reply);
        let service = serve(&[&liar, &honest, &ahead], 2).await;
        let response = service.wait_for_ok(SUGGESTION).await;
        assert_eq!(response.json()["base_fee_per_gas"], "6000000000");
    }
}
