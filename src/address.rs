//! Addresses as people and programs write them.

use alloy_primitives::Address;

/// Why a text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAnAddress {
    #[error("must be an address: 0x and 40 hex digits")]
    Malformed,
    /// Upper and lower case are its checksum (EIP-55): somewhere it was mistyped.
    #[error(
        "must be an address in one case, or with the checksum of its mixed case: it is mistyped"
    )]
    Mistyped,
}

/// Reads `0x` and 40 hex digits, in lower case, in upper case, or with a checksum (EIP-55).
pub(crate) fn parse(text: &str) -> Result<Address, NotAnAddress> {
    let digits = text.strip_prefix("0x").ok_or(NotAnAddress::Malformed)?;
    // The parser would take digits without the prefix, also behind one.
    let is_plain = digits.len() == 40 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let address: Address =
        digits.parse().ok().filter(|_| is_plain).ok_or(NotAnAddress::Malformed)?;
    let has = |is: fn(&u8) -> bool| digits.as_bytes().iter().any(is);
    let is_mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    if is_mixed && Address::parse_checksummed(text, None).is_err() {
        return Err(NotAnAddress::Mistyped);
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lower_case_upper_case_and_checksums() {
        let registry = "0x00000000000000447e69651d841bD8D104Bed493";
        let expected = parse(registry).unwrap();
        assert_eq!(expected.to_string(), registry);
        assert_eq!(parse(&registry.to_lowercase()), Ok(expected));
        let upper = registry.to_uppercase().replace("0X", "0x");
        assert_eq!(parse(&upper), Ok(expected));
        assert_eq!(parse(&registry.replace('B', "b")), Err(NotAnAddress::Mistyped));
    }

    #[test]
    fn refuses_whatever_else() {
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
            assert_eq!(parse(text), Err(NotAnAddress::Malformed), "{text}");
        }
    }
}
