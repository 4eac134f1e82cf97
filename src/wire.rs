//! JSON form of amounts and suggestions. Amounts are wei as decimal strings, because most JSON parsers would round a
//! number.

use serde::ser::{Serialize, Serializer};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::fees::{PricingType, Suggestion, Tier};

/// An amount in wei, serialised as a decimal string.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wei(pub(crate) u128);

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
#[derive(Debug, serde::Serialize, ToSchema)]
#[schema(as = GasSuggestion)]
pub(crate) struct SuggestionBody<'a> {
    chain_name: &'a str,
    r#type: PricingType,
    /// Base fee that both tiers cover; 0 under legacy pricing.
    base_fee_per_gas: Wei,
    /// For inclusion within the next blocks.
    medium: TierBody,
    /// For inclusion in the next block.
    high: TierBody,
}

/// One tier. Under legacy pricing both members are the gas price to use.
#[derive(Debug, serde::Serialize, ToSchema)]
#[schema(as = Tier)]
struct TierBody {
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
            medium: TierBody::new(suggestion.medium),
            high: TierBody::new(suggestion.high),
        }
    }
}

impl TierBody {
    fn new(tier: Tier) -> Self {
        Self {
            max_priority_fee_per_gas: Wei(tier.max_priority_fee_per_gas),
            max_fee_per_gas: Wei(tier.max_fee_per_gas),
        }
    }
}
