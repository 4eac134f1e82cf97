//! ABI of the on-chain delegation registry: calldata of look-ups, and decoding of return data. Pure.
//!
//! A delegation lets a hot wallet (`to`) act for a vault (`from`): in everything, for one contract, for one token, or
//! for an amount of a token. Source: the network document's section 4.5, and version 2 of delegate.xyz's registry for
//! the functions.

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::{SolCall, sol};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use IDelegateRegistry as Registry;

sol! {
    interface IDelegateRegistry {
        #[derive(Debug)]
        struct Delegation {
            uint8 type_;
            address to;
            address from;
            bytes32 rights;
            address contract_;
            uint256 tokenId;
            uint256 amount;
        }

        function checkDelegateForAll(address to, address from, bytes32 rights) external view returns (bool);
        function checkDelegateForContract(address to, address from, address contract_, bytes32 rights) external view returns (bool);
        function checkDelegateForERC721(address to, address from, address contract_, uint256 tokenId, bytes32 rights) external view returns (bool);
        function checkDelegateForERC20(address to, address from, address contract_, bytes32 rights) external view returns (uint256);
        function checkDelegateForERC1155(address to, address from, address contract_, uint256 tokenId, bytes32 rights) external view returns (uint256);

        function getIncomingDelegations(address to) external view returns (Delegation[] memory);
        function getOutgoingDelegations(address from) external view returns (Delegation[] memory);
    }
}

/// Check whether `to` may act for `from`. Rights of zero match delegations of all rights only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) rights: B256,
    pub(crate) scope: CheckScope,
}

/// Scope of a check. Converts into its name in the REST API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum CheckScope {
    All,
    Contract { contract: Address },
    Erc721 { contract: Address, token_id: U256 },
    Erc20 { contract: Address },
    Erc1155 { contract: Address, token_id: U256 },
}

// Direction of listed delegations. A description here would be in the OpenAPI document beside that of the parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// To the address.
    Incoming,
    /// From the address.
    Outgoing,
}

/// An existing delegation in the format of the REST API: addresses with checksum, rights as hex bytes, amounts and
/// token ids as decimal strings; `null` if the type has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delegation {
    r#type: DelegationType,
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
//
// In the order of the contract's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema, strum::FromRepr)]
#[serde(rename_all = "UPPERCASE")]
#[repr(u8)]
enum DelegationType {
    None,
    All,
    Contract,
    Erc721,
    Erc20,
    Erc1155,
}

/// Reason why the registry has no answer. Displays as the detail for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegistryError {
    #[error("this chain has no contract at the registry address")]
    NoContract,
    /// The contract reverted, or returned malformed data.
    #[error("the contract at the registry address is not a delegation registry")]
    Invalid,
    #[error("the chain's node returned an invalid response")]
    InvalidResponse,
    #[error("the chain's node ran out of gas in the call of the registry")]
    OutOfGas,
    #[error("the chain's response is too large")]
    TooLarge,
    #[error(
        "the address has more than 10,000 delegations, or too many for the chain's node; use the checks, or read the \
         registry contract directly"
    )]
    TooManyDelegations,
}

impl Check {
    /// Returns the calldata of the check.
    pub(crate) fn calldata(&self) -> Vec<u8> {
        let &Self { to, from, rights, scope } = self;
        match scope {
            CheckScope::All => Registry::checkDelegateForAllCall { to, from, rights }.abi_encode(),
            CheckScope::Contract { contract } => {
                Registry::checkDelegateForContractCall { to, from, contract_: contract, rights }
                    .abi_encode()
            }
            CheckScope::Erc721 { contract, token_id } => Registry::checkDelegateForERC721Call {
                to,
                from,
                contract_: contract,
                tokenId: token_id,
                rights,
            }
            .abi_encode(),
            CheckScope::Erc20 { contract } => {
                Registry::checkDelegateForERC20Call { to, from, contract_: contract, rights }
                    .abi_encode()
            }
            CheckScope::Erc1155 { contract, token_id } => Registry::checkDelegateForERC1155Call {
                to,
                from,
                contract_: contract,
                tokenId: token_id,
                rights,
            }
            .abi_encode(),
        }
    }

