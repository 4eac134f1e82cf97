//! Gauges of the pairs for horizons and probabilities.

use prometheus_client::metrics::family::Family;

use super::Records;
use super::estimator::all_cells;
use super::routes::MIN_JUDGED;
use crate::observe::metrics::{FloatGauge, labels, metric_set, to_f64};
use crate::store::StoredChain;

metric_set! {
    /// Gauges of the pairs for horizons and probabilities.
    pub(crate) HorizonMetrics {
        /// Share of the last hour's pairs (at most 1,000) that one of the next blocks would have included; NaN before 100
        horizon_kept_ratio: Family<CellLabels, FloatGauge>,
        /// Pairs that horizon_kept_ratio is computed from
        horizon_judged: Family<CellLabels, FloatGauge>,
        /// Pairs of the last hour whose blocks were never seen, or had no usable rewards
        horizon_unjudged: Family<CellLabels, FloatGauge>,
    }
}

labels! {
    CellLabels { chain: String, within: usize, probability: String }
}

impl HorizonMetrics {
    pub(super) fn update(&self, chain: &StoredChain, records: &Records) {
        let counts = chain.read_together(|blocks| records.read(chain, blocks).1);
        for ((within, percent), count) in all_cells().zip(counts) {
            let probability = format!("0.{percent}").trim_end_matches('0').to_owned();
            let labels = CellLabels { chain: chain.config().key.clone(), within, probability };
            let share = count.share(MIN_JUDGED).unwrap_or(f64::NAN);
            self.horizon_kept_ratio.get_or_create(&labels).set(share);
            self.horizon_judged.get_or_create(&labels).set(to_f64(count.judged));
            self.horizon_unjudged.get_or_create(&labels).set(to_f64(count.unjudged));
        }
    }
}
