//! What is counted, under names that are declared here alone.
//!
//! There is no global recorder: a [`Metrics`] belongs to one server, so that two of them in one
//! process do not count for each other.

use std::fmt;
use std::sync::Arc;

use metrics::{
    Counter, Gauge, Unit, counter, describe_counter, describe_gauge, gauge, with_local_recorder,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

const ATTEMPTS: &str = "gas_suggestion_upstream_attempts_total";
const READ_ATTEMPTS: &str = "gas_suggestion_upstream_reads_total";
const READS: &str = "gas_suggestion_reads_total";
const PROXIED: &str = "gas_suggestion_proxied_requests_total";
const DELEGATION_LOOKUPS: &str = "gas_suggestion_delegation_lookups_total";
const CONNECTIONS: &str = "gas_suggestion_connections_total";
const CONNECTIONS_CUT: &str = "gas_suggestion_connections_cut_total";
const STREAMS: &str = "gas_suggestion_streams";
const STREAMS_REFUSED: &str = "gas_suggestion_streams_refused_total";
const RATE_LIMITED: &str = "gas_suggestion_requests_rate_limited_total";

/// All counts of one server. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    recorder: Arc<PrometheusRecorder>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        with_local_recorder(&recorder, || {
            let describe = |name, text: &'static str| describe_counter!(name, Unit::Count, text);
            describe(
                ATTEMPTS,
                "Polls of an upstream by its place in the configuration and by what came of it",
            );
            describe(
                READ_ATTEMPTS,
                "Reads sent to an upstream by its place in the configuration and by what came of it",
            );
            describe(READS, "Reads of chain state for clients by what came of them");
            describe(PROXIED, "Requests passed on to an upstream by what came of them");
            describe(
                DELEGATION_LOOKUPS,
                "Look-ups of delegations by who answered them, or by what came of them",
            );
            describe(CONNECTIONS, "Connections by what became of them");
            describe(CONNECTIONS_CUT, "Connections that were cut, by the deadline they missed");
            describe(RATE_LIMITED, "Requests that were refused with 429");
            describe_gauge!(STREAMS, Unit::Count, "Streams of suggestions that are open");
            describe(STREAMS_REFUSED, "Streams that were refused for want of a place");
        });
        Self { recorder: Arc::new(recorder) }
    }

    /// The state of all of them in the text format of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        self.recorder.handle().render()
    }

    /// Counts what came of asking the chain's upstream at this place: `ok`, or a failure's reason.
    pub fn attempt(&self, chain: &str, upstream: usize, outcome: &'static str) {
        let labels = [
            ("chain", chain.to_owned()),
            ("upstream", upstream.to_string()),
            ("outcome", outcome.to_owned()),
        ];
        self.with(|| counter!(ATTEMPTS, &labels)).increment(1);
    }

    /// Counts what came of sending a read to the chain's upstream at this place: `ok`, or a
    /// failure's reason.
    pub(crate) fn read_attempt(&self, chain: &str, upstream: usize, outcome: &'static str) {
        let labels = [
            ("chain", chain.to_owned()),
            ("upstream", upstream.to_string()),
            ("outcome", outcome.to_owned()),
        ];
        self.with(|| counter!(READ_ATTEMPTS, &labels)).increment(1);
    }

    /// The count of the chain's reads that ended like this.
    pub(crate) fn reads(&self, chain: &str, outcome: &'static str) -> Counter {
        self.with(|| counter!(READS, "chain" => chain.to_owned(), "outcome" => outcome))
    }

    /// The count of requests passed on to this upstream that ended like this.
    pub(crate) fn proxied(&self, upstream: &'static str, outcome: &'static str) -> Counter {
        self.with(|| counter!(PROXIED, "upstream" => upstream, "outcome" => outcome))
    }

    /// The count of look-ups of delegations that ended like this.
    pub(crate) fn delegation_lookups(&self, outcome: &'static str) -> Counter {
        self.with(|| counter!(DELEGATION_LOOKUPS, "outcome" => outcome))
    }

    /// The count of connections that met this fate: `accepted`, or why not.
    pub(crate) fn connections(&self, listener: &'static str, outcome: &'static str) -> Counter {
        self.with(|| counter!(CONNECTIONS, "listener" => listener, "outcome" => outcome))
    }

    /// The count of connections that missed this deadline.
    pub(crate) fn connections_cut(
        &self,
        listener: &'static str,
        deadline: &'static str,
    ) -> Counter {
        self.with(|| counter!(CONNECTIONS_CUT, "listener" => listener, "deadline" => deadline))
    }

    /// The count of requests refused with 429.
    pub(crate) fn rate_limited(&self) -> Counter {
        self.with(|| counter!(RATE_LIMITED))
    }

    /// The number of open streams.
    pub(crate) fn streams(&self) -> Gauge {
        self.with(|| gauge!(STREAMS))
    }

    /// The count of streams for which there was no place.
    pub(crate) fn streams_refused(&self) -> Counter {
        self.with(|| counter!(STREAMS_REFUSED))
    }

    fn with<T>(&self, register: impl FnOnce() -> T) -> T {
        with_local_recorder(&*self.recorder, register)
    }
}
