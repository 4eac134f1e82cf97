//! The hosts that the service calls, seen at its system calls.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixtures;
use crate::http_client;
use crate::mock_node::{MockNode, Reply, fee_history};
use crate::process::{FREE_PORTS, File, Process, command};

/// Compiles the library that logs connections and look-ups of names. `cc` is there: Rust links with it.
fn library(folder: &Path) -> PathBuf {
    let library = folder.join("connections.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(fixtures::path("tests/system/network_edge/connections.c"))
        .arg("-ldl")
        .status();
    assert!(compiled.expect("no cc: install a C compiler").success());
    library
}

/// Runs the service with this configuration, sends requests to all kinds of routes, and returns what it called.
async fn calls_of(name: &str, node: &MockNode, more: &str, answered: &[&str]) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let log = folder.join("connections.log");
    let _ = std::fs::remove_file(&log);
    let text = format!(
        "[chains.mine]\nchain_id = 4711\nblock_time = \"200ms\"\nrpc_urls = [{:?}]\n{more}",
        node.url()
    );
    let file = File::new(name, &text);
    let mut service = command(&["--config", file.path()], &FREE_PORTS);
    service.env("LD_PRELOAD", library(&folder)).env("CONNECTIONS_LOG", &log);
    let service = tokio::task::spawn_blocking(move || Process::spawn(service)).await.unwrap();
    let is_ok = |response: &crate::test_server::Response| response.status == 200;
    service.wait_for("/v1/mine/gas-suggestion", is_ok).await;
    let client = http_client::new();
    let zero = format!("0x{}", "0".repeat(40));
    let check = format!("/registry/v2/check/all?from={zero}&to={zero}");
    let list = format!("/registry/v2/{zero}");
    let no_verification =
        "contract verification is off; set verification.url to a Sourcify server to switch it on";
    let no_registry = "the delegation registry is off; set delegation.source to \"api\", \"chain\" or \
         \"api-then-chain\" to switch it on";
    let no_reads = "JSON-RPC is off; set chains.mine.json_rpc = true to switch it on";
    let requests = [
        ("POST", "/verification/verify", no_verification),
        ("GET", "/verification/v2/contract/4711/0x0", no_verification),
        ("GET", "/verify", no_verification),
        ("GET", &check, no_registry),
        ("GET", &list, no_registry),
        ("POST", "/rpc/mine", no_reads),
    ];
    for (method, path, detail) in requests {
        let url = format!("http://{}{path}", service.address);
        let body = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"}";
        let request = client.request(method.parse().unwrap(), url).body(body);
        let response = crate::test_server::Response::read(request.send().await.unwrap()).await;
        if answered.iter().any(|prefix| path.starts_with(prefix)) {
            continue;
        }
        assert_eq!(
            (response.status, response.json()["detail"].as_str()),
            (404, Some(detail)),
            "{path}"
        );
    }
    for path in ["/", "/docs", "/openapi.json", "/v1", "/v1/mine/fee-market", "/v1/chains"] {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
    let polls = node.calls("eth_feeHistory");
    service.wait_for("/livez", |_| node.calls("eth_feeHistory") > polls + 3).await;
    let stopped = tokio::task::spawn_blocking(|| service.stop_with("-TERM")).await.unwrap();
    assert_eq!(stopped.0, Some(0), "{}", stopped.1);
    let text = std::fs::read_to_string(&log).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_its_own_chain_calls_the_nodes_of_this_file_only() {
    let node = MockNode::start(4711, Reply::Result(fee_history(1000, 3, 40))).await;
    let url = node.url();
    let address = url.split('/').nth(2).unwrap();
    let calls = calls_of("own-chain", &node, "", &[]).await;
    let expected = format!("connect {address}");
    assert!(calls.contains(&expected), "{calls:?}");
    assert!(calls.iter().all(|call| *call == expected), "{calls:?}");
    // The library sees other hosts, too: here the file names one.
    let upstream = "[verification]\nurl = \"http://verifier.invalid/\"\n";
    let calls = calls_of("verifier", &node, upstream, &["/veri"]).await;
    assert!(calls.contains("look up verifier.invalid"), "{calls:?}");
}
