//! Pending state through `/rpc/{chain}`, from a real node that mines when it is told to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::anvil::Anvil;
use crate::contract;
use crate::service::{DEADLINE, Service};

/// An address that no transaction but those of a test has to do with.
pub(crate) const NOBODY: &str = "0x00000000000000000000000000000000c0ffee00";
/// 1 ether in wei.
const ETHER: &str = "0xde0b6b3a7640000";

/// A node with a queue that grows until it is told to mine, and the service in front of it.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) node: Anvil,
    service: Service,
    /// Whose transactions those of a test are; it has sent none before.
    pub(crate) sender: String,
}

impl Network {
    pub(crate) async fn start() -> Self {
        Self::with_flashblocks("250ms").await
    }

    /// With this time between two flashblocks.
    async fn with_flashblocks(time: &str) -> Self {
        let node = Anvil::start(0, &["--no-mining"]);
        let chain = format!(
            "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"{}\"]\nblock_time = \"2s\"\n\
             flashblock_time = \"{time}\"\n",
            node.url()
        );
        let service = Service::start(&chain).await;
        service.wait_for("/readyz", |answer| answer.status == 200).await;
        let accounts = node.call("eth_accounts", json!([])).await;
        let sender = accounts[0].as_str().unwrap().to_owned();
        Self { node, service, sender }
    }

    /// Queues a transaction and gives its hash.
    async fn queue(&self, mut transaction: Value) -> String {
        transaction["from"] = json!(self.sender);
        transaction["gas"] = json!("0x100000");
        let hash = self.node.call("eth_sendTransaction", json!([transaction])).await;
        hash.as_str().unwrap().to_owned()
    }

    /// Queues a transfer to [`NOBODY`].
    pub(crate) async fn queue_transfer(&self) -> String {
        self.queue(json!({ "to": NOBODY, "value": ETHER })).await
    }

    /// Queues a contract's creation and gives the address that it will be at.
    async fn queue_contract(&self) -> String {
        let nonce = json!([self.sender, "pending"]);
        assert_eq!(self.node.call("eth_getTransactionCount", nonce).await, "0x0");
        self.queue(json!({ "data": contract::creation() })).await;
        // It follows from the sender, a development account of anvil's, and its nonce, 0.
        "0x5fbdb2315678afecb367f032d93f642f64180aa3".into()
    }

    /// A contract that is mined.
    async fn contract(&self) -> String {
        let address = self.queue_contract().await;
        self.node.call("anvil_mine", json!([])).await;
        address
    }

    /// A mined contract, and 42 for it in the queue; gives the hash of that transaction too.
    pub(crate) async fn contract_with_queued_word(&self) -> (String, String) {
        let contract = self.contract().await;
        let hash = self.queue(json!({ "to": contract, "data": contract::store(42) })).await;
        (contract, hash)
    }

    /// Mines what is queued and waits until the poller has seen that block.
    pub(crate) async fn mine(&self) {
        self.node.call("anvil_mine", json!([])).await;
        self.service.wait_for_head("ronin", &self.node).await;
    }

    pub(crate) fn route(&self) -> String {
        self.service.url("/rpc/ronin")
    }

    /// What the service answers, which has to be what the node itself answers to the byte.
    async fn read(&self, method: &str, params: &Value) -> Outcome {
        let served = ask(&self.route(), method, params).await;
        let own = ask(&self.node.url(), method, params).await;
        assert_eq!(served, own, "{method} {params}");
        served
    }

    /// The same with `tag` as the last of `params`.
    async fn read_at(&self, tag: &str, method: &str, params: &Value) -> Outcome {
        let mut params = params.clone();
        params.as_array_mut().unwrap().push(json!(tag));
        self.read(method, &params).await
    }

    /// Reads with the tag `pending` and with `latest`.
    async fn both(&self, method: &str, params: Value) -> [Outcome; 2] {
        [
            self.read_at("pending", method, &params).await,
            self.read_at("latest", method, &params).await,
        ]
    }

    /// Asks the service until its answer is `as_expected`.
    async fn wait_for(
        &self,
        method: &str,
        params: Value,
        as_expected: impl Fn(&Outcome) -> bool,
    ) -> Outcome {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let outcome = ask(&self.route(), method, &params).await;
            if as_expected(&outcome) {
                return outcome;
            }
            assert!(Instant::now() < deadline, "{method} {params} stays at {outcome:?}");
            tokio::task::yield_now().await;
        }
    }
}

