//! The npm package in `clients/js`, as its users install it, and the examples in `docs/examples`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

use crate::anvil::{Anvil, foundry};
use crate::deployment::{assert_valid, compose_file, documents, text};
use crate::fixtures;
use crate::nginx::Nginx;
use crate::programs;
use crate::raw_client::free_port;
use crate::test_server::{Response, TestServer};

/// Packs the package and installs it into a folder of its own, once. Returns the folder.
pub(crate) fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let modules = fixtures::path("clients/js/node_modules");
        assert!(modules.exists(), "no {}: run tests/run.sh", modules.display());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client-package");
        let packages = ["ethers", "playwright-core", "react", "solady", "viem", "wagmi"];
        let mut command = programs::node_js(&packages);
        command.arg(fixtures::path("clients/js/test/install.mjs")).arg(&folder);
        let Output { status, stderr, .. } = command.output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        folder
    })
}

/// Runs the test file `name` of `clients/js/test` beside the installed package.
async fn run(name: &str) {
    let folder = installed();
    let mut command = Command::new("node");
    // A test that waits for something that never happens must not wait forever.
    command.args(["--test", "--test-reporter", "spec", "--test-timeout", "180000"]);
    command.arg(folder.join("test").join(name)).current_dir(folder);
    command.env("CLIENT", fixtures::path("clients/js"));
    command.env("BINARY", env!("CARGO_BIN_EXE_gas-suggestion"));
    command.env("ANVIL", foundry("ANVIL", "anvil"));
    println!("{}", programs::expect_success(command).await);
}

#[tokio::test]
async fn package_is_small_typed_and_agrees_with_the_service() {
    run("package.test.mjs").await;
}

#[tokio::test]
async fn client_returns_exact_amounts_and_named_errors() {
    run("alone.test.mjs").await;
    run("client.test.mjs").await;
}

#[tokio::test]
async fn client_requests_prices_costs_fees_and_waits() {
    run("requests.test.mjs").await;
}

#[tokio::test]
async fn data_fees_of_the_client_are_exact_and_everything_can_be_sent() {
    run("cost.test.mjs").await;
}

#[tokio::test]
async fn subscriptions_survive_restarts_and_bad_streams() {
    run("stream.test.mjs").await;
}

#[tokio::test]
async fn viem_and_ethers_pay_the_suggestion_or_the_fees_of_the_node() {
    run("libraries.test.mjs").await;
}

#[tokio::test]
async fn pages_and_examples_work_in_chromium_and_on_a_node() {
    run("pages.test.mjs").await;
}

#[tokio::test]
async fn compose_example_runs_the_service_with_a_chain_of_ones_own() {
    let compose = documents(&compose_file("docs/examples/own-chain/compose.yaml")).remove(0);
    let service = &compose["services"]["gas-suggestion"];
    let path = service["environment"]["GAS_CONFIG"].as_str().unwrap();
    let file = fixtures::path("docs/examples/own-chain/chain.toml").display().to_string();
    assert_eq!(service["volumes"][0], format!("{file}:{path}:ro"));
    assert_valid(&["check-config"], &[("GAS_CONFIG", &file)]);

    let node = Anvil::with_chain_id(31_337, &[]);
    let text = text("docs/examples/own-chain/chain.toml");
    let text = text.replace("http://host.docker.internal:8545", &node.url());
    let service = TestServer::start(&text).await;
    service.wait_for_head("mychain", &node).await;
    let suggestion: Value = service.get("/v1/31337/gas-suggestion").await.json();
    assert_eq!(suggestion["chain_name"], "My chain");
}

#[tokio::test]
async fn nginx_example_caches_prices_and_passes_streams_on() {
    const PATH: &str = "/v1/ronin/gas-suggestion";
    let node = Anvil::start(&["--no-mining"]);
    let service = TestServer::start(&node.chain("ronin", "block_time = \"14s\"")).await;
    service.wait_for_head("ronin", &node).await;
    let listen = format!("127.0.0.1:{}", free_port());
    let _nginx = Nginx::start(&[listen.parse().unwrap()], |_| {
        let example = text("docs/examples/nginx/nginx.conf");
        let example = example.replace("listen 8082;", &format!("listen {listen};"));
        example.replace("127.0.0.1:8080", &service.address().to_string())
    })
    .await;
    let url = |path: &str| format!("http://{listen}{path}");
    let mut stream = reqwest::get(url(&format!("{PATH}/stream"))).await.unwrap();
    let mut received = String::new();
    while !received.split_once("data: ").is_some_and(|(_, data)| data.contains("\n\n")) {
        let chunk = stream.chunk().await.unwrap().expect("the stream has an event");
        received.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let body = service.get(PATH).await.body;
    assert!(received.contains(&format!("data: {body}\n")), "{received}");
    let first = Response::read(reqwest::get(url(PATH)).await.unwrap()).await;
    assert_eq!((first.status, &first.body), (200, &body));
    service.stop().await.unwrap();
    // The stream ends without an error.
    while stream.chunk().await.unwrap().is_some() {}
    let cached = Response::read(reqwest::get(url(PATH)).await.unwrap()).await;
    assert_eq!((cached.status, &cached.body), (200, &body));
    assert_eq!(cached.header("age"), first.header("age"));
    // nginx has not cached this response, because it has no cache lifetime.
    assert_eq!(reqwest::get(url("/v1/chains")).await.unwrap().status(), 502);
}
