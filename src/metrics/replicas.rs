//! Metrics of replicas.

use metrics::{Counter, Gauge, counter, gauge};

use super::{Metrics, names};

impl Metrics {
    /// 1 while Redis responds.
    pub(crate) fn redis_up(&self) -> Gauge {
        self.with_recorder(|| gauge!(names::REDIS_UP))
    }

    /// Counter of failures of Redis with this reason.
    pub(crate) fn redis_failures(&self, reason: &'static str) -> Counter {
        self.with_recorder(|| counter!(names::REDIS_FAILURES, "reason" => reason))
    }

    /// Counter of the chain's poll slots with this outcome.
    pub(crate) fn poll_slots(&self, chain: &str, outcome: &'static str) -> Counter {
        self.with_recorder(
            || counter!(names::POLL_SLOTS, "chain" => chain.to_owned(), "outcome" => outcome),
        )
    }

    /// Counter of messages of other replicas about the chain, with this outcome.
    pub(crate) fn replica_messages(&self, chain: &str, outcome: &'static str) -> Counter {
        self.with_recorder(
            || counter!(names::REPLICA_MESSAGES, "chain" => chain.to_owned(), "outcome" => outcome),
        )
    }

    /// Counter of permits of the delegation API with this outcome.
    pub(crate) fn delegation_budget(&self, outcome: &'static str) -> Counter {
        self.with_recorder(|| counter!(names::DELEGATION_BUDGET, "outcome" => outcome))
    }
}
