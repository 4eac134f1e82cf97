//! What is counted of the nodes of a chain, by their places in its configuration.

use metrics::{Counter, Gauge, counter, gauge};

use super::{Metrics, OneOf, names};

impl Metrics {
    /// Counts what came of asking the chain's upstream at this place: `ok`, or a failure's reason.
    pub fn attempt(&self, chain: &str, upstream: usize, outcome: &'static str) {
        self.of_attempt(names::ATTEMPTS, chain, upstream, outcome).increment(1);
    }

    /// Counts what came of sending a read to the chain's upstream at this place: `ok`, or a
    /// failure's reason.
    pub(crate) fn read_attempt(&self, chain: &str, upstream: usize, outcome: &'static str) {
        self.of_attempt(names::READ_ATTEMPTS, chain, upstream, outcome).increment(1);
    }

    fn of_attempt(
        &self,
        name: &'static str,
        chain: &str,
        upstream: usize,
        outcome: &'static str,
    ) -> Counter {
        let (chain, upstream) = (chain.to_owned(), upstream.to_string());
        self.with(|| counter!(name, "chain" => chain, "upstream" => upstream, "outcome" => outcome))
    }

    /// Whether what was published last is from the chain's upstream at this place.
    pub(crate) fn in_use(&self, chain: &str, upstream: usize) -> Gauge {
        self.of_upstream(names::IN_USE, chain, upstream)
    }

    /// Whether the chain's upstream at this place is not asked because it served another chain.
    pub(crate) fn wrong_chain(&self, chain: &str, upstream: usize) -> Gauge {
        self.of_upstream(names::WRONG_CHAIN, chain, upstream)
    }

    /// How the chain's upstream at this place stands.
    pub(crate) fn standing<const COUNT: usize>(
        &self,
        chain: &str,
        upstream: usize,
        standings: [&'static str; COUNT],
    ) -> OneOf<COUNT> {
        let upstream = upstream.to_string();
        let gauge = |standing| {
            let (chain, upstream) = (chain.to_owned(), upstream.clone());
            gauge!(names::STANDING, "chain" => chain, "upstream" => upstream, "standing" => standing)
        };
        self.with(|| OneOf(standings.map(gauge)))
    }

    /// The count of blocks of the chain that were announced.
    pub(crate) fn new_heads(&self, chain: &str) -> Counter {
        self.with(|| counter!(names::NEW_HEADS, "chain" => chain.to_owned()))
    }

    /// Whether somebody is there to announce the chain's blocks.
    pub(crate) fn new_heads_up(&self, chain: &str) -> Gauge {
        self.with(|| gauge!(names::NEW_HEADS_UP, "chain" => chain.to_owned()))
    }

    fn of_upstream(&self, name: &'static str, chain: &str, upstream: usize) -> Gauge {
        let (chain, upstream) = (chain.to_owned(), upstream.to_string());
        self.with(|| gauge!(name, "chain" => chain, "upstream" => upstream))
    }
}