    /// Decodes the return data of the check into the JSON of the REST API: a boolean, or the amount in the token's smallest
    /// unit, which is unlimited if the whole contract is delegated.
    pub(crate) fn decode_result(&self, returned: &[u8]) -> Result<Value, RegistryError> {
        Ok(if self.scope.has_amount() {
            decode_strict::<Registry::checkDelegateForERC20Call>(returned)?.to_string().into()
        } else {
            decode_strict::<Registry::checkDelegateForAllCall>(returned)?.into()
        })
    }
}

impl CheckScope {
    /// Returns the contract, if the scope has one.
    pub(crate) fn contract(self) -> Option<Address> {
        match self {
            Self::All => None,
            Self::Contract { contract }
            | Self::Erc721 { contract, .. }
            | Self::Erc20 { contract }
            | Self::Erc1155 { contract, .. } => Some(contract),
        }
    }

    /// Returns the token id, if the scope has one.
    pub(crate) fn token_id(self) -> Option<U256> {
        match self {
            Self::Erc721 { token_id, .. } | Self::Erc1155 { token_id, .. } => Some(token_id),
            Self::All | Self::Contract { .. } | Self::Erc20 { .. } => None,
        }
    }

    /// Returns true if the result is an amount rather than a boolean.
    pub(crate) fn has_amount(self) -> bool {
        matches!(self, Self::Erc20 { .. } | Self::Erc1155 { .. })
    }
}

impl Direction {
    /// Returns the calldata that lists the delegations of `address`.
    pub(crate) fn calldata(self, address: Address) -> Vec<u8> {
        match self {
            Self::Incoming => Registry::getIncomingDelegationsCall { to: address }.abi_encode(),
            Self::Outgoing => Registry::getOutgoingDelegationsCall { from: address }.abi_encode(),
        }
    }
}

impl Delegation {
    /// Returns true if an address delegates to itself. Such a delegation is in both lists.
    pub(crate) fn is_self_delegation(&self) -> bool {
        self.from == self.to
    }

    /// Decodes the return data of a list.
    pub(crate) fn decode_list(returned: &[u8]) -> Result<Vec<Self>, RegistryError> {
        // All lists have the same encoding.
        let delegations = decode_strict::<Registry::getIncomingDelegationsCall>(returned)?;
        delegations.iter().map(Self::from_abi).collect()
    }

    fn from_abi(entry: &Registry::Delegation) -> Result<Self, RegistryError> {
        let kind = DelegationType::from_repr(entry.type_).ok_or(RegistryError::Invalid)?;
        let has_contract = !matches!(kind, DelegationType::None | DelegationType::All);
        let has_token_id = matches!(kind, DelegationType::Erc721 | DelegationType::Erc1155);
        let has_amount = matches!(kind, DelegationType::Erc20 | DelegationType::Erc1155);
        Ok(Self {
            r#type: kind,
            from: entry.from.to_string(),
            to: entry.to.to_string(),
            contract: has_contract.then(|| entry.contract_.to_string()),
            token_id: has_token_id.then(|| entry.tokenId.to_string()),
            rights: entry.rights.to_string(),
            amount: has_amount.then(|| entry.amount.to_string()),
        })
    }
}

fn decode_strict<C: SolCall>(returned: &[u8]) -> Result<C::Return, RegistryError> {
    if returned.is_empty() {
        return Err(RegistryError::NoContract);
    }
    let value = C::abi_decode_returns_validate(returned).map_err(|_| RegistryError::Invalid)?;
    // Zero words also decode as an empty list, but no registry encodes one like that.
    if C::abi_encode_returns(&value) == returned { Ok(value) } else { Err(RegistryError::Invalid) }
}

#[cfg(test)]
mod tests;
