//! The mock Sourcify server as a process, and a contract to verify with it. The server compiles the sources that it
//! receives and compares the code.

use std::process::Stdio;

use serde_json::Value;

use crate::fixtures;
use crate::http_client;
use crate::process::ChildProcess;
use crate::programs;

/// A running `tests/node/verifier/server.mjs`, killed on drop.
#[derive(Debug)]
pub(crate) struct Verifier {
    _process: ChildProcess,
    port: u16,
}

impl Verifier {
    /// Starts the server for `chains` (ids and node URLs) with `more` arguments.
    pub(crate) fn start(chains: &[(u64, &str)], more: &[&str]) -> Self {
        let mut command = programs::node_js(&["solc", "busboy"]);
        command.arg(programs::script_path("verifier/server.mjs"));
        for (id, url) in chains {
            command.args(["--chain", &format!("{id}={url}")]);
        }
        // The server exits when its stdin closes, which also happens when the test is killed.
        command.args(more).stdin(Stdio::piped());
        let (process, port) = programs::start_server(command);
        Self { _process: process, port }
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

/// The fixture contract Counter, in Hardhat's build info.
#[derive(Debug)]
pub(crate) struct Counter(Value);

impl Counter {
    const PATH: &str = "contracts/Counter.sol";

    pub(crate) fn fixture() -> Self {
        Self(fixtures::json("tests/fixtures/verification/build-info.json"))
    }

    pub(crate) fn source(&self) -> &str {
        self.0["input"]["sources"][Self::PATH]["content"].as_str().unwrap()
    }
}
