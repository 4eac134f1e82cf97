//! Anvil, a real node, as a child process.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::fixtures;
use crate::http_client;
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

/// An anvil process; killed when dropped.
#[derive(Debug)]
pub(crate) struct Anvil {
    process: Child,
    port: u16,
}

impl Anvil {
    /// Starts chain 2020 on `port` (0: any free port). The base fee is 3 gwei unless `arguments` set one.
    pub(crate) fn start(port: u16, arguments: &[&str]) -> Self {
        Self::with_chain_id(2020, port, arguments)
    }

    /// Like [`start`](Self::start), with another chain id.
    pub(crate) fn with_chain_id(id: u64, port: u16, arguments: &[&str]) -> Self {
        let base_fee = ["--base-fee", "3000000000"];
        let has_base_fee = arguments.contains(&base_fee[0]);
        let mut process = Command::new(foundry("ANVIL", "anvil"))
            .args(["--chain-id", &id.to_string(), "--port", &port.to_string()])
            .args(if has_base_fee { [].as_slice() } else { &base_fee })
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| line.unwrap().strip_prefix("Listening on 127.0.0.1:")?.parse().ok())
            .expect("anvil prints its address");
        // Anvil would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Kills the process and returns its port.
    pub(crate) fn kill(self) -> u16 {
        self.port
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
        let reply = http_client::new().post(self.url()).json(&call).send().await.unwrap();
        reply.json().await.unwrap()
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
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
