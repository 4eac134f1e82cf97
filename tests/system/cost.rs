//! Data fees of ten thousand transactions, compared with an independent implementation.

use alloy_primitives::hex;
use serde_json::{Value, json};

use crate::mock_node::{MockNode, Reply, fee_history};
use crate::programs;
use crate::test_server::TestServer;

/// The L1 attributes of a Jovian chain, as on Base.
fn deposit() -> Value {
    let mut input = vec![0_u8; 178];
    let mut put = |at: usize, bytes: &[u8]| input[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[0x3d, 0xb6, 0xbe, 0x2b]);
    put(4, &2269_u32.to_be_bytes());
    put(8, &1_055_762_u32.to_be_bytes());
    put(28, &23_597_000_u64.to_be_bytes());
    put(52, &912_345_678_901_u128.to_be_bytes());
    put(84, &87_654_321_u128.to_be_bytes());
    put(164, &5_u32.to_be_bytes());
    put(168, &1234_u64.to_be_bytes());
    let to = "0x4200000000000000000000000000000000000015";
    json!({ "type": "0x7e", "to": to, "input": hex::encode_prefixed(&input) })
}

#[tokio::test(flavor = "multi_thread")]
async fn data_fees_and_max_sends_match_an_independent_program() {
    let node = MockNode::scripted(7, |call| match call.method.as_str() {
        "eth_chainId" => Reply::Result(json!("0x7")),
        "eth_feeHistory" => Reply::Result(fee_history(1000, 3, 30)),
        "eth_getTransactionByBlockNumberAndIndex" => Reply::Result(deposit()),
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
