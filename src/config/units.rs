//! Values with units, as the configuration writes them: durations (`"2s"`), amounts (`"20 gwei"`),
//! exact decimal factors (`1.2`) and URLs that must not be printed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// A duration such as `"2s"` or `"250ms"`; a bare number is refused, for its unit is anyone's guess.
pub(super) fn duration<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
    input.deserialize_str(Parsed {
        expected: "a duration such as \"2s\" or \"250ms\"",
        parse: |text| humantime::parse_duration(text).ok(),
    })
}

/// [`duration`] for a key that may be absent.
pub(super) fn optional_duration<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Duration>, D::Error> {
    duration(input).map(Some)
}

/// An amount such as `"20 gwei"` or `"1 wei"`, in wei.
pub(super) fn amount<'de, D: Deserializer<'de>>(input: D) -> Result<u128, D::Error> {
    input.deserialize_str(Parsed {
        expected: "an amount such as \"20 gwei\" or \"1 wei\"",
        parse: parse_amount,
    })
}

fn parse_amount(text: &str) -> Option<u128> {
    let (number, unit) = text.trim().split_once(' ')?;
    let decimals = match unit.trim_start() {
        "wei" => 0,
        "gwei" => 9,
        "ether" => 18,
        _ => return None,
    };
    let (value, scale) = parse_decimal(number, decimals)?;
    value.checked_mul(10_u128.checked_pow(decimals.checked_sub(scale)?)?)
}

/// `"1.25"` as (125, 2): digits and the count of decimals, of which at most `max_scale`.
fn parse_decimal(text: &str, max_scale: u32) -> Option<(u128, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let has_bare_dot = text.contains('.') && fraction.is_empty();
    if whole.is_empty() || has_bare_dot || !digits(whole) || !digits(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let scale = u32::try_from(fraction.len()).ok()?;
    if scale > max_scale {
        return None;
    }
    Some((format!("{whole}{fraction}").parse().ok()?, scale))
}

/// An exact decimal factor from 1 to 1000 with at most six decimals, such as `1.2`.
///
/// It is kept as a fraction so that amounts in wei never pass through floating point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multiplier {
    numerator: u128,
    denominator: u128,
}

impl Multiplier {
    const EXPECTED: &str = "a factor from 1 to 1000 with at most six decimals, such as 1.2";
    const MAX_DECIMALS: u32 = 6;
    const MAX: u128 = 1000;

    /// `value` times the factor, rounded down; `None` when the product does not fit.
    #[must_use]
    pub fn apply(self, value: u128) -> Option<u128> {
        value.checked_mul(self.numerator)?.checked_div(self.denominator)
    }
}

impl FromStr for Multiplier {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = parse_decimal(text, Self::MAX_DECIMALS).and_then(|(numerator, scale)| {
            let denominator = 10_u128.checked_pow(scale)?;
            let allowed = denominator..=denominator.checked_mul(Self::MAX)?;
            allowed.contains(&numerator).then_some(Self { numerator, denominator })
        });
        parsed.ok_or(Self::EXPECTED)
    }
}

impl<'de> Deserialize<'de> for Multiplier {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        // A TOML `1.2` arrives as a float; the shortest decimal that names that float is what
        // was written.
        input.deserialize_any(Parsed { expected: Self::EXPECTED, parse: |text| text.parse().ok() })
    }
}

/// The URL of an RPC node. It may carry a key, so it has no `Display` and its `Debug` is blank.
#[derive(Clone, PartialEq, Eq)]
pub struct RpcUrl(reqwest::Url);

impl RpcUrl {
    /// Longer parts of a path than `rpc` or `mainnet` may be keys.
    const LONGEST_WORD: usize = 8;

    /// The URL itself, for the one place that connects to it.
    #[must_use]
    pub fn expose(&self) -> &reqwest::Url {
        &self.0
    }

    /// Whether anything but scheme, host, port and short words of the path is in it.
    #[must_use]
    pub fn may_hold_a_secret(&self) -> bool {
        let Self(url) = self;
        let has_user = !url.username().is_empty() || url.password().is_some();
        let mut words = url.path_segments().into_iter().flatten();
        let has_long_word = words.any(|word| word.len() > Self::LONGEST_WORD);
        has_user || has_long_word || url.query().is_some() || url.fragment().is_some()
    }
}

impl fmt::Debug for RpcUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("RpcUrl(…)")
    }
}

impl FromStr for RpcUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        reqwest::Url::parse(text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .map(Self)
            .ok_or("expected an http:// or https:// URL (not shown: it may carry a key)")
    }
}

impl<'de> Deserialize<'de> for RpcUrl {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        String::deserialize(input)?.parse().map_err(D::Error::custom)
    }
}

/// Reads a string, or a number by its shortest decimal form, through one parsing function.
struct Parsed<T> {
    expected: &'static str,
    parse: fn(&str) -> Option<T>,
}

impl<T> Visitor<'_> for Parsed<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        (self.parse)(&number.to_string())
            .ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        (self.parse)(&number.to_string())
            .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        (self.parse)(&number.to_string())
            .ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_need_a_unit() {
        assert_eq!(parse_amount("20 gwei"), Some(20_000_000_000));
        assert_eq!(parse_amount("1 wei"), Some(1));
        assert_eq!(parse_amount("0.000000001 gwei"), Some(1));
        assert_eq!(parse_amount("1.5 ether"), Some(1_500_000_000_000_000_000));
        for wrong in ["20", "gwei", "20gwei", "-1 gwei", "1e9 wei", "0.5 wei", "1. gwei", ".5 gwei"]
        {
            assert_eq!(parse_amount(wrong), None, "{wrong}");
        }
        assert_eq!(parse_amount("340282366920938463463374607431768211456 wei"), None);
    }

    #[test]
    fn multipliers_are_exact_fractions_that_round_down() {
        let high: Multiplier = "1.2".parse().unwrap();
        assert_eq!(high.apply(20_000_000_000), Some(24_000_000_000));
        assert_eq!(high.apply(7), Some(8));
        assert_eq!(high.apply(u128::MAX), None);
        assert_eq!("2".parse::<Multiplier>().unwrap().apply(3), Some(6));
        for wrong in ["0.9", "1000.1", "-2", "1.0000001", "NaN", "", "1,2"] {
            assert!(wrong.parse::<Multiplier>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_rpc_url_never_prints() {
        let url: RpcUrl = "https://node.example/v2/canary".parse().unwrap();
        assert_eq!(format!("{url:?}"), "RpcUrl(…)");
        let may_hold = |url: &str| url.parse::<RpcUrl>().unwrap().may_hold_a_secret();
        for plain in ["http://node:8545", "https://node.example/", "https://node.example/v2/rpc"] {
            assert!(!may_hold(plain), "{plain}");
        }
        for url in ["/v2/canarykey", "/?k=v", "/#f"].map(|tail| format!("http://node{tail}")) {
            assert!(may_hold(&url), "{url}");
        }
        assert!(may_hold("http://user@node/") && may_hold("http://:canary@node/"));
        for wrong in ["ftp://canary", "canary", "http://", "unix:/canary"] {
            assert!(!wrong.parse::<RpcUrl>().unwrap_err().contains("canary"));
        }
    }
}
