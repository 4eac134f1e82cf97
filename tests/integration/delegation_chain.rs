//! Delegations looked up in the registry contract, and transactions for it, on real nodes.

mod claim;
mod list;
mod nodes;
mod nothing_there;
mod queued;
mod table;
mod transactions;

use serde_json::Value;

use crate::programs;

/// What `tests/node/delegation.mjs` prints with these arguments.
async fn application(arguments: &[&str]) -> Value {
    let mut command = programs::node(&["ethers", "solc", "viem"]);
    command.arg(programs::script("delegation.mjs")).args(arguments);
    serde_json::from_str(&programs::success(command).await).unwrap()
}

#[tokio::test]
async fn the_registry_of_these_tests_does_what_the_networks_own_does() {
    programs::node_test("registry.test.mjs", &["ethers", "solc"]).await;
}
