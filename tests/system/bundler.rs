//! A bundler of user operations (ERC-4337), unmodified, whose only node is the service.

use serde_json::json;

use crate::anvil::Anvil;
use crate::programs;
use crate::raw_client::free_port;
use crate::test_server::TestServer;

#[tokio::test]
async fn a_user_operation_is_mined_at_the_suggested_price() {
    // At most the floor of the suggestion, so that the suggestion stays the same.
    let node = Anvil::start(&["--base-fee", "1000000000"]);
    // Data is stale after two block times. A poll on a busy machine may take longer than two seconds.
    let more = "block_time = \"3s\"\nflashblock_time = \"0s\"\njson_rpc = true\n\
         answer_fee_methods = true\nrpc_methods = [\"+eth_sendRawTransaction\"]";
    let service = TestServer::start(&node.chain("ronin", more)).await;
    service.wait_for_ok("/readyz").await;
    let settings = json!({
        "rpc": service.url("/rpc/ronin"),
        "suggestion": service.url("/v1/ronin/gas-suggestion"),
        "node": node.url(),
        "port": free_port(),
    });
    let packages = ["@pimlico/alto", "@account-abstraction/contracts", "permissionless", "viem"];
    let packages = packages.map(|name| format!("../bundler/node_modules/{name}"));
    programs::run_script(
        "bundler/user-operation.mjs",
        &packages.each_ref().map(String::as_str),
        &settings,
    )
    .await;
}
