//! Metrics of the parameters of data fees.

use prometheus_client::metrics::family::Family;

use super::data_fee::DataFees;
use crate::config::DataFeeKind;
use crate::observe::metrics::{ChainLabels, ChainOutcomeLabels, Counter, FloatGauge, metric_set};
use crate::store::ChainStore;

metric_set! {
    /// Metrics of the parameters of data fees.
    CostMetrics {
        /// Seconds since the L1 attributes of an OP Stack chain were read; NaN: never
        data_fee_parameters_age_seconds: Family<ChainLabels, FloatGauge>,
        /// Reads of the L1 attributes by outcome: ok, failed, or unknown (those of a fork whose rule is not known)
        data_fee_reads_total: Family<ChainOutcomeLabels, Counter>,
    }
}

/// Counters of the reads of one chain.
#[derive(Debug, Clone)]
pub(super) struct ReadCounters {
    pub(super) ok: Counter,
    pub(super) failed: Counter,
    pub(super) unknown: Counter,
}

impl CostMetrics {
    /// Returns the counters of a chain, which begin at 0.
    pub(super) fn reads(&self, chain: &str) -> ReadCounters {
        let counter = |outcome| {
            let labels = ChainOutcomeLabels { chain: chain.to_owned(), outcome };
            self.data_fee_reads_total.get_or_create_owned(&labels)
        };
        ReadCounters { ok: counter("ok"), failed: counter("failed"), unknown: counter("unknown") }
    }

    /// Updates the ages of the parameters.
    pub(super) fn update(&self, store: &ChainStore, fees: &DataFees) {
        for chain in store.chains() {
            if chain.config().data_fee == Some(DataFeeKind::OpStack) {
                let age = fees.age(chain).map_or(f64::NAN, |age| age.as_secs_f64());
                let labels = ChainLabels { chain: chain.config().key.clone() };
                self.data_fee_parameters_age_seconds.get_or_create(&labels).set(age);
            }
        }
    }
}
