//! Transactions that the service prepares, as whole bodies with their headers.

use serde_json::{Value, json};

use super::application;
use crate::anvil::Anvil;
use crate::fake_node::{self, FakeNode};
use crate::programs;
use crate::read_node::{ReadNode, Say};
use crate::reads;
use crate::registry::{
    self, ADDRESS, ANY, CLAIM, CONTRACT, DELEGATE, MAX, Registry, VAULT, assert_problem, post,
    request,
};
use crate::service::{Answer, Service};

const SUGGESTION: &str = "/v1/ronin/gas-suggestion";

/// A decimal string as a quantity in hex.
fn hex(amount: &Value) -> String {
    format!("{:#x}", amount.as_str().unwrap().parse::<u128>().unwrap())
}

/// What cast makes of this call.
async fn calldata(signature: &str, arguments: &[&str]) -> String {
    programs::success(programs::cast(&[&["calldata", signature], arguments].concat())).await
}

/// Each action given and taken back, with its calldata.
async fn actions() -> Vec<(Value, String)> {
    let of_contract = json!({ "contract": CONTRACT, "rights": "claim" });
    let of_token = json!({ "contract": CONTRACT, "token_id": MAX, "rights": "" });
    let with = |mut members: Value, name: &str, value: Value| {
        members[name] = value;
        members
    };
    let off = |members: &Value| with(members.clone(), "enable", json!(false));
    let of_amount = |members: &Value, amount: &str| with(members.clone(), "amount", json!(amount));
    let all = "delegateAll(address,bytes32,bool)";
    let contract = "delegateContract(address,address,bytes32,bool)";
    let erc721 = "delegateERC721(address,address,uint256,bytes32,bool)";
    let erc20 = "delegateERC20(address,address,bytes32,uint256)";
    let erc1155 = "delegateERC1155(address,address,uint256,bytes32,uint256)";
    let mut actions = Vec::new();
    for (action, more, signature, arguments) in [
        ("delegate_all", json!({}), all, [DELEGATE, ANY, "true"].as_slice()),
        ("delegate_all", off(&json!({})), all, &[DELEGATE, ANY, "false"]),
        ("delegate_contract", of_contract.clone(), contract, &[DELEGATE, CONTRACT, CLAIM, "true"]),
        ("delegate_contract", off(&of_contract), contract, &[DELEGATE, CONTRACT, CLAIM, "false"]),
        ("delegate_erc721", of_token.clone(), erc721, &[DELEGATE, CONTRACT, MAX, ANY, "true"]),
        ("delegate_erc721", off(&of_token), erc721, &[DELEGATE, CONTRACT, MAX, ANY, "false"]),
        (
            "delegate_erc20",
            of_amount(&of_contract, "1000"),
            erc20,
            &[DELEGATE, CONTRACT, CLAIM, "1000"],
        ),
        ("delegate_erc20", off(&of_contract), erc20, &[DELEGATE, CONTRACT, CLAIM, "0"]),
        (
            "delegate_erc1155",
            of_amount(&of_token, MAX),
            erc1155,
            &[DELEGATE, CONTRACT, MAX, ANY, MAX],
        ),
        (
            "delegate_erc1155",
            of_amount(&of_token, "0"),
            erc1155,
            &[DELEGATE, CONTRACT, MAX, ANY, "0"],
        ),
    ] {
        actions.push((request(action, more), calldata(signature, arguments).await));
    }
    actions
}

/// What the transaction has to be, by the node's estimate and the service's own suggestion.
async fn expected(registry: &Registry, from: &str, data: &str) -> String {
    let call = json!([{ "from": from, "to": ADDRESS, "data": data }, "latest"]);
    let gas = registry.node.call("eth_estimateGas", call).await;
    let suggestion = registry.service.get(SUGGESTION).await.json();
    let medium = &suggestion["medium"];
    let fees = if suggestion["type"] == "legacy" {
        format!(
            "\"type\":\"0x0\",\"gas\":{gas},\"gasPrice\":\"{}\"",
            hex(&medium["max_fee_per_gas"])
        )
    } else {
        assert_ne!(medium, &suggestion["high"]);
        format!(
            "\"type\":\"0x2\",\"gas\":{gas},\"maxFeePerGas\":\"{}\",\"maxPriorityFeePerGas\":\"{}\"",
            hex(&medium["max_fee_per_gas"]),
            hex(&medium["max_priority_fee_per_gas"])
        )
    };
    format!(
        "{{\"chainId\":\"0x7e4\",\"from\":\"{from}\",\"to\":\"{ADDRESS}\",\"data\":\"{data}\",\
         \"value\":\"0x0\",{fees}}}"
    )
}

