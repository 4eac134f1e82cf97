//! `GET /v1/{chain}/fee-trend` of the running service, against what `/fee-history` and `/gas-suggestion` served.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::fixtures::{self, seconds, wei};
use crate::history_refill::{range, shown};
use crate::mock_node::{MockNode, Reply};
use crate::test_server::{Response, TestServer};

/// Blocks of one reply.
const WINDOW: usize = 20;

/// Base fee, tip and ratio of a block.
type Facts = (u64, u64, f64);

#[tokio::test(flavor = "multi_thread")]
async fn base() {
    replay("src/extras/demo/recordings/base.json.gz").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polygon() {
    replay("tests/fixtures/recordings/polygon.json.gz").await;
}

/// Moves a node over the whole recording, by one to four blocks at a time, and compares the trend with what was served.
async fn replay(path: &str) {
    let recording = fixtures::recording(path);
    let count = recording.gas_used_ratio.len();
    let history = fixtures::recorded_history(&recording, count, &[60.0]);
    let node = MockNode::start(7, Reply::mined(&history, WINDOW)).await;
    let started = seconds();
    let more = "block_time = \"10ms\"\npricing.check_base_fees = false";
    let service = TestServer::start(&node.chain("a", more)).await;
    let mut served = BTreeMap::new();
    let (mut mined, mut step) = (WINDOW, 1);
    while mined <= count {
        node.set_reply(Reply::mined(&history, mined));
        let newest = recording.oldest_block + mined as u64 - 1;
        read_head(&service, newest, &mut served).await;
        if mined.is_multiple_of(50) || mined + step > count {
            compare(&service, &served, started).await;
        }
        mined += step;
        step = step % 4 + 1;
    }
    assert!(served.len() > count - 4, "{} of {count} blocks", served.len());
}

/// Waits for the head `newest`, and adds what is served of it and of the blocks since the last head.
async fn read_head(service: &TestServer, newest: u64, served: &mut BTreeMap<u64, Facts>) {
    let suggestion = service.wait_for_block("/v1/a/gas-suggestion", newest).await;
    let amount = |value: &Value| u64::try_from(wei(value)).unwrap();
    let tip = amount(&suggestion.json()["medium"]["max_priority_fee_per_gas"]);
    let history = service.get("/v1/a/fee-history?blocks=40").await.json();
    let blocks = history["blocks"].as_array().unwrap();
    let rewards: Vec<_> = blocks.iter().map(|block| amount(&block["rewards"][0])).collect();
    for (index, block) in blocks.iter().enumerate() {
        let number = block["number"].as_u64().unwrap();
        // The network's rule without floors: the average of the window, rounded down.
        let averaged = &rewards[(index + 1).saturating_sub(WINDOW)..=index];
        let average = averaged.iter().sum::<u64>() / averaged.len() as u64;
        assert!(number != newest || average == tip, "{number}: {average} is not {tip}");
        let ratio = block["gas_used_ratio"].as_f64().unwrap();
        let facts = (amount(&block["base_fee_per_gas"]), average, ratio);
        served.entry(number).or_insert(facts);
    }
}

/// Compares all periods with the blocks that were served: a bucket has the next so many of them.
async fn compare(service: &TestServer, served: &BTreeMap<u64, Facts>, started: u64) {
    let all: Vec<Facts> = served.values().copied().collect();
    for (period, width) in [("1h", 60), ("24h", 600), ("7d", 3600)] {
        let trend = service.get(&format!("/v1/a/fee-trend?period={period}")).await.json();
        assert_eq!((&trend["period"], &trend["bucket_seconds"]), (&json!(period), &json!(width)));
        assert_eq!(trend["level"], Value::Null);
        let mut rest = &all[..];
        let mut last_start = 0;
        let buckets = trend["buckets"].as_array().unwrap();
        for (bucket, (start, count, base_fees, tips)) in buckets.iter().zip(shown(&trend)) {
            assert!(start.is_multiple_of(width) && start > last_start && start <= seconds());
            assert!(start + width + 1 > started, "{start} {started}");
            last_start = start;
            let (blocks, later) = rest.split_at(usize::try_from(count).unwrap());
            rest = later;
            assert_eq!(
                base_fees,
                range(blocks.iter().map(|it| it.0).collect(), u64::cmp),
                "{bucket}"
            );
            assert_eq!(tips, range(blocks.iter().map(|it| it.1).collect(), u64::cmp), "{bucket}");
            let ratios = &bucket["gas_used_ratio"];
            let ratios = ["min", "median", "max"].map(|member| ratios[member].as_f64().unwrap());
            let expected = range(blocks.iter().map(|it| it.2).collect(), f64::total_cmp);
            assert!(ratios.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12));
        }
        assert_eq!(rest, [], "{period}");
    }
}

#[tokio::test]
async fn a_trend_outlives_the_suggestion() {
    let node = MockNode::start(7, Reply::Error(-32000)).await;
    let chain = node.chain("a", "block_time = \"20ms\"\nmax_age = \"3s\"");
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
        assert_eq!(shown(&body).iter().map(|bucket| bucket.1).sum::<u64>(), 20, "{body}");
        let head = service.send(reqwest::Method::HEAD, "/v1/a/fee-trend", &[]).await;
        assert_eq!((head.status, head.header("x-stale")), (200, "true"));
    }
    assert_eq!(service.get("/v1/a/fee-market").await.status, 503);
    // A stale chain that is served has no level either, and the trend has the same headers as the suggestion.
    node.set_reply(Reply::history(1000, 3, 40));
    let is_stale =
        |response: &Response| response.status == 200 && response.header("x-stale") == "true";
    service.wait_for("/v1/a/gas-suggestion", is_stale).await;
    let stale = service.get("/v1/a/fee-trend").await;
    assert_eq!((stale.header("x-stale"), &stale.json()["level"]), ("true", &Value::Null));
    assert!(stale.header("cache-control").starts_with("public"), "{stale:?}");
}
