//! Tests of unmodified web3 clients (viem, ethers, web3.js, web3.py, cast) that use the service as their node.

use serde_json::json;

use crate::fixtures;
use crate::pending::{Network, RECIPIENT};
use crate::programs;
use crate::test_contract;

#[tokio::test]
async fn javascript_clients_see_pending_state_reverts_and_events() {
    let packages = ["viem", "ethers", "@ethersproject/providers", "web3"];
    for client in [
        // viem sees pending state without a tag, and decodes reverts. It does in batches too.
        "viem",
        "viem-in-batches",
        // ethers also sees events.
        "ethers",
        // ethers 5 gets an error for each call of a long batch.
        "ethers-5",
        // web3.js connects and reads blocks by hash.
        "web3",
    ] {
        let network = Network::start().await;
        let mut command = programs::node_js(&packages);
        command.arg(programs::script_path("clients.mjs")).arg(client);
        command.args([network.route(), network.node.url(), test_contract::creation()]);
        command.arg(test_contract::RUNTIME);
        println!("{}", programs::expect_success(command).await);
    }
}

#[tokio::test]
async fn web3_py_connects_and_estimates_gas_prices_from_blocks() {
    let network = Network::start().await;
    for _ in 0..2 {
        network.queue_transfer().await;
        network.mine().await;
    }
    let mut command = programs::python_tool("python");
    command.arg(fixtures::path("tests/python/web3_client.py"));
    command.args([network.route(), network.node.url()]);
    let version = format!("gas-suggestion/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(programs::expect_success(command).await, version);
}

/// Runs cast with the RPC URL `url`.
async fn cast(url: &str, arguments: &[&str]) -> (bool, String, String) {
    let mut command = programs::cast(arguments);
    command.args(["--rpc-url", url]);
    programs::run(command).await
}

impl Network {
    /// Runs cast with the service as its node. Returns its output. Panics if cast fails.
    async fn cast(&self, arguments: &[&str]) -> String {
        let (is_success, stdout, stderr) = cast(&self.route(), arguments).await;
        assert!(is_success, "{arguments:?}: {stdout}\n{stderr}");
        stdout
    }
}

#[tokio::test]
async fn cast_shows_queued_state_under_pending_but_not_latest() {
    let network = Network::start().await;
    let (contract, _) = network.contract_with_queued_write().await;
    network.queue_transfer().await;
    let padded_word = |value| format!("0x{}", test_contract::word(value));
    for (arguments, pending, latest) in [
        (["balance", RECIPIENT].as_slice(), "1000000000000000000", "0"),
        (&["nonce", &network.sender], "3", "1"),
        (&["call", &contract, "stored()(uint256)"], "42", "0"),
        (&["storage", &contract, "0"], &padded_word(42), &padded_word(0)),
    ] {
        // Without `--block`, cast reads the latest block.
        for (block, expected) in [
            (["--block", "pending"].as_slice(), pending),
            (&["--block", "latest"], latest),
            (&[], latest),
        ] {
            let found = network.cast(&[arguments, block].concat()).await;
            assert_eq!(found, expected, "{arguments:?} {block:?}");
        }
    }
    let code = network.cast(&["code", &contract, "--block", "pending"]).await;
    assert_eq!(code, test_contract::RUNTIME);
    for (tag, number) in [("pending", "2"), ("latest", "1")] {
        assert_eq!(network.cast(&["block", tag, "--field", "number"]).await, number);
    }
}

#[tokio::test]
async fn cast_shows_a_revert_reason_that_queued_state_resolves() {
    let network = Network::start().await;
    let (contract, _) = network.contract_with_queued_write().await;
    for command in ["call", "estimate"] {
        let arguments =
            |tag| [command, &contract, "spend(address,uint256)", RECIPIENT, "1", "--block", tag];
        let (is_success, stdout, stderr) = cast(&network.route(), &arguments("latest")).await;
        assert!(!is_success, "{stdout}");
        let reason = "error code 3: execution reverted: nothing stored, data: \"0x08c379a0";
        assert!(stderr.contains(reason), "{stderr}");
        let passes = cast(&network.node.url(), &arguments("pending")).await;
        assert!(passes.0, "{passes:?}");
        assert_eq!(cast(&network.route(), &arguments("pending")).await, passes);
    }
}

#[tokio::test]
async fn cast_waits_for_a_receipt_and_finds_its_logs() {
    let network = Network::start().await;
    let (contract, hash) = network.contract_with_queued_write().await;
    let logs = ["logs", "--address", &contract, "Stored(uint256)", "--json"];
    assert_eq!(network.cast(&logs).await, "[]");
    let (is_success, stdout, stderr) = cast(&network.route(), &["receipt", &hash, "--async"]).await;
    assert!(!is_success && stderr.contains("tx not found"), "{stdout}\n{stderr}");
    assert_eq!(network.cast(&["tx", &hash, "blockNumber"]).await, "");

    let receipt = ["receipt", &hash, "logs", "--json"];
    let (receipt, ()) = tokio::join!(network.cast(&receipt), network.mine());
    let topic_and_data = |text: &str| {
        let logs: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
        assert_eq!(logs.len(), 1, "{text}");
        (logs[0]["topics"].clone(), logs[0]["data"].clone())
    };
    let data = format!("0x{}", test_contract::word(42));
    let expected = (json!([test_contract::STORED_TOPIC]), json!(data));
    assert_eq!(topic_and_data(&receipt), expected);
    assert_eq!(topic_and_data(&network.cast(&logs).await), expected);
}

#[tokio::test]
async fn cast_reads_the_same_chain_data_as_from_the_node() {
    let network = Network::start().await;
    network.queue_transfer().await;
    network.mine().await;
    assert_eq!(network.cast(&["chain-id"]).await, "2020");
    assert_eq!(network.cast(&["block-number"]).await, "1");
    for arguments in [["gas-price"].as_slice(), &["base-fee"], &["block", "1"]] {
        let direct = cast(&network.node.url(), arguments).await;
        assert!(direct.0, "{direct:?}");
        assert_eq!(cast(&network.route(), arguments).await, direct, "{arguments:?}");
    }
    assert_eq!(network.cast(&["balance", RECIPIENT, "--ether"]).await, "1.000000000000000000");
}
