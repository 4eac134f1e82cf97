//! One object of prices by speed, as the oracles of bridges and relayers have it.

use serde::Serialize;
use utoipa::ToSchema;

use super::Format;
use super::chain_route::{ChainRoute, schema_of};
use super::content::DocumentContent;
use super::documents::{Document, json};
use super::gwei::GweiNumber;

/// One object of prices by speed.
pub(crate) const FORMAT: Format = Format {
    chain_routes: &[ChainRoute {
        path: "/compat/flat/{chain_id}",
        operation_id: "getFlatPrices",
        summary: "Prices by speed in one object",
        description: None,
        response: "The prices.",
        document: &PRICES,
        schema: schema_of::<FlatPrices>,
    }],
    ..Format::new("flat")
};

pub(super) static PRICES: Document =
    Document { name: "flat", render: |content| Some(json(&FlatPrices::new(content))) };

/// Prices per gas by speed, for transactions without a separate tip.
#[derive(Serialize, ToSchema)]
#[schema(as = FlatPrices)]
pub(crate) struct FlatPrices {
    /// For a transaction that can wait.
    slow: GweiNumber,
    /// The medium tier.
    standard: GweiNumber,
    /// The medium tier.
    average: GweiNumber,
    /// The high tier.
    fast: GweiNumber,
    /// The high tier.
    instant: GweiNumber,
}

impl FlatPrices {
    pub(crate) fn new(content: &DocumentContent) -> Self {
        let prices = content.prices.tiers.map(GweiNumber);
        Self {
            slow: prices.low,
            standard: prices.medium,
            average: prices.medium,
            fast: prices.high,
            instant: prices.high,
        }
    }
}
