//! The mock Sourcify server as a process, contracts to verify with it, and tests of it. The server compiles the sources
//! that it receives and compares the code.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use reqwest::Method;
use serde_json::{Value, json};

use crate::anvil::Anvil;
use crate::fixtures;
use crate::http_client;
use crate::process::ChildProcess;
use crate::programs;
use crate::test_contract::word;
use crate::test_server::{Response, wait_for};

/// A running `tests/node/verifier/server.mjs`, killed on drop.
#[derive(Debug)]
pub(crate) struct Verifier {
    _process: ChildProcess,
    port: u16,
}

impl Verifier {
    /// Starts the server for `chains` (ids and node URLs) with `more` arguments.
    pub(crate) fn start(chains: &[(u64, &str)], more: &[&str]) -> Self {
        let mut process = programs::node_js(&["solc", "busboy"])
            .arg(programs::script_path("verifier/server.mjs"))
            .args(chains.iter().flat_map(|(id, url)| ["--chain".to_owned(), format!("{id}={url}")]))
            .args(more)
            // The server exits when its stdin closes, which also happens when the test is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| line.unwrap().strip_prefix("Listening on 127.0.0.1:")?.parse().ok())
            .expect("the verifier prints its address");
        Self { _process: ChildProcess(process), port }
    }

    /// Returns the server's URL without the prefix.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns all requests so far, in order. Each has `method`, raw `url`, `headers` (lower-case names), `body` with
    /// `length` and `sha256`, response `status`, and `violations` (headers that a proxy must not forward). `body` is
    /// null until it is complete, `status` until the response is sent.
    pub(crate) async fn received(&self) -> Vec<Value> {
        let url = format!("{}/__received", self.url());
        http_client::new().get(url).send().await.unwrap().json().await.unwrap()
    }
}

/// Reads Hardhat's build info of `tests/fixtures/verification/contracts`.
pub(crate) fn build_info() -> Value {
    serde_json::from_slice(&fixtures::read("tests/fixtures/verification/build-info.json")).unwrap()
}

/// One of the fixture contracts.
#[derive(Debug)]
pub(crate) struct Contract {
    name: &'static str,
    build_info: Value,
}

impl Contract {
    /// Returns the fixture `name`, which is `Counter` or `Switch`.
    pub(crate) fn fixture(name: &'static str) -> Self {
        Self { name, build_info: build_info() }
    }

    /// Returns the path of the source file in the compiler input.
    pub(crate) fn path(&self) -> String {
        format!("contracts/{}.sol", self.name)
    }

    pub(crate) fn source(&self) -> &str {
        self.build_info["input"]["sources"][self.path()]["content"].as_str().unwrap()
    }

    fn output(&self) -> &Value {
        &self.build_info["output"]["contracts"][self.path()][self.name]
    }

    /// Returns the compiler's metadata as JSON text.
    pub(crate) fn metadata(&self) -> &str {
        self.output()["metadata"].as_str().unwrap()
    }

    /// Returns the creation code, followed by the constructor's `arguments` in hex.
    pub(crate) fn creation(&self, arguments: &str) -> String {
        format!("0x{}{arguments}", self.output()["evm"]["bytecode"]["object"].as_str().unwrap())
    }

    /// Returns the code that the compiler expects at the contract's address.
    pub(crate) fn runtime(&self) -> String {
        format!("0x{}", self.output()["evm"]["deployedBytecode"]["object"].as_str().unwrap())
    }

    /// Returns the body of `POST /verify`.
    pub(crate) fn v1_body(&self, chain: u64, address: &str) -> Value {
        let files = json!({ "metadata.json": self.metadata(), self.path(): self.source() });
        json!({ "address": address, "chain": chain.to_string(), "files": files })
    }

    /// Returns the body of `POST /v2/verify/{chain}/{address}`.
    pub(crate) fn v2_body(&self) -> Value {
        json!({
            "stdJsonInput": self.build_info["input"],
            "compilerVersion": self.build_info["solcLongVersion"],
            "contractIdentifier": format!("{}:{}", self.path(), self.name),
        })
    }

