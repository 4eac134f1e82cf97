//! Metrics of a chain's nodes, by index in its configuration.

use metrics::{Counter, Gauge, counter, gauge};

use super::{Metrics, StateSet, names};

impl Metrics {
    /// Counts a poll of the chain's upstream with this index: `ok`, or the reason of the failure.
    pub fn record_attempt(&self, chain: &str, upstream: usize, outcome: &'static str) {
        self.attempt_counter(names::UPSTREAM_ATTEMPTS, chain, upstream, outcome).increment(1);
    }

    /// Counts a read at the chain's upstream with this index: `ok`, or the reason of the failure.
    pub(crate) fn record_read_attempt(&self, chain: &str, upstream: usize, outcome: &'static str) {
        self.attempt_counter(names::UPSTREAM_READS, chain, upstream, outcome).increment(1);
    }

    fn attempt_counter(
        &self,
        name: &'static str,
        chain: &str,
        upstream: usize,
        outcome: &'static str,
    ) -> Counter {
        let (chain, upstream) = (chain.to_owned(), upstream.to_string());
        self.with_recorder(
            || counter!(name, "chain" => chain, "upstream" => upstream, "outcome" => outcome),
        )
    }

    /// 1 if the last published reply came from the chain's upstream with this index.
    pub(crate) fn upstream_in_use(&self, chain: &str, upstream: usize) -> Gauge {
        self.upstream_gauge(names::UPSTREAM_IN_USE, chain, upstream)
    }

    /// 1 if the chain's upstream with this index is excluded because it served another chain.
    pub(crate) fn upstream_wrong_chain(&self, chain: &str, upstream: usize) -> Gauge {
        self.upstream_gauge(names::UPSTREAM_WRONG_CHAIN, chain, upstream)
    }

    /// State of the chain's upstream with this index.
    pub(crate) fn upstream_state<const COUNT: usize>(
        &self,
        chain: &str,
        upstream: usize,
        states: [&'static str; COUNT],
    ) -> StateSet<COUNT> {
        let upstream = upstream.to_string();
        let gauge = |state| {
            let (chain, upstream) = (chain.to_owned(), upstream.clone());
            gauge!(names::UPSTREAM_STATE, "chain" => chain, "upstream" => upstream, "state" => state)
        };
        self.with_recorder(|| StateSet(states.map(gauge)))
    }

    /// Counter of announced blocks of the chain.
    pub(crate) fn new_heads(&self, chain: &str) -> Counter {
        self.with_recorder(|| counter!(names::NEW_HEADS, "chain" => chain.to_owned()))
    }

    /// 1 while a WebSocket announces the chain's blocks.
    pub(crate) fn new_heads_up(&self, chain: &str) -> Gauge {
        self.with_recorder(|| gauge!(names::NEW_HEADS_UP, "chain" => chain.to_owned()))
    }

    fn upstream_gauge(&self, name: &'static str, chain: &str, upstream: usize) -> Gauge {
        let (chain, upstream) = (chain.to_owned(), upstream.to_string());
        self.with_recorder(|| gauge!(name, "chain" => chain, "upstream" => upstream))
    }
}
