//! Values with units in the configuration: durations (`"2s"`), amounts (`"20 gwei"`), exact decimal factors (`1.2`) and
//! sizes (`"64 KiB"`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

use super::server::MemoryLimit;
use crate::fees::Multiplier;

/// A duration such as `"2s"` or `"250ms"`. A bare number is rejected, because its unit would be a guess.
pub(crate) mod duration {
    use super::{Deserializer, Duration, ParsedVisitor, Serializer, duration_text};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
        input.deserialize_str(ParsedVisitor {
            expected: "a duration such as \"2s\" or \"250ms\"",
            parse: |text| humantime::parse_duration(text).ok(),
        })
    }

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&duration_text(*duration))
    }
}

/// Like [`duration`], for an optional key.
pub(crate) mod optional_duration {
    use super::{Deserializer, Duration, Serialize, Serializer, duration, duration_text};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<Duration>, D::Error> {
        duration::deserialize(input).map(Some)
    }

    #[expect(clippy::ref_option, reason = "serde calls it with a reference to the field")]
    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(duration_text).serialize(out)
    }
}

/// Returns a duration as in a configuration, rounded down to milliseconds or, if it is long, to seconds.
pub(crate) fn duration_text(duration: Duration) -> String {
    const MAX_SECONDS: u64 = 600;
    match (duration.as_secs(), duration.subsec_millis()) {
        (seconds @ 0..=MAX_SECONDS, 0) => format!("{seconds}s"),
        (0..=MAX_SECONDS, _) => format!("{}ms", duration.as_millis()),
        (seconds, _) => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
    }
}

/// An amount such as `"20 gwei"` or `"1 wei"`, in wei.
pub(crate) mod amount {
    use super::{Deserializer, ParsedVisitor, Serializer, parse_amount};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<u128, D::Error> {
        input.deserialize_str(ParsedVisitor {
            expected: "an amount such as \"20 gwei\" or \"1 wei\"",
            parse: parse_amount,
        })
    }

    pub(crate) fn serialize<S: Serializer>(wei: &u128, out: S) -> Result<S::Ok, S::Error> {
        const WEI_PER_GWEI: u128 = 1_000_000_000;
        match (wei / WEI_PER_GWEI, wei % WEI_PER_GWEI) {
            (gwei @ 1.., 0) => out.collect_str(&format_args!("{gwei} gwei")),
            _ => out.collect_str(&format_args!("{wei} wei")),
        }
    }
}

/// A minimum tip, of at least 1 wei: no pool takes a transaction without a tip.
pub(crate) mod least_tip {
    use super::{Deserializer, ParsedVisitor, parse_amount};

    pub(crate) use super::amount::serialize;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<u128, D::Error> {
        let parse = |text: &str| {
            let amount = if text.trim() == "0" { Some(0) } else { parse_amount(text) };
            amount.map(|wei| wei.max(1))
        };
        let expected = "an amount such as \"20 gwei\" or \"1 wei\"";
        input.deserialize_str(ParsedVisitor { expected, parse })
    }
}

pub(crate) fn parse_amount(text: &str) -> Option<u128> {
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

/// A size such as `"64 KiB"`, in bytes.
pub(crate) mod size {
    use super::{Deserializer, ParsedVisitor, Serializer, parse_size, size_text};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<usize, D::Error> {
        input.deserialize_str(ParsedVisitor {
            expected: "a size such as \"64 KiB\" or \"1 MiB\"",
            parse: parse_size,
        })
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(crate) fn serialize<S: Serializer>(bytes: &usize, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&size_text(*bytes))
    }
}

/// A memory limit: `"auto"` or a size.
pub(crate) mod memory_limit {
    use super::{Deserializer, MemoryLimit, ParsedVisitor, Serializer, parse_size, size_text};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<MemoryLimit, D::Error> {
        input.deserialize_str(ParsedVisitor {
            expected: "\"auto\" or a size of at least \"64 MiB\", such as \"512 MiB\"",
            parse: |text| match text {
                "auto" => Some(MemoryLimit::Auto),
                size => {
                    let bytes = parse_size(size).filter(|bytes| *bytes >= MemoryLimit::MIN_BYTES);
                    bytes.map(MemoryLimit::Bytes)
                }
            },
        })
    }

    pub(crate) fn serialize<S: Serializer>(limit: &MemoryLimit, out: S) -> Result<S::Ok, S::Error> {
        match limit {
            MemoryLimit::Auto => out.serialize_str("auto"),
            MemoryLimit::Bytes(bytes) => out.collect_str(&size_text(*bytes)),
        }
    }
}

/// Returns a size in the largest unit that divides it.
fn size_text(bytes: usize) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
    let fits = |(_, size): &(&str, usize)| bytes >= *size && bytes.is_multiple_of(*size);
    let (unit, size) = units.into_iter().find(fits).unwrap_or(("B", 1));
    format!("{} {unit}", bytes / size)
}

