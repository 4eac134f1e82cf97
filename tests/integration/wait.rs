//! `GET /v1/{chain}/wait`: what ends a wait, and what does not.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::mock_node::{MockNode, Reply, start_service};
use crate::test_server::{Response, TestServer};

/// The price of a reply with a base fee of 3 gwei and a tip of 40.
const DEAR: &str = "43000000000";
const GWEI_30: &str = "30000000000";

/// Short blocks, whose data is stale after two seconds.
const CHAIN: &str = "block_time = \"50ms\"\nmax_age = \"5s\"\nstall_after = \"0s\"";
const SUGGESTION: &str = "/v1/a/gas-suggestion";

/// Starts a node that refuses polls, and a service of such a chain.
async fn start_without_data() -> (MockNode, TestServer) {
    let node = MockNode::start(7, Reply::Error(-32000)).await;
    let service = TestServer::start(&node.chain("a", CHAIN)).await;
    (node, service)
}

fn wait(service: &TestServer, query: &str) -> tokio::task::JoinHandle<Response> {
    let url = service.url(&format!("/v1/a/wait?{query}"));
    let request = crate::http_client::new().get(url).timeout(Duration::from_mins(1)).send();
    tokio::spawn(async move { Response::read(request.await.unwrap()).await })
}

/// Waits until so many requests wait.
async fn wait_for_waiting(service: &TestServer, count: usize) {
    service.wait_for_count("gas_suggestion_streams", count).await;
}

#[tokio::test]
async fn a_wait_ends_when_the_price_is_low_enough() {
    let (node, service) = start_service("", CHAIN).await;
    let at_once = service.get(&format!("/v1/a/wait?below={DEAR}")).await;
    assert_eq!((at_once.status, at_once.header("cache-control")), (200, "no-store"));
    assert_eq!(at_once.header("x-newest-block"), "1000");
    let waiting = wait(&service, &format!("below={GWEI_30}&timeout=60"));
    wait_for_waiting(&service, 1).await;
    node.set_reply(Reply::history(1001, 3, 40));
    service.wait_for_block(SUGGESTION, 1001).await;
    assert!(!waiting.is_finished(), "the price is still too high");
    node.set_reply(Reply::history(1002, 3, 20));
    let response = waiting.await.unwrap();
    assert_eq!((response.status, response.header("x-newest-block")), (200, "1002"));
    let market = response.json();
    assert_eq!(market["expected_price_per_gas"]["medium"], "23000000000");
    let same = service.get("/v1/a/fee-market").await.json();
    let members = |body: &Value| body.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(members(&market), members(&same));
    wait_for_waiting(&service, 0).await;
}

#[tokio::test]
async fn a_wait_ends_without_a_price_at_the_time_out() {
    let (node, service) = start_without_data().await;
    let started = Instant::now();
    let no_data = wait(&service, &format!("below={DEAR}&timeout=1")).await.unwrap();
    no_data.assert_problem(503, "no_data");
    node.set_reply(Reply::history(1000, 3, 40));
    service.wait_for_ok(SUGGESTION).await;
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
    let (node, service) = start_without_data().await;
    let first = wait(&service, &format!("below={DEAR}&timeout=60"));
    wait_for_waiting(&service, 1).await;
    node.set_reply(Reply::history(1000, 3, 40));
    assert_eq!(first.await.unwrap().status, 200);
    node.set_reply(Reply::Error(-32000));
    service.wait_for(SUGGESTION, |response| response.header("x-stale") == "true").await;
    let waiting = wait(&service, &format!("below={DEAR}&timeout=60"));
    wait_for_waiting(&service, 1).await;
    // The same block ends the wait as soon as it is read again.
    node.set_reply(Reply::history(1000, 3, 40));
    let response = waiting.await.unwrap();
    assert_eq!((response.status, &response.json()["stale"]), (200, &json!(false)));
}

#[tokio::test]
async fn a_percentile_of_the_day_is_a_limit() {
    let (_node, service) = start_service("", CHAIN).await;
    service.get("/v1/a/wait?below=p20").await.assert_problem(503, "no_data");
    // Twenty blocks of ten minutes are more than an hour, at one price.
    let (_node, service) = start_service("", "block_time = \"10m\"\nstall_after = \"0s\"").await;
    let response = service.get("/v1/a/wait?below=p1").await;
    assert_eq!((response.status, &response.json()["level"]), (200, &json!("normal")));
}

#[tokio::test]
async fn waiting_requests_count_as_streams() {
    let (_node, service) = start_service("[limits]\nmax_streams = 2\n", CHAIN).await;
    let [first, second] = [(); 2].map(|()| wait(&service, &format!("below={GWEI_30}&timeout=60")));
    wait_for_waiting(&service, 2).await;
    let path = format!("/v1/a/wait?below={DEAR}");
    service.get(&path).await.assert_problem(503, "overloaded");
    assert_eq!(service.get(SUGGESTION).await.status, 200);
    // A client that leaves frees its place.
    first.abort();
    second.abort();
    wait_for_waiting(&service, 0).await;
    assert_eq!(service.get(&path).await.status, 200);
}

#[tokio::test]
async fn a_drain_ends_a_wait_which_no_request_timeout_does() {
    let (_node, service) = start_service("[limits]\nrequest_timeout = \"300ms\"\n", CHAIN).await;
    let waiting = wait(&service, &format!("below={GWEI_30}&timeout=60"));
    wait_for_waiting(&service, 1).await;
    let longer = wait(&service, &format!("below={GWEI_30}&timeout=1"));
    assert_eq!(longer.await.unwrap().status, 204);
    service.stop().await.unwrap();
    let response = waiting.await.unwrap();
    response.assert_problem(503, "not_ready");
    assert_eq!(response.header("retry-after"), "1");
}

#[tokio::test]
async fn bad_limits_and_time_outs_are_refused_with_their_name() {
    let (_node, service) = start_service("", CHAIN).await;
    for (name, query) in [
        ("below", ""),
        ("below", "below="),
        ("below", "below=p0"),
        ("below", "below=1&below=1"),
        ("timeout", "below=1&timeout=0"),
        ("timeout", "below=1&timeout=121"),
        ("timeout", "below=1&timeout=x"),
        ("timeouts", "below=1&timeouts=1"),
    ] {
        service.get(&format!("/v1/a/wait?{query}")).await.assert_refuses(name);
    }
    assert_eq!(service.get("/v1/b/wait?below=1").await.status, 404);
}
