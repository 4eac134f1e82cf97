//! `GET /v1/{chain}/fee-trend` of the running service.

use serde_json::{Value, json};

use crate::history_refill::blocks;
use crate::mock_node::{MockNode, Reply, start_service};
use crate::test_server::{Response, TestServer};

#[tokio::test]
async fn a_trend_outlives_the_suggestion() {
    let node = MockNode::start(7, Reply::Error(-32000)).await;
    let chain = node.chain("a", "block_time = \"20ms\"\nmax_age = \"3s\"\nstall_after = \"200ms\"");
    let service = TestServer::start(&chain).await;
    service.get("/v1/a/fee-trend").await.assert_problem(503, "no_data");
    node.set_reply(Reply::history(1000, 3, 40));
    let known = service.wait_for_ok("/v1/a/fee-trend").await;
    assert_eq!(known.header("x-newest-block"), "1000");
    assert!(known.header("cache-control").starts_with("public, max-age="), "{known:?}");
    assert_eq!(known.header("age"), "0");
    let body = known.json();
    assert_eq!((&body["period"], &body["chain_name"]), (&json!("24h"), &json!("a")));
    for period in ["", "1H", "2h", "24h&period=24h"] {
        let response = service.get(&format!("/v1/a/fee-trend?period={period}")).await;
        response.assert_problem(400, "invalid_parameter");
    }
    for period in ["30d", "1y"] {
        let response = service.get(&format!("/v1/a/fee-trend?period={period}")).await;
        response.assert_problem(400, "invalid_parameter");
        let detail = response.json()["detail"].take();
        assert!(detail.as_str().unwrap().ends_with("must be `1h`, `24h` or `7d`"), "{detail}");
    }
    assert_eq!(service.get("/v1/a/fee-trend?periods=1h").await.status, 400);
    assert_eq!(service.get("/v1/b/fee-trend").await.status, 404);
    node.set_reply(Reply::Error(-32000));
    let expired = service.wait_for("/v1/a/gas-suggestion", |response| response.status == 503).await;
    assert_eq!(expired.json()["code"], "stale_data");
    for period in ["1h", "24h", "7d"] {
        let response = service.get(&format!("/v1/a/fee-trend?period={period}")).await;
        assert_eq!((response.status, response.header("x-stale")), (200, "true"));
        assert_eq!(response.header("cache-control"), "no-store");
        assert_eq!(response.header("x-newest-block"), "1000");
        assert!((3..60).contains(&response.header("age").parse().unwrap()), "{response:?}");
        let body = response.json();
        assert_eq!((&body["period"], &body["level"]), (&json!(period), &Value::Null));
        assert_eq!(blocks(&body), 20, "{body}");
        let head = service.send(reqwest::Method::HEAD, "/v1/a/fee-trend", &[]).await;
        assert_eq!((head.status, head.header("x-stale")), (200, "true"));
    }
    assert_eq!(service.get("/v1/a/fee-market").await.status, 503);
    // The same block again is served as stale, and its trend has the same headers.
    node.set_reply(Reply::history(1000, 3, 40));
    let is_served = |response: &Response| response.header("cache-control").starts_with("public");
    let stale = service.wait_for("/v1/a/fee-trend", is_served).await;
    assert_eq!((stale.header("x-stale"), &stale.json()["level"]), ("true", &Value::Null));
}

#[tokio::test]
async fn a_week_that_is_not_kept_is_refused_with_the_key() {
    let (_node, service) = start_service("[history]\ndays = 6", "").await;
    assert_eq!(service.get("/v1/a/fee-trend?period=24h").await.status, 200);
    let refused = service.get("/v1/a/fee-trend?period=7d").await;
    refused.assert_problem(400, "invalid_parameter");
    let detail = refused.json()["detail"].take();
    assert!(detail.as_str().unwrap().contains("set history.days to 7"), "{detail}");
}
