//! `GET /v1/{chain}/wait`: what ends a wait, and what does not.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::mock_node::{MockNode, Reply};
use crate::test_server::{Response, TestServer, wait_until};

/// The price of a reply with a base fee of 3 gwei and a tip of 40.
const DEAR: &str = "43000000000";
const GWEI_30: &str = "30000000000";

/// Starts a service that polls a chain of short blocks, whose data is stale after two seconds.
async fn start(node: &MockNode, server: &str) -> TestServer {
    let chain = node.chain("a", "block_time = \"50ms\"\nmax_age = \"5s\"\nstall_after = \"0s\"");
    TestServer::with_server(server, &chain).await
}

fn wait(service: &TestServer, query: &str) -> tokio::task::JoinHandle<Response> {
    let url = service.url(&format!("/v1/a/wait?{query}"));
    let request = crate::http_client::new().get(url).timeout(Duration::from_mins(1)).send();
    tokio::spawn(async move { Response::read(request.await.unwrap()).await })
}

/// Waits until so many requests wait.
async fn wait_for_waiting(service: &TestServer, count: u64) {
    wait_until("requests wait", async || service.count("gas_suggestion_streams").await == count)
        .await;
}

#[tokio::test]
async fn a_wait_ends_when_the_price_is_low_enough() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let service = start(&node, "").await;
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    let at_once = service.get(&format!("/v1/a/wait?below={DEAR}")).await;
    assert_eq!((at_once.status, at_once.header("cache-control")), (200, "no-store"));
    assert_eq!(at_once.header("x-newest-block"), "1000");
    let waiting = wait(&service, &format!("below={GWEI_30}&timeout=60"));
    wait_for_waiting(&service, 1).await;
    node.set_reply(Reply::history(1001, 3, 40));
    service.wait_for_block("/v1/a/gas-suggestion", 1001).await;
    assert!(!waiting.is_finished(), "the price is still too high");
    node.set_reply(Reply::history(1002, 3, 20));
    let response = waiting.await.unwrap();
    assert_eq!((response.status, response.header("x-newest-block")), (200, "1002"));
    let market = response.json();
    assert_eq!(market["expected_price_per_gas"]["medium"], "23000000000");
    let members = |body: &serde_json::Value| -> Vec<String> {
        body.as_object().unwrap().keys().cloned().collect()
    };
    let same = service.get("/v1/a/fee-market").await.json();
    assert_eq!(members(&market), members(&same));
    wait_for_waiting(&service, 0).await;
}

#[tokio::test]
async fn a_wait_ends_without_a_price_at_the_time_out() {
    let node = MockNode::start(7, Reply::Error(-32000)).await;
    let service = start(&node, "").await;
    let started = Instant::now();
    let no_data = wait(&service, &format!("below={DEAR}&timeout=1")).await.unwrap();
    no_data.assert_problem(503, "no_data");
    node.set_reply(Reply::history(1000, 3, 40));
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    let too_dear = wait(&service, &format!("below={GWEI_30}&timeout=1")).await.unwrap();
    assert_eq!((too_dear.status, too_dear.body.as_str()), (204, ""));
    assert_eq!(too_dear.header("cache-control"), "no-store");
    assert!(started.elapsed() >= Duration::from_secs(2));
    // HEAD does not wait.
    let started = Instant::now();
    for (below, status) in [(DEAR, 200), (GWEI_30, 204)] {
        let path = format!("/v1/a/wait?below={below}&timeout=120");
        assert_eq!(service.send(Method::HEAD, &path, &[]).await.status, status);
    }
    assert!(started.elapsed() < Duration::from_mins(1));
}

