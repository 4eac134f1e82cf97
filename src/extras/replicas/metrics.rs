//! Metrics of shared polls.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::observe::metrics::{ChainOutcomeLabels, Counter, labels, metric_set};

metric_set! {
    /// Metrics of shared polls.
    pub(crate) ReplicaMetrics {
        /// Failed connection attempts to Redis and failed commands, by reason
        redis_failures_total: Family<ReasonLabels, Counter>,
        /// Poll slots of a chain: claimed (this replica polls), yielded (another replica polls), or standalone (this
        /// replica polls without a claim: Redis is unavailable, or no other replica delivered)
        poll_slots_total: Family<ChainOutcomeLabels, Counter>,
        /// Fee histories published by other replicas, by outcome: adopted, duplicate, older than the current one, rejected
        /// (this replica's pricing cannot compute a suggestion from it), implausible (its newest block is further ahead
        /// than the chain can be), contradicted (by an own node), or invalid (no replica of this version writes such a
        /// message)
        replica_messages_total: Family<ChainOutcomeLabels, Counter>,
    }
}

metric_set! {
    /// Metrics of the connection, which a service without Redis lacks.
    pub(crate) ConnectionMetrics {
        /// 1 if the last Redis command succeeded
        redis_up: Gauge,
    }
}

labels! {
    ReasonLabels { reason: &'static str }
}