    /// Returns the body of `POST /v2/verify/metadata/{chain}/{address}`.
    pub(crate) fn v2_metadata_body(&self) -> Value {
        let metadata: Value = serde_json::from_str(self.metadata()).unwrap();
        json!({ "metadata": metadata, "sources": { self.path(): self.source() } })
    }
}

/// Address of the first contract that anvil's first account deploys.
const EXACT: &str = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
const INEXACT: &str = "0x00000000000000000000000000000000000000b2";
const OTHER: &str = "0x00000000000000000000000000000000000000C3";
const LONGER: &str = "0x00000000000000000000000000000000000000D4";
const EMPTY: &str = "0x00000000000000000000000000000000000000E5";

/// Starts a node with `contract` deployed at [`EXACT`]. Its code is also at [`INEXACT`] with another metadata hash, at
/// [`OTHER`] with another instruction, and at [`LONGER`] with one instruction more.
async fn node_with_contract(contract: &Contract, arguments: &str) -> Anvil {
    let node = Anvil::start(0, &[]);
    let from = node.call("eth_accounts", json!([])).await[0].clone();
    let creation = json!({ "from": from, "data": contract.creation(arguments) });
    node.call("eth_sendTransaction", json!([creation])).await;
    let runtime = contract.runtime();
    let created = node.call("eth_getCode", json!([EXACT, "latest"])).await;
    assert_eq!(created.as_str(), Some(runtime.as_str()));
    // 11 bytes follow the hash: `64736f6c6343`, the compiler version and a length.
    let at = runtime.len() - 22;
    let swapped = if runtime[..at].ends_with('0') { "1" } else { "0" };
    let inexact = format!("{}{swapped}{}", &runtime[..at - 1], &runtime[at..]);
    for (address, code) in [
        (INEXACT, inexact),
        (OTHER, runtime.replacen("0x6080", "0x6081", 1)),
        (LONGER, runtime.replacen("0x", "0x5b", 1)),
    ] {
        assert_ne!(code, runtime);
        node.call("anvil_setCode", json!([address, code])).await;
    }
    node
}

async fn get(verifier: &Verifier, path: &str) -> Response {
    Response::read(http_client::new().get(verifier.url() + path).send().await.unwrap()).await
}

/// Returns the response, which must have this status.
async fn post(verifier: &Verifier, path: &str, body: &Value, status: u16) -> Response {
    let request = http_client::new().post(verifier.url() + path).json(body);
    let response = Response::read(request.send().await.unwrap()).await;
    assert_eq!(response.status, status, "{path}: {}", response.body);
    response
}

