//! Failover between the RPC URLs of a chain.

use std::time::Duration;

use crate::mock_node::{MockNode, Reply, dead_url, fee_history};
use crate::test_server::{Response, TestServer};

const SUGGESTION: &str = "/v1/a/gas-suggestion";

fn chain(urls: &[String]) -> String {
    // The heads of the nodes stand still.
    let stall = "stall_after = \"1m\"";
    format!("[chains.a]\nchain_id = 7\nrpc_urls = {urls:?}\nblock_time = \"100ms\"\n{stall}\n")
}

#[tokio::test]
async fn unresponsive_urls_do_not_hide_a_healthy_one() {
    for block_time in ["100ms", "2s"] {
        let unresponsive = [
            MockNode::start(7, Reply::NoResponse).await,
            MockNode::start(7, Reply::NoResponse).await,
        ];
        let good = MockNode::start(7, Reply::history(1000, 3, 40)).await;
        let urls = [unresponsive[0].url(), unresponsive[1].url(), good.url()];
        let service = TestServer::start(&chain(&urls).replace("100ms", block_time)).await;
        service.wait_for_ok(SUGGESTION).await;
        // Later polls do not wait for the unresponsive nodes.
        service.wait_for(SUGGESTION, |_| good.polls() >= 3).await;
        let calls = unresponsive.each_ref().map(MockNode::polls);
        assert!(calls.iter().all(|calls| (1..=2).contains(calls)), "{calls:?}");
        assert_eq!(service.get(SUGGESTION).await.header("x-stale"), "");
    }
}

#[tokio::test]
async fn slow_node_is_used_unless_another_is_faster() {
    // An attempt has a timeout of 500 ms, and a longer one after all nodes were too slow.
    let slow = Reply::slow(Duration::from_millis(700), fee_history(1000, 3, 40));
    let slow = MockNode::start(7, slow).await;
    let service = TestServer::start(&chain(&[slow.url()])).await;
    service.wait_for_ok(SUGGESTION).await;
    let polls = slow.polls();
    let is_polled = |it: &Response| it.status == 200 && slow.polls() >= polls + 3;
    service.wait_for(SUGGESTION, is_polled).await;

    // A second URL that nothing listens at does not count as faster.
    let service = TestServer::start(&chain(&[slow.url(), dead_url()])).await;
    service.wait_for_ok(SUGGESTION).await;
    drop(service);
    let fast = MockNode::start(7, Reply::history(2000, 3, 40)).await;
    let service = TestServer::start(&chain(&[slow.url(), fast.url()])).await;
    service.wait_for(SUGGESTION, |_| fast.polls() >= 5).await;
    assert_eq!(service.get(SUGGESTION).await.header("x-newest-block"), "2000");
}

#[tokio::test]
async fn only_the_preferred_url_is_polled_while_it_is_healthy() {
    let first = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let second = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let text = chain(&[first.url(), second.url()]) + "chain_parameters = \"off\"\n";
    // With these blocks the head stands still for six seconds before the other node is asked.
    let service = TestServer::start(&text.replace("100ms", "2s")).await;
    service.wait_for(SUGGESTION, |_| first.polls() >= 3).await;
    // At the start both are asked once.
    assert!(second.polls() <= 1);

    first.set_reply(Reply::Error(-32000));
    service.wait_for(SUGGESTION, |_| second.polls() >= 2).await;
    first.set_reply(Reply::history(1001, 3, 40));
    service.wait_for_block(SUGGESTION, 1001).await;
}

#[tokio::test]
async fn another_url_at_the_same_head_changes_no_fee() {
    let first = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let second = MockNode::start(7, Reply::history(1000, 9, 90)).await;
    let service = TestServer::start(&chain(&[first.url(), second.url()])).await;
    service.wait_for_ok(SUGGESTION).await;
    // The head does not change, so the service polls the backup now and then for a newer one.
    let was_polled_twice = |response: &Response| {
        assert!(response.body.contains("\"46000000000\""), "{response:?}");
        second.polls() >= 2
    };
    service.wait_for(SUGGESTION, was_polled_twice).await;
    service.wait_for(SUGGESTION, was_polled_twice).await;
}
