//! A contract in which hot wallets claim for vaults, `docs/examples/Claim.sol`.

use serde_json::{Value, json};

use super::application;
use crate::registry::{CONTRACT, DELEGATE, Registry, VAULT, request};

/// The example where it was deployed.
struct Claim {
    registry: Registry,
    address: String,
}

impl Claim {
    async fn deploy() -> Self {
        let registry = Registry::start().await;
        let deployed = application(&["deploy-claim", &registry.node.url()]).await;
        let address = deployed["address"].as_str().unwrap().to_owned();
        Self { registry, address }
    }

    async fn claim(&self, caller: &str, vault: &str) -> Value {
        application(&["claim", &self.registry.node.url(), &self.address, caller, vault]).await
    }
}

#[tokio::test]
async fn whoever_names_no_vault_or_itself_claims_for_itself() {
    let claim = Claim::deploy().await;
    for (caller, vault) in [(VAULT, "0x0"), (DELEGATE, DELEGATE)] {
        assert_eq!(claim.claim(caller, vault).await, json!({ "claimed": true, "for": caller }));
    }
}

#[tokio::test]
async fn a_delegate_claims_for_the_vault_while_the_delegation_stands() {
    let claim = Claim::deploy().await;
    let of = |contract: &str, rights: &str| {
        request("delegate_contract", json!({ "contract": contract, "rights": rights }))
    };
    let refused = |reason: &str| json!({ "claimed": false, "reason": reason });
    let own = of(&claim.address, "claim");
    // Neither other rights nor another contract.
    claim.registry.give(&of(&claim.address, "play")).await;
    claim.registry.give(&of(CONTRACT, "claim")).await;
    let does_not_exist = refused("delegation does not exist");
    assert_eq!(claim.claim(DELEGATE, VAULT).await, does_not_exist);
    let right = format!("&contract={}&rights=claim", claim.address);
    assert_eq!(claim.registry.check("contract", &right).await, "false");

    claim.registry.give(&own).await;
    assert_eq!(claim.registry.check("contract", &right).await, "true");
    assert_eq!(claim.claim(DELEGATE, VAULT).await, json!({ "claimed": true, "for": VAULT }));
    assert_eq!(claim.claim(DELEGATE, VAULT).await, refused("already claimed"));

    let mut back = own;
    back["enable"] = json!(false);
    claim.registry.give(&back).await;
    assert_eq!(claim.registry.check("contract", &right).await, "false");
    assert_eq!(claim.claim(DELEGATE, VAULT).await, does_not_exist);
}
