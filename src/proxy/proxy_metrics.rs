//! Counts outcomes of requests to an upstream and logs changes.

use axum::http::Response;
use metrics::Counter;

use super::{ProxyError, UpstreamBody};
use crate::log_on_change::LogOnChange;
use crate::metrics::Metrics;

#[derive(Debug)]
pub(super) struct ProxyMetrics {
    /// Name of the upstream in the log, instead of its URL.
    name: &'static str,
    log_on_change: LogOnChange,
    answered: Counter,
    unreachable: Counter,
    connection_lost: Counter,
    request_body_aborted: Counter,
    timeout: Counter,
    invalid_response: Counter,
    overloaded: Counter,
    too_many_per_client: Counter,
    abandoned: Counter,
    truncated: Counter,
}

/// A request with an unknown outcome. Dropping it counts it as cancelled.
pub(super) struct OutcomeGuard<'a> {
    proxy_metrics: &'a ProxyMetrics,
    counter: Option<&'a Counter>,
}

impl Drop for OutcomeGuard<'_> {
    fn drop(&mut self) {
        if let Some(counter) = self.counter {
            counter.increment(1);
        }
    }
}

impl ProxyMetrics {
    pub(super) fn new(name: &'static str, metrics: &Metrics) -> Self {
        let counter = |outcome| metrics.proxied_requests(name, outcome);
        Self {
            name,
            log_on_change: LogOnChange::default(),
            answered: counter("ok"),
            unreachable: counter("unreachable"),
            connection_lost: counter("connection_closed"),
            request_body_aborted: counter("request_aborted"),
            timeout: counter("timeout"),
            invalid_response: counter("invalid"),
            overloaded: counter("overloaded"),
            too_many_per_client: counter("client_limit"),
            abandoned: counter("cancelled"),
            truncated: counter("truncated"),
        }
    }

    pub(super) fn upstream_name(&self) -> &'static str {
        self.name
    }

    /// Counter of truncated responses.
    pub(super) fn truncated(&self) -> Counter {
        self.truncated.clone()
    }

    pub(super) fn start_request(&self) -> OutcomeGuard<'_> {
        OutcomeGuard { proxy_metrics: self, counter: Some(&self.abandoned) }
    }

    /// Logs why the upstream did not respond, with the underlying `error`.
    pub(super) fn log_failure(&self, proxy_error: ProxyError, error: Option<reqwest::Error>) {
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
    pub(super) fn record(mut self, outcome: &Result<Response<UpstreamBody>, ProxyError>) {
        let proxy_metrics = self.proxy_metrics;
        self.counter = match outcome {
            Ok(_) => {
                if proxy_metrics.log_on_change.changed_to(Ok(())) {
                    tracing::info!(upstream = proxy_metrics.name, "upstream recovered");
                }
                Some(&proxy_metrics.answered)
            }
            Err(ProxyError::Overloaded) => Some(&proxy_metrics.overloaded),
            Err(ProxyError::TooManyPerClient) => Some(&proxy_metrics.too_many_per_client),
            Err(ProxyError::Unreachable) => Some(&proxy_metrics.unreachable),
            Err(ProxyError::ConnectionLost) => Some(&proxy_metrics.connection_lost),
            Err(ProxyError::RequestBodyAborted(_)) => Some(&proxy_metrics.request_body_aborted),
            Err(ProxyError::Timeout) => Some(&proxy_metrics.timeout),
            Err(ProxyError::InvalidResponse) => Some(&proxy_metrics.invalid_response),
            Err(ProxyError::InvalidQuery | ProxyError::EscapesBaseUrl) => None,
        };
    }
}
