//! Tests of suggestions from anvil, a real node with real transactions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::anvil::Anvil;
use crate::fixtures;
use crate::process::{Process, command};
use crate::test_server::{Response, TestServer};

const GWEI: u128 = 1_000_000_000;
const SUGGESTION: &str = "/v1/ronin/gas-suggestion";

/// Starts anvil with one block per second.
fn start(port: u16) -> Anvil {
    Anvil::start(port, &["--block-time", "1"])
}

/// Sends a transfer with the priority fee `tip`.
async fn send_with_tip(anvil: &Anvil, tip: u128) {
    let accounts = anvil.call("eth_accounts", json!([])).await;
    let transaction = json!({
        "from": accounts[0], "to": accounts[1], "value": "0x1", "gas": "0x5208",
        "maxPriorityFeePerGas": format!("{tip:#x}"),
        "maxFeePerGas": format!("{:#x}", tip + 100 * GWEI),
    });
    anvil.call("eth_sendTransaction", json!([transaction])).await;
}

fn chain(anvil: &Anvil, more: &str) -> String {
    format!(
        "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"{}\"]\nblock_time = \"1s\"\n{more}\n",
        anvil.url()
    )
}

/// Calculates the body of the suggestion from a fee history, independently of the service.
fn expected_body(history: &Value, percentiles: usize) -> String {
    let blocks = history["gasUsedRatio"].as_array().unwrap().len();
    let rows = history["reward"].as_array().unwrap();
    let count = blocks as u128;
    let base_fees: u128 =
        (0..blocks).map(|block| fixtures::quantity(&history["baseFeePerGas"][block])).sum();
    let tips = |column: usize| {
        rows.iter().map(|row| fixtures::quantity(&row[column])).sum::<u128>() / count
    };
    let base = (base_fees / count).max(GWEI) * 2;
    let medium = tips(0).max(20 * GWEI);
    let high = if percentiles == 2 { tips(1).max(20 * GWEI) } else { medium * 12 / 10 };
    assert_eq!(rows.len(), blocks);
    fixtures::suggestion("ronin", "eip-1559", base, [medium, high])
}

/// Sends transfers with known priority fees for a few blocks. Compares each new suggestion with one that is calculated
/// from the fee history of the same blocks.
async fn check_suggestions_against_real_tips(percentiles: &[u8]) {
    let anvil = start(0);
    let more = format!("pricing.reward_percentiles = {percentiles:?}");
    let service = TestServer::start(&chain(&anvil, &more)).await;
    let mut last = 0;
    for round in 0..4 {
        for step in 0..5 {
            send_with_tip(&anvil, (30 + 10 * step + round) * 20 * GWEI).await;
        }
        let block = |response: &Response| response.header("x-newest-block").parse().unwrap_or(0);
        let response = service.wait_for(SUGGESTION, |response| block(response) > last).await;
        last = block(&response);
        let params = json!(["0x14", format!("{last:#x}"), percentiles]);
        let history = anvil.call("eth_feeHistory", params).await;
        assert_eq!(response.body, expected_body(&history, percentiles.len()), "{history}");
    }
    // The priority fees determined the suggestion, not the floor.
    let market = service.get("/v1/ronin/fee-market").await.json();
    assert_eq!(market["floors_applied"]["priority_fee"], false, "{market}");
}

#[tokio::test]
async fn suggestion_equals_an_independent_calculation() {
    let check = check_suggestions_against_real_tips;
    tokio::join!(check(&[60]), check(&[60, 100]));
}

