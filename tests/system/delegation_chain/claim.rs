//! `docs/examples/Claim.sol`, a contract in which hot wallets claim for vaults.

use serde_json::{Value, json};

use super::run_client;
use crate::registry::{CONTRACT, DELEGATE, Registry, VAULT, request};

struct Claim {
    registry: Registry,
    address: String,
}

impl Claim {
    async fn deploy() -> Self {
        let registry = Registry::start().await;
        let deployed = run_client(&["deploy-claim", &registry.node.url()]).await;
        let address = deployed["address"].as_str().unwrap().to_owned();
        Self { registry, address }
    }

    async fn claim(&self, caller: &str, vault: &str) -> Value {
        run_client(&["claim", &self.registry.node.url(), &self.address, caller, vault]).await
    }
}

#[tokio::test]
async fn callers_without_a_vault_claim_for_themselves() {
    let claim = Claim::deploy().await;
    for (caller, vault) in [(VAULT, "0x0"), (DELEGATE, DELEGATE)] {
        assert_eq!(claim.claim(caller, vault).await, json!({ "claimed": true, "for": caller }));
    }
}

#[tokio::test]
async fn delegate_claims_for_the_vault_until_revocation() {
    let claim = Claim::deploy().await;
    let delegation = |contract: &str, rights: &str| {
        request("delegate_contract", json!({ "contract": contract, "rights": rights }))
    };
    let refused = |reason: &str| json!({ "claimed": false, "reason": reason });
    let own = delegation(&claim.address, "claim");
    // A delegation with other rights or for another contract is not enough.
    claim.registry.execute(&delegation(&claim.address, "play")).await;
    claim.registry.execute(&delegation(CONTRACT, "claim")).await;
    let does_not_exist = refused("delegation does not exist");
    assert_eq!(claim.claim(DELEGATE, VAULT).await, does_not_exist);
    let right = format!("&contract={}&rights=claim", claim.address);
    assert_eq!(claim.registry.check("contract", &right).await, "false");

    claim.registry.execute(&own).await;
    assert_eq!(claim.registry.check("contract", &right).await, "true");
    assert_eq!(claim.claim(DELEGATE, VAULT).await, json!({ "claimed": true, "for": VAULT }));
    assert_eq!(claim.claim(DELEGATE, VAULT).await, refused("already claimed"));

    let mut revocation = own;
    revocation["enable"] = json!(false);
    claim.registry.execute(&revocation).await;
    assert_eq!(claim.registry.check("contract", &right).await, "false");
    assert_eq!(claim.claim(DELEGATE, VAULT).await, does_not_exist);
}
