//! Pending state through `/rpc/{chain}`, from a real node that mines on request.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::anvil::Anvil;
use crate::fixtures;
use crate::http_client;
use crate::test_contract;
use crate::test_server::TestServer;

/// An address that only the tests' direct transfers touch.
pub(crate) const RECIPIENT: &str = "0x00000000000000000000000000000000c0ffee00";
/// 1 ether in wei.
const ETHER: &str = "0xde0b6b3a7640000";

/// A node that queues transactions until a test mines them, with the service in front of it.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) node: Anvil,
    service: TestServer,
    /// The account that sends all transactions; its nonce is 0 at the start.
    pub(crate) sender: String,
}

impl Network {
    pub(crate) async fn start() -> Self {
        let node = Anvil::start(0, &["--no-mining"]);
        let chain = format!(
            "[chains.ronin]\nchain_id = 2020\njson_rpc = true\nrpc_urls = [\"{}\"]\nblock_time = \"2s\"\n\
             flashblock_time = \"250ms\"\n",
            node.url()
        );
        let service = TestServer::start(&chain).await;
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

    /// Queues a transfer to [`RECIPIENT`].
    pub(crate) async fn queue_transfer(&self) -> String {
        self.queue(json!({ "to": RECIPIENT, "value": ETHER })).await
    }

    /// Queues the creation of the contract and returns its future address.
    async fn queue_contract(&self) -> String {
        let nonce = json!([self.sender, "pending"]);
        assert_eq!(self.node.call("eth_getTransactionCount", nonce).await, "0x0");
        self.queue(json!({ "data": test_contract::creation() })).await;
        // Determined by the sender, anvil's first development account, and its nonce 0.
        "0x5fbdb2315678afecb367f032d93f642f64180aa3".into()
    }

    /// Deploys and mines the contract; returns its address.
    async fn deploy_contract(&self) -> String {
        let address = self.queue_contract().await;
        self.node.call("anvil_mine", json!([])).await;
        address
    }

    /// Deploys the contract and queues a transaction that stores 42 in it. Returns the contract's address and
    /// the hash of the queued transaction.
    pub(crate) async fn contract_with_queued_write(&self) -> (String, String) {
        let contract = self.deploy_contract().await;
        let hash = self.queue(json!({ "to": contract, "data": test_contract::store(42) })).await;
        (contract, hash)
    }

    /// Mines the queued transactions and waits until the service has polled that block.
    pub(crate) async fn mine(&self) {
        self.node.call("anvil_mine", json!([])).await;
        self.service.wait_for_head("ronin", &self.node).await;
    }

    pub(crate) fn route(&self) -> String {
        self.service.url("/rpc/ronin")
    }

    /// Returns the outcome of a call to the service, which must equal the node's own byte for byte.
    async fn read(&self, method: &str, params: &Value) -> Outcome {
        let served = call(&self.route(), method, params).await;
        let direct = call(&self.node.url(), method, params).await;
        assert_eq!(served, direct, "{method} {params}");
        served
    }

    /// Calls [`read`](Self::read) with `tag` appended to `params`.
    async fn read_at(&self, tag: &str, method: &str, params: &Value) -> Outcome {
        let mut params = params.clone();
        params.as_array_mut().unwrap().push(json!(tag));
        self.read(method, &params).await
    }

    /// Reads at `pending` and at `latest`.
    async fn read_pending_and_latest(&self, method: &str, params: Value) -> [Outcome; 2] {
        [
            self.read_at("pending", method, &params).await,
            self.read_at("latest", method, &params).await,
        ]
    }
}

/// The raw JSON of a response's `result` or `error`.
type Outcome = Result<String, String>;

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

async fn call(url: &str, method: &str, params: &Value) -> Outcome {
    let request = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    let reply = http_client::new().post(url).json(&request).send().await.unwrap();
    assert_eq!(reply.status(), 200, "{method} {params}");
    let text = reply.text().await.unwrap();
    let mut members: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(members.remove("jsonrpc").unwrap().get(), "\"2.0\"");
    assert_eq!(members.remove("id").unwrap().get(), "7");
    let (name, value) = members.pop_first().unwrap();
    assert!(members.is_empty(), "{text}");
    match name.as_str() {
        "result" => Ok(value.get().to_owned()),
        "error" => Err(value.get().to_owned()),
        _ => panic!("{text}"),
    }
}

/// Returns a result that is the JSON string `value`.
#[expect(clippy::unnecessary_wraps, reason = "it is compared with outcomes")]
fn text(value: &str) -> Outcome {
    Ok(format!("\"{value}\""))
}

fn word(value: u64) -> Outcome {
    text(&format!("0x{}", test_contract::word(value)))
}

/// Returns the node's error for `spend` with an empty slot; its data encodes `Error("nothing stored")`.
fn nothing_stored() -> Outcome {
    Err("{\"code\":3,\"message\":\"execution reverted: nothing stored\",\"data\":\"0x08c379a0\
         0000000000000000000000000000000000000000000000000000000000000020\
         000000000000000000000000000000000000000000000000000000000000000e\
         6e6f7468696e672073746f726564000000000000000000000000000000000000\"}"
        .into())
}

#[tokio::test]
async fn pending_code_includes_a_queued_contract() {
    let network = Network::start().await;
    let contract = network.queue_contract().await;
    let code = network.read_pending_and_latest("eth_getCode", json!([contract])).await;
    assert_eq!(code, [text(test_contract::RUNTIME), text("0x")]);
}

#[tokio::test]
async fn pending_simulation_sees_queued_state() {
    let network = Network::start().await;
    let (contract, _) = network.contract_with_queued_write().await;
    // Without a fixed timestamp, the pending block contains the current time and no two responses are equal.
    network.node.call("evm_setNextBlockTimestamp", json!(["0x80000000"])).await;
    let call = json!({ "from": RECIPIENT, "to": contract, "data": test_contract::STORED });
    let params = json!([{ "blockStateCalls": [{ "calls": [call] }] }]);
    let [pending, latest] = network.read_pending_and_latest("eth_simulateV1", params.clone()).await;
    let returned = |outcome: &Outcome| {
        let call = parsed(outcome.as_ref().unwrap())[0]["calls"][0].clone();
        assert_eq!(call["status"], "0x1");
        text(call["returnData"].as_str().unwrap())
    };
    assert_eq!([returned(&pending), returned(&latest)], [word(42), word(0)]);
    assert_eq!(network.read("eth_simulateV1", &params).await, latest);
}

#[tokio::test]
async fn logs_of_a_queued_transaction_appear_when_it_is_mined() {
    let network = Network::start().await;
    let (contract, hash) = network.contract_with_queued_write().await;
    // Anvil treats `pending` as its newest block here, so neither tag has a log.
    let filter = |from, to| json!([{ "address": contract, "fromBlock": from, "toBlock": to }]);
    for (from, to) in [("pending", "pending"), ("latest", "pending"), ("latest", "latest")] {
        let logs = network.read("eth_getLogs", &filter(from, to)).await;
        assert_eq!(logs, Ok("[]".into()), "{from} {to}");
    }
    network.mine().await;
    let logs = network.read("eth_getLogs", &filter("latest", "latest")).await.unwrap();
    let logs = parsed(&logs);
    assert_eq!(logs.as_array().unwrap().len(), 1, "{logs}");
    let log =
        ["transactionHash", "address", "topics", "data"].map(|member| logs[0][member].clone());
    let data = format!("0x{}", test_contract::word(42));
    assert_eq!(
        log,
        [json!(hash), json!(contract), json!([test_contract::STORED_TOPIC]), json!(data)]
    );
}

#[tokio::test]
async fn receipt_is_null_until_its_transaction_is_mined() {
    let network = Network::start().await;
    let hash = network.queue_transfer().await;
    let params = json!([hash]);
    let null = Ok("null".into());
    assert_eq!(network.read("eth_getTransactionReceipt", &params).await, null);
    network.node.call("anvil_mine", json!([])).await;
    // Clients look for the receipt at each new block, and some treat a missing one as a failure.
    assert_eq!(network.read("eth_blockNumber", &json!([])).await, text("0x1"));
    let receipt = network.read("eth_getTransactionReceipt", &params).await.unwrap();
    let receipt = parsed(&receipt);
    let members = ["transactionHash", "status", "blockNumber"].map(|member| &receipt[member]);
    assert_eq!(members, [&json!(hash), &json!("0x1"), &json!("0x1")]);
}

#[tokio::test]
async fn receipt_call_with_a_block_tag_is_rejected() {
    let network = Network::start().await;
    let hash = network.queue_transfer().await;
    let params = json!([hash, "pending"]);
    let error = async |url: String| {
        let outcome = call(&url, "eth_getTransactionReceipt", &params).await;
        parsed(&outcome.unwrap_err())
    };
    let [served, direct] = [error(network.route()).await, error(network.node.url()).await];
    assert_eq!([&served["code"], &direct["code"]], [-32602, -32602]);
    // The error comes from the service, not from the node.
    assert_ne!(served["message"], direct["message"]);
}

#[tokio::test]
async fn revert_error_is_passed_through_unchanged() {
    let network = Network::start().await;
    let (contract, _) = network.contract_with_queued_write().await;
    let call = async |data: String| {
        let params = json!([{ "to": contract, "data": data }]);
        network.read_pending_and_latest("eth_call", params).await
    };
    assert_eq!(call(test_contract::spend()).await, [text("0x"), nothing_stored()]);
    for (outcome, stored) in call(test_contract::refuse()).await.iter().zip([42, 0]) {
        let error = parsed(outcome.as_ref().unwrap_err());
        // The custom error Refused(uint256). Anvil cannot decode it and puts its bytes into the message as text.
        let data = format!("0x590a5151{}", test_contract::word(stored));
        assert_eq!((&error["code"], &error["data"]), (&json!(3), &json!(data)));
    }
}

#[tokio::test]
async fn pending_block_lists_a_queued_transaction() {
    let network = Network::start().await;
    let hash = network.queue_transfer().await;
    network.node.call("evm_setNextBlockTimestamp", json!(["0x80000000"])).await;
    let read = async |method, params| parsed(&network.read(method, &params).await.unwrap());
    let block = async |tag| read("eth_getBlockByNumber", json!([tag, false])).await;
    let [pending, latest] = [block("pending").await, block("latest").await];
    assert_eq!((&pending["number"], &pending["transactions"]), (&json!("0x1"), &json!([hash])));
    assert_eq!((&latest["number"], &latest["transactions"]), (&json!("0x0"), &json!([])));
    let transaction = read("eth_getTransactionByHash", json!([hash])).await;
    assert_eq!((&transaction["hash"], &transaction["blockHash"]), (&json!(hash), &Value::Null));
}

#[tokio::test]
async fn pending_state_includes_the_queue_and_is_latest_once_it_is_polled() {
    let network = Network::start().await;
    let contract = network.deploy_contract().await;
    network.mine().await;
    network.queue(json!({ "to": contract, "data": test_contract::store(42) })).await;
    network.queue_transfer().await;
    let words = || [word(42), word(0)];
    let stored = json!([{ "to": contract, "data": test_contract::STORED }]);
    let reads = [
        ("eth_getBalance", json!([RECIPIENT]), [text(ETHER), text("0x0")]),
        ("eth_getTransactionCount", json!([network.sender]), [text("0x3"), text("0x1")]),
        ("eth_getStorageAt", json!([contract, "0x0"]), words()),
        ("eth_call", stored, words()),
    ];
    for (method, params, expected) in &reads {
        let found = network.read_pending_and_latest(method, params.clone()).await;
        assert_eq!(found, *expected, "{method}");
    }
    let spend = json!([{ "to": contract, "data": test_contract::spend() }]);
    let [gas, latest] = network.read_pending_and_latest("eth_estimateGas", spend.clone()).await;
    // The intrinsic 21000 plus the cost of the call.
    let amount = fixtures::quantity(&parsed(gas.as_ref().unwrap()));
    assert!((21_001..30_000).contains(&amount), "{amount}");
    assert_eq!(latest, nothing_stored());
    // Without a tag the node chooses; anvil uses the pending state.
    assert_eq!(network.read("eth_estimateGas", &spend).await, gas);
    network.mine().await;
    for (method, params, [queued, _]) in reads {
        assert_eq!(network.read_at("latest", method, &params).await, queued, "{method}");
    }
    assert_eq!(network.read_at("latest", "eth_estimateGas", &spend).await, gas);
}
