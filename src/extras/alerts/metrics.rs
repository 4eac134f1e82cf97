//! Metrics of webhooks.

use prometheus_client::metrics::family::Family;

use crate::observe::metrics::{ChainOutcomeLabels, Counter, metric_set};

metric_set! {
    /// Metrics of webhooks.
    AlertMetrics {
        /// Webhooks by outcome: delivered, failed (given up after ten minutes), or replaced (by a newer state, before it
        /// was delivered)
        webhooks_total: Family<ChainOutcomeLabels, Counter>,
    }
}

/// Counters of one alert.
#[derive(Debug, Clone)]
pub(super) struct WebhookCounters {
    pub(super) delivered: Counter,
    pub(super) failed: Counter,
    pub(super) replaced: Counter,
}

impl AlertMetrics {
    /// Returns the counters of a chain, which begin at 0.
    pub(super) fn counters(&self, chain: &str) -> WebhookCounters {
        let counter = |outcome| {
            let labels = ChainOutcomeLabels { chain: chain.to_owned(), outcome };
            self.webhooks_total.get_or_create_owned(&labels)
        };
        WebhookCounters {
            delivered: counter("delivered"),
            failed: counter("failed"),
            replaced: counter("replaced"),
        }
    }
}
