//! A bundler of user operations (ERC-4337), unmodified, whose only node is the service.

use serde_json::json;

use crate::anvil::Anvil;
use crate::programs;
use crate::raw_client::free_port;
use crate::test_server::TestServer;

#[tokio::test]
async fn a_user_operation_is_mined_at_the_suggested_price() {
    // At most the floor of the suggestion, so that the suggestion stays the same.
    let node = Anvil::start(0, &["--base-fee", "1000000000"]);
    let chain = format!(
        "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"{}\"]\nblock_time = \"1s\"\nflashblock_time = \"0s\"\n\
         json_rpc = true\nanswer_fee_methods = true\nrpc_methods = [\"+eth_sendRawTransaction\"]\n",
        node.url()
    );
    let service = TestServer::start(&chain).await;
    service.wait_for("/readyz", |response| response.status == 200).await;
    let settings = json!({
        "rpc": service.url("/rpc/ronin"),
        "suggestion": service.url("/v1/ronin/gas-suggestion"),
        "node": node.url(),
        "port": free_port(),
    });
    let packages = ["@pimlico/alto", "@account-abstraction/contracts", "permissionless", "viem"];
    let packages = packages.map(|name| format!("../bundler/node_modules/{name}"));
    let mut command = programs::node_js(&packages.each_ref().map(String::as_str));
    command.arg(programs::script_path("bundler/user-operation.mjs")).arg(settings.to_string());
    println!("{}", programs::expect_success(command).await);
}
