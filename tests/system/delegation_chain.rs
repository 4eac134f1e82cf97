//! Delegation look-ups in the registry contract, on real and mock nodes.

mod checks;
mod claim;
mod list;
mod missing_registry;
mod nodes;
mod queued;

use serde_json::Value;

use crate::anvil::Anvil;
use crate::programs;
use crate::registry::{self, assert_problem};
use crate::test_server::{Response, TestServer};

/// Status, code and detail of a problem.
type Problem = (u16, &'static str, &'static str);

const UNREACHABLE: Problem =
    (502, "upstream_unreachable", "no node of the chain returned a usable response");
const INVALID: Problem =
    (502, "upstream_invalid", "the contract at the registry address is not a delegation registry");
const INVALID_RESULT: Problem =
    (502, "upstream_invalid", "the chain's node returned an invalid response");
const ABSENT: Problem =
    (502, "registry_absent", "this chain has no contract at the registry address");
const TOO_MANY: Problem = (
    502,
    "too_many_delegations",
    "the address has more than 10,000 delegations, or too many for the chain's node; use the checks, or read the registry \
     contract directly",
);
fn assert_is_problem(response: &Response, (status, code, detail): Problem) {
    assert_problem(response, status, code, detail);
}

/// Starts a service with these chains, of which it reads delegations.
async fn start_service(chains: &str) -> TestServer {
    TestServer::start(&format!("[delegation]\nsource = \"chain\"\n{chains}")).await
}

/// Starts a node with the registry.
async fn node_with_registry(chain_id: u64) -> Anvil {
    let node = Anvil::with_chain_id(chain_id, &[]);
    registry::install_code(&node, &registry::deployed_code()).await;
    node
}

/// Returns the output of `tests/node/delegation.mjs` with these arguments.
async fn run_client(arguments: &[&str]) -> Value {
    let mut command = programs::node_js(&["ethers", "solc"]);
    command.arg(programs::script_path("delegation.mjs")).args(arguments);
    programs::expect_json(command).await
}
