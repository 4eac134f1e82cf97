//! Results of checks after each delegation.

use serde_json::{Value, json};

use super::{node_with_registry, start_service};
use crate::delegation_service::RARELY;
use crate::registry::{self, ANY, CLAIM, CONTRACT, DELEGATE, MAX, Registry, VAULT, request};

const NO_DELEGATIONS: &str = r#"false false false false false "0" "0""#;

/// Returns the results of seven checks: of all with any rights and with the rights "claim", of the contract likewise,
/// of its ERC-721 token 7, of its ERC-20 amount, and of its amount of ERC-1155 token 7.
async fn checks(registry: &Registry) -> String {
    let check = async |scope, more: &str, [name, bytes]: [&str; 2]| {
        let [named, in_bytes] = [name, bytes].map(async |rights| {
            let contract =
                if scope == "all" { String::new() } else { format!("&contract={CONTRACT}") };
            registry.check(scope, &format!("{contract}{more}{rights}")).await
        });
        let (named, in_bytes) = (named.await, in_bytes.await);
        assert_eq!(named, in_bytes, "{scope}{more}{name}");
        named
    };
    let (any, claim) = (format!("&rights={ANY}"), format!("&rights={CLAIM}"));
    let (any, claim) = (["", &any], ["&rights=claim", &claim]);
    let mut results = vec![];
    for (scope, more, rights) in [
        ("all", "", any),
        ("all", "", claim),
        ("contract", "", any),
        ("contract", "", claim),
        ("erc721", "&tokenId=7", any),
        ("erc20", "", any),
        ("erc1155", "&tokenId=7", any),
    ] {
        results.push(check(scope, more, rights).await);
    }
    results.join(" ")
}

/// Returns requests that grant and revoke each of the five kinds of delegation, with the results of checks after each
/// request.
fn steps() -> Vec<(Value, String)> {
    let with = |one: &Value, name: &str, value: Value| {
        let mut changed = one.clone();
        changed[name] = value;
        changed
    };
    let disabled = |one| with(one, "enable", json!(false));
    let all = request("delegate_all", json!({}));
    let contract = json!({ "contract": CONTRACT, "rights": "claim" });
    let contract = request("delegate_contract", contract);
    let erc20 = request("delegate_erc20", json!({ "contract": CONTRACT, "amount": "1000" }));
    let token = json!({ "contract": CONTRACT, "token_id": "7" });
    let erc1155 = request("delegate_erc1155", with(&token, "amount", json!(55)));
    let erc721 = request("delegate_erc721", with(&token, "enable", json!(true)));
    let every = format!("true true true true true \"{MAX}\" \"{MAX}\"");
    [
        (all.clone(), every.as_str()),
        (disabled(&all), NO_DELEGATIONS),
        (contract.clone(), r#"false false false true false "0" "0""#),
        (disabled(&contract), NO_DELEGATIONS),
        (erc20.clone(), r#"false false false false false "1000" "0""#),
        (erc1155.clone(), r#"false false false false false "1000" "55""#),
        (erc721.clone(), r#"false false false false true "1000" "55""#),
        (with(&erc20, "amount", json!("0")), r#"false false false false true "0" "55""#),
        (disabled(&erc1155), r#"false false false false true "0" "0""#),
        (disabled(&erc721), NO_DELEGATIONS),
    ]
    .map(|(request, results)| (request, results.to_owned()))
    .into()
}

#[tokio::test]
async fn delegations_take_effect_until_revoked() {
    let registry = Registry::start().await;
    assert_eq!(checks(&registry).await, NO_DELEGATIONS);
    for (request, check_results) in steps() {
        registry.execute(&request).await;
        assert_eq!(checks(&registry).await, check_results, "{request}");
    }
}

#[tokio::test]
async fn mined_delegations_are_visible_before_the_next_poll() {
    let node = node_with_registry(2020).await;
    // The service polls the first block only.
    let service = start_service(&node.chain("ronin", RARELY)).await;
    service.wait_for_ok("/readyz").await;
    let registry = Registry { node, service };
    for enable in [true, false, true] {
        assert_eq!(registry.check("all", "").await, (!enable).to_string());
        let hash = registry.send(&request("delegate_all", json!({ "enable": enable }))).await;
        registry::wait_for_receipt(&registry.node, &hash).await;
        assert_eq!(registry.check("all", "").await, enable.to_string());
    }
}

#[tokio::test]
async fn checks_match_parties_contract_and_every_bit_of_token_and_rights() {
    let registry = Registry::start().await;
    let token = json!({ "contract": CONTRACT, "token_id": "7", "rights": "claim", "amount": 55 });
    registry.execute(&request("delegate_erc1155", token)).await;
    let contract = json!({ "contract": CONTRACT, "rights": "play" });
    registry.execute(&request("delegate_contract", contract)).await;
    let other = DELEGATE;
    for (scope, from, to, contract, query, expected) in [
        ("contract", VAULT, DELEGATE, CONTRACT, "rights=play", "true"),
        ("contract", DELEGATE, VAULT, CONTRACT, "rights=play", "false"),
        ("contract", VAULT, CONTRACT, CONTRACT, "rights=play", "false"),
        ("contract", VAULT, DELEGATE, other, "rights=play", "false"),
        ("contract", VAULT, DELEGATE, CONTRACT, "rights=Play", "false"),
        ("contract", VAULT, DELEGATE, CONTRACT, "rights=pla", "false"),
        ("contract", VAULT, DELEGATE, CONTRACT, "rights=", "false"),
        // A delegation of a contract includes its tokens.
        ("erc721", VAULT, DELEGATE, CONTRACT, "tokenId=9&rights=play", "true"),
        ("erc1155", VAULT, DELEGATE, CONTRACT, "tokenId=7&rights=claim", "\"55\""),
        ("erc1155", VAULT, DELEGATE, CONTRACT, "tokenId=8&rights=claim", "\"0\""),
        ("erc1155", VAULT, DELEGATE, other, "tokenId=7&rights=claim", "\"0\""),
        ("erc20", VAULT, DELEGATE, CONTRACT, "rights=claim", "\"0\""),
        ("erc721", VAULT, DELEGATE, CONTRACT, "tokenId=7&rights=claim", "false"),
    ] {
        let query = format!("from={from}&to={to}&contract={contract}&{query}");
        let found = registry.look_up(&format!("/registry/v2/check/{scope}?{query}")).await;
        assert_eq!(found, expected, "{scope}?{query}");
    }
    assert_eq!(registry.check("all", "&rights=play").await, "false");
    // The rights have 31 bytes, two of them for one character. Token and amount use all 256 bits.
    let rights = "all that the 31 bytes can ho\u{e4}d";
    assert_eq!(rights.len(), 31);
    let amount = &MAX.replace("935", "934");
    let token =
        json!({ "contract": CONTRACT, "token_id": MAX, "rights": rights, "amount": amount });
    registry.execute(&request("delegate_erc1155", token)).await;
    let percent = rights.replace(' ', "+").replace('\u{e4}', "%C3%A4");
    let bytes = format!("0x{}00", alloy_primitives::hex::encode(rights));
    for rights in [percent, bytes] {
        let token_only = format!("&contract={CONTRACT}&rights={rights}&tokenId=");
        let found = registry.check("erc1155", &format!("{token_only}{MAX}")).await;
        assert_eq!(found, format!("\"{amount}\""), "{rights}");
        let found = registry.check("erc1155", &format!("{token_only}{amount}")).await;
        assert_eq!(found, "\"0\"", "{rights}");
    }
}
