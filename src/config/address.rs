//! Parses addresses as people and programs write them.

use alloy_primitives::Address;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;

/// Reason why a text is not an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("must be an address: 0x and 40 hex digits")]
    Malformed,
    /// Mixed case is a checksum (EIP-55), which does not match: a character is mistyped.
    #[error("must be an address in a single case, or with a valid EIP-55 checksum")]
    ChecksumMismatch,
}

/// Parses `0x` and 40 hex digits in lower case, in upper case, or with a checksum (EIP-55).
pub(crate) fn parse(text: &str) -> Result<Address, AddressError> {
    let digits = text.strip_prefix("0x").ok_or(AddressError::Malformed)?;
    // The library's parser would also accept digits without the prefix, or two prefixes.
    let is_hex = digits.len() == 40 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let address: Address = digits.parse().ok().filter(|_| is_hex).ok_or(AddressError::Malformed)?;
    let has_any = |matches: fn(&u8) -> bool| digits.as_bytes().iter().any(matches);
    let is_mixed = has_any(u8::is_ascii_lowercase) && has_any(u8::is_ascii_uppercase);
    if is_mixed && Address::parse_checksummed(text, None).is_err() {
        return Err(AddressError::ChecksumMismatch);
    }
    Ok(address)
}

/// Like [`parse`], for a key of the configuration.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Address, D::Error> {
    parse(&String::deserialize(input)?).map_err(D::Error::custom)
}

/// Writes the address with its checksum.
pub(crate) fn serialize<S: Serializer>(address: &Address, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_lower_case_upper_case_and_checksummed() {
        let registry = "0x00000000000000447e69651d841bD8D104Bed493";
        let expected = parse(registry).unwrap();
        assert_eq!(expected.to_string(), registry);
        assert_eq!(parse(&registry.to_lowercase()), Ok(expected));
        let upper = registry.to_uppercase().replace("0X", "0x");
        assert_eq!(parse(&upper), Ok(expected));
        assert_eq!(parse(&registry.replace('B', "b")), Err(AddressError::ChecksumMismatch));
    }

    #[test]
    fn rejects_malformed_addresses() {
        let digits = "00000000000000447e69651d841bd8d104bed493";
        for text in [
            "",
            "0x",
            digits,
            &format!("0X{digits}"),
            &format!("0x0x{}", &digits[2..]),
            &format!("0x{digits}0"),
            &format!(" 0x{digits}"),
            &format!("0x{}g", &digits[1..]),
            &format!("0x{}\u{e4}", &digits[2..]),
        ] {
            assert_eq!(parse(text), Err(AddressError::Malformed), "{text}");
        }
    }
}