#[tokio::test]
async fn suggestion_of_a_killed_node_is_kept_then_labelled_then_refused() {
    let is_fresh =
        |response: &Response| response.status == 200 && response.header("x-stale").is_empty();
    let anvil = start(0);
    let service = TestServer::start(&chain(&anvil, "max_age = \"5s\"")).await;
    let last_good = service.wait_for(SUGGESTION, is_fresh).await;
    let port = anvil.kill();
    let killed = Instant::now();
    let kept = service.get(SUGGESTION).await;
    assert_eq!((kept.status, &kept.body), (200, &last_good.body));
    let stale = service.wait_for(SUGGESTION, |response| !is_fresh(response)).await;
    assert_eq!((stale.status, &stale.body), (200, &last_good.body));
    assert_eq!(stale.header("x-stale"), "true");
    assert!(stale.header("age").parse::<u64>().unwrap() >= 2);
    let refused = service.wait_for(SUGGESTION, |response| response.status != 200).await;
    refused.assert_problem(503, "stale_data");
    assert!(killed.elapsed() < Duration::from_secs(6), "{:?}", killed.elapsed());

    let anvil = start(port);
    // The new head is above the old one, as after a restart of a synced node, but not implausibly far ahead.
    anvil.call("anvil_mine", json!(["0x10"])).await;
    service.wait_for(SUGGESTION, |it| is_fresh(it) && it.newest_block() >= 0x10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_the_command_line_is_served_without_a_file() {
    // Anvil's own chain id.
    let anvil = Anvil::with_chain_id(31337, 0, &["--block-time", "1"]);
    let arguments = ["serve", "--rpc-url", &anvil.url(), "--listen", "127.0.0.1:0"];
    let mut command = command(&arguments, &[("GAS_LOG__FORMAT", "json")]);
    command.args(["--admin-listen", "127.0.0.1:0"]);
    let service = tokio::task::spawn_blocking(move || Process::spawn(command)).await.unwrap();
    let suggestion = service.wait_for_ok("/v1/31337/gas-suggestion").await.json();
    let history = anvil.call("eth_feeHistory", json!(["0x1", "latest", [60]])).await;
    let next = history["baseFeePerGas"].as_array().unwrap().last().unwrap();
    // Blocks without transactions: there is no tip, and there is no floor that would make one.
    assert_eq!(suggestion["medium"]["max_priority_fee_per_gas"], "0", "{suggestion}");
    let base_fee = fixtures::wei(&suggestion["base_fee_per_gas"]);
    assert!(base_fee >= fixtures::quantity(next), "{suggestion} {history}");
    let market = service.get("/v1/31337/fee-market").await.json();
    assert_eq!(market["chain_name"], "Local chain");
}

#[tokio::test]
async fn prices_of_hours_before_the_start_are_those_of_the_nodes_headers() {
    const BLOCKS: u64 = 300;
    const INTERVAL: u64 = 360;
    // The newest blocks are those of the first poll, which dates them by its own clock.
    const POLLED: u64 = 20;
    let genesis = (fixtures::seconds() - BLOCKS * INTERVAL).to_string();
    let anvil =
        Anvil::start(0, &["--timestamp", &genesis, "--base-fee", "7000000000000", "--no-mining"]);
    anvil.call("anvil_mine", json!([format!("{BLOCKS:#x}"), format!("{INTERVAL:#x}")])).await;
    let chain = chain(&anvil, "stall_after = \"0s\"");
    let service = TestServer::start(&format!("{chain}\n[history]\ndays = 7\n")).await;

    let mut hours: BTreeMap<u64, Vec<u128>> = BTreeMap::new();
    // The trend begins with the block after genesis.
    for number in 1..=BLOCKS - POLLED {
        let block =
            anvil.call("eth_getBlockByNumber", json!([format!("{number:#x}"), false])).await;
        let time = fixtures::small_quantity(&block["timestamp"]);
        hours.entry(time / 3600).or_default().push(fixtures::quantity(&block["baseFeePerGas"]));
    }
    let expected = hours.iter().map(|(hour, fees)| {
        let mut fees = fees.clone();
        fees.sort_unstable();
        let [min, median, max] =
            [0, (fees.len() - 1) / 2, fees.len() - 1].map(|at| fees[at].to_string());
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(hour * 3600);
        let start = humantime::format_rfc3339_seconds(start).to_string();
        (start, fees.len(), json!({ "min": min, "median": median, "max": max }))
    });
    let mut expected: Vec<_> = expected.collect();
    // Later blocks of the last hour may have been polled.
    expected.pop();
    let shown = |response: &Response| -> Vec<_> {
        let trend = response.json();
        let buckets = trend["buckets"].as_array().into_iter().flatten();
        let bucket = |bucket: &Value| {
            let blocks = usize::try_from(bucket["blocks"].as_u64().unwrap()).unwrap();
            (bucket["start"].as_str().unwrap().into(), blocks, bucket["base_fee_per_gas"].clone())
        };
        buckets.map(bucket).take(expected.len()).collect()
    };
    let trend = service
        .wait_for("/v1/ronin/fee-trend?period=7d", |response| shown(response) == expected)
        .await;
    assert_ne!(trend.json()["level"], Value::Null);
}
