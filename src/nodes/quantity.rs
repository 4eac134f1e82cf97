//! Lenient parser of quantities as nodes send them.

/// Reason why a piece of JSON is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a hex string and not a whole JSON number: `"0x"`, `"12"`, `-0x1`, `1.5`, `null`.
    #[error("not a quantity such as \"0x3b9aca00\"")]
    Malformed,
    /// A whole number above 128 bits.
    #[error("over 128 bits")]
    TooLarge,
}

/// Parses one JSON value as an unsigned number: a `0x…` string with at least one digit, leading zeros allowed, or a
/// whole JSON number, which some clients and nodes send instead.
///
/// # Errors
///
/// Fails if the JSON is no such number, or it exceeds 128 bits.
pub fn parse(json: &str) -> Result<u128, QuantityError> {
    let (digits, radix) = match json.strip_prefix("\"0x") {
        Some(rest) => (rest.strip_suffix('"').ok_or(QuantityError::Malformed)?, 16),
        None => (json, 10),
    };
    // `from_str_radix` would accept a sign.
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(QuantityError::Malformed);
    }
    // The digits are valid, so only the length can fail.
    u128::from_str_radix(digits, radix).map_err(|_| QuantityError::TooLarge)
}

/// Parses the text of a quantity such as `0x1b4`. Leading zeros are allowed, because nodes send and accept them.
pub(crate) fn parse_hex(text: &str) -> Option<u64> {
    // `from_str_radix` would accept a sign.
    let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'))?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::QuantityError::{Malformed, TooLarge};
    use super::parse;

    #[test]
    fn hex_strings_and_json_integers_are_parsed() {
        assert_eq!(parse(r#""0x0""#), Ok(0));
        assert_eq!(parse(r#""0x000fF""#), Ok(255));
        assert_eq!(parse("1000000000000000000000"), Ok(10_u128.pow(21)));
        assert_eq!(parse(&format!("\"0x{}\"", "f".repeat(32))), Ok(u128::MAX));
        assert_eq!(parse(&format!("\"0x{}1\"", "0".repeat(500))), Ok(1));
    }

    #[test]
    fn malformed_and_oversized_quantities_are_rejected() {
        for json in [
            r#""0x""#,
            r#""12""#,
            r#""-0x5""#,
            r#""0x-5""#,
            r#""0x+5""#,
            r#""0X5""#,
            r#""""#,
            r#"" 0x5""#,
            "-5",
            "1.5",
            "1e9",
            "null",
            "true",
            "[]",
            "{}",
            "",
            r#""0x5"#,
        ] {
            assert_eq!(parse(json), Err(Malformed), "{json}");
        }
        assert_eq!(parse(&format!("\"0x1{}\"", "0".repeat(32))), Err(TooLarge));
        assert_eq!(parse(&"9".repeat(40)), Err(TooLarge));
    }
}
