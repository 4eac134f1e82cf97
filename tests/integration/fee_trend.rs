//! `GET /v1/{chain}/fee-trend` of the running service, against what `/fee-history` and `/gas-suggestion` served.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use gas_suggestion::extras::demo::DemoRecording;
use serde_json::{Value, json};

use crate::fixtures::{self, seconds, wei};
use crate::mock_node::{MockNode, Reply};
use crate::test_server::TestServer;

/// Blocks of one reply.
const WINDOW: usize = 20;

/// Base fee, tip and ratio of a block.
type Facts = (u128, u128, f64);

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
    let recording = DemoRecording::from_gzip(&fixtures::read(path)).unwrap();
    let count = recording.gas_used_ratio.len();
    let history = fixtures::recorded_history(&recording, count, &[60.0]);
    let node =
        MockNode::start(7, Reply::Newest(Arc::new(fixtures::window(&history, WINDOW, WINDOW))))
            .await;
    let started = seconds();
    let service = TestServer::start(
        &node.chain("a", "block_time = \"10ms\"\npricing.check_base_fees = false"),
    )
    .await;
    let mut served = BTreeMap::new();
    let (mut mined, mut step) = (WINDOW, 1);
    while mined <= count {
        node.set_reply(Reply::Newest(Arc::new(fixtures::window(&history, mined, WINDOW))));
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
    let tip = wei(&suggestion.json()["medium"]["max_priority_fee_per_gas"]);
    let history = service.get("/v1/a/fee-history?blocks=40").await.json();
    let blocks = history["blocks"].as_array().unwrap();
    let rewards: Vec<u128> = blocks.iter().map(|block| wei(&block["rewards"][0])).collect();
    for (index, block) in blocks.iter().enumerate() {
        let number = block["number"].as_u64().unwrap();
        // The network's rule without floors: the average of the window, rounded down.
        let averaged = &rewards[(index + 1).saturating_sub(WINDOW)..=index];
        let average = averaged.iter().sum::<u128>() / averaged.len() as u128;
        assert!(number != newest || average == tip, "{number}: {average} is not {tip}");
        let facts =
            (wei(&block["base_fee_per_gas"]), average, block["gas_used_ratio"].as_f64().unwrap());
        served.entry(number).or_insert(facts);
    }
}

/// Compares all periods with the blocks that were served: a bucket has the next so many of them.
async fn compare(service: &TestServer, served: &BTreeMap<u64, Facts>, started: u64) {
    fn range<T: Copy>(
        blocks: &[Facts],
        value: fn(&Facts) -> T,
        less: fn(&T, &T) -> bool,
    ) -> [T; 3] {
        let mut values: Vec<T> = blocks.iter().map(value).collect();
        values.sort_by(|one, other| less(other, one).cmp(&less(one, other)));
        [values[0], values[(values.len() - 1) / 2], values[values.len() - 1]]
    }
    let all: Vec<Facts> = served.values().copied().collect();
    for (period, width) in [("1h", 60), ("24h", 600), ("7d", 3600)] {
        let trend = service.get(&format!("/v1/a/fee-trend?period={period}")).await.json();
        assert_eq!((&trend["period"], &trend["bucket_seconds"]), (&json!(period), &json!(width)));
        assert_eq!(trend["level"], Value::Null);
        let mut rest = &all[..];
        let mut last_start = 0;
        for bucket in trend["buckets"].as_array().unwrap() {
            let start = humantime::parse_rfc3339(bucket["start"].as_str().unwrap()).unwrap();
            let start = start.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            assert!(start.is_multiple_of(width) && start > last_start && start <= seconds());
            assert!(start + width + 1 > started, "{start} {started}");
            last_start = start;
            let count = usize::try_from(bucket["blocks"].as_u64().unwrap()).unwrap();
            let (blocks, later) = rest.split_at(count);
            rest = later;
            let amounts =
                |name: &str| ["min", "median", "max"].map(|member| wei(&bucket[name][member]));
            let less = |one: &u128, other: &u128| one < other;
            assert_eq!(amounts("base_fee_per_gas"), range(blocks, |it| it.0, less), "{bucket}");
            assert_eq!(
                amounts("max_priority_fee_per_gas"),
                range(blocks, |it| it.1, less),
                "{bucket}"
            );
            let ratios = &bucket["gas_used_ratio"];
            let ratios = ["min", "median", "max"].map(|member| ratios[member].as_f64().unwrap());
            let expected = range(blocks, |it| it.2, |one, other| one < other);
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
    let unavailable = service.get("/v1/a/fee-trend").await;
    unavailable.assert_problem(503, "no_data");
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
        let blocks = body["buckets"].as_array().unwrap().iter().map(|it| it["blocks"].as_u64());
        assert_eq!(blocks.map(Option::unwrap).sum::<u64>(), 20, "{body}");
        let head = service.send(reqwest::Method::HEAD, "/v1/a/fee-trend", &[]).await;
        assert_eq!((head.status, head.header("x-stale")), (200, "true"));
    }
    assert_eq!(service.get("/v1/a/fee-market").await.status, 503);
    // A stale chain that is served has no level either, and the trend has the same headers as the suggestion.
    node.set_reply(Reply::history(1000, 3, 40));
    let is_stale = |response: &crate::test_server::Response| {
        response.status == 200 && response.header("x-stale") == "true"
    };
    service.wait_for("/v1/a/gas-suggestion", is_stale).await;
    let stale = service.get("/v1/a/fee-trend").await;
    assert_eq!((stale.header("x-stale"), &stale.json()["level"]), ("true", &Value::Null));
    assert!(stale.header("cache-control").starts_with("public"), "{stale:?}");
}