/// The headers of a transaction that is as new as the chain itself.
fn assert_headers(answer: &Answer, newest_block: &str) {
    let names = ["content-type", "cache-control", "x-newest-block", "x-stale", "etag"];
    let headers = names.map(|name| answer.header(name));
    assert_eq!(headers, ["application/json", "no-store", newest_block, "", ""], "{answer:?}");
    assert!(answer.header("age").parse::<u64>().unwrap() <= 1, "{answer:?}");
}

#[tokio::test]
async fn a_transaction_has_the_calldata_of_its_action_the_nodes_gas_and_the_medium_fees() {
    let registry = Registry::start().await;
    registry.node.call("anvil_mine", json!(["0x3"])).await;
    registry.service.wait_for_head("ronin", &registry.node).await;
    for (request, data) in actions().await {
        let answer = registry.ask_for(&request).await;
        assert_eq!(answer.body, expected(&registry, VAULT, &data).await, "{request}");
        assert_headers(&answer, "3");
    }
    // What was prepared is nobody's but the caller's.
    for tag in ["latest", "pending"] {
        let count = registry.node.call("eth_getTransactionCount", json!([VAULT, tag])).await;
        assert_eq!(count, "0x0");
    }
}

#[tokio::test]
async fn a_transaction_can_be_asked_for_by_chain_id_and_below_a_base_path() {
    let registry = Registry::start().await;
    let chain = registry::chain("ronin", 2020, &registry.node.url());
    let delegation = "base_path = \"/proxy/public\"\n[delegation]\nsource = \"chain\"\n";
    let below = Service::with_server(delegation, &chain).await;
    below.wait_for("/readyz", |answer| answer.status == 200).await;
    let all = request("delegate_all", json!({}));
    let path = "/delegations/transactions";
    let by_key = registry.transaction(&all).await;
    let by_id = post(&registry.service, &format!("/v1/2020{path}"), &all).await;
    assert_eq!((by_id.status, by_id.json()), (200, by_key.clone()));
    for chain in ["ronin", "2020"] {
        let answer = post(&below, &format!("/proxy/public/v1/{chain}{path}"), &all).await;
        assert_eq!((answer.status, answer.json()), (200, by_key.clone()));
        let detail = "there is nothing at this path";
        let answer = post(&below, &format!("/v1/{chain}{path}"), &all).await;
        assert_problem(&answer, 404, "not_found", detail);
    }
    let check = format!("/proxy/public/registry/v2/check/all?from={VAULT}&to={DELEGATE}");
    assert_eq!(registry::look_up(&below, &check).await, "false");
    assert_eq!(
        registry::look_up(&below, &format!("/proxy/public/registry/v2/{VAULT}")).await,
        "[]"
    );
    for chain in ["1", "Ronin", "0x7e4"] {
        let answer = post(&registry.service, &format!("/v1/{chain}{path}"), &all).await;
        let detail = "no such chain here; GET /v1/chains lists those there are";
        assert_problem(&answer, 404, "unknown_chain", detail);
    }
}

#[tokio::test]
async fn whoever_has_no_funds_can_see_what_they_would_send() {
    let registry = Registry::start().await;
    let balance = json!([CONTRACT, "latest"]);
    assert_eq!(registry.node.call("eth_getBalance", balance).await, "0x0");
    let mut request = request("delegate_all", json!({}));
    request["from"] = json!(CONTRACT.to_lowercase());
    request["to"] = json!(DELEGATE.to_lowercase());
    let answer = registry.ask_for(&request).await;
    let data = calldata("delegateAll(address,bytes32,bool)", &[DELEGATE, ANY, "true"]).await;
    assert_eq!(answer.body, expected(&registry, CONTRACT, &data).await);
}

#[tokio::test]
async fn where_the_base_fee_is_zero_a_transaction_has_a_gas_price_and_can_be_sent() {
    let registry = Registry::start().await;
    registry.node.call("anvil_setNextBlockBaseFeePerGas", json!(["0x0"])).await;
    registry.node.call("anvil_mine", json!([])).await;
    registry.service.wait_for_head("ronin", &registry.node).await;
    for (request, data) in actions().await {
        let answer = registry.ask_for(&request).await;
        assert_eq!(answer.body, expected(&registry, VAULT, &data).await, "{request}");
        assert!(answer.body.contains("\"type\":\"0x0\""), "{}", answer.body);
        assert_headers(&answer, "1");
    }
    let (service, node) = (registry.service.url(""), registry.node.url());
    for client in ["ethers-send", "ethers-sign", "viem-send", "as it is"] {
        let all = request("delegate_all", json!({ "rights": client }));
        if client == "as it is" {
            registry.give(&all).await;
        } else {
            let sent = application(&[client, &service, &node, "ronin", &all.to_string()]).await;
            registry.wait_until_mined(sent["hash"].as_str().unwrap()).await;
        }
        let found = registry.check("all", &format!("&rights={}", client.replace(' ', "+"))).await;
        assert_eq!(found, "true", "{client}");
    }
}

