//! Metrics of replicas.

use metrics::{Counter, Gauge, counter, gauge};

use super::{Metrics, names};

impl Metrics {
    /// Returns true if Redis answers.
    pub(crate) fn redis_up(&self) -> Gauge {
        self.with_recorder(|| gauge!(names::REDIS_UP))
    }

    /// The count of failures of Redis of this kind.
    pub(crate) fn redis_failures(&self, reason: &'static str) -> Counter {
        self.with_recorder(|| counter!(names::REDIS_FAILURES, "reason" => reason))
    }

    /// The count of the chain's turns that went like this.
    pub(crate) fn poll_slots(&self, chain: &str, outcome: &'static str) -> Counter {
        self.with_recorder(
            || counter!(names::POLL_SLOTS, "chain" => chain.to_owned(), "outcome" => outcome),
        )
    }

    /// The count of what other replicas have published of the chain that met this fate.
    pub(crate) fn replica_messages(&self, chain: &str, outcome: &'static str) -> Counter {
        self.with_recorder(
            || counter!(names::REPLICA_MESSAGES, "chain" => chain.to_owned(), "outcome" => outcome),
        )
    }

    /// The count of requests to the delegation API that its budget did this with.
    pub(crate) fn delegation_budget(&self, outcome: &'static str) -> Counter {
        self.with_recorder(|| counter!(names::DELEGATION_BUDGET, "outcome" => outcome))
    }
}
