//! The activation of EIP-1559 (network document, section 4.1): the base fee rises from 0 to 1 gwei between two blocks.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixtures;
use crate::http_message::get;
use crate::logged_process::LoggedProcess;
use crate::mock_node::{MockNode, Reply};
use crate::raw_client::{RawClient, TIMEOUT};

const GWEI: u64 = 1_000_000_000;
const FIRST_BLOCK: u64 = 5000;
const ACTIVATION: u64 = FIRST_BLOCK + 5;
const LAST_BLOCK: u64 = ACTIVATION + 5;
const REWARD_GWEI: u64 = 25;

fn base_fee(number: u64) -> u64 {
    if number < ACTIVATION { 0 } else { GWEI }
}

/// Reply of a node to a poll at this head.
fn history(head: u64) -> Value {
    let base_fee = |number| u128::from(base_fee(number));
    fixtures::computed_history(head - 19..=head, base_fee, |_| vec![u128::from(REWARD_GWEI * GWEI)])
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
    // The first poll starts the clock of the chain.
    let started = Arc::new(OnceLock::new());
    let head = move || FIRST_BLOCK + started.get_or_init(Instant::now).elapsed().as_secs();
    let header_head = head.clone();
    let node = MockNode::start(2020, Reply::computed(move |_| history(head()))).await;
    node.set_header_reply(Reply::computed(move |_| {
        let now = fixtures::seconds();
        json!({"number": format!("{:#x}", header_head()), "timestamp": format!("{now:#x}")})
    }));
    let config = format!(
        "[history]\nrefill = false\n{}",
        node.chain("ronin", "block_time = \"1s\"\npricing.ask_interval = 0")
    );
    let service = LoggedProcess::start("activation", &config);
    let mut client = RawClient::connect(service.addresses[0]).await;
    let deadline = Instant::now() + TIMEOUT + Duration::from_secs(LAST_BLOCK - FIRST_BLOCK);
    let mut seen = BTreeMap::new();
    while !seen.contains_key(&LAST_BLOCK) {
        assert!(Instant::now() < deadline, "{seen:?}");
        let response = client.request(get("/v1/ronin/gas-suggestion", "")).await;
        if response.status() == 200 {
            let newest: u64 = response.header("x-newest-block").parse().unwrap();
            assert_eq!(response.text(), expected(newest), "block {newest}");
            assert_eq!(response.header("x-doubt"), "", "block {newest}");
            seen.insert(newest, response.text().to_owned());
        }
        tokio::task::yield_now().await;
    }
    // The blocks on both sides were seen: neither is served a block too long.
    for block in [ACTIVATION - 2, ACTIVATION - 1, ACTIVATION, ACTIVATION + 1] {
        assert!(seen.contains_key(&block), "{block} {:?}", seen.keys());
    }
    let log = service.stop();
    let warnings: Vec<_> = log.lines().filter(|line| line.contains("\"WARN\"")).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
}
