//! Chains without a registry, or with another contract at its address.

use serde_json::json;

use super::{ABSENT, INVALID, INVALID_RESULT, assert_is_problem, start_service};
use crate::anvil::Anvil;
use crate::registry::{self, CONTRACT, DELEGATE, Registry, VAULT, request};

/// Returns the five checks and the lists of [`VAULT`] with the type of their result.
pub(super) fn look_ups() -> Vec<(&'static str, String)> {
    let checks = registry::kinds().map(|(scope, query, _)| {
        let kind = if ["erc20", "erc1155"].contains(&scope) { "amount" } else { "bool" };
        (kind, format!("/registry/v2/check/{scope}?from={VAULT}&to={DELEGATE}{query}"))
    });
    let lists = ["", "?direction=incoming", "?direction=outgoing"]
        .map(|query| ("list", format!("/registry/v2/{VAULT}{query}")));
    checks.into_iter().chain(lists).collect()
}

#[tokio::test]
async fn missing_registry_differs_from_no_delegations() {
    for delegation in
        ["source = \"chain\"", "source = \"api-then-chain\"\napi_url = \"http://127.0.0.1:9\""]
    {
        let registry = Registry::with_node(Anvil::start(&[]), delegation).await;
        for (_, path) in look_ups() {
            let sign = if path.contains('?') { '&' } else { '?' };
            for path in [format!("{path}{sign}block=pending"), path] {
                assert_is_problem(&registry.service.get(&path).await, ABSENT);
            }
        }
        // Only the contract at the configured address counts.
        let code = registry::deployed_code();
        registry.node.call("anvil_setCode", json!([CONTRACT, code])).await;
        let list = format!("/registry/v2/{VAULT}?block=pending");
        assert_is_problem(&registry.service.get(&list).await, ABSENT);
        registry::install_code(&registry.node, &code).await;
        assert_eq!(registry.check("all", "&block=pending").await, "false");
    }
}

#[tokio::test]
async fn registry_address_is_configurable() {
    let node = Anvil::start(&[]);
    node.call("anvil_setCode", json!([CONTRACT, registry::deployed_code()])).await;
    let delegation = format!("source = \"chain\"\nregistry_address = \"{CONTRACT}\"");
    let registry = Registry::with_node(node, &delegation).await;
    let all = request("delegate_all", json!({}));
    let hash = registry::send(&registry.node, CONTRACT, &all).await;
    registry.wait_until_mined(&hash).await;
    assert_eq!(registry.check("all", "").await, "true");
}

#[tokio::test]
async fn results_and_reverts_of_another_contract_are_refused() {
    let node = Anvil::start(&[]);
    for (code, expected) in [
        // PUSH0 PUSH0 REVERT: always reverts.
        ("0x5f5ffd", INVALID),
        // PUSH1 31 PUSH0 RETURN: one byte too few. The unit tests of the registry have further results.
        ("0x601f5ff3", INVALID),
        // INVALID uses all gas. Each kind of node reports that with a different error.
        ("0xfe", INVALID_RESULT),
        // STOP returns no data, which looks like a missing contract.
        ("0x00", ABSENT),
    ] {
        registry::install_code(&node, code).await;
        let service = start_service(&registry::chain("ronin", 2020, &node.url())).await;
        for (_, path) in look_ups() {
            assert_is_problem(&service.get(&path).await, expected);
        }
    }
}
