//! Delegation look-ups in the registry contract, and transactions for it, on real and mock nodes.

mod checks;
mod claim;
mod list;
mod long_lists;
mod missing_registry;
mod nodes;
mod queued;
mod transactions;

use serde_json::Value;

use crate::programs;

/// Returns the output of `tests/node/delegation.mjs` with these arguments.
async fn run_client(arguments: &[&str]) -> Value {
    let mut command = programs::node_js(&["ethers", "solc", "viem"]);
    command.arg(programs::script_path("delegation.mjs")).args(arguments);
    serde_json::from_str(&programs::expect_success(command).await).unwrap()
}

#[tokio::test]
async fn test_registry_behaves_like_the_deployed_contract() {
    programs::node_test("registry.test.mjs", &["ethers", "solc"]).await;
}
