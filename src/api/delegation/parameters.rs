//! Parameters of look-ups and transactions. An invalid one is rejected by its name.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, U256, hex};
use percent_encoding::percent_decode_str;

use crate::address;
use crate::api::problem::{Problem, ProblemCode};

/// Parameters of a query. Names that no look-up has are ignored.
#[derive(Debug)]
pub(super) struct QueryParameters<'a>(Vec<(String, &'a str)>);

/// Names of the parameters of all look-ups.
const KNOWN_NAMES: [&str; 8] =
    ["from", "to", "contract", "tokenId", "chainId", "rights", "direction", "block"];

impl<'a> QueryParameters<'a> {
    /// Parses a query. Rejects a known name in another spelling (`chainid`, `chain_id`): ignoring it would change the
    /// question.
    pub(super) fn parse(query: Option<&'a str>) -> Result<Self, Problem> {
        let pairs = query.unwrap_or_default().split('&').filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((percent_decoded(name)?, value))
        });
        let parameters = Self(pairs.collect());
        let normalised = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
        for (name, _) in &parameters.0 {
            let canonical =
                KNOWN_NAMES.into_iter().find(|known| normalised(known) == normalised(name));
            if let Some(canonical) = canonical.filter(|meant| meant != name) {
                return Err(invalid_parameter(canonical, "must be spelled exactly like this"));
            }
        }
        Ok(parameters)
    }

    /// Returns the value of the parameter with this name, if present. A plus sign is a space.
    pub(super) fn optional(&self, name: &str) -> Result<Option<String>, Problem> {
        let mut values = self.0.iter().filter(|(known, _)| known == name);
        let Some((_, value)) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(invalid_parameter(name, "must be given once"));
        }
        percent_decoded(value).map(Some).ok_or_else(|| invalid_parameter(name, "must be UTF-8"))
    }

    /// Returns a required parameter, parsed with `parse`.
    pub(super) fn required<T>(
        &self,
        name: &'static str,
        parse: fn(&str, &str) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let value = self.optional(name)?.ok_or_else(|| invalid_parameter(name, "is required"))?;
        parse(name, &value)
    }
}

/// Decodes a name or a value of a query. `None`: not UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let with_spaces = text.replace('+', " ");
    percent_decode_str(&with_spaces).decode_utf8().map(Cow::into_owned).ok()
}

/// Returns the problem of an invalid parameter `name`.
pub(super) fn invalid_parameter(name: &str, requirement: impl std::fmt::Display) -> Problem {
    Problem::new(ProblemCode::InvalidParameter, format!("`{name}` {requirement}"))
}

pub(super) fn parse_address(name: &str, text: &str) -> Result<Address, Problem> {
    address::parse(text).map_err(|reason| invalid_parameter(name, reason))
}

/// Parses a decimal number of up to 256 bits.
pub(super) fn parse_number(name: &str, text: &str) -> Result<U256, Problem> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_decimal.then(|| U256::from_str_radix(text, 10).ok()).flatten();
    number.ok_or_else(|| invalid_parameter(name, "must be a decimal number from 0 to 2^256 - 1"))
}

/// Parses rights: 32 bytes in hex, or a string of up to 31 bytes, padded on the right. The empty string is 32 zero
/// bytes, as in a delegation of all rights.
pub(super) fn parse_rights(name: &str, text: &str) -> Result<B256, Problem> {
    const MAX_STRING_BYTES: usize = 31;
    if let Some(digits) = text.strip_prefix("0x") {
        let bytes = hex::decode(digits).ok().and_then(|bytes| B256::try_from(&*bytes).ok());
        return bytes.ok_or_else(|| invalid_parameter(name, "must have 64 hex digits after 0x"));
    }
    if text.len() > MAX_STRING_BYTES || text.contains(char::is_control) {
        return Err(invalid_parameter(
            name,
            "must be 0x and 64 hex digits, or a string of at most 31 bytes",
        ));
    }
    Ok(B256::right_padding_from(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_parameters_and_invalid_utf8_are_rejected() {
        let query = "a=1&b=%41+b%2B&c=1&c=2&d&e=%FF&=x&%61a=2&%FF=3";
        let parameters = QueryParameters::parse(Some(query)).unwrap();
        let value = |name| parameters.optional(name).map_err(|problem| problem.detail().to_owned());
        assert_eq!(value("a"), Ok(Some("1".into())));
        assert_eq!(value("b"), Ok(Some("A b+".into())));
        assert_eq!(value("c"), Err("`c` must be given once".into()));
        assert_eq!(value("d"), Ok(Some(String::new())));
        assert_eq!(value("e"), Err("`e` must be UTF-8".into()));
        assert_eq!(value("aa"), Ok(Some("2".into())));
        assert_eq!(value("f"), Ok(None));
        assert!(QueryParameters::parse(None).unwrap().optional("a").unwrap().is_none());
        let missing = parameters.required("f", parse_address).unwrap_err();
        assert_eq!(missing.detail(), "`f` is required");
    }

    #[test]
    fn misspelt_parameter_names_are_rejected() {
        for name in ["chainid", "chain_id", "ChainId", "CHAIN-ID", "%63hainid"] {
            let problem = QueryParameters::parse(Some(&format!("a=1&{name}=5"))).unwrap_err();
            assert_eq!(problem.detail(), "`chainId` must be spelled exactly like this", "{name}");
        }
        assert!(QueryParameters::parse(Some("chainId=5&chain=6&token=7&_=8")).is_ok());
    }

    #[test]
    fn rights_are_32_bytes_or_a_short_string() {
        let claim = format!("0x636c61696d{}", "0".repeat(54));
        assert_eq!(parse_rights("rights", "claim").unwrap().to_string(), claim);
        assert_eq!(parse_rights("rights", &claim).unwrap().to_string(), claim);
        assert_eq!(parse_rights("rights", "").unwrap(), B256::ZERO);
        assert!(parse_rights("rights", &"a".repeat(31)).is_ok());
        // 31 bytes, not 31 characters.
        assert!(parse_rights("rights", &"\u{e4}".repeat(15)).is_ok());
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
        ] {
            assert!(parse_rights("rights", text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_decimal_and_fit_in_256_bits() {
        assert_eq!(parse_number("n", &U256::MAX.to_string()).unwrap(), U256::MAX);
        assert_eq!(parse_number("n", "007").unwrap(), U256::from(7));
        let too_large = format!("{}0", U256::MAX);
        for text in ["", "-1", "+1", "1.0", "1e3", "0x7", " 7", "\u{661}", "1_000", &too_large] {
            assert!(parse_number("n", text).is_err(), "{text}");
        }
    }
}
