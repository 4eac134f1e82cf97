//! Data fees of ten thousand transactions, compared with an independent implementation.

use serde_json::json;

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
