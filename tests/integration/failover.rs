//! Failover between the RPC URLs of a chain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::mock_node::{MockNode, Reply, chain_of, fee_history};
use crate::test_server::{Response, TestServer};

const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// Starts a service with a block time of 100 ms that polls these nodes in this order.
async fn serve(nodes: &[&MockNode]) -> TestServer {
    let chain = "block_time = \"100ms\"\nstall_after = \"1m\"";
    TestServer::start(&chain_of(nodes, chain)).await
}

#[tokio::test]
async fn unresponsive_urls_do_not_hide_a_healthy_one() {
    let unresponsive =
        [MockNode::start(7, Reply::NoResponse).await, MockNode::start(7, Reply::NoResponse).await];
    let good = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let service = serve(&[&unresponsive[0], &unresponsive[1], &good]).await;
    service.wait_for_ok(SUGGESTION).await;
    // Later polls do not wait for the unresponsive nodes.
    service.wait_for(SUGGESTION, |_| good.polls() >= 3).await;
    let calls = unresponsive.each_ref().map(MockNode::polls);
    assert!(calls.iter().all(|calls| (1..=2).contains(calls)), "{calls:?}");
    assert_eq!(service.get(SUGGESTION).await.header("x-stale"), "");
}

#[tokio::test]
async fn only_the_preferred_url_is_polled_while_it_is_healthy() {
    // Each poll finds a new block, so that the head never stands still.
    let newest = Arc::new(AtomicU64::new(1000));
    let growing = || {
        let newest = Arc::clone(&newest);
        Reply::computed(move |_| fee_history(newest.fetch_add(1, Ordering::Relaxed), 3, 40))
    };
    let first = MockNode::start(7, growing()).await;
    let second = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let service = serve(&[&first, &second]).await;
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
