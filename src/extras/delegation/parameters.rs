//! Parameters of look-ups: each type is the parser and the description.

use std::borrow::Cow;

use alloy_primitives::{B256, U256, hex};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::address::AddressText;
use super::lookup::LookupBlock;
use super::registry::Direction;
use crate::config::parse_hex_chain_id;
use crate::fees::amount::parse_digits;

/// Examples: the first two accounts of Hardhat's and Anvil's test networks.
pub(crate) const VAULT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
pub(crate) const DELEGATE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// Parameters of every look-up.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LookupQuery {
    /// The chain id. Default: the lowest configured one.
    #[serde(rename = "chainId")]
    #[param(value_type = Option<u64>)]
    pub(crate) chain_id: Option<ChainId>,
    /// The state to read: `pending` includes pre-confirmed delegations, read from the chain.
    #[param(inline)]
    pub(crate) block: Option<LookupBlock>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Delegations to the address (`incoming`) or from it (`outgoing`). Default: both.
    #[param(inline)]
    pub(crate) direction: Option<Direction>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CheckQuery {
    /// The vault.
    #[param(example = json!(VAULT))]
    pub(crate) from: AddressText,
    /// The hot wallet.
    #[param(example = json!(DELEGATE))]
    pub(crate) to: AddressText,
    /// The rights to check; a delegation of all rights includes them.
    pub(crate) rights: Option<Rights>,
}

/// The same with the other names that delegate.xyz documents for one of its checks.
#[derive(Debug, Deserialize)]
pub(crate) struct RenamedCheckQuery {
    #[serde(alias = "vault")]
    pub(crate) from: AddressText,
    #[serde(alias = "delegate")]
    pub(crate) to: AddressText,
    pub(crate) rights: Option<Rights>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ContractQuery {
    /// The contract to check.
    #[param(example = json!(VAULT))]
    pub(crate) contract: AddressText,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TokenQuery {
    /// The token to check.
    #[serde(rename = "tokenId")]
    #[param(example = "1")]
    pub(crate) token_id: Uint256,
}

/// A chain id, decimal or `0x` and hex digits.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub(crate) struct ChainId(pub(crate) u64);

impl TryFrom<Cow<'_, str>> for ChainId {
    type Error = &'static str;

    fn try_from(text: Cow<'_, str>) -> Result<Self, &'static str> {
        let id = parse_digits(&text).or_else(|| parse_hex_chain_id(&text));
        id.map(Self).ok_or("must be a chain id, decimal or 0x and hex digits")
    }
}

/// The rights: 32 bytes in hex, or a string of at most 31 bytes. Empty: all rights.
//
// A string is padded on the right. The empty one is 32 zero bytes, as in a delegation of all rights.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(try_from = "Cow<'_, str>")]
#[schema(
    value_type = String,
    pattern = "^(0x[0-9a-fA-F]{64}|(?!0x)[^\\u0000-\\u001f\\u007f-\\u009f]{0,31})$",
    format = "rights",
    examples("claim")
)]
pub(crate) struct Rights(pub(crate) B256);

impl TryFrom<Cow<'_, str>> for Rights {
    type Error = &'static str;

    fn try_from(text: Cow<'_, str>) -> Result<Self, &'static str> {
        const MAX_STRING_BYTES: usize = 31;
        if let Some(digits) = text.strip_prefix("0x") {
            let bytes = hex::decode(digits).ok().and_then(|bytes| B256::try_from(&*bytes).ok());
            return bytes.map(Self).ok_or("must have 64 hex digits after 0x");
        }
        if text.len() > MAX_STRING_BYTES || text.contains(char::is_control) {
            return Err("must be 0x and 64 hex digits, or a string of at most 31 bytes");
        }
        Ok(Self(B256::right_padding_from(text.as_bytes())))
    }
}

/// A number from 0 to 2^256 - 1, as a decimal string.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(try_from = "Cow<'_, str>")]
#[schema(value_type = String, pattern = "^[0-9]+$", format = "uint256", examples("1000000000000000000"))]
pub(crate) struct Uint256(pub(crate) U256);

impl TryFrom<Cow<'_, str>> for Uint256 {
    type Error = &'static str;

    fn try_from(text: Cow<'_, str>) -> Result<Self, &'static str> {
        let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_decimal.then(|| U256::from_str_radix(&text, 10).ok()).flatten();
        number.map(Self).ok_or("must be a decimal number from 0 to 2^256 - 1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_32_bytes_or_a_short_string() {
        let parse = |text: &str| Rights::try_from(Cow::Borrowed(text)).map(|Rights(bytes)| bytes);
        let claim = format!("0x636c61696d{}", "0".repeat(54));
        assert_eq!(parse("claim").unwrap().to_string(), claim);
        assert_eq!(parse(&claim).unwrap().to_string(), claim);
        assert_eq!(parse("").unwrap(), B256::ZERO);
        assert!(parse(&"a".repeat(31)).is_ok());
        // 31 bytes, not 31 characters.
        assert!(parse(&"\u{e4}".repeat(15)).is_ok());
        for text in [
            &"a".repeat(32),
            &"\u{e4}".repeat(16),
            &"a".repeat(1000),
            "0x",
            "0xclaim",
            &claim[..64],
            &format!("{claim}00"),
            &format!("0x{}", &claim[..64]),
            "a\0",
            "a\n",
            &format!("{}g", &claim[..65]),
            &claim[2..],
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn chain_ids_are_decimal_or_hex() {
        let parse = |text: &str| ChainId::try_from(Cow::Borrowed(text)).map(|ChainId(id)| id);
        for (text, id) in [("2020", 2020), ("0x7e4", 2020), ("0x7E4", 2020), ("007", 7)] {
            assert_eq!(parse(text), Ok(id), "{text}");
        }
        for text in [
            "",
            "0x",
            "-1",
            "+1",
            "0x+1",
            "1.0",
            "7e4",
            " 7",
            "7 ",
            "\u{661}",
            "18446744073709551616",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_decimal_and_fit_in_256_bits() {
        let parse =
            |text: &str| Uint256::try_from(Cow::Borrowed(text)).map(|Uint256(number)| number);
        assert_eq!(parse(&U256::MAX.to_string()), Ok(U256::MAX));
        assert_eq!(parse("007"), Ok(U256::from(7)));
        let too_large = format!("{}0", U256::MAX);
        for text in ["", "-1", "+1", "1.0", "1e3", "0x7", " 7", "\u{661}", "1_000", &too_large] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
