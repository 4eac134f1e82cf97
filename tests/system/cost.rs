//! Costs compared with viem's op-stack actions on Optimism's contracts.

use serde_json::json;

use crate::anvil::Anvil;
use crate::programs;

#[tokio::test(flavor = "multi_thread")]
async fn costs_on_op_stack_chains_equal_those_of_viem_in_each_block() {
    let options = ["--network", "optimism", "--no-mining", "--order", "fifo"];
    let node = Anvil::start(&options);
    let folder = programs::kept_folder("op-oracle");
    let settings = json!({
        "binary": env!("CARGO_BIN_EXE_gas-suggestion"),
        "folder": folder,
        "node": node.url(),
        "hardhat": programs::hardhat_3(),
    });
    assert_eq!(
        programs::run_script("op-oracle.mjs", &["playwright-core", "solady", "viem"], &settings)
            .await,
        "32 blocks"
    );
}
