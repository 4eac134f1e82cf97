//! Runs the code blocks of `docs/integrations.md` and of the README as they are.
//!
//! Only the URLs of the service and of the node are replaced. The tests contain no copy of a block, so a wrong change
//! of a block fails a test.

use std::collections::HashMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::anvil::Anvil;
use crate::client_package;
use crate::deployment::text;
use crate::fixtures::{self, quantity as number, wei};
use crate::process::Folder;
use crate::programs;
use crate::raw_client::TIMEOUT;
use crate::test_server::TestServer;

const SUGGESTION: &str = "/v1/ronin/gas-suggestion";

/// A URL where nothing listens.
const NOWHERE: &str = "http://127.0.0.1:9";

/// Interval at which tests check the node. Long enough to leave the processor to the program.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Private key and address of anvil's first default account.
pub(crate) const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const SENDER: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";

/// The addresses of the service and of the node in the documentation.
const SERVICE: &str = "localhost:8080";
const NODE: &str = "https://api.roninchain.com/rpc";

/// JavaScript that defines `print`. Its output distinguishes `1n` from `1`.
const PRINT_JS: &str = "const print = (value) => console.log(JSON.stringify(value, (_, inner) => \
    typeof inner === 'bigint' ? `${inner}n` : inner));\n";

/// A fenced block of a page.
#[derive(Debug)]
pub(crate) struct Block {
    /// The last heading before it.
    pub(crate) heading: String,
    pub(crate) language: String,
    pub(crate) text: String,
}

/// Returns the blocks of the page at this path, in order.
pub(crate) fn blocks(path: &str) -> Vec<Block> {
    let page = text(path);
    let mut lines = page.lines();
    let (mut heading, mut blocks) = (String::new(), vec![]);
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            line.trim_start_matches('#').trim().clone_into(&mut heading);
        } else if let Some(language) = line.strip_prefix("```") {
            let text: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            let text = text.join("\n") + "\n";
            blocks.push(Block { heading: heading.clone(), language: language.to_owned(), text });
        }
    }
    blocks
}

/// Returns the blocks of the page in this language.
pub(crate) fn blocks_in(path: &str, language: &str) -> Vec<Block> {
    let mut blocks = blocks(path);
    blocks.retain(|block| block.language == language);
    blocks
}

/// A folder with the JavaScript and TypeScript blocks of the page, each in the file named in its first line, without types.
/// Removed when dropped.
#[derive(Debug)]
struct Workspace {
    folder: Folder,
    service: String,
    node: String,
}

impl Workspace {
    /// Writes the files for the service at `service` (host, port and any base path) and the node at the URL `node`.
    fn new(service: &str, node: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = Folder::new(&format!("integrations-{count}"));
        let workspace = Self { folder, service: service.to_owned(), node: node.to_owned() };
        // Beside the published package these are the packages of tests/node.
        let packages = client_package::installed().join("node_modules");
        std::os::unix::fs::symlink(packages, workspace.folder.path().join("node_modules")).unwrap();
        workspace.write("package.json", "{ \"type\": \"module\" }");
        let mut typed = vec![];
        for language in ["js", "ts"] {
            for block in blocks_in("docs/integrations.md", language) {
                let name = block.text.lines().next().unwrap().strip_prefix("// ");
                let name =
                    name.unwrap_or_else(|| panic!("no name in the first line of {block:#?}"));
                assert!(!workspace.folder.path().join(name).exists(), "two blocks are {name}");
                workspace.write(name, &block.text);
                if language == "ts" {
                    typed.push(name.to_owned());
                }
            }
        }
        // clients/js/test/package.test.mjs checks their types.
        let mut strip = programs::node_js(&["viem"]);
        strip.arg(fixtures::path("clients/js/node_modules/esbuild/bin/esbuild")).args(typed);
        strip.args(["--format=esm", "--outdir=.", "--log-level=error"]);
        assert!(strip.current_dir(workspace.folder.path()).status().unwrap().success());
        workspace
    }

