//! Metrics of webhooks.

use enum_map::Enum;
use prometheus_client::metrics::family::Family;
use strum::IntoStaticStr;

use crate::observe::metrics::{ChainOutcomeLabels, Counter, metric_set};

metric_set! {
    /// Metrics of webhooks.
    pub(crate) AlertMetrics {
        /// Webhooks by outcome: delivered, failed (given up after ten minutes), or replaced (by a newer state, before it
        /// was delivered)
        webhooks_total: Family<ChainOutcomeLabels, Counter>,
    }
}

/// Outcome of a webhook.
#[derive(Debug, Clone, Copy, Enum, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(super) enum WebhookOutcome {
    Delivered,
    /// Given up after ten minutes.
    Failed,
    /// A newer state came before it was delivered.
    Replaced,
}
