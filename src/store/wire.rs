//! JSON form of a suggestion. Amounts are wei as decimal strings, because most JSON parsers would round a number.

use std::borrow::Cow;

use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::config::units::parse_digits;
use crate::fees::{self, Suggestion, Tier};

/// An amount in wei, serialised as a decimal string.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub(crate) struct Wei(pub(crate) u128);

impl TryFrom<Cow<'_, str>> for Wei {
    type Error = &'static str;

    fn try_from(text: Cow<'_, str>) -> Result<Self, &'static str> {
        let amount = parse_digits(&text);
        amount.map(Self).ok_or("must be an amount in wei: a whole number below 2^128")
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

/// Suggested fees.
//
// The five members of the network document's section 2.2, in its order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GasSuggestion)]
pub(crate) struct SuggestionBody<'a> {
    chain_name: &'a str,
    #[serde(with = "PricingType")]
    #[schema(value_type = PricingType)]
    r#type: fees::PricingType,
    /// Base fee that both tiers cover: the average of the window or the floor, times the multiplier. It is 0 under legacy
    /// pricing. The base fees of single blocks are in the fee history.
    base_fee_per_gas: Wei,
    /// Should get into the next block or two.
    medium: TierBody,
    /// For users in a hurry.
    high: TierBody,
}

/// One tier. Under legacy pricing both members are the gas price to use.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Tier)]
pub(crate) struct TierBody {
    /// The tip.
    max_priority_fee_per_gas: Wei,
    /// Tip plus base fee.
    max_fee_per_gas: Wei,
}

impl<'a> SuggestionBody<'a> {
    pub(crate) fn new(chain_name: &'a str, suggestion: &Suggestion) -> Self {
        Self {
            chain_name,
            r#type: suggestion.pricing_type,
            base_fee_per_gas: Wei(suggestion.base_fee_per_gas),
            medium: (&suggestion.tiers.medium).into(),
            high: (&suggestion.tiers.high).into(),
        }
    }
}

impl From<&Tier> for TierBody {
    fn from(tier: &Tier) -> Self {
        Self {
            max_priority_fee_per_gas: Wei(tier.max_priority_fee_per_gas),
            max_fee_per_gas: Wei(tier.max_fee_per_gas),
        }
    }
}

/// Fee mechanism of the chain.
#[derive(Debug, Serialize, ToSchema)]
#[serde(remote = "fees::PricingType")]
pub(crate) enum PricingType {
    /// A base fee and a tip.
    #[serde(rename = "eip-1559")]
    Eip1559,
    /// One gas price.
    #[serde(rename = "legacy")]
    Legacy,
}
