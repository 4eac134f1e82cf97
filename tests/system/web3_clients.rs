//! Tests of unmodified web3 clients (viem, ethers, web3.js, web3.py, cast) that use the service as their node.

use serde_json::{Value, json};

use crate::anvil::Anvil;
use crate::fixtures;
use crate::programs;
use crate::test_contract;
use crate::test_server::TestServer;

/// An address that only the tests' direct transfers touch.
const RECIPIENT: &str = "0x00000000000000000000000000000000c0ffee00";

/// A node that queues transactions until a test mines them, with the service in front of it.
#[derive(Debug)]
struct Network {
    node: Anvil,
    service: TestServer,
    /// The account that sends all transactions; its nonce is 0 at the start.
    sender: String,
}

impl Network {
    async fn start() -> Self {
        let node = Anvil::start(&["--no-mining"]);
        let more = "json_rpc = true\nblock_time = \"2s\"\nflashblock_time = \"250ms\"";
        let service = TestServer::start(&node.chain("ronin", more)).await;
        service.wait_for_ok("/readyz").await;
        let accounts = node.call("eth_accounts", json!([])).await;
        let sender = accounts[0].as_str().unwrap().to_owned();
        Self { node, service, sender }
    }

    /// Queues a transaction and returns its hash.
    async fn queue(&self, mut transaction: Value) -> String {
        transaction["from"] = json!(self.sender);
        transaction["gas"] = json!("0x100000");
        let hash = self.node.call("eth_sendTransaction", json!([transaction])).await;
        hash.as_str().unwrap().to_owned()
    }

    /// Queues a transfer of 1 ether to [`RECIPIENT`].
    async fn queue_transfer(&self) -> String {
        self.queue(json!({ "to": RECIPIENT, "value": "0xde0b6b3a7640000" })).await
    }

    /// Deploys the contract and queues a transaction that stores 42 in it. Returns the contract's address and
    /// the hash of the queued transaction.
    async fn contract_with_queued_write(&self) -> (String, String) {
        let nonce = json!([self.sender, "pending"]);
        assert_eq!(self.node.call("eth_getTransactionCount", nonce).await, "0x0");
        self.queue(json!({ "data": test_contract::creation() })).await;
        self.node.call("anvil_mine", json!([])).await;
        // Determined by the sender, anvil's first development account, and its nonce 0.
        let contract = "0x5fbdb2315678afecb367f032d93f642f64180aa3".to_owned();
        let hash = self.queue(json!({ "to": contract, "data": test_contract::store(42) })).await;
        (contract, hash)
    }

    /// Mines the queued transactions and waits until the service has polled that block.
    async fn mine(&self) {
        self.node.call("anvil_mine", json!([])).await;
        self.service.wait_for_head("ronin", &self.node).await;
    }

    fn route(&self) -> String {
        self.service.url("/rpc/ronin")
    }

    /// Runs cast with the service as its node. Returns its output. Panics if cast fails.
    async fn cast(&self, arguments: &[&str]) -> String {
        let (is_success, stdout, stderr) = cast(&self.route(), arguments).await;
        assert!(is_success, "{arguments:?}: {stdout}\n{stderr}");
        stdout
    }
}

#[tokio::test]
async fn javascript_clients_see_pending_state_reverts_and_events() {
    let packages = ["viem", "ethers", "@ethersproject/providers", "web3"];
    for client in [
        // viem sees pending state without a tag, and decodes reverts. It does in batches too.
        "viem",     // ethers also sees events.
        "ethers",   // ethers 5 gets an error for each call of a long batch.
        "ethers-5", // web3.js connects and reads blocks by hash.
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
    // web3.py divides by the time between blocks.
    network.node.call("anvil_setBlockTimestampInterval", json!([1])).await;
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
        let logs: Vec<Value> = serde_json::from_str(text).unwrap();
        assert_eq!(logs.len(), 1, "{text}");
        (logs[0]["topics"].clone(), logs[0]["data"].clone())
    };
    let data = format!("0x{}", test_contract::word(42));
    let expected = (json!([test_contract::STORED_TOPIC]), json!(data));
    assert_eq!(topic_and_data(&receipt), expected);
    assert_eq!(topic_and_data(&network.cast(&logs).await), expected);
}