#[tokio::test]
async fn a_stale_price_ends_no_wait_and_the_first_one_does() {
    let node = MockNode::start(7, Reply::Error(-32000)).await;
    let service = start(&node, "").await;
    let first = wait(&service, &format!("below={DEAR}&timeout=60"));
    wait_for_waiting(&service, 1).await;
    node.set_reply(Reply::history(1000, 3, 40));
    assert_eq!(first.await.unwrap().status, 200);
    node.set_reply(Reply::Error(-32000));
    let is_stale = |response: &Response| response.header("x-stale") == "true";
    service.wait_for("/v1/a/gas-suggestion", is_stale).await;
    let waiting = wait(&service, &format!("below={DEAR}&timeout=60"));
    wait_for_waiting(&service, 1).await;
    // The same block ends the wait as soon as it is read again.
    node.set_reply(Reply::history(1000, 3, 40));
    let response = waiting.await.unwrap();
    assert_eq!((response.status, &response.json()["stale"]), (200, &json!(false)));
}

#[tokio::test]
async fn a_percentile_of_the_day_is_a_limit() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let service = start(&node, "").await;
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    let unknown = service.get("/v1/a/wait?below=p20").await;
    unknown.assert_problem(503, "no_data");
    // Twenty blocks of ten minutes are more than an hour, at one price.
    let chain = node.chain("a", "block_time = \"10m\"\nstall_after = \"0s\"");
    let service = TestServer::start(&chain).await;
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    let response = service.get("/v1/a/wait?below=p1").await;
    assert_eq!((response.status, &response.json()["level"]), (200, &json!("normal")));
}

#[tokio::test]
async fn waiting_requests_count_as_streams() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let limits = "[limits]\nmax_streams = 2\n";
    let service = start(&node, limits).await;
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    let waiting: Vec<_> =
        (0..2).map(|_| wait(&service, &format!("below={GWEI_30}&timeout=60"))).collect();
    wait_for_waiting(&service, 2).await;
    let refused = service.get(&format!("/v1/a/wait?below={DEAR}")).await;
    refused.assert_problem(503, "overloaded");
    assert_eq!(service.get("/v1/a/gas-suggestion").await.status, 200);
    // A client that leaves frees its place.
    for request in waiting {
        request.abort();
    }
    wait_for_waiting(&service, 0).await;
    assert_eq!(service.get(&format!("/v1/a/wait?below={DEAR}")).await.status, 200);
}

#[tokio::test]
async fn a_drain_ends_a_wait_which_no_request_timeout_does() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let service = start(&node, "[limits]\nrequest_timeout = \"1s\"\n").await;
    service.wait_for_ok("/v1/a/gas-suggestion").await;
    let waiting = wait(&service, &format!("below={GWEI_30}&timeout=60"));
    wait_for_waiting(&service, 1).await;
    let longer = wait(&service, &format!("below={GWEI_30}&timeout=2"));
    assert_eq!(longer.await.unwrap().status, 204);
    service.stop().await.unwrap();
    let response = waiting.await.unwrap();
    response.assert_problem(503, "not_ready");
    assert_eq!(response.header("retry-after"), "1");
}

#[tokio::test]
async fn bad_limits_and_time_outs_are_refused_with_their_name() {
    let node = MockNode::start(7, Reply::history(1000, 3, 40)).await;
    let service = start(&node, "").await;
    for (name, query) in [
        ("below", ""),
        ("below", "below="),
        ("below", "below=p0"),
        ("below", "below=p100"),
        ("below", "below=1.5"),
        ("below", "below=-1"),
        ("below", "below=340282366920938463463374607431768211456"),
        ("below", "below=1&below=1"),
        ("timeout", "below=1&timeout=0"),
        ("timeout", "below=1&timeout=121"),
        ("timeout", "below=1&timeout=x"),
        ("timeouts", "below=1&timeouts=1"),
    ] {
        let response = service.get(&format!("/v1/a/wait?{query}")).await;
        response.assert_problem(400, "invalid_parameter");
        let detail = response.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(&format!("`{name}`")), "{query}: {detail}");
    }
    assert_eq!(service.get("/v1/b/wait?below=1").await.status, 404);
}
