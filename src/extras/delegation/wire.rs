//! Delegations in the format of the REST API.

use alloy_primitives::U256;
use serde::Serialize;
use utoipa::ToSchema;

use super::registry;

/// An existing delegation in the format of the REST API: addresses with checksum, rights as hex bytes, amounts and
/// token ids as decimal strings; `null` if the type has none.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delegation)]
pub(crate) struct DelegationBody {
    #[serde(with = "DelegationType")]
    #[schema(value_type = DelegationType)]
    r#type: registry::DelegationType,
    /// The vault.
    #[schema(pattern = "^0x[0-9a-fA-F]{40}$")]
    from: String,
    /// The hot wallet.
    #[schema(pattern = "^0x[0-9a-fA-F]{40}$")]
    to: String,
    #[schema(required, pattern = "^0x[0-9a-fA-F]{40}$")]
    contract: Option<String>,
    #[schema(required, pattern = "^[0-9]+$")]
    token_id: Option<String>,
    #[schema(pattern = "^0x[0-9a-fA-F]{64}$")]
    rights: String,
    #[schema(required, pattern = "^[0-9]+$")]
    amount: Option<String>,
}

/// Kind of delegation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(remote = "registry::DelegationType", rename_all = "UPPERCASE")]
enum DelegationType {
    None,
    All,
    Contract,
    Erc721,
    Erc20,
    Erc1155,
}

impl From<&registry::Delegation> for DelegationBody {
    fn from(delegation: &registry::Delegation) -> Self {
        let decimal = |number: Option<U256>| number.map(|number| number.to_string());
        Self {
            r#type: delegation.kind,
            from: delegation.from.to_string(),
            to: delegation.to.to_string(),
            contract: delegation.contract.map(|contract| contract.to_string()),
            token_id: decimal(delegation.token_id),
            rights: delegation.rights.to_string(),
            amount: decimal(delegation.amount),
        }
    }
}
