//! Metrics of what the sums of costs are made from: parameters of data fees, and prices of coins.

use enum_map::{Enum, EnumMap};
use prometheus_client::metrics::family::Family;
use strum::IntoStaticStr;

use super::chain_keys::DataFeeKind;
use super::data_fee::DataFees;
use super::usd_feed::UsdPrices;
use crate::observe::metrics::{
    ChainLabels, ChainOutcomeLabels, Counter, FloatGauge, counters, metric_set,
};
use crate::store::ChainStore;

metric_set! {
    /// Metrics of the parameters of data fees and of the prices of coins.
    CostMetrics {
        /// Seconds since the L1 attributes of an OP Stack chain were read; NaN: never
        data_fee_parameters_age_seconds: Family<ChainLabels, FloatGauge>,
        /// Reads of the L1 attributes by outcome: ok, failed, or unknown (those of a fork whose rule is not known)
        data_fee_reads_total: Family<ChainOutcomeLabels, Counter>,
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
    /// Returns the counters of the reads of a chain's L1 attributes.
    pub(super) fn attributes_reads(&self, chain: &str) -> EnumMap<AttributesOutcome, Counter> {
        counters(&self.data_fee_reads_total, |outcome| ChainOutcomeLabels {
            chain: chain.to_owned(),
            outcome,
        })
    }

    /// Returns the counters of the reads of a chain's price feed.
    pub(super) fn feed_reads(&self, chain: &str) -> EnumMap<FeedOutcome, Counter> {
        counters(&self.usd_price_reads_total, |outcome| ChainOutcomeLabels {
            chain: chain.to_owned(),
            outcome,
        })
    }

    /// Updates the ages of parameters and prices.
    pub(super) fn update(&self, store: &ChainStore, fees: &DataFees, prices: &UsdPrices) {
        for chain in store.chains() {
            if fees.kind(chain) == Some(DataFeeKind::OpStack) {
                let age = fees.age(chain).map_or(f64::NAN, |age| age.as_secs_f64());
                let labels = ChainLabels { chain: chain.config().key.clone() };
                self.data_fee_parameters_age_seconds.get_or_create(&labels).set(age);
            }
            if prices.feed(chain).is_some() {
                let age = prices.age(chain).map_or(f64::NAN, |age| age.as_secs_f64());
                let labels = ChainLabels { chain: chain.config().key.clone() };
                self.usd_price_age_seconds.get_or_create(&labels).set(age);
            }
        }
    }
}
