//! The hosts that the service calls, seen at its system calls.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixtures;
use crate::http_client;
use crate::mock_node::{MockNode, Reply};
use crate::process::{FREE_PORTS, File, Process, command};
use crate::programs;
use crate::test_server::assert_problems;

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
    let folder = programs::kept_folder(name);
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
    service.wait_for_ok("/v1/mine/gas-suggestion").await;
    let zero = format!("0x{}", "0".repeat(40));
    let requests = [
        "POST /verification/verify".to_owned(),
        "/verification/v2/contract/4711/0x0".into(),
        "/verify".into(),
        format!("/registry/v2/check/all?from={zero}&to={zero}"),
        format!("/registry/v2/{zero}"),
        "POST /rpc/mine".into(),
    ];
    let (on, off): (Vec<_>, Vec<_>) =
        requests.into_iter().partition(|request| answered.iter().any(|on| request.contains(on)));
    for request in on {
        let (method, path) = request.split_once(' ').unwrap_or(("GET", &request));
        let url = format!("http://{}{path}", service.address);
        http_client::new().request(method.parse().unwrap(), url).send().await.unwrap();
    }
    assert_problems(service.address, &format!("switched-off-{name}"), &off).await;
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
    let node = MockNode::start(4711, Reply::history(1000, 3, 40)).await;
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
