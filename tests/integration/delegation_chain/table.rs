//! What checks say of each delegation, whichever program has sent it.

use serde_json::{Value, json};

use super::application;
use crate::programs;
use crate::registry::{ANY, CLAIM, CONTRACT, DELEGATE, MAX, Registry, VAULT, request};

/// For all, any rights and those to claim; for the contract, the same; for its ERC-721 token 7, its ERC-20
/// tokens and its ERC-1155 token 7.
type Row = [String; 7];

fn row(checks: [bool; 5], amounts: [&str; 2]) -> Row {
    let [all, all_claim, contract, contract_claim, erc721] = checks.map(|check| check.to_string());
    let [erc20, erc1155] = amounts.map(|amount| format!("\"{amount}\""));
    [all, all_claim, contract, contract_claim, erc721, erc20, erc1155]
}

fn nothing() -> Row {
    row([false; 5], ["0"; 2])
}

async fn checks(registry: &Registry) -> Row {
    let check = async |scope, more: &str, [name, bytes]: [&str; 2]| {
        let [named, in_bytes] = [name, bytes].map(async |rights| {
            registry.check(scope, &format!("&contract={CONTRACT}{more}{rights}")).await
        });
        let (named, in_bytes) = (named.await, in_bytes.await);
        assert_eq!(named, in_bytes, "{scope}{more}{name}");
        named
    };
    let (any, claim) = (format!("&rights={ANY}"), format!("&rights={CLAIM}"));
    let (any, claim) = (["", &any], ["&rights=claim", &claim]);
    [
        check("all", "", any).await,
        check("all", "", claim).await,
        check("contract", "", any).await,
        check("contract", "", claim).await,
        check("erc721", "&tokenId=7", any).await,
        check("erc20", "", any).await,
        check("erc1155", "&tokenId=7", any).await,
    ]
}

/// Each of the five actions with what is found after it, then each of them taken back.
fn steps() -> Vec<(Value, Row)> {
    let with = |mut one: Value, more: Value| {
        let more = more.as_object().unwrap().clone();
        one.as_object_mut().unwrap().extend(more);
        one
    };
    let all = request("delegate_all", json!({}));
    let contract = json!({ "contract": CONTRACT, "rights": "claim" });
    let contract = request("delegate_contract", contract);
    let erc20 = request("delegate_erc20", json!({ "contract": CONTRACT, "amount": "1000" }));
    let token = json!({ "contract": CONTRACT, "token_id": "7" });
    let erc1155 = request("delegate_erc1155", with(token.clone(), json!({ "amount": 55 })));
    let erc721 = request("delegate_erc721", with(token, json!({ "enable": true })));
    let back = || json!({ "enable": false });
    let of_token = [false, false, false, false, true];
    vec![
        (all.clone(), row([true; 5], [MAX; 2])),
        (with(all, back()), nothing()),
        (contract.clone(), row([false, false, false, true, false], ["0"; 2])),
        (with(contract, back()), nothing()),
        (erc20.clone(), row([false; 5], ["1000", "0"])),
        (erc1155.clone(), row([false; 5], ["1000", "55"])),
        (erc721.clone(), row(of_token, ["1000", "55"])),
        (with(erc20, json!({ "amount": "0" })), row(of_token, ["0", "55"])),
        (with(erc1155, back()), row(of_token, ["0"; 2])),
        (with(erc721, back()), nothing()),
    ]
}

/// Goes through all steps, in each of which `send` makes the request and sends what it gets; it gives the
/// transaction's hash.
async fn holds(send: impl AsyncFn(&Registry, &Value) -> String) {
    let registry = Registry::start().await;
    assert_eq!(checks(&registry).await, nothing());
    for (request, row) in steps() {
        let hash = send(&registry, &request).await;
        registry.wait_until_mined(&hash).await;
        assert_eq!(checks(&registry).await, row, "{request}");
    }
}

/// By this command of `tests/node/delegation.mjs`.
async fn holds_by(script: &str) {
    holds(async |registry, request| {
        let [service, node] = [registry.service.url(""), registry.node.url()];
        let sent = application(&[script, &service, &node, "ronin", &request.to_string()]).await;
        let [used, gas] = ["gasUsed", "gas"].map(|name| sent[name].as_u64().unwrap());
        assert!((21_000..=gas).contains(&used), "{sent}");
        sent["hash"].as_str().unwrap().to_owned()
    })
    .await;
}

