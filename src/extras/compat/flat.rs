//! One object of prices by speed, as the oracles of bridges and relayers have it.

use serde::Serialize;
use utoipa::ToSchema;

use super::gwei::GweiNumber;
use super::quote::Quote;

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
    pub(crate) fn new(quote: &Quote) -> Self {
        let prices = quote.prices().map(GweiNumber);
        Self {
            slow: prices.low,
            standard: prices.medium,
            average: prices.medium,
            fast: prices.high,
            instant: prices.high,
        }
    }
}