    fn with_addresses(&self, text: &str) -> String {
        let text = text.replace(SERVICE, &self.service).replace(NODE, &self.node);
        assert!(!text.contains("localhost") && !text.contains("roninchain"), "{text}");
        text
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), self.with_addresses(text)).unwrap();
    }

    fn file(&self, name: &str) -> Program {
        let mut command = programs::node_js(&["ethers", "viem"]);
        command.arg(name);
        self.start(&command)
    }

    /// Runs `text` as a module in the folder, with `print` defined. It must succeed without standard error. Returns
    /// standard output.
    async fn module(&self, text: &str) -> String {
        let mut command = programs::node_js(&["ethers", "viem"]);
        let text = format!("{PRINT_JS}{}", self.with_addresses(text));
        command.args(["--input-type=module", "--eval", &text]);
        let (has_succeeded, stdout, stderr) = self.start(&command).await.unwrap();
        assert!(has_succeeded && stderr.is_empty(), "{text}\n{stdout}\n{stderr}");
        stdout
    }

    /// Starts a program of Node.js in the folder. It is killed after three minutes: several of them and nodes at a time
    /// can take one on a busy machine.
    fn start(&self, node: &Command) -> Program {
        let mut command = Command::new("timeout");
        command.arg("180").arg(node.get_program()).args(node.get_args());
        command.current_dir(self.folder.path()).env("PRIVATE_KEY", KEY);
        tokio::spawn(programs::run(command))
    }
}

/// A running program. Returns success, standard output and standard error.
type Program = JoinHandle<(bool, String, String)>;

/// Time between blocks that are mined while a program waits.
const BLOCK_TIME: Duration = Duration::from_millis(500);

/// Starts a node that mines on request only and whose blocks have room for one transfer.
fn node(arguments: &[&str]) -> Anvil {
    Anvil::start(&[&["--no-mining", "--gas-limit", "30000"], arguments].concat())
}

/// Returns the configuration of a chain with blocks of 500 ms, which counts as stalled after ten minutes without a block.
fn chain(node: &str) -> String {
    format!(
        "[chains.ronin]\nchain_id = 2020\njson_rpc = true\nrpc_urls = [\"{node}\"]\nblock_time = \"500ms\"\n\
         stall_after = \"10m\"\n"
    )
}

/// Returns the only transaction in the newest block.
async fn only_transaction(node: &Anvil) -> Value {
    let block = node.call("eth_getBlockByNumber", json!(["latest", true])).await;
    let transactions = block["transactions"].as_array().unwrap();
    assert_eq!(transactions.len(), 1, "{block:#}");
    transactions[0].clone()
}

async fn mine(node: &Anvil) {
    node.call("anvil_mine", json!([])).await;
}

/// A node and the service that polls it.
#[derive(Debug)]
struct NodeAndService {
    node: Anvil,
    service: TestServer,
}

impl NodeAndService {
    /// Starts a node with these arguments, and the service.
    async fn start(arguments: &[&str]) -> Self {
        // It holds this thread for long, and with it a service that runs.
        client_package::installed();
        let node = node(arguments);
        // With a few blocks, the average base fee differs from every single base fee.
        for _ in 0..3 {
            mine(&node).await;
        }
        let service = TestServer::start(&chain(&node.url())).await;
        service.wait_for_head("ronin", &node).await;
        Self { node, service }
    }

    fn workspace(&self) -> Workspace {
        Workspace::new(&self.service.address().to_string(), &self.node.url())
    }

    /// Returns the tip and the maximum fee of the medium tier.
    async fn suggestion(&self) -> [u128; 2] {
        let response = self.service.get(SUGGESTION).await.json();
        ["max_priority_fee_per_gas", "max_fee_per_gas"]
            .map(|member| wei(&response["medium"][member]))
    }

    /// Queues a transfer that pays 1 gwei less than the suggestion, and far more than the node requires.
    async fn queue_rival(&self) {
        let max_fee = self.suggestion().await[1] - 1_000_000_000;
        let accounts = self.node.call("eth_accounts", json!([])).await;
        let mut rival = json!({ "from": accounts[1], "to": accounts[2], "gas": "0x5208" });
        let head = self.node.call("eth_getBlockByNumber", json!(["latest", false])).await;
        let is_legacy = head["baseFeePerGas"].is_null();
        let members = ["gasPrice", "maxFeePerGas", "maxPriorityFeePerGas"];
        for member in if is_legacy { &members[..1] } else { &members[1..] } {
            rival[member] = json!(format!("{max_fee:#x}"));
        }
        self.node.call("eth_sendTransaction", json!([rival])).await;
    }

