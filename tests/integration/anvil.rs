//! Anvil, a real node, as a process.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::fixtures;

/// The program of Foundry that the environment `variable` names, else the one from npm.
///
/// It is the program itself: npm's wrapper in `.bin` ends with 0 whatever happens.
pub(crate) fn foundry(variable: &str, name: &str) -> PathBuf {
    let installed = format!("tests/node/node_modules/@foundry-rs/{name}-linux-amd64/bin/{name}");
    let binary = std::env::var_os(variable).map_or_else(|| fixtures::path(&installed), Into::into);
    assert!(
        binary.exists(),
        "no {name} at {}: run tests/run.sh, or set {variable}",
        binary.display()
    );
    // Whoever runs it may do so in another directory.
    std::path::absolute(binary).unwrap()
}

/// An anvil process; killed when dropped.
#[derive(Debug)]
pub(crate) struct Anvil {
    process: Child,
    port: u16,
}

impl Anvil {
    /// Starts at `port`, 0 for a free one, with `more` arguments; with a base fee of 3 gwei where they have
    /// none.
    pub(crate) fn start(port: u16, more: &[&str]) -> Self {
        Self::of_chain(2020, port, more)
    }

    /// The same with another chain id.
    pub(crate) fn of_chain(id: u64, port: u16, more: &[&str]) -> Self {
        let base_fee = ["--base-fee", "3000000000"];
        let is_told = more.contains(&base_fee[0]);
        let mut process = Command::new(foundry("ANVIL", "anvil"))
            .args(["--chain-id", &id.to_string(), "--port", &port.to_string()])
            .args(if is_told { [].as_slice() } else { &base_fee })
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| line.unwrap().strip_prefix("Listening on 127.0.0.1:")?.parse().ok())
            .expect("anvil says where it listens");
        // Anvil goes on writing; nobody may keep it from that.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn kill(mut self) -> u16 {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.port
    }

    /// The result of a call that has to succeed.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let reply = reqwest::Client::new().post(self.url()).json(&call).send().await.unwrap();
        let reply: Value = reply.json().await.unwrap();
        assert!(reply.get("error").is_none(), "{method}: {reply}");
        reply["result"].clone()
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
