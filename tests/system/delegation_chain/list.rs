//! Lists of delegations as complete bodies.

use serde_json::{Value, json};

use super::{TOO_MANY, assert_is_problem, node_with_registry, start_service};
use crate::anvil::Anvil;
use crate::registry::{
    self, ANY, CLAIM, CONTRACT, DELEGATE, Registry, VAULT, assert_problem, request,
};

/// Returns a list member; `more` has the contract, the token id and the amount.
fn list_member(kind: &str, from: &str, to: &str, rights: &str, more: [Option<&str>; 3]) -> String {
    let [contract, token_id, amount] = more
        .map(|member| member.map_or_else(|| "null".to_owned(), |member| format!("\"{member}\"")));
    format!(
        "{{\"type\":\"{kind}\",\"from\":\"{from}\",\"to\":\"{to}\",\"contract\":{contract},\
         \"tokenId\":{token_id},\"rights\":\"{rights}\",\"amount\":{amount}}}"
    )
}

fn list(members: &[String]) -> String {
    format!("[{}]", members.join(","))
}

/// Returns a request for each kind of delegation, and its list member.
fn each_kind() -> [(Value, String); 5] {
    let contract = Some(CONTRACT);
    [
        ("ALL", json!({ "rights": "claim" }), CLAIM, [None; 3]),
        ("CONTRACT", json!({ "contract": CONTRACT }), ANY, [contract, None, None]),
        (
            "ERC721",
            json!({ "contract": CONTRACT, "token_id": "7", "rights": "claim" }),
            CLAIM,
            [contract, Some("7"), None],
        ),
        (
            "ERC20",
            json!({ "contract": CONTRACT, "amount": "1000" }),
            ANY,
            [contract, None, Some("1000")],
        ),
        (
            "ERC1155",
            json!({ "contract": CONTRACT, "token_id": 0, "amount": "55", "rights": CLAIM }),
            CLAIM,
            [contract, Some("0"), Some("55")],
        ),
    ]
    .map(|(kind, members, rights, more)| {
        let action = format!("delegate_{}", kind.to_lowercase());
        (request(&action, members), list_member(kind, VAULT, DELEGATE, rights, more))
    })
}

#[tokio::test]
async fn delegations_of_every_kind_are_listed_until_revoked() {
    let registry = Registry::start().await;
    let get_list = async |address: &str, query: &str| {
        registry.look_up(&format!("/registry/v2/{address}{query}")).await
    };
    assert_eq!(get_list(VAULT, "").await, "[]");
    let mut active = Vec::new();
    for (request, list_member) in each_kind() {
        registry.execute(&request).await;
        active.push(list_member);
        assert_eq!(get_list(DELEGATE, "").await, list(&active), "{request}");
    }
    for (address, incoming, outgoing) in
        [(VAULT, "[]", &*list(&active)), (DELEGATE, &*list(&active), "[]")]
    {
        for address in [address.to_owned(), address.to_lowercase()] {
            assert_eq!(get_list(&address, "").await, list(&active));
            assert_eq!(get_list(&address, "?direction=incoming").await, incoming);
            assert_eq!(get_list(&address, "?direction=outgoing&block=latest").await, outgoing);
        }
    }
    assert_eq!(get_list(CONTRACT, "").await, "[]");

    for (mut request, _) in each_kind() {
        request["enable"] = json!(false);
        registry.execute(&request).await;
        active.remove(0);
        assert_eq!(get_list(DELEGATE, "").await, list(&active), "{request}");
        assert_eq!(get_list(VAULT, "").await, list(&active), "{request}");
    }
    assert_eq!(get_list(DELEGATE, "").await, "[]");
}

