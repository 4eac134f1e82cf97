//! Parameters of fees, look-ups and transactions. An invalid one is rejected by its name.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, U256, hex};
use percent_encoding::percent_decode_str;

use super::problem::{Problem, ProblemCode};
use crate::config::parse_hex_chain_id;
use crate::http::address;

/// Named values of a query or a body.
#[derive(Debug)]
pub(crate) struct Parameters(pub(crate) Vec<(String, String)>);

impl Parameters {
    /// More than any route has.
    const MAX_PARAMETERS: usize = 32;

    /// Parses a query. A plus sign is a space. Rejects a value that is not UTF-8, and more than
    /// [`MAX_PARAMETERS`](Self::MAX_PARAMETERS).
    pub(crate) fn from_query(query: Option<&str>) -> Result<Self, Problem> {
        let pairs = query.unwrap_or_default().split('&');
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let pairs = pairs.filter(|(name, _)| !name.is_empty());
        let mut parameters = Vec::new();
        for (index, (name, value)) in pairs.enumerate() {
            if index == Self::MAX_PARAMETERS {
                let detail = format!("a query may have at most {index} parameters");
                return Err(Problem::new(ProblemCode::InvalidParameter, detail));
            }
            let Some(name) = percent_decoded(name) else { continue };
            match percent_decoded(value) {
                Some(value) => parameters.push((name, value)),
                None => return Err(invalid_parameter(&name, "must be UTF-8")),
            }
        }
        Ok(Self(parameters))
    }

    /// Returns true if there is a value with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Returns the value with this name, if present, parsed with `parse`.
    pub(crate) fn optional<T>(
        &self,
        name: &str,
        parse: impl Fn(&str, &str) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        let mut values = self.0.iter().filter(|(known, _)| known == name);
        let Some((_, value)) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(invalid_parameter(name, "must be given once"));
        }
        parse(name, value).map(Some)
    }

    /// Returns the value with this name, parsed with `parse`.
    pub(crate) fn required<T>(
        &self,
        name: &str,
        parse: impl Fn(&str, &str) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.optional(name, parse)?.ok_or_else(|| invalid_parameter(name, "is required"))
    }

    /// Returns the value called `name` or, if there is one, `other_name`.
    pub(crate) fn required_as<T>(
        &self,
        name: &str,
        other_name: Option<&str>,
        parse: impl Fn(&str, &str) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        match other_name.filter(|other| self.has(other)) {
            Some(other) if self.has(name) => {
                Err(invalid_parameter(other, format_args!("means `{name}`; give only one of them")))
            }
            other => self.required(other.unwrap_or(name), parse),
        }
    }
}

/// Decodes a name or a value of a query. `None`: not UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let with_spaces = text.replace('+', " ");
    percent_decode_str(&with_spaces).decode_utf8().map(Cow::into_owned).ok()
}

/// Returns the problem of an invalid parameter `name`.
pub(crate) fn invalid_parameter(name: &str, requirement: impl std::fmt::Display) -> Problem {
    Problem::new(ProblemCode::InvalidParameter, format!("`{name}` {requirement}"))
}

pub(crate) fn parse_address(name: &str, text: &str) -> Result<Address, Problem> {
    address::parse(text).map_err(|reason| invalid_parameter(name, reason))
}

/// Parses a decimal number of up to 256 bits.
pub(crate) fn parse_number(name: &str, text: &str) -> Result<U256, Problem> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_decimal.then(|| U256::from_str_radix(text, 10).ok()).flatten();
    number.ok_or_else(|| invalid_parameter(name, "must be a decimal number from 0 to 2^256 - 1"))
}

/// Parses a decimal amount of wei that fits in 128 bits.
pub(crate) fn parse_wei(name: &str, text: &str) -> Result<u128, Problem> {
    let amount = parse_number(name, text).ok().and_then(|number| u128::try_from(number).ok());
    amount.ok_or_else(|| {
        invalid_parameter(name, "must be an amount in wei: a whole number below 2^128")
    })
}

/// Parses a chain id, decimal or `0x` and hex digits.
pub(crate) fn parse_chain_id(name: &str, text: &str) -> Result<u64, Problem> {
    // `parse` would accept a sign.
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    let decimal = is_decimal.then(|| text.parse().ok()).flatten();
    let id = decimal.or_else(|| parse_hex_chain_id(text));
    id.ok_or_else(|| invalid_parameter(name, "must be a chain id, decimal or 0x and hex digits"))
}

/// Parses rights: 32 bytes in hex, or a string of up to 31 bytes, padded on the right. The empty string is 32 zero
/// bytes, as in a delegation of all rights.
pub(crate) fn parse_rights(name: &str, text: &str) -> Result<B256, Problem> {
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
        let query = "a=1&b=%41+b%2B&c=1&c=2&d&=x&%61a=2&%FF=3";
        let parameters = Parameters::from_query(Some(query)).unwrap();
        let text = |_: &str, text: &str| Ok(text.to_owned());
        let value =
            |name| parameters.optional(name, text).map_err(|problem| problem.detail().to_owned());
        assert_eq!(value("a"), Ok(Some("1".into())));
        assert_eq!(value("b"), Ok(Some("A b+".into())));
        assert_eq!(value("c"), Err("`c` must be given once".into()));
        assert_eq!(value("d"), Ok(Some(String::new())));
        assert_eq!(value("aa"), Ok(Some("2".into())));
        assert_eq!(value("f"), Ok(None));
        assert!(!Parameters::from_query(None).unwrap().has("a"));
        let missing = parameters.required("f", parse_address).unwrap_err();
        assert_eq!(missing.detail(), "`f` is required");
        let invalid = Parameters::from_query(Some("rights=%FF")).unwrap_err();
        assert_eq!(invalid.detail(), "`rights` must be UTF-8");
    }

    #[test]
    fn a_query_has_at_most_32_parameters_with_names() {
        let named = |count| format!("{}to=1{}", "&=x&&".repeat(1000), "&a=1".repeat(count));
        assert!(Parameters::from_query(Some(&named(31))).unwrap().has("to"));
        let rejected = Parameters::from_query(Some(&named(32))).unwrap_err();
        assert_eq!(rejected.detail(), "a query may have at most 32 parameters");
    }

    #[test]
    fn one_of_two_names_is_taken() {
        let value = |query| {
            let parameters = Parameters::from_query(Some(query)).unwrap();
            let value = parameters.required_as("n", Some("m"), parse_number);
            value.map_err(|problem| problem.detail().to_owned())
        };
        assert_eq!(value("n=5"), Ok(U256::from(5)));
        assert_eq!(value("m=5"), Ok(U256::from(5)));
        assert_eq!(value("a=5"), Err("`n` is required".into()));
        assert_eq!(value("m=5&m=5"), Err("`m` must be given once".into()));
        assert_eq!(value("m=5&n=5"), Err("`m` means `n`; give only one of them".into()));
        assert!(value("m=x").unwrap_err().starts_with("`m` must be a decimal number"));
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
    fn chain_ids_are_decimal_or_hex() {
        for (text, id) in [("2020", 2020), ("0x7e4", 2020), ("0x7E4", 2020), ("007", 7)] {
            assert_eq!(parse_chain_id("chainId", text).unwrap(), id, "{text}");
        }
        for text in ["", "0x", "-1", "+1", "0x+1", "1.0", "7e4", " 7", "18446744073709551616"] {
            assert!(parse_chain_id("chainId", text).is_err(), "{text}");
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
