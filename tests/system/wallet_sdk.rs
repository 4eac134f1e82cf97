//! Ronin's wallet SDK, unmodified, in Chromium: the service answers in place of the hosts that the SDK has in its code.

use std::fmt::Write as _;

use serde_json::json;

use crate::anvil::Anvil;
use crate::nginx::{self, Nginx};
use crate::programs;
use crate::raw_client::free_port;
use crate::test_server::TestServer;

/// Path of the service at the hosts of fees.
const BASE_PATH: &str = "/proxy/public";

/// Chain id, key in the service, host of fees and host of the RPC.
const CHAINS: [(u64, &str, &str, &str); 2] = [
    (2020, "ronin", "wallet-manager.skymavis.com", "api.roninchain.com"),
    (2021, "ronin-testnet", "wallet-manager-stg.skymavis.one", "saigon-testnet.roninchain.com"),
];

/// Starts nginx as the hosts of [`CHAINS`], with TLS, in front of the service.
async fn start_hosts(service: &TestServer) -> (Nginx, u16) {
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let upstream = service.address();
    let addresses = [listen.parse().unwrap()];
    let nginx = Nginx::start(&addresses, |folder| {
        programs::certify(folder, "test", &["openssl"], "-subj /CN=test");
        let mut text = "ssl_certificate test.crt; ssl_certificate_key test.key;\n\
             proxy_http_version 1.1; proxy_set_header Connection \"\";\n"
            .to_owned();
        for (_, key, fees, rpc) in CHAINS {
            write!(
                text,
                "server {{ listen {listen} ssl; server_name {fees};\n\
                 location / {{ proxy_pass http://{upstream}; }} }}\n\
                 server {{ listen {listen} ssl; server_name {rpc};\n\
                 location = /rpc {{ proxy_pass http://{upstream}{BASE_PATH}/rpc/{key}; }} }}\n"
            )
            .unwrap();
        }
        nginx::configuration(&text)
    });
    (nginx.await, port)
}

#[tokio::test]
async fn a_wallet_gets_fees_nonce_and_gas_at_the_hosts_in_its_code() {
    let nodes = CHAINS.map(|(id, ..)| Anvil::with_chain_id(id, &["--no-mining"]));
    let more = "json_rpc = true\npricing.base_fee_floor = \"1 gwei\"\n\
         pricing.priority_fee_floor = \"20 gwei\"";
    let text: String =
        CHAINS.iter().zip(&nodes).map(|((_, key, ..), node)| node.chain(key, more)).collect();
    let service = TestServer::with_server(&format!("base_path = \"{BASE_PATH}\""), &text).await;
    let mut chains = Vec::new();
    for ((id, key, fees, rpc), node) in CHAINS.iter().zip(&nodes) {
        let path = format!("{BASE_PATH}/v1/{key}/gas-suggestion");
        service.wait_for_ok(&path).await;
        let accounts = node.call("eth_accounts", json!([])).await;
        // The nonce of `pending` differs from that of `latest`.
        let transfer = json!([{ "from": accounts[0], "to": accounts[1], "value": "0x1" }]);
        node.call("eth_sendTransaction", transfer).await;
        chains.push(json!({
            "id": id,
            "key": key,
            "fees": format!("https://{fees}{path}"),
            "rpc": format!("https://{rpc}/rpc"),
            "node": node.url(),
            "sender": accounts[0],
        }));
    }
    let (_nginx, port) = start_hosts(&service).await;
    let settings = json!({ "port": port, "service": service.url(BASE_PATH), "chains": chains });
    programs::run_script("wallet-sdk.mjs", &["@sky-mavis/waypoint", "playwright-core"], &settings)
        .await;
}