fn parse_size(text: &str) -> Option<usize> {
    let (number, unit) = text.trim().split_once(' ')?;
    let bytes: usize = match unit.trim_start() {
        "B" => 1,
        "KiB" => 1024,
        "MiB" => 1024 * 1024,
        "GiB" => 1024 * 1024 * 1024,
        _ => return None,
    };
    parse_digits::<usize>(number)?.checked_mul(bytes)
}

/// Parses decimal digits without a sign, which `parse` would accept.
pub(crate) fn parse_digits<T: FromStr>(text: &str) -> Option<T> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Parses `"1.25"` into (125, 2): the digits, and the number of decimals, at most `max_scale`.
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

/// A factor such as `1.2`. A TOML `1.2` arrives as a float. Its shortest decimal form is what the file contains.
pub(crate) mod multiplier {
    use super::{Deserializer, Multiplier, ParsedVisitor, Serialize, Serializer, parse_multiplier};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Multiplier, D::Error> {
        input.deserialize_any(ParsedVisitor {
            expected: "a factor from 1 to 1000 with at most six decimals, such as 1.2",
            parse: parse_multiplier,
        })
    }

    pub(crate) fn serialize<S: Serializer>(factor: &Multiplier, out: S) -> Result<S::Ok, S::Error> {
        let text = factor.to_string();
        // A whole number without a decimal point, like in most files.
        match (text.parse::<u64>(), text.parse::<f64>()) {
            (Ok(whole), _) => whole.serialize(out),
            (Err(_), Ok(decimal)) => decimal.serialize(out),
            (Err(_), Err(_)) => text.serialize(out),
        }
    }
}

fn parse_multiplier(text: &str) -> Option<Multiplier> {
    const MAX_DECIMALS: u32 = 6;
    let (numerator, scale) = parse_decimal(text, MAX_DECIMALS)?;
    Multiplier::new(numerator, 10_u128.checked_pow(scale)?).ok()
}

/// Visitor that parses a string, or a number in its shortest decimal form, with one function.
struct ParsedVisitor<T> {
    expected: &'static str,
    parse: fn(&str) -> Option<T>,
}

impl<T> Visitor<'_> for ParsedVisitor<T> {
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
    use serde::de::{IntoDeserializer, value};

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
    fn sizes_need_a_unit() {
        assert_eq!(parse_size("256 KiB"), Some(262_144));
        assert_eq!(parse_size("32 MiB"), Some(33_554_432));
        assert_eq!(parse_size("2 GiB"), Some(2_147_483_648));
        assert_eq!(parse_size("7 B"), Some(7));
        for wrong in ["256", "KiB", "256KiB", "1 KB", "1 kib", "-1 B", "+1 B", "1.5 MiB", ""] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
        assert_eq!(parse_size("18446744073709551615 KiB"), None);
    }

    #[test]
    fn multipliers_are_exact_fractions_that_round_down() {
        let high = parse_multiplier("1.2").unwrap();
        assert_eq!(high.apply(20_000_000_000), Some(24_000_000_000));
        assert_eq!(high.apply(7), Some(8));
        for text in ["1", "1.2", "2", "1000", "1.000001", "12.34"] {
            assert_eq!(parse_multiplier(text).unwrap().to_string(), text);
        }
        assert_eq!(high.apply(u128::MAX), None);
        assert_eq!(parse_multiplier("2").unwrap().apply(3), Some(6));
        for wrong in ["0.9", "1000.1", "-2", "1.0000001", "NaN", "", "1,2"] {
            assert_eq!(parse_multiplier(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn whole_number_of_an_environment_variable_is_a_multiplier() {
        let parse = |number: u64| {
            multiplier::deserialize(IntoDeserializer::<value::Error>::into_deserializer(number))
        };
        assert_eq!(parse(2).unwrap().apply(3), Some(6));
        let error = parse(1001).unwrap_err().to_string();
        assert!(error.starts_with("invalid value: integer `1001`, expected a factor"), "{error}");
    }
}
