//! Prepared transactions as complete bodies with headers.

use serde_json::{Value, json};

use super::nodes::{preparing_node, result};
use super::{TRANSACTIONS, node_with_registry, prepare, run_client, start_service};
use crate::delegation_service::RARELY;
use crate::fixtures;
use crate::mock_node::{MockNode, Reply, read_chain};
use crate::programs;
use crate::registry::{
    self, ADDRESS, ANY, CLAIM, CONTRACT, DELEGATE, MAX, Registry, VAULT, assert_problem, post,
    request,
};
use crate::test_server::{Response, TestServer};

const SUGGESTION: &str = "/v1/ronin/gas-suggestion";

/// Returns the calldata that cast encodes.
async fn calldata(signature: &str, arguments: &[&str]) -> String {
    programs::expect_success(programs::cast(&[&["calldata", signature], arguments].concat())).await
}

/// Returns requests that grant and revoke each kind of delegation, with their calldata.
async fn actions() -> Vec<(Value, String)> {
    let enabled = || [(json!({}), "true"), (json!({ "enable": false }), "false")];
    let contract = json!({ "contract": CONTRACT, "rights": "claim" });
    let token = json!({ "contract": CONTRACT, "token_id": MAX, "rights": "" });
    let mut actions = Vec::new();
    // Each grant and revocation has further members, and the last argument that they become.
    for (signature, members, arguments, changes) in [
        ("All(address,bytes32,bool)", &json!({}), [DELEGATE, ANY].as_slice(), enabled()),
        (
            "Contract(address,address,bytes32,bool)",
            &contract,
            &[DELEGATE, CONTRACT, CLAIM],
            enabled(),
        ),
        (
            "ERC721(address,address,uint256,bytes32,bool)",
            &token,
            &[DELEGATE, CONTRACT, MAX, ANY],
            enabled(),
        ),
        (
            "ERC20(address,address,bytes32,uint256)",
            &contract,
            &[DELEGATE, CONTRACT, CLAIM],
            [(json!({ "amount": "1000" }), "1000"), (json!({ "enable": false }), "0")],
        ),
        (
            "ERC1155(address,address,uint256,bytes32,uint256)",
            &token,
            &[DELEGATE, CONTRACT, MAX, ANY],
            [(json!({ "amount": MAX }), MAX), (json!({ "amount": "0" }), "0")],
        ),
    ] {
        let (kind, _) = signature.split_once('(').unwrap();
        for (more, last) in changes {
            let mut request =
                request(&format!("delegate_{}", kind.to_lowercase()), members.clone());
            request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let arguments = [arguments, &[last]].concat();
            let data = calldata(&format!("delegate{signature}"), &arguments).await;
            actions.push((request, data));
        }
    }
    actions
}

/// Returns the expected transaction, with the node's gas estimate and the service's suggestion.
async fn expected(registry: &Registry, from: &str, data: &str) -> String {
    let call = json!([{ "from": from, "to": ADDRESS, "data": data }, "latest"]);
    let gas = registry.node.call("eth_estimateGas", call).await;
    let suggestion = registry.service.get(SUGGESTION).await.json();
    let medium = &suggestion["medium"];
    let [max_fee, tip] = ["max_fee_per_gas", "max_priority_fee_per_gas"]
        .map(|name| format!("{:#x}", fixtures::wei(&medium[name])));
    let fees = if suggestion["type"] == "legacy" {
        format!("\"type\":\"0x0\",\"gas\":{gas},\"gasPrice\":\"{max_fee}\"")
    } else {
        assert_ne!(medium, &suggestion["high"]);
        let fees = format!("\"maxFeePerGas\":\"{max_fee}\",\"maxPriorityFeePerGas\":\"{tip}\"");
        format!("\"type\":\"0x2\",\"gas\":{gas},{fees}")
    };
    format!(
        "{{\"chainId\":\"0x7e4\",\"from\":\"{from}\",\"to\":\"{ADDRESS}\",\"data\":\"{data}\",\
         \"value\":\"0x0\",{fees}}}"
    )
}

/// Asserts the headers of a transaction with fresh fees.
fn assert_headers(response: &Response, newest_block: &str) {
    let names = ["content-type", "cache-control", "x-newest-block", "x-stale", "etag"];
    let headers = names.map(|name| response.header(name));
    assert_eq!(headers, ["application/json", "no-store", newest_block, "", ""], "{response:?}");
    assert!(response.header("age").parse::<u64>().unwrap() <= 1, "{response:?}");
}

#[tokio::test]
async fn transactions_carry_calldata_gas_and_medium_fees_even_without_funds() {
    let registry = Registry::start().await;
    registry.node.call("anvil_mine", json!(["0x3"])).await;
    registry.service.wait_for_head("ronin", &registry.node).await;
    let actions = actions().await;
    for (request, data) in &actions {
        let response = registry.request_transaction(request).await;
        assert_eq!(response.body, expected(&registry, VAULT, data).await, "{request}");
        assert_headers(&response, "3");
    }
    let balance = registry.node.call("eth_getBalance", json!([CONTRACT, "latest"])).await;
    assert_eq!(balance, "0x0");
    let parties = json!({ "from": CONTRACT.to_lowercase(), "to": DELEGATE.to_lowercase() });
    let response = registry.request_transaction(&request("delegate_all", parties)).await;
    assert_eq!(response.body, expected(&registry, CONTRACT, &actions[0].1).await);
    // The service sends no transaction itself.
    for tag in ["latest", "pending"] {
        let count = registry.node.call("eth_getTransactionCount", json!([VAULT, tag])).await;
        assert_eq!(count, "0x0");
    }
}

