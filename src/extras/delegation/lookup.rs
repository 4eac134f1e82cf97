//! Parameters of a look-up, and its request to the REST API.

use alloy_primitives::Address;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::registry::{Check, Direction};

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
    /// Check whether one address may act for another, or for which amount of a token.
    Check(Check),
}

/// Block whose state a look-up reads.
//
// Serialises as the block tag of JSON-RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LookupBlock {
    Latest,
    /// Including pre-confirmed transactions. Only a node can answer this, not the API.
    Pending,
}

impl DelegationLookup {
    /// Returns the key of the API's response in the cache.
    pub(crate) fn cache_key(&self) -> String {
        let (path, query) = self.path_and_query();
        format!("{path}?{query}")
    }

    /// Returns path and query of the request to the REST API. The direction is not part of them: the API always returns
    /// both, so look-ups in different directions share a response.
    pub(crate) fn path_and_query(&self) -> (String, String) {
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
                (format!("check/{}", <&str>::from(scope)), query)
            }
        };
        (format!("registry/v2/{subpath}"), query)
    }
}