/// The text of an answer's result or of its error, as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Result(String),
    Error(String),
}

impl Outcome {
    fn result(&self) -> Value {
        match self {
            Self::Result(text) => serde_json::from_str(text).unwrap(),
            Self::Error(text) => panic!("an error: {text}"),
        }
    }

    fn error(&self) -> Value {
        match self {
            Self::Result(text) => panic!("a result: {text}"),
            Self::Error(text) => serde_json::from_str(text).unwrap(),
        }
    }
}

async fn ask(url: &str, method: &str, params: &Value) -> Outcome {
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    let reply = reqwest::Client::new().post(url).json(&call).send().await.unwrap();
    assert_eq!(reply.status(), 200, "{method} {params}");
    let text = reply.text().await.unwrap();
    let mut members: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(members.remove("jsonrpc").unwrap().get(), "\"2.0\"");
    assert_eq!(members.remove("id").unwrap().get(), "7");
    let (name, value) = members.pop_first().unwrap();
    assert!(members.is_empty(), "{text}");
    match name.as_str() {
        "result" => Outcome::Result(value.get().to_owned()),
        "error" => Outcome::Error(value.get().to_owned()),
        _ => panic!("{text}"),
    }
}

/// A result that is this string.
fn text(value: &str) -> Outcome {
    Outcome::Result(format!("\"{value}\""))
}

fn word(value: u64) -> Outcome {
    text(&format!("0x{}", contract::word(value)))
}

/// The node's error when `spend` meets an empty slot; its data say `Error("nothing stored")`.
fn nothing_stored() -> Outcome {
    Outcome::Error(
        "{\"code\":3,\"message\":\"execution reverted: nothing stored\",\"data\":\"0x08c379a0\
         0000000000000000000000000000000000000000000000000000000000000020\
         000000000000000000000000000000000000000000000000000000000000000e\
         6e6f7468696e672073746f726564000000000000000000000000000000000000\"}"
            .into(),
    )
}

#[tokio::test]
async fn a_balance_has_a_queued_transfer_under_pending_and_not_under_latest() {
    let network = Network::start().await;
    network.queue_transfer().await;
    let balance = network.both("eth_getBalance", json!([NOBODY])).await;
    assert_eq!(balance, [text(ETHER), text("0x0")]);
}

#[tokio::test]
async fn a_nonce_counts_queued_transactions_under_pending_and_not_under_latest() {
    let network = Network::start().await;
    network.queue_transfer().await;
    network.queue_transfer().await;
    let count = network.both("eth_getTransactionCount", json!([network.sender])).await;
    assert_eq!(count, [text("0x2"), text("0x0")]);
}

#[tokio::test]
async fn a_pending_nonce_counts_what_was_sent_a_moment_ago() {
    // As long as a block: whatever may be used again is.
    let network = Network::with_flashblocks("2s").await;
    let params = json!([network.sender, "pending"]);
    // A wallet that is told the same number twice replaces its own transaction.
    for count in ["0x0", "0x1", "0x2"] {
        assert_eq!(network.read("eth_getTransactionCount", &params).await, text(count));
        network.queue_transfer().await;
    }
}

#[tokio::test]
async fn code_of_a_queued_contract_is_there_under_pending_and_not_under_latest() {
    let network = Network::start().await;
    let contract = network.queue_contract().await;
    let code = network.both("eth_getCode", json!([contract])).await;
    assert_eq!(code, [text(contract::RUNTIME), text("0x")]);
}

#[tokio::test]
async fn storage_has_a_queued_word_under_pending_and_not_under_latest() {
    let network = Network::start().await;
    let (contract, _) = network.contract_with_queued_word().await;
    let storage = network.both("eth_getStorageAt", json!([contract, "0x0"])).await;
    assert_eq!(storage, [word(42), word(0)]);
}

#[tokio::test]
async fn a_call_sees_queued_state_under_pending_and_not_under_latest() {
    let network = Network::start().await;
    let (contract, _) = network.contract_with_queued_word().await;
    let call = json!([{ "to": contract, "data": contract::STORED }]);
    assert_eq!(network.both("eth_call", call).await, [word(42), word(0)]);
}