#[tokio::test]
async fn chain_id_and_base_path_are_accepted() {
    let registry = Registry::start().await;
    let chain = registry::chain("ronin", 2020, &registry.node.url());
    let delegation = "base_path = \"/proxy/public\"\n[delegation]\nsource = \"chain\"\n";
    let below = TestServer::with_server(delegation, &chain).await;
    below.wait_for_ok("/readyz").await;
    let all = request("delegate_all", json!({}));
    let path = "/delegations/transactions";
    let by_key = registry.transaction(&all).await;
    let by_id = post(&registry.service, &format!("/v1/2020{path}"), &all).await;
    assert_eq!((by_id.status, by_id.json()), (200, by_key.clone()));
    for chain in ["ronin", "Ronin", "2020", "0x7e4"] {
        let response = post(&below, &format!("/proxy/public/v1/{chain}{path}"), &all).await;
        assert_eq!((response.status, response.json()), (200, by_key.clone()));
        let response = post(&below, &format!("/v1/{chain}{path}"), &all).await;
        assert_problem(&response, 404, "not_found", "no such route");
    }
}

#[tokio::test]
async fn zero_base_fee_gives_a_sendable_legacy_transaction() {
    let registry = Registry::start().await;
    registry.node.call("anvil_setNextBlockBaseFeePerGas", json!(["0x0"])).await;
    registry.node.call("anvil_mine", json!([])).await;
    registry.service.wait_for_head("ronin", &registry.node).await;
    for (request, data) in actions().await {
        let response = registry.request_transaction(&request).await;
        assert_eq!(response.body, expected(&registry, VAULT, &data).await, "{request}");
        assert!(response.body.contains("\"type\":\"0x0\""), "{}", response.body);
        assert_headers(&response, "1");
    }
    let (service, node) = (registry.service.url(""), registry.node.url());
    for client in ["ethers-send", "ethers-sign", "viem-send"] {
        let all = request("delegate_all", json!({ "rights": client }));
        let sent = run_client(&[client, &service, &node, "ronin", &all.to_string()]).await;
        registry.wait_until_mined(sent["hash"].as_str().unwrap()).await;
        let found = registry.check("all", &format!("&rights={client}")).await;
        assert_eq!(found, "true", "{client}");
    }
}

#[tokio::test]
async fn repeated_delegation_needs_less_gas() {
    let registry = Registry::start().await;
    let all = request("delegate_all", json!({}));
    let gas =
        async |request: &Value| fixtures::quantity(&registry.transaction(request).await["gas"]);
    let first = gas(&all).await;
    registry.execute(&all).await;
    // The delegation's storage slots are set already.
    assert!(gas(&all).await * 2 < first);
}

#[tokio::test]
async fn chain_without_fees_gets_no_further_calls() {
    // `MockNode` fails the test on any call except those for fees and chain id.
    let node = MockNode::start(2020, Reply::Error(-32000)).await;
    let service = start_service(&node.chain("ronin", "block_time = \"3s\"")).await;
    let response = prepare(&service).await;
    assert_problem(&response, 503, "no_data", "no data has been read for this chain yet");
    assert_eq!(response.header("retry-after"), "3");
    // Invalid parameters are reported first.
    let invalid = request("delegate_nothing", json!({}));
    let response = post(&service, TRANSACTIONS, &invalid).await;
    response.assert_problem(400, "invalid_parameter");
    service.stop().await.unwrap();
    assert_eq!(node.calls("eth_estimateGas") + node.calls("eth_getCode"), 0);
}

#[tokio::test]
async fn stale_fees_are_flagged_and_expired_fees_refused() {
    let node = node_with_registry(2020).await;
    let second = preparing_node(result("\"0x00\""), result("\"0x5208\"")).await;
    // The chain's head stalls.
    let more = "block_time = \"250ms\"\nstall_after = \"500ms\"";
    let service = start_service(&read_chain(&[&second], more)).await;
    service.wait_for(SUGGESTION, |response| response.header("x-stale") == "true").await;
    let response = prepare(&service).await;
    let names = ["x-stale", "x-newest-block", "cache-control"];
    let headers = names.map(|name| response.header(name));
    assert_eq!((response.status, headers), (200, ["true", "1000", "no-store"]));

    let chain = registry::chain("ronin", 2020, &node.url()) + "max_age = \"3s\"\n";
    let service = start_service(&chain).await;
    service.wait_for_ok("/readyz").await;
    assert_eq!(prepare(&service).await.status, 200);
    drop(node);
    service.wait_for(SUGGESTION, |response| response.status == 503).await;
    let response = prepare(&service).await;
    let detail = "the newest data for this chain is too old to serve";
    assert_problem(&response, 503, "stale_data", detail);
    assert_eq!(response.header("retry-after"), "1");
}

#[tokio::test]
async fn mined_delegations_are_visible_before_the_next_poll() {
    let node = node_with_registry(2020).await;
    // The service polls the first block only.
    let service = start_service(&node.chain("ronin", RARELY)).await;
    service.wait_for_ok("/readyz").await;
    let registry = Registry { node, service };
    let delegate = |enable: bool| request("delegate_all", json!({ "enable": enable }));
    for enable in [true, false, true] {
        assert_eq!(registry.check("all", "").await, (!enable).to_string());
        registry.transaction(&delegate(!enable)).await;
        registry.transaction(&delegate(enable)).await;
        let hash = registry.send(&delegate(enable)).await;
        registry::wait_for_receipt(&registry.node, &hash).await;
        assert_eq!(registry.check("all", "").await, enable.to_string());
    }
}
