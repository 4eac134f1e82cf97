//! Counters of one chain's poll slots.

use metrics::Counter;

use super::shared_fee_history::AdoptOutcome;
use crate::metrics::Metrics;

#[derive(Debug)]
pub(super) struct ReplicaCounters {
    pub(super) claimed: Counter,
    pub(super) yielded: Counter,
    pub(super) standalone: Counter,
    adopted: Counter,
    duplicate: Counter,
    older: Counter,
    rejected: Counter,
    implausible: Counter,
    pub(super) invalid: Counter,
}

impl ReplicaCounters {
    pub(super) fn new(metrics: &Metrics, chain: &str) -> Self {
        let slots = |outcome| metrics.poll_slots(chain, outcome);
        let messages = |outcome| metrics.replica_messages(chain, outcome);
        Self {
            claimed: slots("claimed"),
            yielded: slots("yielded"),
            standalone: slots("standalone"),
            adopted: messages("adopted"),
            duplicate: messages("duplicate"),
            older: messages("older"),
            rejected: messages("rejected"),
            implausible: messages("implausible"),
            invalid: messages("invalid"),
        }
    }

    /// Counter of shared fee histories with this outcome.
    pub(super) fn for_merge(&self, outcome: AdoptOutcome) -> &Counter {
        match outcome {
            AdoptOutcome::Adopted => &self.adopted,
            AdoptOutcome::Duplicate => &self.duplicate,
            AdoptOutcome::Older => &self.older,
            AdoptOutcome::Rejected => &self.rejected,
            AdoptOutcome::Implausible => &self.implausible,
        }
    }
}
