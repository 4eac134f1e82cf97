//! Pending transactions on real nodes, replaced with the fees of `/v1/{chain}/replacement`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::anvil::{Anvil, foundry};
use crate::fixtures;
use crate::process::Folder;
use crate::programs;
use crate::raw_client::free_port;
use crate::test_server::TestServer;
use crate::verification_clients::{Hardhat, Project};

const GWEI: u128 = 1_000_000_000;

/// Number of transactions that each test replaces. Each has an account of its own: after a replacement, anvil mines no
/// later transaction of the account.
const COUNT: usize = 40;

/// Number of the nodes' accounts.
const ACCOUNTS: usize = COUNT + 1;

/// The tip of the blocks that the suggestion is computed from.
const MARKET_TIP: u128 = 300_000_007;

/// A node's demand on the fees of a replacement.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// A higher max fee, with any tip.
    HigherMaxFee,
    /// 110 % of both fees, rounded down.
    TenthRoundedDown,
    /// 110 % of both fees, rounded up.
    TenthRoundedUp,
}

impl Rule {
    /// Returns the least fees that the node accepts in place of `old`.
    fn least(self, old: Fees) -> Fees {
        let raise = |amount: u128| match self {
            Self::HigherMaxFee => amount + 1,
            Self::TenthRoundedDown => amount * 110 / 100,
            Self::TenthRoundedUp => (amount * 110).div_ceil(100),
        };
        let has_any_tip = matches!(self, Self::HigherMaxFee);
        let tip = old.tip.map(|tip| if has_any_tip { tip } else { raise(tip) });
        Fees { tip, max_fee: raise(old.max_fee) }
    }

    /// Returns variants of `new`, one fee of each of which is 1 wei less than the node demands.
    fn one_wei_short(self, old: Fees, new: Fees) -> Vec<Fees> {
        let least = self.least(old);
        let max_fee = least.max_fee - 1;
        // A tip is at most the max fee.
        let mut short = vec![Fees { tip: new.tip.map(|tip| tip.min(max_fee)), max_fee }];
        if let (Some(tip), Self::TenthRoundedDown | Self::TenthRoundedUp) = (least.tip, self) {
            short.push(Fees { tip: Some(tip - 1), ..new });
        }
        short
    }
}

/// The fees of a transaction, in wei.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fees {
    /// `None`: the max fee is a gas price.
    tip: Option<u128>,
    max_fee: u128,
}

impl Fees {
    fn new(tip: u128, max_fee: u128) -> Self {
        Self { tip: Some(tip), max_fee }
    }

    fn gas_price(max_fee: u128) -> Self {
        Self { tip: None, max_fee }
    }

    /// Returns pseudo-random fees: a max fee from 1 to 128 gwei with a tip from a 64th of it, or a gas price.
    fn random(random: &mut Random) -> Self {
        let base = GWEI << random.below(7);
        let max_fee = base + random.below(base);
        if random.below(4) == 0 {
            return Self::gas_price(max_fee);
        }
        let least_tip = max_fee >> (1 + random.below(6));
        Self::new(least_tip + random.below(least_tip + 1), max_fee)
    }

    /// Returns the fees of this tier that the service gives in place of these.
    async fn replacement(self, service: &TestServer, tier: &str) -> Self {
        let Self { tip, max_fee } = self;
        let query = match tip {
            Some(tip) => format!("max_fee_per_gas={max_fee}&max_priority_fee_per_gas={tip}"),
            None => format!("gas_price={max_fee}"),
        };
        let response = service.get(&format!("/v1/local/replacement?{query}")).await;
        assert_eq!(response.status, 200, "{query}: {}", response.body);
        let fees = &response.json()[tier];
        let [new_tip, max_fee] =
            ["max_priority_fee_per_gas", "max_fee_per_gas"].map(|name| fixtures::wei(&fees[name]));
        assert!(tip.is_some() || new_tip == max_fee, "{fees}");
        Self { tip: tip.map(|_| new_tip), max_fee }
    }
}

/// `SplitMix64` generator.
struct Random(u64);

impl Random {
    /// Returns a number below `bound`, which is below 2^64.
    fn below(&mut self, bound: u128) -> u128 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u128::from(mixed ^ (mixed >> 31)) % bound
    }
}

/// Chain id of the nodes.
const CHAIN_ID: u64 = 31337;

/// A running node that mines on request only.
struct Node {
    node: Anvil,
    accounts: Vec<String>,
}

impl Node {
    /// Starts the node and waits until it prints its address.
    async fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        let node = Anvil::from_command(CHAIN_ID, command);
        let accounts = node.call("eth_accounts", json!([])).await;
        let accounts: Vec<String> = serde_json::from_value(accounts).unwrap();
        assert_eq!(accounts.len(), ACCOUNTS);
        Self { node, accounts }
    }

    /// Sends a transfer of `value` wei with this nonce from the account `from`. Returns its hash, or the node's error.
    async fn send(&self, from: usize, nonce: u64, value: u8, fees: Fees) -> Result<Value, String> {
        let max_fee = format!("{:#x}", fees.max_fee);
        let mut transaction = json!({
            "from": self.accounts[from], "to": "0x00000000000000000000000000000000c0ffee00", "gas": "0x5208",
            "nonce": format!("{nonce:#x}"), "value": format!("{value:#x}"),
        });
        if let Some(tip) = fees.tip {
            transaction["maxFeePerGas"] = json!(max_fee);
            transaction["maxPriorityFeePerGas"] = json!(format!("{tip:#x}"));
        } else {
            transaction["gasPrice"] = json!(max_fee);
        }
        let reply = self.node.reply("eth_sendTransaction", json!([transaction])).await;
        let error = reply["error"]["message"].as_str().map(str::to_owned);
        error.map_or_else(|| Ok(reply["result"].clone()), Err)
    }

    /// Mines a block and returns the hashes of its transactions.
    async fn mine(&self) -> Vec<Value> {
        self.node.call("evm_mine", json!([])).await;
        let block = self.node.call("eth_getBlockByNumber", json!(["latest", false])).await;
        block["transactions"].as_array().unwrap().clone()
    }

    /// Returns true if the node knows the transaction and has not mined it.
    async fn has_pending(&self, hash: &Value) -> bool {
        let transaction = self.node.call("eth_getTransactionByHash", json!([hash])).await;
        transaction["hash"] == *hash && transaction["blockNumber"].is_null()
    }
}