#[tokio::test]
async fn v1_api_compares_with_the_code_at_the_address() {
    let counter = Contract::fixture("Counter");
    let node = node_with_contract(&counter, &word(7)).await;
    let verifier = Verifier::start(&[(2020, &node.url())], &["--generation", "v1"]);
    let no_match = "The deployed and recompiled bytecode don't match.";
    let longer = "The recompiled bytecode length doesn't match the onchain bytecode length.";
    let empty = format!("Chain #2020 does not have a contract deployed at {EMPTY}.");
    for (address, reason) in [(OTHER, no_match), (LONGER, longer), (EMPTY, &empty)] {
        let response = post(&verifier, "/", &counter.v1_body(2020, address), 500).await;
        assert_eq!(response.json(), json!({ "error": reason, "message": reason }));
        assert_eq!(response.header("deprecation"), "true");
    }
    let query = format!("addresses={EXACT}%2C{INEXACT}%2C{OTHER}&chainIds=2020");
    let unknown = |address| json!({ "address": address, "status": "false" });
    let checked = get(&verifier, &format!("/checkByAddresses?{query}")).await;
    assert_eq!(checked.json(), json!([unknown(EXACT), unknown(INEXACT), unknown(OTHER)]));

    for (address, status) in [(EXACT, "perfect"), (INEXACT, "partial")] {
        let response = post(&verifier, "/verify", &counter.v1_body(2020, address), 200).await;
        let result = response.json()["result"][0].clone();
        assert_eq!(result["status"], status);
        assert_eq!([&result["address"], &result["chainId"]], [address, "2020"]);
    }
    for alias in ["check-by-addresses", "checkByAddresses"] {
        let found = json!({ "address": EXACT, "status": "perfect", "chainIds": ["2020"] });
        let checked = get(&verifier, &format!("/{alias}?{query}")).await;
        assert_eq!(checked.json(), json!([found, unknown(INEXACT), unknown(OTHER)]));
    }
    for alias in ["check-all-by-addresses", "checkAllByAddresses"] {
        let found = |address, status| json!({ "address": address, "chainIds": [{ "chainId": "2020", "status": status }] });
        let expected = [found(EXACT, "perfect"), found(INEXACT, "partial"), unknown(OTHER)];
        let checked = get(&verifier, &format!("/{alias}?{query}")).await;
        assert_eq!(checked.json(), json!(expected));
        let raw = get(&verifier, &format!("/{alias}?{}", query.replace("%2C", ","))).await;
        assert_eq!(raw.status, 400, "{}", raw.body);
    }
    post(&verifier, "/", &counter.v1_body(2020, INEXACT), 409).await;
    let again = post(&verifier, "/", &counter.v1_body(2020, EXACT), 200).await;
    assert_eq!(again.json()["result"][0]["status"], "perfect");
    let files = get(&verifier, &format!("/files/any/2020/{INEXACT}")).await.json();
    assert_eq!(files["status"], "partial");
    assert_eq!(files["files"][0]["content"], counter.source());
    assert_eq!(get(&verifier, &format!("/files/2020/{INEXACT}")).await.status, 404);
    // `--generation v1` disables the v2 API.
    let lookup = get(&verifier, &format!("/v2/contract/2020/{EXACT}")).await;
    assert_eq!((lookup.status, lookup.header("content-type")), (404, "text/html; charset=utf-8"));
}

#[tokio::test]
async fn v2_api_verifies_in_asynchronous_jobs() {
    let counter = Contract::fixture("Counter");
    let node = node_with_contract(&counter, &word(7)).await;
    let arguments = ["--job-polls", "2", "--job-ms", "0", "--prefix", "/server"];
    let verifier = Verifier::start(&[(2020, &node.url())], &arguments);
    let unverified = get(&verifier, &format!("/server/v2/contract/2020/{EXACT}")).await;
    let nothing = json!({
        "match": null, "creationMatch": null, "runtimeMatch": null,
        "chainId": "2020", "address": EXACT,
    });
    assert_eq!((unverified.status, unverified.json()), (404, nothing));

    let standard = |address| format!("/server/v2/verify/2020/{address}");
    let by_metadata = |address| format!("/server/v2/verify/metadata/2020/{address}");
    let (input, metadata) = (counter.v2_body(), counter.v2_metadata_body());
    // The content of the source does not have the hash in the metadata.
    let mut changed = metadata.clone();
    changed["sources"][counter.path()] = json!(counter.source().replace("Counts", "Count"));
    for (path, body, found, error) in [
        (standard(OTHER), &input, None, Some("no_match")),
        (standard(LONGER), &input, None, Some("bytecode_length_mismatch")),
        (standard(EMPTY), &input, None, Some("contract_not_deployed")),
        (standard(EXACT), &input, Some("exact_match"), None),
        (by_metadata(INEXACT), &metadata, Some("match"), None),
        (by_metadata(INEXACT), &metadata, None, Some("already_verified")),
        (by_metadata(OTHER), &changed, None, Some("missing_or_invalid_source")),
    ] {
        let started = post(&verifier, &path, body, 202).await;
        let twice = post(&verifier, &path, body, 429).await;
        assert_eq!(twice.json()["customCode"], "duplicate_verification_request");
        let id = started.json()["verificationId"].as_str().unwrap().to_owned();
        let job = format!("/server/v2/verify/{id}");
        for _ in 0..2 {
            assert_eq!(get(&verifier, &job).await.json()["isJobCompleted"], false);
        }
        let is_over = |response: &Response| response.json()["isJobCompleted"] == true;
        let job = wait_for(&http_client::new(), &(verifier.url() + &job), is_over).await.json();
        assert_eq!(job["contract"]["match"], json!(found), "{path}");
        assert_eq!(job["error"]["customCode"], json!(error), "{path}");
    }
    let again = post(&verifier, &standard(EXACT), &counter.v2_body(), 409).await;
    assert_eq!(again.json()["customCode"], "already_verified");
    let found = get(&verifier, &format!("/server/v2/contract/2020/{EXACT}?fields=abi")).await;
    assert_eq!((found.status, &found.json()["match"]), (200, &json!("exact_match")));
    assert_eq!(found.json()["abi"][0]["type"], "constructor");
    assert_eq!(found.json()["creationMatch"], "exact_match");
}

