//! Fee floors on the recorded blocks of Base: none by default, and a warning about one that is far above the market.

use std::io::BufRead;

use serde_json::{Value, json};

use crate::http_client;
use crate::process::Process;
use crate::recorded_base;
use crate::test_server::Response;

/// Runs the service with `more` keys of the chain. Returns it with the lines of its log up to the first suggestion.
async fn start(more: &str) -> (Process, Vec<Value>) {
    let mut service = recorded_base::start(more).await;
    // The request is logged after everything that led to its response.
    let mut log = Vec::new();
    while log.last().is_none_or(|line: &Value| line["status"] != 200) {
        let mut line = String::new();
        assert_ne!(service.log.read_line(&mut line).unwrap(), 0, "the log ended");
        log.push(serde_json::from_str(&line).unwrap());
    }
    (service, log)
}

/// Checks that the metrics have these values of the floors' gauges.
async fn assert_gauges(service: &Process, base_fee: u8, priority_fee: u8) {
    let url = format!("http://{}/metrics", service.admin);
    let metrics = Response::read(http_client::new().get(url).send().await.unwrap()).await.body;
    for (floor, value) in [("base_fee", base_fee), ("priority_fee", priority_fee)] {
        let sample = format!(
            "gas_suggestion_floor_above_market{{chain=\"base\",floor=\"{floor}\"}} {value}\n"
        );
        assert!(metrics.contains(&sample), "{metrics}");
    }
}

fn warnings(log: &[Value]) -> Vec<&Value> {
    log.iter().filter(|line| line["level"] == "WARN").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_lines_suggest_the_tip_of_the_market() {
    let (service, log) = start("").await;
    let suggestion = service.get("/v1/base/gas-suggestion").await.json();
    // The average of the recorded rewards: the first row without floors in tests/fixtures/expected/base.csv.gz.
    assert_eq!(suggestion["medium"]["max_priority_fee_per_gas"], "2046763");
    assert_eq!(suggestion["chain_name"], "Base");
    let market = service.get("/v1/base/fee-market").await.json();
    assert_eq!(market["floors_above_market"], json!({ "base_fee": false, "priority_fee": false }));
    assert_eq!(market["currency"], "ETH");
    assert!(warnings(&log).is_empty(), "{log:?}");
    assert_gauges(&service, 0, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_floor_of_another_chain_is_warned_of() {
    let (service, log) = start("pricing.priority_fee_floor = \"20 gwei\"\n").await;
    let suggestion = service.get("/v1/base/gas-suggestion").await.json();
    assert_eq!(suggestion["medium"]["max_priority_fee_per_gas"], "20000000000");
    let market = service.get("/v1/base/fee-market").await.json();
    assert_eq!(market["floors_above_market"], json!({ "base_fee": false, "priority_fee": true }));
    let [warning] = warnings(&log)[..] else { panic!("{log:?}") };
    let message = "the configured floor is more than ten times what the market pays";
    assert_eq!(warning["message"], message);
    assert_eq!(warning["key"], "chains.base.pricing.priority_fee_floor");
    assert_eq!([&warning["floor_gwei"], &warning["market_gwei"]], ["20", "0.002047"]);
    assert_gauges(&service, 0, 1).await;
}
