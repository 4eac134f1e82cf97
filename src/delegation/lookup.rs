//! Delegation look-ups.

use alloy_primitives::Address;

use crate::delegation_registry::{Check, Direction};

/// A look-up on one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DelegationLookup {
    pub(crate) chain_id: u64,
    pub(crate) kind: LookupKind,
    pub(crate) block: LookupBlock,
}

/// Kind of look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LookupKind {
    /// The delegations to and from an address; `None`: in both directions.
    List { address: Address, direction: Option<Direction> },
    /// True if one address may act for another.
    Check(Check),
}

/// The state that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookupBlock {
    Latest,
    /// Including pre-confirmed transactions. Only a node can answer this, not the API.
    Pending,
}

impl LookupBlock {
    /// As a block tag of JSON-RPC.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Latest => "latest",
            Self::Pending => "pending",
        }
    }
}

impl DelegationLookup {
    /// Path and query of the REST API. Identical look-ups have the same; the API has no directions.
    pub(super) fn path_and_query(&self) -> (String, String) {
        let chain_id = self.chain_id;
        let (subpath, query) = match &self.kind {
            LookupKind::List { address, .. } => {
                (address.to_string(), format!("chainId={chain_id}"))
            }
            LookupKind::Check(Check { to, from, rights, scope }) => {
                let mut query = format!("to={to}&from={from}&chainId={chain_id}");
                let optional = [
                    ("contract", scope.contract().map(|contract| contract.to_string())),
                    ("tokenId", scope.token_id().map(|token_id| token_id.to_string())),
                    ("rights", (!rights.is_zero()).then(|| rights.to_string())),
                ];
                for (name, value) in optional {
                    query.extend(value.iter().flat_map(|value| ["&", name, "=", value]));
                }
                (format!("check/{}", scope.name()), query)
            }
        };
        (format!("registry/v2/{subpath}"), query)
    }
}
