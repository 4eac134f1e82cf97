//! Data fees of ten thousand transactions, compared with an independent implementation, a hundred sends of everything, and
//! costs compared with viem's op-stack actions on Optimism's contracts.

use serde_json::json;

use crate::anvil::Anvil;
use crate::fixtures::l1_attributes_deposit;
use crate::mock_node::{MockNode, Reply, fee_history};
use crate::programs;
use crate::test_server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn data_fees_and_max_sends_match_an_independent_program() {
    let node = MockNode::scripted(7, |call| match call.method.as_str() {
        "eth_chainId" => Reply::Result(json!("0x7")),
        "eth_feeHistory" => Reply::Result(fee_history(1000, 3, 30)),
        "eth_getTransactionByBlockNumberAndIndex" => {
            Reply::Result(l1_attributes_deposit("3db6be2b", 178))
        }
        _ => Reply::Error(-32601),
    })
    .await;
    let chain = "data_fee = \"op-stack\"\nmax_block_age = \"0s\"\nstall_after = \"0s\"\n";
    let service = TestServer::start(&node.chain("a", chain)).await;
    let market = service
        .wait_for("/v1/a/fee-market", |it| it.status == 200 && it.json()["data_fee"].is_object())
        .await
        .json();
    let mut command = programs::node_js(&["solady", "viem"]);
    command.arg(programs::script_path("cost.mjs"));
    command.args([service.url(""), market["data_fee"].to_string()]);
    assert_eq!(programs::expect_success(command).await, "10000 transactions");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_can_be_sent_while_the_base_fee_moves() {
    let node = Anvil::with_chain_id(1, &[]);
    node.call("anvil_mine", json!(["0x3"])).await;
    let chain = node.chain("ethereum", "block_time = \"250ms\"\nstall_after = \"0s\"");
    let service = TestServer::start(&chain).await;
    service.wait_for_head("ethereum", &node).await;
    let mut command = programs::node_js(&["viem"]);
    command.arg(programs::script_path("max-send.mjs"));
    command.args([service.url(""), node.url(), "ethereum".to_owned()]);
    assert_eq!(programs::expect_success(command).await, "100 sends of everything, all mined");
}

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