#[tokio::test]
async fn the_gas_follows_what_the_transaction_does() {
    let registry = Registry::start().await;
    let all = request("delegate_all", json!({}));
    let gas = async |request: &Value| {
        let gas = registry.transaction(request).await["gas"].as_str().unwrap().to_owned();
        u64::from_str_radix(&gas[2..], 16).unwrap()
    };
    let first = gas(&all).await;
    registry.give(&all).await;
    // There is no second place to be taken for what is stored already.
    assert!(gas(&all).await * 2 < first);
}

#[tokio::test]
async fn a_chain_without_fees_is_asked_for_nothing_else() {
    // It fails the test when it is asked for more than its fees and its id.
    let node = FakeNode::start(2020, fake_node::Answer::Error(-32000)).await;
    let chain = format!(
        "[chains.ronin]\nchain_id = 2020\nrpc_urls = [\"{}\"]\nblock_time = \"3s\"\n",
        node.url()
    );
    let service = Service::start(&format!("[delegation]\nsource = \"chain\"\n{chain}")).await;
    let path = "/v1/ronin/delegations/transactions";
    let answer = post(&service, path, &request("delegate_all", json!({}))).await;
    assert_problem(&answer, 503, "no_data", "no data of this chain was read yet");
    assert_eq!(answer.header("retry-after"), "3");
    // What cannot be right is said first.
    let answer = post(&service, path, &request("delegate_nothing", json!({}))).await;
    assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("invalid_parameter")));
    service.stop().await.unwrap();
    assert_eq!(node.calls("eth_estimateGas") + node.calls("eth_getCode"), 0);
}

#[tokio::test]
async fn a_transaction_says_when_its_fees_are_stale_and_is_refused_when_they_are_too_old() {
    let node = Anvil::start(0, &[]);
    registry::put(&node, registry::runtime().await).await;
    let second = ReadNode::start(Say::Each(vec![
        ("eth_getCode", Say::Result("\"0x00\"".into())),
        ("eth_estimateGas", Say::Result("\"0x5208\"".into())),
    ]))
    .await;
    let all = request("delegate_all", json!({}));

    // Its head stands still.
    let more = "block_time = \"250ms\"\nstall_after = \"500ms\"";
    let text = format!("[delegation]\nsource = \"chain\"\n{}", reads::chain(&[&second], more));
    let service = Service::start(&text).await;
    service.wait_for(SUGGESTION, |answer| answer.header("x-stale") == "true").await;
    let answer = post(&service, "/v1/ronin/delegations/transactions", &all).await;
    assert_eq!((answer.status, answer.header("x-stale")), (200, "true"));
    assert_eq!(
        (answer.header("x-newest-block"), answer.header("cache-control")),
        ("1000", "no-store")
    );

    let chain = registry::chain("ronin", 2020, &node.url()) + "max_age = \"3s\"\n";
    let service = Service::start(&format!("[delegation]\nsource = \"chain\"\n{chain}")).await;
    service.wait_for("/readyz", |answer| answer.status == 200).await;
    let prepare = async || post(&service, "/v1/ronin/delegations/transactions", &all).await;
    assert_eq!(prepare().await.status, 200);
    node.kill();
    service.wait_for(SUGGESTION, |answer| answer.status == 503).await;
    let answer = prepare().await;
    let detail = "the newest data of this chain is too old to be served";
    assert_problem(&answer, 503, "stale_data", detail);
    assert_eq!(answer.header("retry-after"), "1");
}

#[tokio::test]
async fn what_a_receipt_tells_is_known_before_the_next_poll() {
    let node = Anvil::start(0, &[]);
    registry::put(&node, registry::runtime().await).await;
    // No block but the first one is seen.
    let chain = "block_time = \"1h\"\nmax_age = \"1day\"";
    let text = format!(
        "[delegation]\nsource = \"chain\"\n[chains.ronin]\nchain_id = 2020\nrpc_urls = [{:?}]\n{chain}\n",
        node.url()
    );
    let service = Service::start(&text).await;
    service.wait_for("/readyz", |answer| answer.status == 200).await;
    let registry = Registry { node, service };
    let give = |enable: bool| request("delegate_all", json!({ "enable": enable }));
    for enable in [true, false, true] {
        assert_eq!(registry.check("all", "").await, (!enable).to_string());
        // To do again what was done takes less gas than to do it after its opposite.
        registry.transaction(&give(!enable)).await;
        registry.transaction(&give(enable)).await;
        let hash = registry.send(&give(enable)).await;
        registry::wait_for_receipt(&registry.node, &hash).await;
        assert_eq!(registry.check("all", "").await, enable.to_string());
    }
}
