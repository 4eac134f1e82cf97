//! What look-ups and transactions are asked with. Whatever cannot be right is refused by its name.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, U256, hex};
use percent_encoding::percent_decode_str;

use crate::address;
use crate::api::problem::{Code, Problem};

/// The parameters of a query. Those that no look-up has are let pass.
#[derive(Debug)]
pub(super) struct Parameters<'a>(Vec<(String, &'a str)>);

/// Of all look-ups.
const NAMES: [&str; 8] =
    ["from", "to", "contract", "tokenId", "chainId", "rights", "direction", "block"];

impl<'a> Parameters<'a> {
    /// Refuses a name that is another in the wrong letters: it would change the question to leave it out.
    pub(super) fn of(query: Option<&'a str>) -> Result<Self, Problem> {
        let pairs = query.unwrap_or_default().split('&').filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, value))
        });
        let parameters = Self(pairs.collect());
        let letters = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
        for (name, _) in &parameters.0 {
            let meant = NAMES.into_iter().find(|known| letters(known) == letters(name));
            if let Some(meant) = meant.filter(|meant| meant != name) {
                return Err(wrong(meant, "must be written like this"));
            }
        }
        Ok(parameters)
    }

    /// The value of the parameter with this name, in which a plus sign is a space.
    pub(super) fn optional(&self, name: &str) -> Result<Option<String>, Problem> {
        let mut values = self.0.iter().filter(|(known, _)| known == name);
        let Some((_, value)) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(wrong(name, "must be given once"));
        }
        decoded(value).map(Some).ok_or_else(|| wrong(name, "must be UTF-8"))
    }

    /// The same of a parameter that has to be there, as `read` reads it.
    pub(super) fn required<T>(
        &self,
        name: &'static str,
        read: fn(&str, &str) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let value = self.optional(name)?.ok_or_else(|| wrong(name, "is required"))?;
        read(name, &value)
    }
}

/// A name or a value of a query; `None`: it is no text.
fn decoded(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().map(Cow::into_owned).ok()
}

/// The parameter `name` is not as it must be.
pub(super) fn wrong(name: &str, what: impl std::fmt::Display) -> Problem {
    Problem::new(Code::InvalidParameter, format!("`{name}` {what}"))
}

pub(super) fn address(name: &str, text: &str) -> Result<Address, Problem> {
    address::parse(text).map_err(|why| wrong(name, why))
}

/// A decimal number of up to 256 bits.
pub(super) fn number(name: &str, text: &str) -> Result<U256, Problem> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_decimal.then(|| U256::from_str_radix(text, 10).ok()).flatten();
    number.ok_or_else(|| wrong(name, "must be a decimal number from 0 to 2^256 - 1"))
}

/// 32 bytes in hex, or a string of up to 31 bytes, which is padded on its right. An empty one is that of a
/// delegation without rights.
pub(super) fn rights(name: &str, text: &str) -> Result<B256, Problem> {
    const LONGEST: usize = 31;
    if let Some(digits) = text.strip_prefix("0x") {
        let bytes = hex::decode(digits).ok().and_then(|bytes| B256::try_from(&*bytes).ok());
        return bytes.ok_or_else(|| wrong(name, "must be 0x and 64 hex digits where it is hex"));
    }
    if text.len() > LONGEST || text.contains(char::is_control) {
        return Err(wrong(name, "must be 0x and 64 hex digits, or a string of at most 31 bytes"));
    }
    Ok(B256::right_padding_from(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_what_its_name_has_once() {
        let query = "a=1&b=%41+b%2B&c=1&c=2&d&e=%FF&=x&%61a=2&%FF=3";
        let parameters = Parameters::of(Some(query)).unwrap();
        let text = |name| parameters.optional(name).map_err(|problem| problem.detail().to_owned());
        assert_eq!(text("a"), Ok(Some("1".into())));
        assert_eq!(text("b"), Ok(Some("A b+".into())));
        assert_eq!(text("c"), Err("`c` must be given once".into()));
        assert_eq!(text("d"), Ok(Some(String::new())));
        assert_eq!(text("e"), Err("`e` must be UTF-8".into()));
        assert_eq!(text("aa"), Ok(Some("2".into())));
        assert_eq!(text("f"), Ok(None));
        assert!(Parameters::of(None).unwrap().optional("a").unwrap().is_none());
        let missing = parameters.required("f", address).unwrap_err();
        assert_eq!(missing.detail(), "`f` is required");
    }

    #[test]
    fn a_name_in_the_wrong_letters_is_refused() {
        for name in ["chainid", "chain_id", "ChainId", "CHAIN-ID", "%63hainid"] {
            let problem = Parameters::of(Some(&format!("a=1&{name}=5"))).unwrap_err();
            assert_eq!(problem.detail(), "`chainId` must be written like this", "{name}");
        }
        assert!(Parameters::of(Some("chainId=5&chain=6&token=7&_=8")).is_ok());
    }

    #[test]
    fn rights_are_32_bytes_or_a_short_string() {
        let claim = format!("0x636c61696d{}", "0".repeat(54));
        assert_eq!(rights("rights", "claim").unwrap().to_string(), claim);
        assert_eq!(rights("rights", &claim).unwrap().to_string(), claim);
        assert_eq!(rights("rights", "").unwrap(), B256::ZERO);
        assert!(rights("rights", &"a".repeat(31)).is_ok());
        // 31 bytes, not 31 characters.
        assert!(rights("rights", &"\u{e4}".repeat(15)).is_ok());
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
            assert!(rights("rights", text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_number_is_decimal_and_fits() {
        assert_eq!(number("n", &U256::MAX.to_string()).unwrap(), U256::MAX);
        assert_eq!(number("n", "007").unwrap(), U256::from(7));
        let too_large = format!("{}0", U256::MAX);
        for text in ["", "-1", "+1", "1.0", "1e3", "0x7", " 7", "\u{661}", "1_000", &too_large] {
            assert!(number("n", text).is_err(), "{text}");
        }
    }
}
