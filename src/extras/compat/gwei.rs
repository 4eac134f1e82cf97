//! Amounts in gwei, exact to the wei.

use std::fmt;

use serde::ser::{Error, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::fees::amount::with_point;

/// An amount in gwei, as a decimal string, exact to the wei.
//
// It holds wei. The text has at most nine places, without zeros at the end.
#[derive(Debug, Clone, Copy, ToSchema)]
#[schema(value_type = String, pattern = "^[0-9]+([.][0-9]{0,8}[1-9])?$")]
pub(crate) struct Gwei(pub(crate) u128);

/// An amount in wei, written as a JSON number of gwei with the same digits as [`Gwei`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct GweiNumber(pub(crate) u128);

impl fmt::Display for Gwei {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&with_point(&self.0.to_string(), 9))
    }
}

impl Serialize for Gwei {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl Serialize for GweiNumber {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        // A float would have noise in the last places.
        let text = Gwei(self.0).to_string();
        RawValue::from_string(text).map_err(S::Error::custom)?.serialize(out)
    }
}

impl PartialSchema for GweiNumber {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(0))
            .description(Some("An amount in gwei with at most nine places, exact to the wei."));
        schema.into()
    }
}

impl ToSchema for GweiNumber {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_decimals_without_zeros_at_the_end() {
        for (wei, text) in [
            (0, "0"),
            (1, "0.000000001"),
            (10, "0.00000001"),
            (1_000_000_000, "1"),
            (20_000_000_000, "20"),
            (22_100_000_000, "22.1"),
            (9_919_888_552, "9.919888552"),
            (u128::MAX, "340282366920938463463374607431.768211455"),
        ] {
            assert_eq!(Gwei(wei).to_string(), text);
            assert_eq!(serde_json::to_string(&Gwei(wei)).unwrap(), format!("\"{text}\""));
            assert_eq!(serde_json::to_string(&GweiNumber(wei)).unwrap(), text);
            // Readers that take it as a double round to the same wei.
            let double = text.parse::<f64>().unwrap() * 1e9;
            assert!(wei > 1 << 53 || format!("{double:.0}") == wei.to_string(), "{text}");
        }
    }
}
