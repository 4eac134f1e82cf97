//! The programs that read a chain, unchanged, with the service for their node.

use serde_json::json;

use crate::contract;
use crate::pending::{NOBODY, Network};
use crate::programs;

/// Runs the part of `tests/node/clients.mjs` for this `client`.
async fn script(client: &str) {
    let network = Network::start().await;
    let mut command = programs::node(&["viem", "ethers"]);
    command.arg(programs::script("clients.mjs")).arg(client);
    command.args([network.route(), network.node.url(), contract::creation()]);
    command.arg(contract::RUNTIME);
    println!("{}", programs::success(command).await);
}

#[tokio::test]
async fn viem_sees_pending_state_without_a_tag_and_decodes_reverts() {
    script("viem").await;
}

#[tokio::test]
async fn viem_sees_the_same_when_it_sends_batches() {
    script("viem-in-batches").await;
}

#[tokio::test]
async fn ethers_sees_pending_state_decodes_reverts_and_hears_of_events() {
    script("ethers").await;
}

/// Runs cast with the node at `url`.
async fn cast(url: &str, arguments: &[&str]) -> (bool, String, String) {
    let mut command = programs::cast(arguments);
    command.args(["--rpc-url", url]);
    programs::run(command).await
}

impl Network {
    /// What cast tells when it has to succeed.
    async fn cast(&self, arguments: &[&str]) -> String {
        let (is_well, told, complaints) = cast(&self.route(), arguments).await;
        assert!(is_well, "{arguments:?}: {told}\n{complaints}");
        told
    }

    /// The same under `pending` and under `latest`.
    async fn cast_both(&self, arguments: &[&str]) -> [String; 2] {
        let at = async |tag| self.cast(&[arguments, &["--block", tag]].concat()).await;
        [at("pending").await, at("latest").await]
    }
}

#[tokio::test]
async fn cast_shows_what_is_queued_under_pending_and_not_under_latest() {
    let network = Network::start().await;
    let (contract, _) = network.contract_with_queued_word().await;
    network.queue_transfer().await;
    let word = |value| format!("0x{}", contract::word(value));
    for (arguments, pending, latest) in [
        (["balance", NOBODY].as_slice(), "1000000000000000000", "0"),
        (&["nonce", &network.sender], "3", "1"),
        (&["call", &contract, "stored()(uint256)"], "42", "0"),
        (&["storage", &contract, "0"], &word(42), &word(0)),
    ] {
        assert_eq!(network.cast_both(arguments).await, [pending, latest], "{arguments:?}");
        // What cast reads when it is told no block.
        assert_eq!(network.cast(arguments).await, latest, "{arguments:?}");
    }
    assert_eq!(network.cast(&["code", &contract, "--block", "pending"]).await, contract::RUNTIME);
    for (tag, number) in [("pending", "2"), ("latest", "1")] {
        assert_eq!(network.cast(&["block", tag, "--field", "number"]).await, number);
    }
}

#[tokio::test]
async fn cast_tells_why_a_call_reverts_until_queued_state_lets_it_pass() {
    let network = Network::start().await;
    let (contract, _) = network.contract_with_queued_word().await;
    for command in ["call", "estimate"] {
        let arguments =
            |tag| [command, &contract, "spend(address,uint256)", NOBODY, "1", "--block", tag];
        let (is_well, told, complaint) = cast(&network.route(), &arguments("latest")).await;
        assert!(!is_well, "{told}");
        let reason = "error code 3: execution reverted: nothing stored, data: \"0x08c379a0";
        assert!(complaint.contains(reason), "{complaint}");
        let passes = cast(&network.node.url(), &arguments("pending")).await;
        assert!(passes.0, "{passes:?}");
        assert_eq!(cast(&network.route(), &arguments("pending")).await, passes);
    }
}

#[tokio::test]
async fn cast_waits_for_a_receipt_and_finds_its_logs() {
    let network = Network::start().await;
    let (contract, hash) = network.contract_with_queued_word().await;
    let logs = ["logs", "--address", &contract, "Stored(uint256)", "--json"];
    assert_eq!(network.cast(&logs).await, "[]");
    let (is_well, told, complaint) = cast(&network.route(), &["receipt", &hash, "--async"]).await;
    assert!(!is_well && complaint.contains("tx not found"), "{told}\n{complaint}");
    assert_eq!(network.cast(&["tx", &hash, "blockNumber"]).await, "");

    let receipt = ["receipt", &hash, "logs", "--json"];
    let (receipt, ()) = tokio::join!(network.cast(&receipt), network.mine());
    let topic_and_data = |text: &str| {
        let logs: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
        assert_eq!(logs.len(), 1, "{text}");
        (logs[0]["topics"].clone(), logs[0]["data"].clone())
    };
    let data = format!("0x{}", contract::word(42));
    let expected = (json!([contract::STORED_TOPIC]), json!(data));
    assert_eq!(topic_and_data(&receipt), expected);
    assert_eq!(topic_and_data(&network.cast(&logs).await), expected);
}

#[tokio::test]
async fn cast_reads_the_chain_and_its_prices_as_from_the_node() {
    let network = Network::start().await;
    network.queue_transfer().await;
    network.mine().await;
    assert_eq!(network.cast(&["chain-id"]).await, "2020");
    assert_eq!(network.cast(&["block-number"]).await, "1");
    for arguments in [["gas-price"].as_slice(), &["base-fee"], &["block", "1"]] {
        let own = cast(&network.node.url(), arguments).await;
        assert!(own.0, "{own:?}");
        assert_eq!(cast(&network.route(), arguments).await, own, "{arguments:?}");
    }
    assert_eq!(network.cast(&["balance", NOBODY, "--ether"]).await, "1.000000000000000000");
}