#[tokio::test]
async fn incoming_precede_outgoing_and_self_delegations_appear_once() {
    let registry = Registry::start().await;
    for (from, to) in [(VAULT, DELEGATE), (VAULT, VAULT), (DELEGATE, VAULT)] {
        let request = json!({ "from": from, "to": to, "action": "delegate_all" });
        registry.execute(&request).await;
    }
    let all = |from: &str, to: &str| list_member("ALL", from, to, ANY, [None; 3]);
    let (given, own, got) = (all(VAULT, DELEGATE), all(VAULT, VAULT), all(DELEGATE, VAULT));
    for (query, members) in [
        ("", [&own, &got, &given].as_slice()),
        ("?direction=incoming", &[&own, &got]),
        ("?direction=outgoing", &[&given, &own]),
    ] {
        let members: Vec<_> = members.iter().map(|member| (*member).clone()).collect();
        let found = registry.look_up(&format!("/registry/v2/{VAULT}{query}")).await;
        assert_eq!(found, list(&members), "{query}");
    }
    // A self-delegation counts in checks like any other.
    let to_oneself = format!("/registry/v2/check/all?from={VAULT}&to={VAULT}");
    assert_eq!(registry.look_up(&to_oneself).await, "true");
    let to_oneself = to_oneself.replace(VAULT, DELEGATE);
    assert_eq!(registry.look_up(&to_oneself).await, "false");
}

#[tokio::test]
async fn chain_id_selects_the_chain_and_defaults_to_the_lowest() {
    let nodes = [node_with_registry(2020).await, node_with_registry(202_601).await];
    // The chain with the higher id comes first, in the file and by name.
    let chains = registry::chain("another", 202_601, &nodes[1].url())
        + &registry::chain("ronin", 2020, &nodes[0].url());
    let service = start_service(&chains).await;
    let erc20 =
        |amount: &str| request("delegate_erc20", json!({ "contract": CONTRACT, "amount": amount }));
    for (chain, node, amount) in [("ronin", &nodes[0], "20"), ("202601", &nodes[1], "26")] {
        service.wait_for_head(chain, node).await;
        let hash = registry::send(node, registry::ADDRESS, &erc20(amount)).await;
        registry::wait_for_receipt(node, &hash).await;
        service.wait_for_head(chain, node).await;
    }
    let check = format!("/registry/v2/check/erc20?from={VAULT}&to={DELEGATE}&contract={CONTRACT}");
    for (query, amount) in
        [("", "20"), ("chainId=2020", "20"), ("chainId=202601", "26"), ("chainId=0x31769", "26")]
    {
        let found = registry::look_up(&service, &format!("{check}&{query}")).await;
        assert_eq!(found, format!("\"{amount}\""), "{query}");
        let found = registry::look_up(&service, &format!("/registry/v2/{VAULT}?{query}")).await;
        let more = [Some(CONTRACT), None, Some(amount)];
        let member = list_member("ERC20", VAULT, DELEGATE, ANY, more);
        assert_eq!(found, list(&[member]), "{query}");
    }
    for (id, requirement) in [
        ("ronin", "a chain id, decimal or 0x and hex digits"),
        ("1", "the id of a configured chain; GET /v1/chains lists them"),
    ] {
        let response = service.get(&format!("{check}&chainId={id}")).await;
        let detail = format!("`chainId` must be {requirement}");
        assert_problem(&response, 400, "invalid_parameter", &detail);
    }
}

#[tokio::test]
async fn a_list_that_takes_more_gas_than_a_call_may_is_refused() {
    // The gas of a call that geth allows.
    let node = Anvil::start(&["--gas-limit", "50000000"]);
    let registry = Registry::with_node(node, "source = \"chain\"").await;
    let service = &registry.service;
    // Loops without an end. The first one takes ever more memory, of which the node says another error.
    for code in ["0x5b595952600056", "0x5b600056"] {
        registry::install_code(&registry.node, code).await;
        for query in ["", "?direction=incoming", "?direction=outgoing&block=pending"] {
            let response = service.get(&format!("/registry/v2/{VAULT}{query}")).await;
            assert_is_problem(&response, TOO_MANY);
        }
    }
    let check = format!("/registry/v2/check/all?from={VAULT}&to={DELEGATE}");
    let out_of_gas = "the chain's node ran out of gas in the call of the registry";
    assert_problem(&service.get(&check).await, 502, "upstream_invalid", out_of_gas);
}
