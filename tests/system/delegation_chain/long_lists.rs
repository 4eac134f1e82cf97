//! Lists that take more gas than a node allows for one call, with the deployed registry.

use alloy_primitives::{Address, B256, hex};
use alloy_sol_types::{SolCall, sol};
use serde_json::json;

use super::list::{list, list_member};
use crate::anvil::Anvil;
use crate::registry::{
    self, ADDRESS, ANY, DELEGATE, Registry, VAULT, assert_problem, deployed_code, install_code,
};

sol! {
    function multicall(bytes[] data);
    function delegateContract(address to, address contract_, bytes32 rights, bool enable);
    function getIncomingDelegations(address to);
    function getIncomingDelegationHashes(address to);
}

/// Gas of a call that geth allows.
const GAS_LIMIT: [&str; 2] = ["--gas-limit", "50000000"];

/// Returns the contract of the delegation with this number.
fn contract(number: u64) -> Address {
    Address::left_padding_from(&(0xc0_0000 + number).to_be_bytes())
}

/// Delegates or revokes the contracts with these numbers, from [`VAULT`] to [`DELEGATE`].
async fn change(node: &Anvil, numbers: impl Iterator<Item = u64>, enable: bool) {
    let to = DELEGATE.parse().unwrap();
    let call = |number| delegateContractCall {
        to,
        contract_: contract(number),
        rights: B256::ZERO,
        enable,
    };
    let data = numbers.map(|number| call(number).abi_encode().into()).collect();
    let data = hex::encode_prefixed(multicallCall { data }.abi_encode());
    let transaction = json!({ "from": VAULT, "to": ADDRESS, "data": data, "gas": "0xf42400" });
    let hash = node.call("eth_sendTransaction", json!([transaction])).await;
    registry::wait_for_receipt(node, hash.as_str().unwrap()).await;
}

#[tokio::test]
async fn six_thousand_delegations_are_listed_completely() {
    const REVOKED: [u64; 4] = [0, 777, 3000, 6003];
    let node = Anvil::start(&GAS_LIMIT);
    install_code(&node, &deployed_code()).await;
    let numbers: Vec<_> = (0..6004).collect();
    for batch in numbers.chunks(100) {
        change(&node, batch.iter().copied(), true).await;
    }
    change(&node, REVOKED.into_iter(), false).await;
    // One call runs out of gas.
    let to = DELEGATE.parse().unwrap();
    let data = hex::encode_prefixed(getIncomingDelegationsCall { to }.abi_encode());
    let call = json!([{ "to": ADDRESS, "data": data }, "latest"]);
    let reply = node.reply("eth_call", call).await;
    assert!(reply["error"]["message"].as_str().unwrap().contains("OutOfGas"), "{reply}");

    let service = Registry::with_node(node, "source = \"chain\"").await;
    let members: Vec<_> = numbers
        .into_iter()
        .filter(|number| !REVOKED.contains(number))
        .map(|number| {
            let contract = contract(number).to_string();
            list_member("CONTRACT", VAULT, DELEGATE, ANY, [Some(&contract), None, None])
        })
        .collect();
    assert_eq!(members.len(), 6000);
    let expected = list(&members);
    for path in [
        format!("{DELEGATE}?direction=incoming"),
        format!("{VAULT}?direction=outgoing"),
        format!("{DELEGATE}?block=pending"),
        VAULT.to_owned(),
    ] {
        let found = service.look_up(&format!("/registry/v2/{path}")).await;
        assert!(found == expected, "{path}: {} bytes of {}", found.len(), expected.len());
    }
    let check = format!("&contract={}", contract(1));
    assert_eq!(service.check("contract", &check).await, "true");
    let check = format!("&contract={}", contract(777));
    assert_eq!(service.check("contract", &check).await, "false");
}

#[tokio::test]
async fn longer_lists_are_refused_with_the_limit() {
    let detail = "the address has more than 10,000 delegations, or too many for the chain's node; use the checks, or \
        read the registry contract directly";
    // A loop without an end, and the same beside a list of 10,001 hashes.
    let endless = "0x5b600056".to_owned();
    let selector = hex::encode(getIncomingDelegationHashesCall::SELECTOR);
    let hashes =
        format!("0x60003560e01c63{selector}146013575b600f565b60206000526127116020526204e2606000f3");
    for code in [endless, hashes] {
        let node = Anvil::start(&GAS_LIMIT);
        install_code(&node, &code).await;
        let registry = Registry::with_node(node, "source = \"chain\"").await;
        let service = &registry.service;
        for query in ["", "?direction=incoming", "?direction=outgoing&block=pending"] {
            let response = service.get(&format!("/registry/v2/{VAULT}{query}")).await;
            assert_problem(&response, 502, "too_many_delegations", detail);
        }
        let check = format!("/registry/v2/check/all?from={VAULT}&to={DELEGATE}");
        let out_of_gas = "the chain's node ran out of gas in the call of the registry";
        assert_problem(&service.get(&check).await, 502, "upstream_invalid", out_of_gas);
    }
}