/// Replaces [`COUNT`] pending transactions, and mines the replacements. Fees that are 1 wei short by `rule` are refused.
async fn replace_pending_transactions(command: Command, rule: Rule) {
    let node = Node::start(command).await;
    for nonce in 0..3 {
        let hash = node.send(COUNT, nonce, 1, Fees::new(MARKET_TIP, 10 * GWEI)).await.unwrap();
        assert_eq!(node.mine().await, [hash]);
    }
    let more = "block_time = \"1h\"\nmax_age = \"3h\"";
    let service = TestServer::start(&node.node.chain("local", more)).await;
    service.wait_for_block("/v1/local/gas-suggestion", 3).await;

    let mut random = Random(20_261_124);
    let (mut hashes, mut by_rule, mut by_market) = (vec![], 0, 0);
    for sender in 0..COUNT {
        let old = Fees::random(&mut random);
        let pending = node.send(sender, 0, 1, old).await.unwrap();
        let new = old.replacement(&service, if sender % 2 == 0 { "medium" } else { "high" }).await;
        for short in rule.one_wei_short(old, new) {
            let error = node.send(sender, 0, 2, short).await.unwrap_err().to_lowercase();
            assert!(error.contains("transaction underpriced"), "{old:?} {short:?}: {error}");
        }
        assert!(node.has_pending(&pending).await);
        let replacement = node.send(sender, 0, 2, new).await;
        let replacement = replacement.unwrap_or_else(|error| panic!("{old:?} {new:?}: {error}"));
        assert!(node.has_pending(&replacement).await && !node.has_pending(&pending).await);
        hashes.push(replacement);
        if new == Rule::TenthRoundedUp.least(old) {
            by_rule += 1;
        } else {
            by_market += 1;
        }
    }
    // The market decided some of the fees, and the rise of a tenth the others.
    assert!(by_rule >= COUNT / 2 && by_market >= COUNT * 15 / 100, "{by_rule} {by_market}");
    let mut mined = node.mine().await;
    mined.sort_by_key(Value::to_string);
    hashes.sort_by_key(Value::to_string);
    assert_eq!(mined, hashes);

    // The node does accept the least fees of its rule.
    let demanding = [
        Fees::new(2 * GWEI + 1, 30 * GWEI + 1),
        Fees::new(2 * GWEI + 9, 30 * GWEI + 9),
        Fees::gas_price(30 * GWEI + 5),
    ];
    for (sender, old) in demanding.into_iter().enumerate() {
        node.send(sender, 1, 1, old).await.unwrap();
        node.send(sender, 1, 2, rule.least(old)).await.unwrap();
    }
}

#[tokio::test]
async fn anvil_accepts_replacements_and_demands_a_higher_max_fee() {
    let mut command = Command::new(foundry("ANVIL", "anvil"));
    command.args(["--chain-id", "31337", "--port", "0", "--no-mining"]);
    command.args(["--base-fee", "1000000000", "--accounts", &ACCOUNTS.to_string()]);
    replace_pending_transactions(command, Rule::HigherMaxFee).await;
}

#[tokio::test]
async fn ganache_accepts_replacements_and_demands_a_tenth_rounded_down() {
    let mut command = programs::node_js(&["ganache"]);
    command.arg(fixtures::path("tests/node/node_modules/ganache/dist/node/cli.js"));
    command.args(["--chain.chainId", "31337", "--server.port", &free_port().to_string()]);
    // It mines at this interval, in seconds, and on request.
    command.args(["--miner.blockTime", "1000000", "--wallet.totalAccounts", &ACCOUNTS.to_string()]);
    replace_pending_transactions(command, Rule::TenthRoundedDown).await;
}

#[tokio::test]
async fn hardhat_accepts_replacements_and_demands_a_tenth_rounded_up() {
    // Hardhat 2 ignores `type`.
    let network = json!({
        "type": "edr-simulated", "chainId": 31337, "initialBaseFeePerGas": 1_000_000_000,
        "accounts": { "count": ACCOUNTS }, "mining": { "auto": false },
    });
    let config_2 =
        format!("module.exports = {{ solidity: \"0.8.28\", networks: {{ hardhat: {network} }} }};");
    let config_3 = format!("export default {{ networks: {{ node: {network} }} }};");
    for (name, hardhat, config) in [
        ("hardhat.config.cjs", Hardhat::v2(), config_2),
        ("hardhat.config.js", Hardhat::v3(), config_3),
    ] {
        let folder = Folder::new(&format!("replacement-{name}"));
        let project = Project(folder).with_modules(&hardhat.modules);
        fs::write(project.root().join("package.json"), "{ \"type\": \"module\" }").unwrap();
        fs::write(project.root().join(name), config).unwrap();
        let mut command = project.command(&hardhat.node);
        command.env("HOME", project.root()).arg(Path::new("node_modules").join(hardhat.command));
        command.args(["node", "--hostname", "127.0.0.1", "--port", "0"]);
        replace_pending_transactions(command, Rule::TenthRoundedUp).await;
    }
}
