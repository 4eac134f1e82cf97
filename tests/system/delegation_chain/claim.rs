//! `docs/examples/Claim.sol`, a contract in which hot wallets claim for vaults.

use serde_json::json;

use super::run_client;
use crate::registry::{CONTRACT, DELEGATE, Registry, VAULT, request};

/// Anvil's third account.
const OTHER: &str = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";

#[tokio::test]
async fn callers_claim_for_themselves_or_for_a_vault_until_revocation() {
    let registry = Registry::start().await;
    let node = registry.node.url();
    let deployed = run_client(&["deploy-claim", &node]).await;
    let contract = deployed["address"].as_str().unwrap();
    let claim = async |caller, vault| run_client(&["claim", &node, contract, caller, vault]).await;
    let delegation = |contract: &str, rights: &str| {
        request("delegate_contract", json!({ "contract": contract, "rights": rights }))
    };
    let claimed = |account: &str| json!({ "claimed": true, "for": account });
    let refused = |reason: &str| json!({ "claimed": false, "reason": reason });
    // A delegation with other rights or for another contract is not enough.
    registry.execute(&delegation(contract, "play")).await;
    registry.execute(&delegation(CONTRACT, "claim")).await;
    let does_not_exist = refused("delegation does not exist");
    assert_eq!(claim(DELEGATE, VAULT).await, does_not_exist);
    let right = format!("&contract={contract}&rights=claim");
    assert_eq!(registry.check("contract", &right).await, "false");

    let own = delegation(contract, "claim");
    registry.execute(&own).await;
    assert_eq!(registry.check("contract", &right).await, "true");
    assert_eq!(claim(DELEGATE, VAULT).await, claimed(VAULT));
    assert_eq!(claim(DELEGATE, VAULT).await, refused("already claimed"));

    let mut revocation = own;
    revocation["enable"] = json!(false);
    registry.execute(&revocation).await;
    assert_eq!(registry.check("contract", &right).await, "false");
    assert_eq!(claim(DELEGATE, VAULT).await, does_not_exist);
    for (caller, vault) in [(OTHER, "0x0"), (DELEGATE, DELEGATE)] {
        assert_eq!(claim(caller, vault).await, claimed(caller));
    }
}
