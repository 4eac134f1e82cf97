//! ABI of the on-chain delegation registry: calldata of look-ups, and decoding of return data. Pure.
//!
//! A delegation lets a hot wallet (`to`) act for a vault (`from`): in everything, for one contract, for one token, or
//! for an amount of a token. Source: the network document's section 4.5, and version 2 of delegate.xyz's registry for
//! the functions.

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::extras::reads::abi;

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
        let signature = match self.scope {
            CheckScope::All => "checkDelegateForAll(address,address,bytes32)",
            CheckScope::Contract { .. } => {
                "checkDelegateForContract(address,address,address,bytes32)"
            }
            CheckScope::Erc721 { .. } => {
                "checkDelegateForERC721(address,address,address,uint256,bytes32)"
            }
            CheckScope::Erc20 { .. } => "checkDelegateForERC20(address,address,address,bytes32)",
            CheckScope::Erc1155 { .. } => {
                "checkDelegateForERC1155(address,address,address,uint256,bytes32)"
            }
        };
        let addresses = [Some(self.to), Some(self.from), self.scope.contract()];
        let mut words: Vec<B256> =
            addresses.into_iter().flatten().map(|address| address.into_word()).collect();
        words.extend(self.scope.token_id().map(B256::from));
        words.push(self.rights);
        abi::call(signature, &words)
    }

    /// Decodes the return data of the check into the JSON of the REST API: a boolean, or the amount in the token's smallest
    /// unit, which is unlimited if the whole contract is delegated.
    pub(crate) fn decode_result(&self, returned: &[u8]) -> Result<Value, RegistryError> {
        let [word] = words(returned)? else { return Err(RegistryError::Invalid) };
        let result = U256::from_be_bytes(*word);
        match u8::try_from(result) {
            _ if self.scope.has_amount() => Ok(result.to_string().into()),
            Ok(0) => Ok(false.into()),
            Ok(1) => Ok(true.into()),
            _ => Err(RegistryError::Invalid),
        }
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
        let signature = match self {
            Self::Incoming => "getIncomingDelegations(address)",
            Self::Outgoing => "getOutgoingDelegations(address)",
        };
        abi::call(signature, &[address.into_word()])
    }
}

impl Delegation {
    /// Returns true if an address delegates to itself. Such a delegation is in both lists.
    pub(crate) fn is_self_delegation(&self) -> bool {
        self.from == self.to
    }

    /// Decodes the return data of a list.
    pub(crate) fn decode_list(returned: &[u8]) -> Result<Vec<Self>, RegistryError> {
        let [offset, length, entries @ ..] = words(returned)? else {
            return Err(RegistryError::Invalid);
        };
        let (entries, rest) = entries.as_chunks();
        let is_list = U256::from_be_bytes(*offset) == U256::from(size_of_val(offset))
            && U256::from_be_bytes(*length) == U256::from(entries.len());
        let delegations: Option<_> = entries.iter().map(Self::from_words).collect();
        delegations.filter(|_| is_list && rest.is_empty()).ok_or(RegistryError::Invalid)
    }

    fn from_words(entry: &[[u8; 32]; 7]) -> Option<Self> {
        let [kind, to, from, rights, contract, token_id, amount] = *entry;
        let address = |word: [u8; 32]| {
            let address = Address::from_word(word.into());
            (address.into_word() == word).then(|| address.to_string())
        };
        let number = |word| U256::from_be_bytes(word).to_string();
        let contract = address(contract)?;
        let kind = DelegationType::from_repr(U256::from_be_bytes(kind).try_into().ok()?)?;
        let has_contract = !matches!(kind, DelegationType::None | DelegationType::All);
        let has_token_id = matches!(kind, DelegationType::Erc721 | DelegationType::Erc1155);
        let has_amount = matches!(kind, DelegationType::Erc20 | DelegationType::Erc1155);
        Some(Self {
            r#type: kind,
            from: address(from)?,
            to: address(to)?,
            contract: has_contract.then_some(contract),
            token_id: has_token_id.then(|| number(token_id)),
            rights: B256::from(rights).to_string(),
            amount: has_amount.then(|| number(amount)),
        })
    }
}

/// Returns the words of return data, which has at least one.
fn words(returned: &[u8]) -> Result<&[[u8; 32]], RegistryError> {
    match returned.as_chunks() {
        ([], []) => Err(RegistryError::NoContract),
        (words, []) => Ok(words),
        _ => Err(RegistryError::Invalid),
    }
}

#[cfg(test)]
mod tests;
