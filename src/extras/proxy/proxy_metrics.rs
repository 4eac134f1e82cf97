//! Counts outcomes of requests to an upstream and logs changes.

use prometheus_client::metrics::family::Family;

use super::ProxyError;
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::{Counter, Metrics, labels, metric_set};

metric_set! {
    /// Metrics of forwarded requests.
    pub(crate) RequestMetrics {
        /// Requests forwarded to an upstream by outcome
        proxied_requests_total: Family<ProxyLabels, Counter>,
    }
}

labels! {
    ProxyLabels { upstream: &'static str, outcome: &'static str }
}

const OK: &str = "ok";
const CANCELLED: &str = "cancelled";
const TRUNCATED: &str = "truncated";

#[derive(Debug)]
pub(crate) struct ProxyMetrics {
    /// Name of the upstream in the log, instead of its URL.
    pub(crate) name: &'static str,
    log_on_change: LogOnChange,
    requests: Family<ProxyLabels, Counter>,
}

/// A request with an unknown outcome. Dropping it counts it as cancelled.
pub(crate) struct OutcomeGuard<'a> {
    proxy_metrics: &'a ProxyMetrics,
    outcome: &'static str,
}

impl Drop for OutcomeGuard<'_> {
    fn drop(&mut self) {
        self.proxy_metrics.counter(self.outcome).increment();
    }
}

impl ProxyMetrics {
    pub(crate) fn new(name: &'static str, metrics: &Metrics) -> Self {
        let requests = metrics.set::<RequestMetrics>().proxied_requests_total;
        let proxy_metrics = Self { name, log_on_change: LogOnChange::default(), requests };
        // Each counter exists from the start.
        for outcome in [OK, CANCELLED, TRUNCATED].into_iter().chain(ProxyError::COUNTED) {
            proxy_metrics.counter(outcome);
        }
        proxy_metrics
    }

    /// Counter of truncated responses.
    pub(crate) fn truncated(&self) -> Counter {
        self.counter(TRUNCATED)
    }

    pub(crate) fn start_request(&self) -> OutcomeGuard<'_> {
        OutcomeGuard { proxy_metrics: self, outcome: CANCELLED }
    }

    /// Logs why the upstream did not respond, with the underlying `error`.
    pub(crate) fn log_failure(&self, proxy_error: &ProxyError, error: Option<reqwest::Error>) {
        let reason = proxy_error.reason();
        if self.log_on_change.changed_to(Err(reason)) {
            // The URL may contain a key.
            let error = error.map(|error| anyhow::Error::new(error.without_url()));
            let error = error.map_or_else(|| proxy_error.to_string(), |error| format!("{error:#}"));
            tracing::warn!(upstream = self.name, reason, error, "upstream failed");
        }
    }

    fn counter(&self, outcome: &'static str) -> Counter {
        self.requests.get_or_create_owned(&ProxyLabels { upstream: self.name, outcome })
    }
}

impl OutcomeGuard<'_> {
    pub(crate) fn record<T>(mut self, result: &Result<T, ProxyError>) {
        let proxy_metrics = self.proxy_metrics;
        self.outcome = match result {
            Ok(_) => {
                if let Some(change) = proxy_metrics.log_on_change.success() {
                    tracing::info!(upstream = proxy_metrics.name, "upstream {change}");
                }
                OK
            }
            Err(error) => error.reason(),
        };
    }
}