#[tokio::test]
async fn gas_can_be_estimated_under_pending_where_only_queued_state_lets_a_call_succeed() {
    let network = Network::start().await;
    let (contract, _) = network.contract_with_queued_word().await;
    let params = json!([{ "to": contract, "data": contract::spend() }]);
    let [pending, latest] = network.both("eth_estimateGas", params.clone()).await;
    let gas = pending.result();
    // The 21000 of any transaction and what the call itself takes.
    let gas = u64::from_str_radix(&gas.as_str().unwrap()[2..], 16).unwrap();
    assert!((21_001..30_000).contains(&gas), "{gas}");
    assert_eq!(latest, nothing_stored());
    // Without a tag it is the node that chooses, and anvil's choice is the pending state.
    assert_eq!(network.read("eth_estimateGas", &params).await, pending);
}

#[tokio::test]
async fn a_simulation_sees_queued_state_under_pending_and_not_under_latest() {
    let network = Network::start().await;
    let (contract, _) = network.contract_with_queued_word().await;
    // The block that is pending has the node's clock in it otherwise, and no two answers are alike.
    network.node.call("evm_setNextBlockTimestamp", json!(["0x80000000"])).await;
    let call = json!({ "from": NOBODY, "to": contract, "data": contract::STORED });
    let params = json!([{ "blockStateCalls": [{ "calls": [call] }] }]);
    let [pending, latest] = network.both("eth_simulateV1", params.clone()).await;
    let returned = |outcome: &Outcome| {
        let call = outcome.result()[0]["calls"][0].clone();
        assert_eq!(call["status"], "0x1");
        text(call["returnData"].as_str().unwrap())
    };
    assert_eq!([returned(&pending), returned(&latest)], [word(42), word(0)]);
    assert_eq!(network.read("eth_simulateV1", &params).await, latest);
}

#[tokio::test]
async fn logs_of_a_queued_transaction_are_not_there_until_it_is_mined() {
    let network = Network::start().await;
    let (contract, hash) = network.contract_with_queued_word().await;
    // Anvil takes `pending` for its newest block here, so there is no log under either tag.
    let filter = |from, to| json!([{ "address": contract, "fromBlock": from, "toBlock": to }]);
    for (from, to) in [("pending", "pending"), ("latest", "pending"), ("latest", "latest")] {
        let logs = network.read("eth_getLogs", &filter(from, to)).await;
        assert_eq!(logs, Outcome::Result("[]".into()), "{from} {to}");
    }
    network.mine().await;
    let logs = network.read("eth_getLogs", &filter("latest", "latest")).await.result();
    assert_eq!(logs.as_array().unwrap().len(), 1, "{logs}");
    let log =
        ["transactionHash", "address", "topics", "data"].map(|member| logs[0][member].clone());
    let data = format!("0x{}", contract::word(42));
    assert_eq!(log, [json!(hash), json!(contract), json!([contract::STORED_TOPIC]), json!(data)]);
}

#[tokio::test]
async fn a_receipt_is_null_until_its_transaction_is_mined_and_there_then() {
    let network = Network::start().await;
    let hash = network.queue_transfer().await;
    let null = Outcome::Result("null".into());
    assert_eq!(network.read("eth_getTransactionReceipt", &json!([hash])).await, null);
    network.node.call("anvil_mine", json!([])).await;
    let receipt =
        network.wait_for("eth_getTransactionReceipt", json!([hash]), |found| *found != null).await;
    assert_eq!(network.read("eth_getTransactionReceipt", &json!([hash])).await, receipt);
    let receipt = receipt.result();
    let members = ["transactionHash", "status", "blockNumber"].map(|member| &receipt[member]);
    assert_eq!(members, [&json!(hash), &json!("0x1"), &json!("0x1")]);
}

#[tokio::test]
async fn a_receipt_is_there_for_a_client_that_was_told_of_its_block() {
    // As long as a block: whatever may be used again is.
    let network = Network::with_flashblocks("2s").await;
    let hash = network.queue_transfer().await;
    let params = json!([hash]);
    let null = Outcome::Result("null".into());
    assert_eq!(network.read("eth_getTransactionReceipt", &params).await, null);
    network.node.call("anvil_mine", json!([])).await;
    // Clients look into each new block and take a transaction without a receipt for a failure then.
    assert_eq!(network.read("eth_blockNumber", &json!([])).await, text("0x1"));
    assert_ne!(network.read("eth_getTransactionReceipt", &params).await, null);
}

