//! Metrics of what the sums of costs are made from: parameters of data fees, and prices of coins.

use std::time::Duration;

use enum_map::Enum;
use prometheus_client::metrics::family::Family;
use strum::IntoStaticStr;

use super::chain_keys::DataFeeKind;
use super::routes::CostState;
use crate::observe::metrics::{ChainLabels, ChainOutcomeLabels, Counter, FloatGauge, metric_set};

metric_set! {
    /// Metrics of the parameters of data fees and of the prices of coins.
    pub(crate) CostMetrics {
        /// Seconds since the L1 attributes of an OP Stack chain were read; NaN: never
        data_fee_parameters_age_seconds: Family<ChainLabels, FloatGauge>,
        /// Reads of the L1 attributes by outcome: ok, failed, or unknown (those of a fork whose rule is not known)
        data_fee_reads_total: Family<ChainOutcomeLabels, Counter>,
        /// Price of the chain's coin in dollars; NaN: none is known, or the feed's is too old
        coin_usd: Family<ChainLabels, FloatGauge>,
        /// Seconds since the price feed of a chain's coin was written; NaN: no price was read
        usd_price_age_seconds: Family<ChainLabels, FloatGauge>,
        /// Reads of the price feed by outcome: ok, failed, or invalid (the contract does not say a price of the pair)
        usd_price_reads_total: Family<ChainOutcomeLabels, Counter>,
    }
}

/// Outcome of a read of the L1 attributes.
#[derive(Debug, Clone, Copy, Enum, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(super) enum AttributesOutcome {
    Ok,
    Failed,
    /// They are those of a fork whose rule is not known.
    Unknown,
}

/// Outcome of a read of a price feed.
#[derive(Debug, Clone, Copy, Enum, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(super) enum FeedOutcome {
    Ok,
    Failed,
    /// The contract does not say a price of the pair.
    Invalid,
}

impl CostMetrics {
    /// Updates the ages of parameters and prices.
    pub(super) fn update(&self, state: &CostState) {
        let seconds = |age: Option<Duration>| age.map_or(f64::NAN, |age| age.as_secs_f64());
        for chain in state.store.chains() {
            let labels = ChainLabels { chain: chain.config().key.clone() };
            if state.fees.kind(chain).is_some_and(DataFeeKind::has_attributes) {
                let age = seconds(state.fees.age(chain));
                self.data_fee_parameters_age_seconds.get_or_create(&labels).set(age);
            }
            let price =
                state.prices.current(chain).and_then(|price| price.price.exact().parse().ok());
            self.coin_usd.get_or_create(&labels).set(price.unwrap_or(f64::NAN));
            if state.prices.has_feed(chain) {
                let age = seconds(state.prices.age(chain));
                self.usd_price_age_seconds.get_or_create(&labels).set(age);
            }
        }
    }
}
