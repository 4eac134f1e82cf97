//! The activation of EIP-1559 (network document, section 4.1): the base fee rises from 0 to 1 gwei between two blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::json;

use crate::fixtures;
use crate::http_message::get;
use crate::logged_process::LoggedProcess;
use crate::mock_node::{Call, MockNode, Reply};
use crate::raw_client::{RawClient, TIMEOUT};

const GWEI: u64 = 1_000_000_000;
/// The rewards are read up to block 5100, which is after the activation.
const FIRST_BLOCK: u64 = 5093;
const ACTIVATION: u64 = FIRST_BLOCK + 5;
const LAST_BLOCK: u64 = ACTIVATION + 5;
const REWARD_GWEI: u64 = 25;

fn base_fee(number: u64) -> u64 {
    if number < ACTIVATION { 0 } else { GWEI }
}

/// Reply of a node with this head.
fn reply(call: &Call, head: u64) -> Reply {
    let params = call.params();
    if call.method != "eth_feeHistory" {
        let is_chain_id = call.method == "eth_chainId";
        return if is_chain_id { Reply::Result(json!("0x7e4")) } else { Reply::Error(-32601) };
    }
    let is_poll = params[1] == "latest";
    let newest = if is_poll { head } else { fixtures::small_quantity(&params[1]) };
    let oldest = newest + 1 - fixtures::small_quantity(&params[0]);
    let columns = params[2].as_array().unwrap().len();
    let base_fee = |number| u128::from(base_fee(number));
    let rewards = |_| vec![u128::from(REWARD_GWEI * GWEI); columns];
    Reply::Result(fixtures::computed_history(oldest..=newest, base_fee, rewards))
}

/// The suggestion at this head by the network's rule (network document, sections 2.3 and 4.1).
fn expected(head: u64) -> String {
    let tips = [REWARD_GWEI * GWEI, REWARD_GWEI * GWEI * 12 / 10].map(u128::from);
    let is_legacy = base_fee(head + 1) == 0;
    let average = (head - 19..=head).map(base_fee).sum::<u64>() / 20;
    let base = if is_legacy { 0 } else { 2 * average.max(GWEI) };
    let kind = if is_legacy { "legacy" } else { "eip-1559" };
    fixtures::suggestion("ronin", kind, base.into(), tips)
}

#[tokio::test]
async fn each_block_around_the_activation_has_its_own_price_without_a_warning() {
    let head = Arc::new(AtomicU64::new(FIRST_BLOCK));
    let of_node = Arc::clone(&head);
    let answer = move |call: &Call| reply(call, of_node.load(Ordering::Relaxed));
    let node = MockNode::scripted(2020, answer).await;
    let config = format!(
        "[history]\nrefill = false\n[limits]\nrequests_per_second_per_client = 0\n{}",
        node.chain("ronin", "block_time = \"50ms\"\nstall_after = \"1m\"")
    );
    let service = LoggedProcess::start("activation", &config);
    let mut client = RawClient::connect(service.addresses[0]).await;
    client.wait_for_ok("/v1/ronin/gas-suggestion").await;
    let deadline = Instant::now() + TIMEOUT;
    for block in FIRST_BLOCK..=LAST_BLOCK {
        head.store(block, Ordering::Relaxed);
        loop {
            let response = client.request(get("/v1/ronin/gas-suggestion", "")).await;
            let newest: u64 = response.header("x-newest-block").parse().unwrap();
            assert_eq!(response.text(), expected(newest), "block {newest}");
            assert_eq!(response.header("x-doubt"), "", "block {newest}");
            if newest == block {
                break;
            }
            assert!(Instant::now() < deadline, "{newest} instead of {block}");
        }
    }
    let mut admin = RawClient::connect(service.addresses[1]).await;
    let read = "gas_suggestion_reward_readings_total{chain=\"ronin\",outcome=\"ok\"} 2";
    while !admin.request(get("/metrics", "")).await.text().contains(read) {
        assert!(Instant::now() < deadline, "the rewards of block 5100 are not read");
    }
    let log = service.stop();
    let warnings: Vec<_> = log.lines().filter(|line| line.contains("\"WARN\"")).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
}
