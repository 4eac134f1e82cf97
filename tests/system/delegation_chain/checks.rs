//! Results of checks. `queued.rs` has each kind of delegation, given and revoked.

use serde_json::json;

use super::{node_with_registry, start_service};
use crate::delegation_service::RARELY;
use crate::registry::{self, CONTRACT, DELEGATE, MAX, Registry, VAULT, request};

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
