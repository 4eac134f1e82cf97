//! Counts outcomes of requests to an upstream and logs changes.

use axum::http::Response;
use enum_map::{Enum, EnumMap};
use prometheus_client::metrics::family::Family;

use super::{ProxyError, UpstreamBody};
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::{Counter, Metrics, counters, labels, metric_set};

metric_set! {
    /// Metrics of forwarded requests.
    RequestMetrics {
        /// Requests forwarded to an upstream by outcome
        proxied_requests_total: Family<ProxyLabels, Counter>,
    }
}

labels! {
    ProxyLabels { upstream: &'static str, outcome: &'static str }
}

#[derive(Debug)]
pub(crate) struct ProxyMetrics {
    /// Name of the upstream in the log, instead of its URL.
    name: &'static str,
    log_on_change: LogOnChange,
    counters: EnumMap<ProxyOutcome, Counter>,
}

#[derive(Debug, Enum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum ProxyOutcome {
    Ok,
    Unreachable,
    ConnectionClosed,
    RequestAborted,
    Timeout,
    Invalid,
    Overloaded,
    ClientLimit,
    Cancelled,
    Truncated,
}

/// A request with an unknown outcome. Dropping it counts it as cancelled.
pub(crate) struct OutcomeGuard<'a> {
    proxy_metrics: &'a ProxyMetrics,
    outcome: Option<ProxyOutcome>,
}

impl Drop for OutcomeGuard<'_> {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome.take() {
            self.proxy_metrics.counters[outcome].increment();
        }
    }
}

impl ProxyMetrics {
    pub(crate) fn new(name: &'static str, metrics: &Metrics) -> Self {
        Self {
            name,
            log_on_change: LogOnChange::default(),
            counters: counters(
                &metrics.set::<RequestMetrics>().proxied_requests_total,
                |outcome| ProxyLabels { upstream: name, outcome },
            ),
        }
    }

    pub(crate) fn upstream_name(&self) -> &'static str {
        self.name
    }

    /// Counter of truncated responses.
    pub(crate) fn truncated(&self) -> Counter {
        self.counters[ProxyOutcome::Truncated].clone()
    }

    pub(crate) fn start_request(&self) -> OutcomeGuard<'_> {
        OutcomeGuard { proxy_metrics: self, outcome: Some(ProxyOutcome::Cancelled) }
    }

    /// Logs why the upstream did not respond, with the underlying `error`.
    pub(crate) fn log_failure(&self, proxy_error: ProxyError, error: Option<reqwest::Error>) {
        let reason = proxy_error.reason();
        if self.log_on_change.changed_to(Err(reason)) {
            // The URL may contain a key.
            let error = error.map(|error| anyhow::Error::new(error.without_url()));
            let error = error.map_or_else(|| proxy_error.to_string(), |error| format!("{error:#}"));
            tracing::warn!(upstream = self.name, reason, error, "upstream failed");
        }
    }
}

impl OutcomeGuard<'_> {
    pub(crate) fn record(mut self, result: &Result<Response<UpstreamBody>, ProxyError>) {
        let proxy_metrics = self.proxy_metrics;
        self.outcome = match result {
            Ok(_) => {
                if proxy_metrics.log_on_change.changed_to(Ok(())) {
                    tracing::info!(upstream = proxy_metrics.name, "upstream recovered");
                }
                Some(ProxyOutcome::Ok)
            }
            Err(ProxyError::Overloaded) => Some(ProxyOutcome::Overloaded),
            Err(ProxyError::TooManyPerClient) => Some(ProxyOutcome::ClientLimit),
            Err(ProxyError::Unreachable) => Some(ProxyOutcome::Unreachable),
            Err(ProxyError::ConnectionLost) => Some(ProxyOutcome::ConnectionClosed),
            Err(ProxyError::RequestBodyAborted(_)) => Some(ProxyOutcome::RequestAborted),
            Err(ProxyError::Timeout) => Some(ProxyOutcome::Timeout),
            Err(ProxyError::InvalidResponse) => Some(ProxyOutcome::Invalid),
            Err(ProxyError::InvalidQuery | ProxyError::EscapesBaseUrl) => None,
        };
    }
}
