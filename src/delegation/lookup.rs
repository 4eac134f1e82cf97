//! What can be asked about delegations.

use alloy_primitives::Address;

use crate::registry::{Check, Direction};

/// A question about delegations on one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lookup {
    pub(crate) chain_id: u64,
    pub(crate) question: Question,
    pub(crate) block: Block,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    /// The delegations to and from an address; `None`: in both directions.
    List { address: Address, direction: Option<Direction> },
    /// Whether one address may act for another.
    Check(Check),
}

/// The state that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    Latest,
    /// With what is pre-confirmed, which the chain alone knows.
    Pending,
}

impl Block {
    /// As a block tag of JSON-RPC.
    pub(super) const fn tag(self) -> &'static str {
        match self {
            Self::Latest => "latest",
            Self::Pending => "pending",
        }
    }
}

impl Lookup {
    /// What the REST API is asked, a path and a query. Two look-ups that ask for the same have the same;
    /// the API knows no directions.
    pub(super) fn request(&self) -> (String, String) {
        let chain_id = self.chain_id;
        let (below, query) = match &self.question {
            Question::List { address, .. } => (address.to_string(), format!("chainId={chain_id}")),
            Question::Check(Check { to, from, rights, scope }) => {
                let mut query = format!("to={to}&from={from}&chainId={chain_id}");
                let more = [
                    ("contract", scope.contract().map(|contract| contract.to_string())),
                    ("tokenId", scope.token_id().map(|token_id| token_id.to_string())),
                    ("rights", (!rights.is_zero()).then(|| rights.to_string())),
                ];
                for (name, value) in more {
                    query.extend(value.iter().flat_map(|value| ["&", name, "=", value]));
                }
                (format!("check/{}", scope.name()), query)
            }
        };
        (format!("registry/v2/{below}"), query)
    }
}
