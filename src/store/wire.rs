//! JSON form of a suggestion.

use serde::Serialize;
use utoipa::ToSchema;

use crate::fees::{PricingType, Suggestion, Tier, Wei};

/// Suggested fees.
//
// The five members of the network document's section 2.2, in its order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GasSuggestion)]
pub(crate) struct SuggestionBody<'a> {
    chain_name: &'a str,
    r#type: PricingType,
    /// Base fee that both tiers cover: the average of the window or the floor, times the multiplier. It is 0 under legacy
    /// pricing. The base fees of single blocks are in the fee history.
    base_fee_per_gas: Wei,
    /// Should get into the next block or two.
    medium: Tier,
    /// For users in a hurry.
    high: Tier,
}

impl<'a> SuggestionBody<'a> {
    pub(crate) fn new(chain_name: &'a str, suggestion: &Suggestion) -> Self {
        Self {
            chain_name,
            r#type: suggestion.pricing_type,
            base_fee_per_gas: Wei(suggestion.base_fee_per_gas),
            medium: suggestion.tiers.medium,
            high: suggestion.tiers.high,
        }
    }
}
