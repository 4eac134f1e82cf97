//! The blocks of `docs/integrations.md` and of the README, run as they stand there.
//!
//! Only the URLs of the service and of the node are replaced. Nothing here repeats a block: where one is
//! changed to be wrong, these tests fail.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::anvil::Anvil;
use crate::fixtures;
use crate::programs;
use crate::raw::free_port;
use crate::service::{Answer, DEADLINE, Service};

const SUGGESTION: &str = "/v1/ronin/gas-suggestion";

/// Where nothing listens.
const NOWHERE: &str = "127.0.0.1:9";

/// How often the node is asked, which leaves the processor to the program.
const PROBING: Duration = Duration::from_millis(10);

/// The first of anvil's accounts, which are the same everywhere.
const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const SENDER: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";

/// What the pages write for the service, and for the chain's node.
const SERVICE: &str = "localhost:8080";
const NODE: &str = "https://api.roninchain.com/rpc";

/// What has a program tell a value with its type: `1n` is no `1`.
const TELL: &str = "const tell = (value) => console.log(JSON.stringify(value, (_, inner) => \
    typeof inner === 'bigint' ? `${inner}n` : inner));\n";

/// A fenced block of a page.
#[derive(Debug)]
pub(crate) struct Block {
    /// The last heading before it.
    pub(crate) heading: String,
    pub(crate) language: String,
    pub(crate) text: String,
}

/// The blocks of the page at this path, in their order.
pub(crate) fn blocks(path: &str) -> Vec<Block> {
    let page = String::from_utf8(fixtures::read(path)).unwrap();
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

/// The only block in this language below this heading of the README.
fn of_readme(heading: &str, language: &str) -> String {
    let mut found = blocks("README.md");
    found.retain(|block| block.heading == heading && block.language == language);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0).text
}

/// The page's JavaScript as files, each by the name in its first line; removed when dropped.
#[derive(Debug)]
struct Workspace {
    folder: PathBuf,
    service: String,
    node: String,
}

