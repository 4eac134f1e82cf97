//! How amounts and factors are written in the configuration and in responses.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

const AMOUNT: &str = "an amount such as \"20 gwei\" or \"1 wei\"";

/// An amount in wei, serialised as a decimal string, because most JSON parsers would round a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub struct Wei(pub u128);

impl TryFrom<Cow<'_, str>> for Wei {
    type Error = &'static str;

    fn try_from(text: Cow<'_, str>) -> Result<Self, &'static str> {
        let amount = parse_digits(&text);
        amount.map(Self).ok_or("must be an amount in wei: a whole number below 2^128")
    }
}

impl Wei {
    /// Serialises a field like a [`Wei`].
    pub(super) fn serialize_field<S: Serializer>(wei: &u128, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(wei)
    }
}

impl Serialize for Wei {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&self.0)
    }
}

impl PartialSchema for Wei {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[0-9]+$"));
        schema.description(Some("An amount in wei, as a decimal string.")).into()
    }
}

impl ToSchema for Wei {}

/// Deserialises an amount such as `"20 gwei"` or `"1 wei"`, in wei.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<u128, D::Error> {
    input.deserialize_str(ParsedVisitor { expected: AMOUNT, parse: parse_amount })
}

/// Deserialises a minimum tip, of at least 1 wei: no pool takes a transaction without a tip.
pub(super) fn deserialize_tip<'de, D: Deserializer<'de>>(input: D) -> Result<u128, D::Error> {
    let parse = |text: &str| {
        let amount = if text.trim() == "0" { Some(0) } else { parse_amount(text) };
        amount.map(|wei| wei.max(1))
    };
    input.deserialize_str(ParsedVisitor { expected: AMOUNT, parse })
}

pub(super) fn serialize<S: Serializer>(wei: &u128, out: S) -> Result<S::Ok, S::Error> {
    const WEI_PER_GWEI: u128 = 1_000_000_000;
    match (wei / WEI_PER_GWEI, wei % WEI_PER_GWEI) {
        (gwei @ 1.., 0) => out.collect_str(&format_args!("{gwei} gwei")),
        _ => out.collect_str(&format_args!("{wei} wei")),
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
    parse_decimal(number, decimals)
}

/// Parses decimal digits without a sign, which `parse` would accept.
pub(crate) fn parse_digits<T: FromStr>(text: &str) -> Option<T> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Parses a number with at most so many decimals, times 10 to the power of `decimals`: `"1.25"` with 3 is 1250.
pub(super) fn parse_decimal(text: &str, decimals: u32) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if whole.is_empty() || fraction.is_empty() {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let scale = decimals.checked_sub(fraction.len().try_into().ok()?)?;
    parse_digits::<u128>(&format!("{whole}{fraction}"))?.checked_mul(10_u128.checked_pow(scale)?)
}

/// Puts the decimal point before so many of the digits, without zeros at the end.
pub(crate) fn with_point(digits: &str, decimals: usize) -> String {
    let padded = format!("{digits:0>width$}", width = decimals.saturating_add(1));
    let (whole, fraction) = padded.split_at(padded.len().saturating_sub(decimals));
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

/// Visitor that parses a string, or a number in its shortest decimal form, with one function.
pub(crate) struct ParsedVisitor<T> {
    pub(crate) expected: &'static str,
    pub(crate) parse: fn(&str) -> Option<T>,
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
}