#[tokio::test]
async fn a_receipt_takes_no_tag() {
    let network = Network::start().await;
    let hash = network.queue_transfer().await;
    let params = json!([hash, "pending"]);
    let [served, own] = [network.route(), network.node.url()]
        .map(async |url| ask(&url, "eth_getTransactionReceipt", &params).await.error());
    let [served, own] = [served.await, own.await];
    assert_eq!([&served["code"], &own["code"]], [-32602, -32602]);
    // The service refuses it by itself and in its own words.
    assert_ne!(served["message"], own["message"]);
}

#[tokio::test]
async fn a_revert_reaches_the_client_as_the_node_told_it() {
    let network = Network::start().await;
    let (contract, _) = network.contract_with_queued_word().await;
    let [passes, reverts] =
        network.both("eth_call", json!([{ "to": contract, "data": contract::spend() }])).await;
    assert_eq!((passes, reverts), (text("0x"), nothing_stored()));
    let refuse = json!([{ "to": contract, "data": contract::refuse() }]);
    for (outcome, stored) in network.both("eth_call", refuse).await.iter().zip([42, 0]) {
        let error = outcome.error();
        // Refused(uint256), which the node cannot read; its message has the bytes as if they were text.
        let data = format!("0x590a5151{}", contract::word(stored));
        assert_eq!((&error["code"], &error["data"]), (&json!(3), &json!(data)));
    }
}

#[tokio::test]
async fn the_pending_block_lists_a_queued_transaction() {
    let network = Network::start().await;
    let hash = network.queue_transfer().await;
    network.node.call("evm_setNextBlockTimestamp", json!(["0x80000000"])).await;
    let block = async |tag| network.read("eth_getBlockByNumber", &json!([tag, false])).await;
    let [pending, latest] = [block("pending").await.result(), block("latest").await.result()];
    assert_eq!((&pending["number"], &pending["transactions"]), (&json!("0x1"), &json!([hash])));
    assert_eq!((&latest["number"], &latest["transactions"]), (&json!("0x0"), &json!([])));
    let transaction = network.read("eth_getTransactionByHash", &json!([hash])).await.result();
    assert_eq!((&transaction["hash"], &transaction["blockHash"]), (&json!(hash), &Value::Null));
}

#[tokio::test]
async fn a_pending_answer_follows_the_next_transaction_within_a_flashblock() {
    let network = Network::start().await;
    let params = json!([NOBODY, "pending"]);
    assert_eq!(network.read("eth_getBalance", &params).await, text("0x0"));
    network.queue_transfer().await;
    let queued = Instant::now();
    loop {
        let sent = Instant::now();
        if ask(&network.route(), "eth_getBalance", &params).await == text(ETHER) {
            break;
        }
        // Whoever asks later than that is shown the transaction, however busy the machine is.
        let age = sent.saturating_duration_since(queued);
        assert!(age <= Duration::from_millis(250), "the old balance after {age:?}");
    }
}

#[tokio::test]
async fn what_was_pending_is_latest_once_the_poller_has_seen_its_block() {
    let network = Network::start().await;
    let contract = network.contract().await;
    network.mine().await;
    network.queue(json!({ "to": contract, "data": contract::store(42) })).await;
    network.queue_transfer().await;
    let reads = [
        ("eth_getBalance", json!([NOBODY])),
        ("eth_getTransactionCount", json!([network.sender])),
        ("eth_getStorageAt", json!([contract, "0x0"])),
        ("eth_call", json!([{ "to": contract, "data": contract::STORED }])),
        ("eth_estimateGas", json!([{ "to": contract, "data": contract::spend() }])),
    ];
    let mut pending = Vec::new();
    for (method, params) in &reads {
        let [queued, mined] = network.both(method, params.clone()).await;
        assert_ne!(queued, mined, "{method}");
        pending.push(queued);
    }
    network.mine().await;
    for ((method, params), queued) in reads.iter().zip(pending) {
        assert_eq!(network.read_at("latest", method, params).await, queued, "{method}");
    }
}