#[tokio::test]
async fn build_info_offers_a_choice_of_contracts() {
    let switch = Contract::fixture("Switch");
    let node = node_with_contract(&switch, "").await;
    let verifier = Verifier::start(&[(2020, &node.url())], &[]);
    let files = json!({ "build-info.json": build_info().to_string() });
    let mut body = json!({ "address": EXACT, "chainId": "2020", "files": files });
    let response = post(&verifier, "/", &body, 400).await;
    let choice = |name| json!({ "name": name, "path": format!("contracts/{name}.sol") });
    assert_eq!(response.json()["contractsToChoose"], json!([choice("Counter"), choice("Switch")]));
    for (chosen, status) in [("2", 404), ("0", 500), ("1", 200)] {
        body["chosenContract"] = json!(chosen);
        post(&verifier, "/", &body, status).await;
    }
}

#[tokio::test]
async fn invalid_requests_get_descriptive_errors() {
    let counter = Contract::fixture("Counter");
    let verifier = Verifier::start(&[(2020, "http://127.0.0.1:9")], &[]);
    let without = |mut body: Value, name| {
        body.as_object_mut().unwrap().remove(name).unwrap();
        body
    };
    let v1 = counter.v1_body(2020, EXACT);
    for name in ["address", "chain", "files"] {
        let response = post(&verifier, "/", &without(v1.clone(), name), 400).await;
        let message = format!("must have required property '{name}'");
        let errors = json!([{ "path": "/body", "message": message }]);
        let expected = json!({ "message": format!("request/body {message}"), "errors": errors });
        assert_eq!(response.json(), expected);
    }
    for (name, value, message) in [
        ("address", json!("0x12"), "Invalid address: 0x12"),
        ("chain", json!("1"), "Chain 1 not supported for verification!"),
    ] {
        let mut body = v1.clone();
        body[name] = value;
        let response = post(&verifier, "/", &body, 400).await;
        assert_eq!(response.json(), json!({ "error": message, "message": message }));
    }
    let v2 = counter.v2_body();
    let here = format!("/v2/verify/2020/{EXACT}");
    for (path, body, code) in [
        (here.as_str(), without(v2.clone(), "stdJsonInput"), "invalid_parameter"),
        (&here, without(v2.clone(), "compilerVersion"), "invalid_parameter"),
        (&here, without(v2.clone(), "contractIdentifier"), "invalid_parameter"),
        ("/v2/verify/2020/0x12", v2.clone(), "invalid_parameter"),
        (&here.replace("2020", "1"), v2.clone(), "unsupported_chain"),
        (&here, json!("no object"), "invalid_json"),
    ] {
        let response = post(&verifier, path, &body, 400).await;
        assert_eq!(response.json()["customCode"], code);
    }
    let request = http_client::new().post(verifier.url() + "/verify").body("address=1");
    let form = request.header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(form.send().await.unwrap().status(), 415);
    let large =
        http_client::new().post(verifier.url() + "/").body(vec![b' '; 30 * 1024 * 1024 + 1]);
    let large = large.header("content-type", "application/json").send().await.unwrap();
    assert_eq!(large.status(), 413);
}

