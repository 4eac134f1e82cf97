//! How amounts and suggestions are written in JSON. Every amount is wei as a decimal string: a JSON
//! number would lose digits in most readers.

use serde::ser::{Serialize, Serializer};

use crate::fees::{PricingType, Suggestion, Tier};

/// An amount in wei, written as a decimal string.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wei(pub(crate) u128);

impl Serialize for Wei {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&self.0)
    }
}

/// The five members of a gas suggestion, in the order of the network document's section 2.2.
#[derive(Debug, serde::Serialize)]
pub(crate) struct SuggestionBody<'a> {
    chain_name: &'a str,
    r#type: PricingType,
    base_fee_per_gas: Wei,
    medium: TierBody,
    high: TierBody,
}

#[derive(Debug, serde::Serialize)]
struct TierBody {
    max_priority_fee_per_gas: Wei,
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