    /// Queues a rival, lets `program` send, and returns the transaction in the next block.
    async fn send(&self, program: Program) -> Value {
        self.queue_rival().await;
        let (transaction, stderr) = send(&self.node, program).await;
        assert_eq!(stderr, "");
        transaction
    }
}

/// Mines a block once `program` has sent a transaction, and checks that the program prints its hash. Returns the
/// transaction and the program's standard error.
async fn send(node: &Anvil, program: Program) -> (Value, String) {
    let head = number(&node.call("eth_blockNumber", json!([])).await);
    let deadline = Instant::now() + TIMEOUT;
    while node.call("eth_getTransactionCount", json!([SENDER, "pending"])).await == "0x0" {
        assert!(!program.is_finished(), "no transaction was sent: {:#?}", program.await);
        assert!(Instant::now() < deadline, "no transaction is sent");
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    assert_eq!(number(&node.call("eth_blockNumber", json!([])).await), head);
    mine(node).await;
    let transaction = only_transaction(node).await;
    assert_eq!(transaction["blockNumber"], format!("{:#x}", head + 1));
    assert_eq!(transaction["from"], SENDER, "a rival was first");
    // ethers looks for its receipt at each new block only, and may have looked just before this one.
    let more_blocks = async {
        loop {
            tokio::time::sleep(BLOCK_TIME).await;
            mine(node).await;
        }
    };
    let (has_succeeded, stdout, stderr) = tokio::select! {
        ended = program => ended.unwrap(),
        () = more_blocks => unreachable!("it goes on for ever"),
    };
    let hash = transaction["hash"].as_str().unwrap();
    let expected = format!("{hash} is in block {}", head + 1);
    assert!(has_succeeded && stdout == expected, "{expected}, but: {stdout}\n{stderr}");
    (transaction, stderr)
}

/// Returns the tip and the maximum fee of a type 2 transaction.
fn fees(transaction: &Value) -> [u128; 2] {
    assert_eq!(transaction["type"], "0x2", "{transaction:#}");
    ["maxPriorityFeePerGas", "maxFeePerGas"].map(|member| number(&transaction[member]))
}

#[tokio::test]
async fn viem_replaces_a_stuck_transaction() {
    let market = NodeAndService::start(&[]).await;
    let transaction = json!({
        "from": SENDER, "to": "0x00000000000000000000000000000000c0ffee00", "value": "0x7",
        "input": "0xabcd", "gas": "0x7000", "nonce": "0x0",
    });
    let mut stuck = transaction.clone();
    // 25 gwei and 1 wei, and 100 gwei and 9 wei.
    stuck["maxPriorityFeePerGas"] = json!("0x5d21dba01");
    stuck["maxFeePerGas"] = json!("0x174876e809");
    let stuck = market.node.call("eth_sendTransaction", json!([stuck])).await;
    let workspace = market.workspace();
    let module = format!(
        "import {{ createWalletClient, publicActions }} from 'viem';
         import {{ privateKeyToAccount }} from 'viem/accounts';
         import {{ ronin as chain, transport }} from './ronin.js';
         import {{ replace }} from './replace.js';
         const account = privateKeyToAccount(process.env.PRIVATE_KEY);
         const wallet = createWalletClient({{ account, chain, transport }}).extend(publicActions);
         print(await replace(wallet, {stuck}));"
    );
    let printed = workspace.module(&module).await;
    mine(&market.node).await;
    let replacement = only_transaction(&market.node).await;
    assert_eq!(printed, replacement["hash"].to_string());
    assert_eq!(fees(&replacement), [27_500_000_002, 110_000_000_010]);
    for (member, value) in transaction.as_object().unwrap() {
        assert_eq!(replacement[member], *value, "{member}");
    }
}

/// One legacy chain is before EIP-1559, the other has a base fee of 0. There viem sends a transaction of type 2.
#[tokio::test]
async fn viem_and_ethers_send_suggested_fees_and_are_in_the_next_block() {
    let berlin = ["--hardfork", "berlin", "--base-fee", "0"].as_slice();
    let zero_base_fee = ["--base-fee", "0"].as_slice();
    for cases in [
        [("send.js", [].as_slice(), "0x2"), ("pay.js", &[], "0x2")],
        [("send.js", berlin, "0x0"), ("send.js", zero_base_fee, "0x2")],
        [("pay.js", berlin, "0x0"), ("pay.js", zero_base_fee, "0x0")],
    ] {
        join_all(cases.map(async |(file, arguments, kind)| {
            let market = NodeAndService::start(arguments).await;
            let is_legacy = market.service.get(SUGGESTION).await.json()["type"] == "legacy";
            assert_eq!(is_legacy, !arguments.is_empty());
            let suggestion = market.suggestion().await;
            assert!(!is_legacy || suggestion[0] == suggestion[1]);
            let transaction = market.send(market.workspace().file(file)).await;
            assert_eq!(transaction["type"], kind, "{file} {arguments:?}");
            let paid = if kind == "0x0" {
                [number(&transaction["gasPrice"]); 2]
            } else {
                fees(&transaction)
            };
            assert_eq!(paid, suggestion, "{file} {arguments:?}: {transaction:#}");
        }))
        .await;
    }
}

/// Returns the fees of a tier as `suggested-fees.js` returns them for `response`.
fn expected_fees(response: &Value, tier: &str) -> String {
    let [tip, max_fee] =
        ["max_priority_fee_per_gas", "max_fee_per_gas"].map(|member| wei(&response[tier][member]));
    if response["type"] == "legacy" {
        return format!("{{\"gasPrice\":\"{max_fee}n\"}}");
    }
    format!("{{\"maxFeePerGas\":\"{max_fee}n\",\"maxPriorityFeePerGas\":\"{tip}n\"}}")
}

#[tokio::test]
async fn fetch_returns_the_fees_of_a_tier_also_below_a_base_path() {
    const BOTH: &str = "import { suggestedFees } from './suggested-fees.js';
        print(await suggestedFees()); print(await suggestedFees('high'));";
    for arguments in [[].as_slice(), &["--hardfork", "berlin", "--base-fee", "0"]] {
        let market = NodeAndService::start(arguments).await;
        let base_path = "base_path = \"/proxy/public\"";
        let below = TestServer::with_server(base_path, &chain(&market.node.url())).await;
        let path = format!("/proxy/public{SUGGESTION}");
        below.wait_for_ok(&path).await;
        let response = market.service.get(SUGGESTION).await.json();
        let expected =
            [expected_fees(&response, "medium"), expected_fees(&response, "high")].join("\n");
        let below = format!("{}/proxy/public", below.address());
        for service in [market.service.address().to_string(), below] {
            let workspace = Workspace::new(&service, &market.node.url());
            assert_eq!(workspace.module(BOTH).await, expected);
        }
    }
}

#[tokio::test]
async fn fetch_says_why_there_are_no_fees() {
    // The kernel accepts connections, but no response is sent.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let empty = TestServer::start(&chain(NOWHERE)).await;
    let no_data = ["no gas suggestion: 503 {", "\\\"code\\\":\\\"no_data\\\""];
    for (address, errors) in
        [(silent.local_addr().unwrap(), ["timeout"].as_slice()), (empty.address(), &no_data)]
    {
        let fetch = "import { suggestedFees } from './suggested-fees.js';
            await suggestedFees().then(print, (error) => print(error.message));";
        let stdout = Workspace::new(&address.to_string(), "nowhere").module(fetch).await;
        assert!(errors.iter().all(|error| stdout.contains(error)), "{stdout}");
    }
}

#[tokio::test]
async fn client_returns_and_follows_the_price() {
    let market = NodeAndService::start(&[]).await;
    let workspace = market.workspace();
    let module = "import { followGas, gasPrice } from './gas-price.js';
         print(await gasPrice());
         const stop = followGas(({ block, medium }) => { stop(); print([block, medium.maxFeePerGas]); });";
    let response = market.service.get(SUGGESTION).await;
    let block = response.header("x-newest-block");
    let [_, max_fee] = market.suggestion().await;
    let fee_market = market.service.get("/v1/ronin/fee-market").await.json();
    let expected = wei(&fee_market["expected_price_per_gas"]["medium"]);
    let stdout = workspace.module(module).await;
    let (price, followed) = stdout.split_once('\n').unwrap();
    assert_eq!(followed, format!("[{block},\"{max_fee}n\"]"));
    let price: Value = serde_json::from_str(price).unwrap();
    assert_eq!(price["transferCost"], format!("{}n", expected * 21_000));
    assert_eq!((price["block"].to_string().as_str(), &price["isStale"]), (block, &json!(false)));
    assert_eq!(price["price"], format!("{} gwei", gwei(expected)));
}

/// Formats an amount in gwei as `formatGwei` of the package does: rounded to four significant digits.
fn gwei(amount: u128) -> String {
    let dropped = amount.to_string().len().saturating_sub(4);
    let unit = 10_u128.pow(u32::try_from(dropped).unwrap());
    let rounded = (amount + unit / 2) / unit * unit;
    let text = format!("{}.{:09}", rounded / 1_000_000_000, rounded % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[tokio::test]
async fn wagmi_sends_suggested_fees_with_the_hook_and_the_wallets_without() {
    const PACKAGES: &[&str] = &["wagmi", "viem", "react", "react-dom", "@tanstack/react-query"];
    for how in ["with the hook", "without the hook"] {
        let market = NodeAndService::start(&[]).await;
        let (workspace, suggestion) = (market.workspace(), market.suggestion().await);
        let own_tip = number(&market.node.call("eth_maxPriorityFeePerGas", json!([])).await);
        let mut command = programs::node_js(PACKAGES);
        command.arg(programs::script_path("integrations-wagmi.mjs")).arg(workspace.folder.path());
        command.args([&market.node.url(), how]);
        let program = workspace.start(&command);
        if how == "with the hook" {
            assert_eq!(fees(&market.send(program).await), suggestion);
        } else {
            let (transaction, stderr) = send(&market.node, program).await;
            assert_eq!((fees(&transaction)[0], stderr.as_str()), (own_tip, ""));
        }
    }
}

#[tokio::test]
async fn browser_pages_follow_blocks_reconnect_and_know_the_age() {
    let market = NodeAndService::start(&[]).await;
    let config = chain(&market.node.url());
    // The test occupies the only stream of `full`; `stalled` gets no block for longer than `stall_after`.
    let full = format!("[limits]\nmax_streams = 1\nrequests_per_second_per_client = 0\n{config}");
    let full = TestServer::start(&full).await;
    let stalled = TestServer::start(&config.replace("10m", "2s")).await;
    let empty = TestServer::start(&chain(NOWHERE)).await;
    full.wait_for_head("ronin", &market.node).await;
    stalled.wait_for_head("ronin", &market.node).await;
    let services =
        [("plain", &market.service), ("full", &full), ("stalled", &stalled), ("empty", &empty)];
    let workspaces = services.map(|(name, service)| {
        (name, Workspace::new(&service.address().to_string(), &market.node.url()))
    });
    let folders: HashMap<_, _> =
        workspaces.iter().map(|(name, workspace)| (name, workspace.folder.path())).collect();
    let harness = json!({
        "node": market.node.url(),
        "service": market.service.url(""),
        "metrics": market.service.admin_url("/metrics"),
        "full": full.url(""),
        "stalled": stalled.url(""),
        "folders": folders,
    });
    programs::run_script("integrations-browser.mjs", &["ethers", "playwright-core"], &harness)
        .await;
}

#[tokio::test]
async fn readme_examples_of_the_package_work() {
    let market = NodeAndService::start(&[]).await;
    let workspace = market.workspace();
    // The service of this test has one chain, which is Ronin.
    let adapt = |block: Block| block.text.replace("'ethereum'", "'ronin'");
    let examples: Vec<_> = blocks_in("README.md", "js").into_iter().map(adapt).collect();
    let [client] = &examples[..] else { panic!("{examples:#?}") };
    let response = market.service.get(SUGGESTION).await.json();
    let printed = workspace.module(client).await;
    let expected = wei(&response["medium"]["max_fee_per_gas"]);
    let (price, age) = printed.split_once(" gwei, read ").unwrap();
    assert_eq!(price, gwei(expected), "{printed}");
    assert!(age.ends_with(" s ago"), "{printed}");
}