#[tokio::test]
async fn paths_must_match_routes_exactly() {
    let verifier = Verifier::start(&[(2020, "http://127.0.0.1:9")], &["--prefix", "/server"]);
    for path in ["/health", "/chains", "/version"] {
        assert_eq!(get(&verifier, &format!("/server{path}")).await.status, 200, "{path}");
    }
    for path in [
        "/",
        "/health",
        "/server",
        "/server/",
        "/server//health",
        "//server/health",
        "/server/health/",
        "/server/v2",
        &format!("/server/v2/contract/2020/{EXACT}/"),
        &format!("/server//v2/contract/2020/{EXACT}"),
        &format!("/server/v2//contract/2020/{EXACT}"),
        &format!("/server//check-by-addresses?addresses={EXACT}&chainIds=2020"),
        &format!("/server/check-by-addresses/?addresses={EXACT}&chainIds=2020"),
        &format!("/server/files/any/2020/{EXACT}/"),
    ] {
        let response = get(&verifier, path).await;
        assert_eq!(response.status, 404, "{path}");
        assert_eq!(response.header("content-type"), "text/html; charset=utf-8", "{path}");
    }
    for path in ["", "/verify", "/server/verify/", "/server//verify", "/server/verify/create2"] {
        let response = post(&verifier, path, &json!({}), 404).await;
        assert_eq!(response.header("content-type"), "text/html; charset=utf-8", "{path}");
    }
    let received = verifier.received().await;
    assert_eq!(received.len(), 3 + 14 + 5);
    assert!(received.iter().all(|entry| entry["violations"] == json!([])), "{received:#?}");
}

#[tokio::test]
async fn headers_a_proxy_must_not_forward_are_refused_and_recorded() {
    let verifier = Verifier::start(&[(2020, "http://127.0.0.1:9")], &[]);
    let client = http_client::new();
    let mut expected = vec![];
    for (name, value) in [
        ("cookie", "a=b"),
        ("origin", "https://example.org"),
        ("x-forwarded-for", "192.0.2.1"),
        ("forwarded", "for=192.0.2.1"),
        ("connection", "close, x-something"),
        ("te", "trailers"),
        ("upgrade", "h2c"),
        ("keep-alive", "timeout=5"),
        ("proxy-authorization", "Basic eDp5"),
        ("authorization", "Bearer x"),
        ("host", "example.org"),
    ] {
        for method in [Method::GET, Method::POST] {
            let request = client.request(method, verifier.url() + "/verify").header(name, value);
            assert_eq!(request.send().await.unwrap().status(), 418, "{name}");
            expected.push(name);
        }
    }
    let create2 =
        client.post(verifier.url() + "/verify/create2").header("authorization", "Bearer x");
    assert_eq!(create2.body("{}").send().await.unwrap().status(), 404);
    let received = verifier.received().await;
    for (entry, name) in received.iter().zip(&expected) {
        assert_eq!((&entry["status"], &entry["violations"]), (&json!(418), &json!([name])));
    }
    let [.., last] = received.as_slice() else { panic!("nothing received") };
    assert_eq!(received.len(), expected.len() + 1);
    assert_eq!((&last["method"], &last["url"]), (&json!("POST"), &json!("/verify/create2")));
    assert_eq!(last["headers"]["authorization"], "Bearer x");
    // SHA-256 of `{}`.
    let sha256 = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!(last["body"], json!({ "length": 2, "sha256": sha256 }));
}