impl Workspace {
    /// With the service at `service`, which is a host, a port and a base path if there is one, and the
    /// node at the URL `node`.
    fn new(service: &str, node: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("integrations-{}-{count}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        let workspace = Self { folder, service: service.to_owned(), node: node.to_owned() };
        let packages = fixtures::path("tests/node/node_modules");
        std::os::unix::fs::symlink(packages, workspace.folder.join("node_modules")).unwrap();
        workspace.write("package.json", "{ \"type\": \"module\" }");
        for block in blocks("docs/integrations.md").iter().filter(|block| block.language == "js") {
            let name = block.text.lines().next().unwrap().strip_prefix("// ");
            let name = name.unwrap_or_else(|| panic!("no name in the first line of {block:#?}"));
            assert!(!workspace.folder.join(name).exists(), "two blocks are {name}");
            workspace.write(name, &block.text);
        }
        workspace
    }

    fn here(&self, text: &str) -> String {
        let text = text.replace(SERVICE, &self.service).replace(NODE, &self.node);
        assert!(!text.contains("localhost") && !text.contains("roninchain"), "{text}");
        text
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), self.here(text)).unwrap();
    }

    fn node(packages: &[&str]) -> Command {
        let mut command = programs::node(packages);
        command.env("PRIVATE_KEY", KEY);
        command
    }

    /// Runs one of the files.
    fn file(&self, name: &str) -> Program {
        let mut command = Self::node(&["ethers", "viem"]);
        command.arg(name);
        self.start(command)
    }

    /// Runs a module in the files' folder; `tell` writes a value.
    fn module(&self, text: &str) -> Program {
        let mut command = Self::node(&["ethers", "viem"]);
        command.args(["--input-type=module", "--eval"]).arg(format!("{TELL}{}", self.here(text)));
        self.start(command)
    }

    /// Runs the script in `tests/node`, which gets the folder of the files and `more`.
    fn script(&self, name: &str, packages: &[&str], more: &[String]) -> Program {
        let mut command = Self::node(packages);
        command.arg(programs::script(name)).arg(&self.folder).args(more);
        self.start(command)
    }

    /// Runs the shell block of this number below `curl`.
    fn shell(&self, number: usize) -> Program {
        let mut found = blocks("docs/integrations.md");
        found.retain(|block| (block.heading.as_str(), block.language.as_str()) == ("curl", "sh"));
        let mut command = Command::new("bash");
        command.args(["-c", &self.here(&found.remove(number).text)]);
        self.start(command)
    }

    fn start(&self, mut command: Command) -> Program {
        command.current_dir(&self.folder);
        Program::start(command)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A program that runs; killed when dropped.
#[derive(Debug)]
struct Program {
    line: String,
    process: Child,
    told: UnboundedReceiver<String>,
    complaints: UnboundedReceiver<String>,
}

fn lines(source: impl Read + Send + 'static) -> UnboundedReceiver<String> {
    let (sender, receiver) = unbounded_channel();
    let lines = BufReader::new(source).lines().map_while(Result::ok);
    std::thread::spawn(move || lines.for_each(|line| drop(sender.send(line))));
    receiver
}

async fn all(lines: &mut UnboundedReceiver<String>) -> String {
    let mut text = vec![];
    while let Some(line) = lines.recv().await {
        text.push(line);
    }
    text.join("\n")
}

impl Program {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let line = format!("{command:?}");
        let mut process = command.spawn().unwrap_or_else(|error| panic!("{line}: {error}"));
        let told = lines(process.stdout.take().unwrap());
        let complaints = lines(process.stderr.take().unwrap());
        Self { line, process, told, complaints }
    }

    fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// The next line that it tells.
    async fn next(&mut self) -> String {
        let next = timeout(DEADLINE, self.told.recv()).await;
        next.ok().flatten().unwrap_or_else(|| panic!("no more is told by {}", self.line))
    }

    /// Waits for its end and gives whether it went well, what it told from now on and its complaints.
    async fn end(mut self) -> (bool, String, String) {
        let output = async { (all(&mut self.told).await, all(&mut self.complaints).await) };
        let (told, complaints) = timeout(DEADLINE, output)
            .await
            .unwrap_or_else(|_| panic!("it does not end: {}", self.line));
        (self.process.wait().unwrap().success(), told, complaints)
    }

    /// The end of one that has to go well, without a complaint; what it told.
    async fn success(self) -> String {
        let line = self.line.clone();
        let (is_well, told, complaints) = self.end().await;
        assert!(is_well && complaints.is_empty(), "{line}\n{told}\n{complaints}");
        told
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A node whose blocks have room for one transfer and come when they are told to.
fn node(more: &[&str]) -> Anvil {
    Anvil::start(0, &[&["--no-mining", "--gas-limit", "30000"], more].concat())
}

/// A chain that is read often, and may stand still while a test thinks.
fn chain(node: &str) -> String {
    format!(
        "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"{node}\"]\nblock_time = \"500ms\"\n\
         stall_after = \"1m\"\n"
    )
}

async fn mine(node: &Anvil) {
    node.call("anvil_mine", json!([])).await;
}

fn number(quantity: &Value) -> u128 {
    let digits = quantity.as_str().and_then(|text| text.strip_prefix("0x"));
    u128::from_str_radix(digits.unwrap_or_else(|| panic!("{quantity}")), 16).unwrap()
}

/// A node, and the service that polls it.
#[derive(Debug)]
struct Market {
    node: Anvil,
    service: Service,
}

impl Market {
    /// With these arguments for the node.
    async fn start(more: &[&str]) -> Self {
        let node = node(more);
        // So that the average of the base fees is none of them.
        for _ in 0..3 {
            mine(&node).await;
        }
        let service = Service::start(&chain(&node.url())).await;
        service.wait_for_head("ronin", &node).await;
        Self { node, service }
    }

    fn workspace(&self) -> Workspace {
        Workspace::new(&self.service.address().to_string(), &self.node.url())
    }

    /// The two amounts of the medium tier: the tip and the most.
    async fn suggestion(&self) -> [u128; 2] {
        let answer = self.service.get(SUGGESTION).await.json();
        ["max_priority_fee_per_gas", "max_fee_per_gas"]
            .map(|member| answer["medium"][member].as_str().unwrap().parse().unwrap())
    }

    /// Queues a transfer that offers one gwei less than the suggestion, and far more than the node asks.
    async fn queue_rival(&self) {
        let most = self.suggestion().await[1] - 1_000_000_000;
        let accounts = self.node.call("eth_accounts", json!([])).await;
        let mut rival = json!({ "from": accounts[1], "to": accounts[2], "gas": "0x5208" });
        let london = self.node.call("eth_getBlockByNumber", json!(["latest", false])).await;
        if london["baseFeePerGas"].is_null() {
            rival["gasPrice"] = json!(format!("{most:#x}"));
        } else {
            rival["maxFeePerGas"] = json!(format!("{most:#x}"));
            rival["maxPriorityFeePerGas"] = json!(format!("{most:#x}"));
        }
        self.node.call("eth_sendTransaction", json!([rival])).await;
    }

    /// Has `program` send against a rival, and gives what is in the next block.
    async fn send(&self, program: Program) -> Value {
        self.queue_rival().await;
        let (transaction, complaints) = send(&self.node, program).await;
        assert_eq!(complaints, "");
        transaction
    }
}

/// Mines once a transaction that `program` sends waits for it; gives the one in that block, which is what
/// the program has to tell, and its complaints.
async fn send(node: &Anvil, mut program: Program) -> (Value, String) {
    let head = number(&node.call("eth_blockNumber", json!([])).await);
    let deadline = Instant::now() + DEADLINE;
    while node.call("eth_getTransactionCount", json!([SENDER, "pending"])).await == "0x0" {
        assert!(!program.has_ended(), "nothing was sent: {:#?}", program.end().await);
        assert!(Instant::now() < deadline, "nothing is sent by {}", program.line);
        tokio::time::sleep(PROBING).await;
    }
    assert_eq!(number(&node.call("eth_blockNumber", json!([])).await), head);
    mine(node).await;
    let block = node.call("eth_getBlockByNumber", json!([format!("{:#x}", head + 1), true])).await;
    let transactions = block["transactions"].as_array().unwrap();
    assert_eq!(transactions.len(), 1, "{block:#}");
    assert_eq!(transactions[0]["from"], SENDER, "a rival was first: {block:#}");
    let (is_well, told, complaints) = program.end().await;
    let hash = transactions[0]["hash"].as_str().unwrap();
    let expected = format!("{hash} is in block {}", head + 1);
    assert!(is_well && told == expected, "{expected}, but: {told}\n{complaints}");
    (transactions[0].clone(), complaints)
}

/// The tip and the most that a transaction offers; it has no gas price.
fn fees(transaction: &Value) -> [u128; 2] {
    assert_eq!(transaction["type"], "0x2", "{transaction:#}");
    ["maxPriorityFeePerGas", "maxFeePerGas"].map(|member| number(&transaction[member]))
}

/// Sends with the file on a chain with EIP-1559.
async fn sends_what_is_suggested(file: &str) {
    let market = Market::start(&[]).await;
    let suggestion = market.suggestion().await;
    let transaction = market.send(market.workspace().file(file)).await;
    assert_eq!(fees(&transaction), suggestion);
}

/// The same on one that has never heard of it, and on one whose base fee is 0.
async fn sends_what_is_suggested_for_legacy(file: &str, with_zero_base_fee: &str) {
    let cases = [
        (["--hardfork", "berlin", "--base-fee", "0"].as_slice(), "0x0"),
        (&["--base-fee", "0"], with_zero_base_fee),
    ];
    join_all(cases.map(async |(arguments, kind)| {
        let market = Market::start(arguments).await;
        assert_eq!(market.service.get(SUGGESTION).await.json()["type"], "legacy");
        let [price, same] = market.suggestion().await;
        assert_eq!(price, same);
        let transaction = market.send(market.workspace().file(file)).await;
        assert_eq!(transaction["type"], kind, "{arguments:?}");
        let members = ["gasPrice", "maxPriorityFeePerGas", "maxFeePerGas"];
        for member in if kind == "0x0" { &members[..1] } else { &members[1..] } {
            assert_eq!(number(&transaction[member]), price, "{arguments:?}: {transaction:#}");
        }
    }))
    .await;
}

/// What each of the libraries makes of the node alone, told as the tip and the most.
const OWN_ESTIMATES: [(&str, &str); 2] = [
    (
        "send.js",
        "import { createPublicClient } from 'viem'; import { ronin } from 'viem/chains';
         import { transport } from './ronin.js';
         const client = createPublicClient({ chain: ronin, transport });
         const { maxPriorityFeePerGas, maxFeePerGas } = await client.estimateFeesPerGas();
         tell([maxPriorityFeePerGas, maxFeePerGas]);",
    ),
    (
        "pay.js",
        "import { JsonRpcProvider } from 'ethers';
         const provider = new JsonRpcProvider('https://api.roninchain.com/rpc');
         const { maxPriorityFeePerGas, maxFeePerGas } = await provider.getFeeData();
         tell([maxPriorityFeePerGas, maxFeePerGas]);",
    ),
];

/// Sends with both libraries where the service at `service` has no suggestion for them; their warnings say
/// `why`.
async fn sends_what_the_library_estimates(service: &str, why: &str) {
    join_all(OWN_ESTIMATES.map(async |(file, own)| {
        let node = node(&[]);
        let workspace = Workspace::new(service, &node.url());
        let estimate = workspace.module(own).success().await;
        let (transaction, complaints) = send(&node, workspace.file(file)).await;
        let [tip, most] = fees(&transaction);
        assert_eq!(format!("[\"{tip}n\",\"{most}n\"]"), estimate, "{file}");
        assert!(complaints.starts_with("no gas suggestion:"), "{file}: {complaints}");
        assert!(complaints.contains(why), "{file}: {complaints}");
    }))
    .await;
}

const FETCH: &str = "import { suggestedFees } from './suggested-fees.js';
    await suggestedFees().then(tell, (error) => tell(error.message));";

/// What `fetch` fails with where there is no suggestion.
async fn fetch_fails_with(service: &str, expected: &str) {
    let told = Workspace::new(service, "nowhere").module(FETCH).success().await;
    assert!(told.contains(expected), "{told}");
}

#[tokio::test]
async fn viem_sends_what_is_suggested_and_is_in_the_next_block() {
    sends_what_is_suggested("send.js").await;
}

#[tokio::test]
async fn ethers_sends_what_is_suggested_and_is_in_the_next_block() {
    sends_what_is_suggested("pay.js").await;
}

#[tokio::test]
async fn viem_sends_the_gas_price_where_pricing_is_legacy() {
    sends_what_is_suggested_for_legacy("send.js", "0x2").await;
}

#[tokio::test]
async fn ethers_sends_the_gas_price_where_pricing_is_legacy() {
    sends_what_is_suggested_for_legacy("pay.js", "0x0").await;
}

#[tokio::test]
async fn viem_changes_no_suggestion_and_no_fee_that_a_transaction_comes_with() {
    let market = Market::start(&[]).await;
    let workspace = market.workspace();
    let told = workspace.module(
        "import { createWalletClient, publicActions } from 'viem';
         import { privateKeyToAccount } from 'viem/accounts';
         import { ronin, transport } from './ronin.js';
         const account = privateKeyToAccount(process.env.PRIVATE_KEY);
         const chain = { ...ronin, fees: { ...ronin.fees, baseFeeMultiplier: 5 } };
         const wallet = createWalletClient({ account, chain, transport }).extend(publicActions);
         tell(await wallet.estimateFeesPerGas());
         tell(await wallet.estimateFeesPerGas({ type: 'legacy' }));
         const own = [{ maxFeePerGas: 9n, maxPriorityFeePerGas: 8n }, { maxFeePerGas: 22n * 10n ** 9n },
             { maxPriorityFeePerGas: 7n }];
         for (const fees of own) {
             const request = { to: account.address, value: 1n, gas: 21000n, ...fees };
             const { maxFeePerGas, maxPriorityFeePerGas } = await wallet.prepareTransactionRequest(request);
             tell({ maxFeePerGas, maxPriorityFeePerGas });
         }",
    );
    let [tip, most] = market.suggestion().await;
    let both =
        |most, tip| format!("{{\"maxFeePerGas\":\"{most}n\",\"maxPriorityFeePerGas\":\"{tip}n\"}}");
    let expected = [
        both(most, tip),
        format!("{{\"gasPrice\":\"{most}n\"}}"),
        both(9, 8),
        both(22_000_000_000, tip),
        both(most, 7),
    ];
    assert_eq!(told.success().await, expected.join("\n"));
}

#[tokio::test]
async fn libraries_estimate_by_themselves_where_the_service_cannot_be_reached() {
    // None of those that fetch refuses by itself.
    let nowhere = format!("127.0.0.1:{}", free_port());
    sends_what_the_library_estimates(&nowhere, "ECONNREFUSED").await;
    fetch_fails_with(&nowhere, "fetch failed").await;
}

#[tokio::test]
async fn libraries_estimate_by_themselves_where_the_service_is_silent() {
    // Connections are taken up, and nothing more.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    sends_what_the_library_estimates(&address, "timeout").await;
    fetch_fails_with(&address, "timeout").await;
}

#[tokio::test]
async fn libraries_estimate_by_themselves_where_the_service_has_no_data() {
    let service = Service::start(&chain(&format!("http://{NOWHERE}"))).await;
    let address = service.address().to_string();
    sends_what_the_library_estimates(&address, "503").await;
    fetch_fails_with(&address, "no gas suggestion: 503 {").await;
    fetch_fails_with(&address, "\\\"code\\\":\\\"no_data\\\"").await;
}

#[tokio::test]
async fn libraries_estimate_by_themselves_where_the_data_is_too_old() {
    let node = node(&[]);
    let service = Service::start(&format!("{}max_age = \"2100ms\"\n", chain(&node.url()))).await;
    service.wait_for_head("ronin", &node).await;
    node.kill();
    service.wait_for(SUGGESTION, |answer| answer.status == 503).await;
    let address = service.address().to_string();
    sends_what_the_library_estimates(&address, "503").await;
    fetch_fails_with(&address, "\\\"code\\\":\\\"stale_data\\\"").await;
}

/// The fees of a tier as `suggested-fees.js` gives them for `answer`.
fn expected_fees(answer: &Value, tier: &str) -> String {
    let amount = |member: &str| answer[tier][member].as_str().unwrap().to_owned();
    let [tip, most] = ["max_priority_fee_per_gas", "max_fee_per_gas"].map(amount);
    if answer["type"] == "legacy" {
        return format!("{{\"gasPrice\":\"{most}n\"}}");
    }
    format!("{{\"maxFeePerGas\":\"{most}n\",\"maxPriorityFeePerGas\":\"{tip}n\"}}")
}

#[tokio::test]
async fn fetch_gives_the_fees_of_a_tier_below_a_base_path_too() {
    const BOTH: &str = "import { suggestedFees } from './suggested-fees.js';
        tell(await suggestedFees()); tell(await suggestedFees('high'));";
    for arguments in [[].as_slice(), &["--hardfork", "berlin", "--base-fee", "0"]] {
        let market = Market::start(arguments).await;
        let more = "base_path = \"/proxy/public\"";
        let below = Service::with_server(more, &chain(&market.node.url())).await;
        let path = format!("/proxy/public{SUGGESTION}");
        below.wait_for(&path, |answer| answer.status == 200).await;
        let answer = market.service.get(SUGGESTION).await.json();
        let expected =
            [expected_fees(&answer, "medium"), expected_fees(&answer, "high")].join("\n");
        let below = format!("{}/proxy/public", below.address());
        for service in [market.service.address().to_string(), below] {
            let workspace = Workspace::new(&service, &market.node.url());
            assert_eq!(workspace.module(BOTH).success().await, expected);
        }
    }
}

/// The id and the data of the next event in the stream that `curl` shows.
async fn event(curl: &mut Program) -> (String, String) {
    let mut fields = [String::new(), String::new(), String::new()];
    loop {
        let line = curl.next().await;
        for (field, name) in fields.iter_mut().zip(["event: ", "id: ", "data: "]) {
            if let Some(value) = line.strip_prefix(name) {
                value.clone_into(field);
            }
        }
        let [event, id, data] = &fields;
        if line.is_empty() && !data.is_empty() {
            assert_eq!(event, "gas-suggestion");
            return (id.clone(), data.clone());
        }
    }
}

#[tokio::test]
async fn curl_shows_the_suggestion_and_each_new_block_until_the_service_stops() {
    let market = Market::start(&[]).await;
    let workspace = market.workspace();
    let id = |answer: &Answer| {
        let tag = answer.header("etag").trim_matches('"');
        format!("{}-{tag}", answer.header("x-newest-block"))
    };
    let [mut one, mut all] = [workspace.shell(1), workspace.shell(2)];
    for round in 0..2 {
        let answer = market.service.get(SUGGESTION).await;
        let (is_well, told, _) = workspace.shell(0).end().await;
        assert!(is_well);
        assert_eq!(told, answer.body);
        let expected = (id(&answer), answer.body.clone());
        assert_eq!(event(&mut one).await, expected);
        let (of_all, body) = event(&mut all).await;
        assert_eq!((of_all, body), (format!("2020-{}", expected.0), expected.1));
        if round == 0 {
            mine(&market.node).await;
            market.service.wait_for_head("ronin", &market.node).await;
        }
    }
    market.service.stop().await.unwrap();
    for curl in [one, all] {
        let (is_well, told, complaints) = curl.end().await;
        assert!(is_well && told.is_empty(), "{told}\n{complaints}");
    }
}

/// A wagmi application sends with the hook of the page, or with wagmi's own alone.
fn wagmi(market: &Market, workspace: &Workspace, how: &str) -> Program {
    const PACKAGES: &[&str] = &["wagmi", "viem", "react", "react-dom", "@tanstack/react-query"];
    workspace.script("integrations-wagmi.mjs", PACKAGES, &[market.node.url(), how.into()])
}

#[tokio::test]
async fn a_wallet_behind_wagmi_is_sent_what_is_suggested_and_is_in_the_next_block() {
    let market = Market::start(&[]).await;
    let (workspace, suggestion) = (market.workspace(), market.suggestion().await);
    let transaction = market.send(wagmi(&market, &workspace, "with the hook")).await;
    assert_eq!(fees(&transaction), suggestion);
}

#[tokio::test]
async fn a_wallet_behind_wagmi_takes_its_own_fees_without_the_hook() {
    let market = Market::start(&[]).await;
    let workspace = market.workspace();
    let own_tip = number(&market.node.call("eth_maxPriorityFeePerGas", json!([])).await);
    let bare = wagmi(&market, &workspace, "without the hook");
    let (transaction, complaints) = send(&market.node, bare).await;
    assert_eq!((fees(&transaction)[0], complaints.as_str()), (own_tip, ""));
}

#[tokio::test]
async fn pages_of_another_origin_see_each_block_come_back_and_know_how_old_an_answer_is() {
    let market = Market::start(&[]).await;
    let of_chain = chain(&market.node.url());
    // The only place is taken by the test; no block comes for longer than this one puts up with.
    let full = format!("[limits]\nmax_streams = 1\nrequests_per_second_per_client = 0\n{of_chain}");
    let full = Service::start(&full).await;
    let stalled = Service::start(&of_chain.replace("1m", "2s")).await;
    let empty = Service::start(&chain(&format!("http://{NOWHERE}"))).await;
    full.wait_for_head("ronin", &market.node).await;
    stalled.wait_for_head("ronin", &market.node).await;
    let workspaces = [&market.service, &full, &stalled, &empty]
        .map(|service| Workspace::new(&service.address().to_string(), &market.node.url()));
    let [plain, full_folder, stalled_folder, empty_folder] =
        workspaces.each_ref().map(|workspace| workspace.folder.to_str().unwrap());
    let world = json!({
        "node": market.node.url(),
        "service": market.service.url(""),
        "metrics": market.service.admin_url("/metrics"),
        "full": full.url(""),
        "stalled": stalled.url(""),
        "folders": {
            "plain": plain, "full": full_folder, "stalled": stalled_folder, "empty": empty_folder,
        },
    });
    let mut command = programs::node(&["ethers", "playwright-core"]);
    command.arg(programs::script("integrations-browser.mjs")).arg(world.to_string());
    println!("{}", programs::success(command).await);
}

#[tokio::test]
async fn what_the_readme_shows_of_fetch_and_viem_works() {
    let market = Market::start(&[]).await;
    let workspace = market.workspace();
    let fetch = of_readme("Use it", "js") + "tell(fees)\n";
    let answer = market.service.get(SUGGESTION).await.json();
    assert_eq!(workspace.module(&fetch).success().await, expected_fees(&answer, "medium"));

    let viem = of_readme("Read pre-confirmed state", "js") + "tell(balance)\n";
    let address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
    market.node.call("anvil_setBalance", json!([address, "0x1234"])).await;
    assert_eq!(workspace.module(&viem).success().await, format!("\"{}n\"", 0x1234));
}

/// The page's nginx, with all that it does not name.
fn nginx(workspace: &Workspace, port: u16) -> Program {
    let mut found = blocks("docs/integrations.md");
    found.retain(|block| block.language == "nginx");
    let server = found.remove(0).text.replace("listen 80;", &format!("listen 127.0.0.1:{port};"));
    workspace.write("server.conf", &server.replace("/var/cache/nginx/", "cache-"));
    workspace.write(
        "nginx.conf",
        "daemon off; master_process off; pid nginx.pid; events {}\n\
         http { access_log off; client_body_temp_path body; proxy_temp_path proxy;\n\
         fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
         include server.conf; }\n",
    );
    // Debian has it in a folder that is not in everybody's path.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let mut command = Command::new("nginx");
    command.env("PATH", path).args(["-e", "stderr", "-c", "nginx.conf", "-p"]);
    command.arg(&workspace.folder);
    workspace.start(command)
}

#[tokio::test]
async fn nginx_keeps_a_suggestion_as_long_as_it_may_and_holds_no_event_back() {
    let node = node(&[]);
    let service = Service::start(&chain(&node.url()).replace("500ms", "14s")).await;
    service.wait_for_head("ronin", &node).await;
    let workspace = Workspace::new(&service.address().to_string(), &node.url());
    let port = free_port();
    let mut nginx = nginx(&workspace, port);
    let deadline = Instant::now() + DEADLINE;
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(!nginx.has_ended(), "{:#?}", nginx.end().await);
        assert!(Instant::now() < deadline, "nginx does not listen");
        tokio::time::sleep(PROBING).await;
    }
    let behind = Workspace::new(&format!("127.0.0.1:{port}"), &node.url());
    let mut stream = behind.shell(1);
    let answer = service.get(SUGGESTION).await;
    let (_, data) = event(&mut stream).await;
    assert_eq!(data, answer.body);
    let url = format!("http://127.0.0.1:{port}{SUGGESTION}");
    let first = Answer::of(reqwest::get(&url).await.unwrap()).await;
    assert_eq!((first.status, &first.body), (200, &answer.body));
    service.stop().await.unwrap();
    assert!(stream.end().await.0);
    let kept = Answer::of(reqwest::get(&url).await.unwrap()).await;
    assert_eq!((kept.status, &kept.body), (200, &answer.body));
    assert_eq!(kept.header("age"), first.header("age"));
    // What may not be kept is not.
    let chains = url.replace(SUGGESTION, "/v1/chains");
    assert_eq!(reqwest::get(&chains).await.unwrap().status(), 502);
}