#[tokio::test]
async fn what_cast_sends_is_found_and_what_it_takes_back_is_not() {
    holds(async |registry, request| {
        let transaction = registry.transaction(request).await;
        let command = programs::cast(&[
            "rpc",
            "eth_sendTransaction",
            &transaction.to_string(),
            "--rpc-url",
            &registry.node.url(),
        ]);
        let hash: Value = serde_json::from_str(&programs::success(command).await).unwrap();
        let sent = registry.node.call("eth_getTransactionByHash", json!([hash])).await;
        for name in ["chainId", "value", "type", "gas", "maxFeePerGas", "maxPriorityFeePerGas"] {
            assert_eq!(sent[name], transaction[name], "{name}");
        }
        hash.as_str().unwrap().to_owned()
    })
    .await;
}

#[tokio::test]
async fn what_ethers_has_the_node_sign_is_found_and_what_it_takes_back_is_not() {
    holds_by("ethers-send").await;
}

#[tokio::test]
async fn what_ethers_signs_is_found_and_what_it_takes_back_is_not() {
    holds_by("ethers-sign").await;
}

#[tokio::test]
async fn what_viem_sends_is_found_and_what_it_takes_back_is_not() {
    holds_by("viem-send").await;
}

#[tokio::test]
async fn a_check_holds_for_its_own_parties_contract_token_and_rights_alone() {
    let registry = Registry::start().await;
    let token = json!({ "contract": CONTRACT, "token_id": "7", "rights": "claim", "amount": 55 });
    registry.give(&request("delegate_erc1155", token)).await;
    let contract = json!({ "contract": CONTRACT, "rights": "play" });
    registry.give(&request("delegate_contract", contract)).await;
    let other = DELEGATE;
    for (path, expected) in [
        (format!("contract?from={VAULT}&to={DELEGATE}&contract={CONTRACT}&rights=play"), "true"),
        (format!("contract?from={DELEGATE}&to={VAULT}&contract={CONTRACT}&rights=play"), "false"),
        (format!("contract?from={VAULT}&to={CONTRACT}&contract={CONTRACT}&rights=play"), "false"),
        (format!("contract?from={VAULT}&to={DELEGATE}&contract={other}&rights=play"), "false"),
        (format!("contract?from={VAULT}&to={DELEGATE}&contract={CONTRACT}&rights=Play"), "false"),
        (format!("contract?from={VAULT}&to={DELEGATE}&contract={CONTRACT}&rights=pla"), "false"),
        (format!("contract?from={VAULT}&to={DELEGATE}&contract={CONTRACT}&rights="), "false"),
        (format!("all?from={VAULT}&to={DELEGATE}&rights=play"), "false"),
        // A token is part of its contract.
        (
            format!("erc721?from={VAULT}&to={DELEGATE}&contract={CONTRACT}&tokenId=9&rights=play"),
            "true",
        ),
        (
            format!(
                "erc1155?from={VAULT}&to={DELEGATE}&contract={CONTRACT}&tokenId=7&rights=claim"
            ),
            "\"55\"",
        ),
        (
            format!(
                "erc1155?from={VAULT}&to={DELEGATE}&contract={CONTRACT}&tokenId=8&rights=claim"
            ),
            "\"0\"",
        ),
        (
            format!("erc1155?from={VAULT}&to={DELEGATE}&contract={other}&tokenId=7&rights=claim"),
            "\"0\"",
        ),
        (format!("erc20?from={VAULT}&to={DELEGATE}&contract={CONTRACT}&rights=claim"), "\"0\""),
        (
            format!("erc721?from={VAULT}&to={DELEGATE}&contract={CONTRACT}&tokenId=7&rights=claim"),
            "false",
        ),
    ] {
        assert_eq!(
            registry.look_up(&format!("/registry/v2/check/{path}")).await,
            expected,
            "{path}"
        );
    }
}

#[tokio::test]
async fn rights_and_numbers_keep_every_bit() {
    let registry = Registry::start().await;
    // 31 bytes of which one character takes two, and a token and an amount of 256 bits.
    let rights = "all that the 31 bytes can ho\u{e4}d";
    assert_eq!(rights.len(), 31);
    let amount = &MAX.replace("935", "934");
    let token =
        json!({ "contract": CONTRACT, "token_id": MAX, "rights": rights, "amount": amount });
    registry.give(&request("delegate_erc1155", token)).await;
    let percent = rights.replace(' ', "+").replace('\u{e4}', "%C3%A4");
    let bytes = format!("0x{}00", alloy_primitives::hex::encode(rights));
    for rights in [percent, bytes] {
        let of_token = format!("&contract={CONTRACT}&rights={rights}&tokenId=");
        let found = registry.check("erc1155", &format!("{of_token}{MAX}")).await;
        assert_eq!(found, format!("\"{amount}\""), "{rights}");
        let found = registry.check("erc1155", &format!("{of_token}{amount}")).await;
        assert_eq!(found, "\"0\"", "{rights}");
    }
}
