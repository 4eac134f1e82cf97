//! The commands of the README and the guides. Those of curl run here. For the others, a table names the test that runs them, or
//! why none can. A command that is in no row fails the test.

use std::process::Command;

use serde_json::json;

use crate::anvil::Anvil;
use crate::guides::guides;
use crate::integrations::blocks;
use crate::mock_node::{MockNode, Reply};
use crate::programs;
use crate::test_server::TestServer;

/// Where a command is run.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In this test.
    Here,
    /// In this file.
    In(&'static str),
    /// Nowhere, for this reason.
    Nowhere(&'static str),
}

use Place::{Here, In, Nowhere};

const PUBLIC_NODE: &str =
    "needs a public node; the tests give the same command the address of theirs";
const DOCKER: &str =
    "needs a Docker engine; tests/image.sh and tests/system/deployment.rs check the files";
const CLUSTER: &str = "needs a cluster; tests/packages.sh checks the chart";
const SYSTEMD: &str = "needs systemd as process 1; tests/system/deployment.rs checks the unit, tests/debian.sh installs it";
const SHORTENED: &str =
    "its transaction is shortened; clients/js/test/cost.test.mjs sends whole ones";
const BRIDGE: &str = "needs the bridge; tests/system/drop_in.rs checks the format";
const SYSTEM_FILES: &str =
    "writes outside of the folder of the tests; tests/debian.sh installs the same files";
const RELEASE: &str = "needs a published release";
const HOURS: &str = "a measurement of minutes to hours";

/// The first row whose beginning a command has is its own.
const ROWS: [(&str, Place); 41] = [
    ("curl localhost:8080/v1/base/cost --data", Nowhere(SHORTENED)),
    ("curl 'localhost:8080/v1/ronin/wait", In("tests/integration/wait.rs")),
    ("curl 'localhost:8080/registry/", In("tests/system/delegation_chain.rs")),
    ("curl", Here),
    ("cargo test", In("tests/run.sh")),
    ("cargo run -- demo", In("tests/system/dashboard.rs")),
    ("cargo run -- price", In("tests/integration/command_line.rs")),
    ("cargo run --release -- serve", Nowhere(PUBLIC_NODE)),
    ("tests/run.sh", Nowhere("runs all tests, these too")),
    ("npm audit", Nowhere(RELEASE)),
    ("npx openapi-typescript", In("tests/generators.sh")),
    ("npx hardhat", In("tests/system/verification_clients.rs")),
    ("forge verify-contract", In("tests/system/verification_clients.rs")),
    ("benches/", Nowhere(HOURS)),
    ("gas-suggestion [--config", Nowhere("a synopsis")),
    ("gas-suggestion serve --rpc-url", In("tests/integration/command_line.rs")),
    ("gas-suggestion price", In("tests/integration/command_line.rs")),
    ("gas-suggestion demo", In("tests/packages.sh")),
    ("gas-suggestion openapi", In("tests/system/openapi.rs")),
    ("gas-suggestion check-config", In("tests/integration/command_line.rs")),
    ("cargo run --manifest-path backtest/Cargo.toml", In("backtest/tests/command/docs.rs")),
    ("gas-suggestion", In("tests/integration/command_line.rs")),
    ("GAS_CHAINS__RONIN__RPC_URLS=http://127.0.0.1:9 docker", Nowhere(DOCKER)),
    ("GAS_SERVER__LISTEN=0.0.0.0:8180", In("tests/system/replicas.rs")),
    ("GAS_", In("tests/integration/command.rs")),
    ("export GAS_", In("tests/integration/command.rs")),
    ("export INFURA_API_KEY", In("tests/system/drop_in.rs")),
    ("COMMON_HOME_GAS_PRICE", Nowhere(BRIDGE)),
    ("export SERVICE=", In("tests/system/guides.rs")),
    ("docker ", Nowhere(DOCKER)),
    ("kubectl ", Nowhere(CLUSTER)),
    ("helm ", Nowhere(CLUSTER)),
    ("apt install ./", In("tests/debian.sh")),
    ("systemctl ", Nowhere(SYSTEMD)),
    ("journalctl ", Nowhere(SYSTEMD)),
    ("install ", Nowhere(SYSTEM_FILES)),
    ("sha256sum ", In("tests/packages.sh")),
    ("gh attestation", Nowhere(RELEASE)),
    ("openssl req", In("tests/system/reach_nodes.rs")),
    ("redis-server", In("tests/system/replicas.rs")),
    ("redis-cli", In("tests/system/replicas.rs")),
];

/// Returns the commands of a page, each in one line.
fn commands(path: &str) -> Vec<String> {
    let shell = blocks(path)
        .into_iter()
        .filter(|block| ["sh", "bash", "console"].contains(&block.language.as_str()));
    let text: String = shell.map(|block| block.text).collect();
    let mut commands: Vec<String> = vec![];
    let mut is_open = false;
    for line in text.replace("\\\n", " ").lines() {
        match commands.last_mut().filter(|_| is_open) {
            Some(command) => {
                command.push('\n');
                command.push_str(line);
            }
            None => commands.push(line.to_owned()),
        }
        // A quoted body may have several lines.
        is_open = commands.last().is_some_and(|command| command.matches('\'').count() % 2 == 1);
    }
    commands.retain(|command| !command.trim().is_empty());
    commands
}

#[tokio::test]
async fn commands_of_the_guides_run_or_are_listed() {
    let anvil = Anvil::with_chain_id(2020, &[]);
    // A format needs a block with a tip.
    let accounts = anvil.call("eth_accounts", json!([])).await;
    anvil.call("eth_sendTransaction", json!([{"from": accounts[0], "to": accounts[1]}])).await;
    let [ethereum, base] = [1, 8453].map(|id| MockNode::start(id, Reply::history(100, 1, 1)));
    let (ethereum, base) = (ethereum.await, base.await);
    let more = "block_time = \"1s\"\nmax_age = \"1h\"";
    let service = TestServer::start(&format!(
        "{}{}{}",
        anvil.chain("ronin", "json_rpc = true\npricing.strategy = \"calibrated\"\npricing.reward_percentiles = [10, 60]"),
        ethereum.chain("ethereum", more),
        base.chain("base", more),
    ))
    .await;
    for chain in ["ronin", "ethereum", "base"] {
        service.wait_for_ok(&format!("/v1/{chain}/gas-suggestion")).await;
    }
    let (mut used, mut missing, mut ran) = (vec![false; ROWS.len()], vec![], 0);
    for path in guides() {
        let path = path.to_str().unwrap();
        for command in commands(path) {
            let Some(index) = ROWS.iter().position(|(start, _)| command.starts_with(start)) else {
                missing.push(format!("{path}: {command}"));
                continue;
            };
            used[index] = true;
            if let (_, Here) = ROWS[index] {
                run_curl(&command, &service.address().to_string()).await;
                ran += 1;
            }
        }
    }
    assert!(missing.is_empty(), "in no row: {missing:#?}");
    let unused: Vec<_> = ROWS.iter().zip(used).filter(|(_, is_used)| !is_used).collect();
    assert!(unused.is_empty(), "of no command: {unused:?}");
    assert!(ran > 6, "{ran} commands");
    for (start, place) in &ROWS {
        match place {
            In(file) => assert!(crate::fixtures::path(file).exists(), "{start}: no {file}"),
            Nowhere(reason) => assert!(!reason.is_empty(), "{start}"),
            Here => {}
        }
    }
}

/// Runs a command as a reader types it, against the service at `address`. A stream is read for five seconds.
async fn run_curl(command: &str, address: &str) {
    let is_stream = command.starts_with("curl -N");
    let seconds = if is_stream { 5 } else { 60 };
    let options = format!("curl -sS --fail-with-body --max-time {seconds}");
    let line = command.replacen("curl", &options, 1).replace("localhost:8080", address);
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]);
    let (is_success, stdout, stderr) = programs::run(shell).await;
    let is_as_expected = if is_stream {
        stdout.contains("data:") && stderr.contains("timed out")
    } else {
        is_success
    };
    assert!(is_as_expected, "{line}\n{stdout}\n{stderr}");
    if !is_stream {
        let body: serde_json::Value = serde_json::from_str(&stdout).expect(&line);
        assert!(body.get("error").is_none(), "{line}\n{body}");
    }
}
