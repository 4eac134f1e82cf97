//! A real node is killed and starts again.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::anvil::{Anvil, foundry};
use crate::raw_client::free_port;
use crate::test_server::{Response, TestServer};

const SUGGESTION: &str = "/v1/ronin/gas-suggestion";

/// Starts anvil with one block per second.
fn start(port: u16) -> Anvil {
    let mut command = Command::new(foundry("ANVIL", "anvil"));
    command.args(["--chain-id", "2020", "--port", &port.to_string(), "--block-time", "1"]);
    Anvil::from_command(2020, command)
}

#[tokio::test]
async fn suggestion_of_a_killed_node_is_kept_then_labelled_then_refused() {
    let is_fresh =
        |response: &Response| response.status == 200 && response.header("x-stale").is_empty();
    let port = free_port();
    let anvil = start(port);
    let config = anvil.chain("ronin", "block_time = \"2s\"\nmax_age = \"12s\"");
    let service = TestServer::start(&config).await;
    service.wait_for(SUGGESTION, is_fresh).await;
    drop(anvil);
    let killed = Instant::now();
    let kept = service.get(SUGGESTION).await;
    assert!(is_fresh(&kept), "{kept:?}");
    let stale = service.wait_for(SUGGESTION, |response| !is_fresh(response)).await;
    assert_eq!((stale.status, &stale.body), (200, &kept.body));
    assert_eq!(stale.header("x-stale"), "true");
    assert!(stale.header("age").parse::<u64>().unwrap() >= 4);
    let refused = service.wait_for(SUGGESTION, |response| response.status != 200).await;
    refused.assert_problem(503, "stale_data");
    assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());

    let anvil = start(port);
    // The new head is above the old one, as after a restart of a synced node, but not implausibly far ahead.
    anvil.call("anvil_mine", json!(["0x10"])).await;
    service.wait_for(SUGGESTION, |it| is_fresh(it) && it.newest_block() >= 0x10).await;
}
