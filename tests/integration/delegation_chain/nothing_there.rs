//! Chains that have no registry, or something else in its place.

use serde_json::{Value, json};

use crate::anvil::Anvil;
use crate::registry::{self, CONTRACT, DELEGATE, Registry, VAULT, assert_problem, request};
use crate::service::{Answer, Service};

const ABSENT: (&str, &str) =
    ("registry_absent", "the chain has no contract at the registry's address");
const INVALID: (&str, &str) =
    ("upstream_invalid", "what is at the registry's address does not answer like the registry");
const REFUSED: (&str, &str) =
    ("upstream_invalid", "the chain's node finds that this transaction would fail");

/// The five checks and the lists of a [`VAULT`], by what they answer.
pub(super) fn look_ups() -> [(&'static str, String); 8] {
    let parties = format!("from={VAULT}&to={DELEGATE}");
    let contract = format!("{parties}&contract={CONTRACT}");
    [
        ("bool", format!("/registry/v2/check/all?{parties}")),
        ("bool", format!("/registry/v2/check/contract?{contract}")),
        ("bool", format!("/registry/v2/check/erc721?{contract}&tokenId=7")),
        ("amount", format!("/registry/v2/check/erc20?{contract}")),
        ("amount", format!("/registry/v2/check/erc1155?{contract}&tokenId=7")),
        ("list", format!("/registry/v2/{VAULT}")),
        ("list", format!("/registry/v2/{VAULT}?direction=incoming")),
        ("list", format!("/registry/v2/{VAULT}?direction=outgoing")),
    ]
}

fn actions() -> [Value; 5] {
    [
        ("delegate_all", json!({})),
        ("delegate_contract", json!({ "contract": CONTRACT })),
        ("delegate_erc721", json!({ "contract": CONTRACT, "token_id": 7 })),
        ("delegate_erc20", json!({ "contract": CONTRACT, "amount": 1 })),
        ("delegate_erc1155", json!({ "contract": CONTRACT, "token_id": 7, "amount": 1 })),
    ]
    .map(|(action, more)| request(action, more))
}

fn is(answer: &Answer, (code, detail): (&str, &str)) {
    assert_problem(answer, 502, code, detail);
}

#[tokio::test]
async fn a_chain_without_a_registry_is_never_taken_for_one_without_delegations() {
    for delegation in
        ["source = \"chain\"", "source = \"api-then-chain\"\napi_url = \"http://127.0.0.1:9\""]
    {
        let registry = Registry::of(Anvil::start(0, &[]), delegation).await;
        for (_, path) in look_ups() {
            is(&registry.service.get(&path).await, ABSENT);
            let sign = if path.contains('?') { '&' } else { '?' };
            is(&registry.service.get(&format!("{path}{sign}block=pending")).await, ABSENT);
        }
        for request in actions() {
            is(&registry.ask_for(&request).await, ABSENT);
        }
        // It is looked for at its address and nowhere else.
        registry.node.call("anvil_setCode", json!([CONTRACT, registry::runtime().await])).await;
        is(&registry.service.get(&format!("/registry/v2/{VAULT}?block=pending")).await, ABSENT);
        registry::put(&registry.node, registry::runtime().await).await;
        assert_eq!(registry.check("all", "&block=pending").await, "false");
    }
}

#[tokio::test]
async fn a_registry_elsewhere_is_found_where_it_is_said_to_be() {
    let node = Anvil::start(0, &[]);
    node.call("anvil_setCode", json!([CONTRACT, registry::runtime().await])).await;
    let delegation = format!("source = \"chain\"\nregistry_address = \"{CONTRACT}\"");
    let registry = Registry::of(node, &delegation).await;
    let all = request("delegate_all", json!({}));
    assert_eq!(registry.transaction(&all).await["to"], CONTRACT);
    registry.give(&all).await;
    assert_eq!(registry.check("all", "").await, "true");
}

/// The configuration that looks delegations up on this node.
fn text_of(node: &Anvil) -> String {
    let chain = registry::chain("ronin", 2020, &node.url());
    format!("[delegation]\nsource = \"chain\"\n{chain}")
}

#[tokio::test]
async fn what_another_contract_returns_is_no_answer() {
    let node = Anvil::start(0, &[]);
    for (code, kinds) in [
        // PUSH0 PUSH0 REVERT: it refuses everything.
        ("0x5f5ffd", ["bool", "amount", "list"].as_slice()),
        // PUSH1 1 PUSH0 RETURN: a byte of 0.
        ("0x60015ff3", &["bool", "amount", "list"]),
        // PUSH1 31 PUSH0 RETURN: one byte too few.
        ("0x601f5ff3", &["bool", "amount", "list"]),
        // PUSH0 NOT PUSH0 MSTORE, PUSH1 32 PUSH0 RETURN: 32 bytes 0xff, which are an amount.
        ("0x5f195f5260205ff3", &["bool", "list"]),
        // PUSH1 2 instead, which is neither false nor true.
        ("0x60025f5260205ff3", &["bool", "list"]),
        // PUSH1 32, PUSH1 1 behind it and 64 bytes: a list of one that is not there.
        ("0x60205f52600160205260405ff3", &["list"]),
    ] {
        registry::put(&node, code).await;
        let service = Service::start(&text_of(&node)).await;
        for (_, path) in look_ups().iter().filter(|(kind, _)| kinds.contains(kind)) {
            is(&service.get(path).await, INVALID);
        }
    }
    // INVALID, which takes all gas, is an error of the node's own kind.
    registry::put(&node, "0xfe").await;
    let failing = Service::start(&text_of(&node)).await;
    let expected = ("upstream_invalid", "what the chain's node answered is no answer to this");
    for (_, path) in look_ups() {
        is(&failing.get(&path).await, expected);
    }
    // What returns nothing answers as if nothing were there.
    registry::put(&node, "0x00").await;
    let registry = Registry::of(node, "source = \"chain\"").await;
    for (_, path) in look_ups() {
        is(&registry.service.get(&path).await, ABSENT);
    }
}

#[tokio::test]
async fn a_transaction_that_would_fail_is_not_prepared() {
    let node = Anvil::start(0, &[]);
    registry::put(&node, "0x5f5ffd").await;
    let registry = Registry::of(node, "source = \"chain\"").await;
    for request in actions() {
        is(&registry.ask_for(&request).await, REFUSED);
    }
}
