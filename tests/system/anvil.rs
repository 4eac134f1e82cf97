//! Anvil, a real node, as a child process.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::fixtures;
use crate::http_client;
use crate::process::ChildProcess;
use crate::programs;
use crate::test_server::TestServer;

/// Returns the path of a Foundry program: the one in the environment `variable`, or the one from npm.
///
/// The npm wrapper in `.bin` is not used, because it always exits with 0.
pub(crate) fn foundry(variable: &str, name: &str) -> PathBuf {
    let installed = format!("tests/node/node_modules/@foundry-rs/{name}-linux-amd64/bin/{name}");
    let binary = std::env::var_os(variable).map_or_else(|| fixtures::path(&installed), Into::into);
    assert!(
        binary.exists(),
        "no {name} at {}: run tests/run.sh, or set {variable}",
        binary.display()
    );
    // Callers may run it in another directory.
    std::path::absolute(binary).unwrap()
}

/// A process of anvil, or of another node; killed when dropped.
#[derive(Debug)]
pub(crate) struct Anvil {
    _process: ChildProcess,
    chain_id: u64,
    port: u16,
    client: reqwest::Client,
}

impl Anvil {
    /// Starts chain 2020. The base fee is 3 gwei unless `arguments` set one.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::with_chain_id(2020, arguments)
    }

    /// Like [`start`](Self::start), with another chain id.
    pub(crate) fn with_chain_id(id: u64, arguments: &[&str]) -> Self {
        let base_fee = ["--base-fee", "3000000000"];
        let has_base_fee = arguments.contains(&base_fee[0]);
        let mut command = Command::new(foundry("ANVIL", "anvil"));
        command.args(["--chain-id", &id.to_string(), "--port", "0"]);
        command.args(if has_base_fee { [].as_slice() } else { &base_fee }).args(arguments);
        Self::from_command(id, command)
    }

    /// Starts a node of this chain with a command that makes it listen.
    pub(crate) fn from_command(chain_id: u64, command: Command) -> Self {
        let (process, port) = programs::start_server(command);
        let client = http_client::builder().pool_max_idle_per_host(0).build().unwrap();
        Self { _process: process, chain_id, port, client }
    }

    /// Returns the configuration of the chain of this node, with `more` lines.
    pub(crate) fn chain(&self, key: &str, more: &str) -> String {
        let (id, url) = (self.chain_id, self.url());
        format!("[chains.{key}]\nchain_id = {id}\nrpc_urls = [\"{url}\"]\n{more}\n")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Calls a method that has to succeed and returns its result.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        let reply = self.reply(method, params).await;
        assert!(reply.get("error").is_none(), "{method}: {reply}");
        reply["result"].clone()
    }

    /// Calls a method and returns the reply, which may have an error.
    pub(crate) async fn reply(&self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let reply = self.client.post(self.url()).json(&call).send().await.unwrap();
        reply.json().await.unwrap()
    }
}

impl TestServer {
    /// Waits until the service has published the newest block of `node`, which must not mine meanwhile.
    pub(crate) async fn wait_for_head(&self, chain: &str, node: &Anvil) {
        let head = node.call("eth_blockNumber", json!([])).await;
        let head = fixtures::small_quantity(&head);
        self.wait_for_block(&format!("/v1/{chain}/gas-suggestion"), head).await;
    }
}
