//! What is told of polls: to the upstream's record, the metrics and the log.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use crate::config;
use crate::fees::Rejection;
use crate::heads::Implausible;
use crate::metrics::Metrics;
use crate::news::News;
use crate::rpc::{self, Candidate};

/// Why an upstream gave nothing to publish.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Rpc(#[from] rpc::Error),
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error(transparent)]
    Implausible(#[from] Implausible),
    /// Its head stands still, or moves too slowly.
    #[error("the newest block is late, and another upstream has a newer one")]
    Stands,
}

impl Failure {
    fn reason(&self) -> &'static str {
        match self {
            Self::Rpc(error) => error.reason(),
            Self::Rejected(rejection) => rejection.reason(),
            Self::Implausible(implausible) => implausible.reason(),
            Self::Stands => "head_stands",
        }
    }
}

/// Tells the upstream's record, the metrics and the log what came of an attempt.
///
/// The log hears of changes, not of every poll, and knows an upstream by its place in the
/// configuration: its URL may carry a key.
#[derive(Debug)]
pub(super) struct Reports {
    metrics: Metrics,
    chain: String,
    /// By the upstream's place.
    news: Vec<News>,
    /// By the upstream's place.
    in_use: Vec<Gauge>,
    good_polls: Counter,
    failed_polls: Counter,
    poll_duration: Histogram,
    regressions: Counter,
}

impl Reports {
    pub(super) fn new(metrics: Metrics, chain: &config::Chain) -> Self {
        let (key, upstreams) = (chain.key.as_str(), chain.rpc_urls.len());
        let in_use = |index| {
            let gauge = metrics.in_use(key, index);
            gauge.set(0);
            gauge
        };
        Self {
            chain: key.to_owned(),
            news: (0..upstreams).map(|_| News::default()).collect(),
            in_use: (0..upstreams).map(in_use).collect(),
            good_polls: metrics.polls(key, "ok"),
            failed_polls: metrics.polls(key, "failed"),
            poll_duration: metrics.poll_duration(key),
            regressions: metrics.head_regressions(key),
            metrics,
        }
    }

    pub(super) fn poll(&self, was_good: bool, took: Duration) {
        let count = if was_good { &self.good_polls } else { &self.failed_polls };
        count.increment(1);
        self.poll_duration.record(took);
    }

    pub(super) fn published(&self, index: usize, is_regression: bool) {
        for (place, gauge) in self.in_use.iter().enumerate() {
            gauge.set(u32::from(place == index));
        }
        if is_regression {
            self.regressions.increment(1);
        }
    }

    pub(super) fn adopted(&self, is_regression: bool) {
        for gauge in &self.in_use {
            gauge.set(0);
        }
        if is_regression {
            self.regressions.increment(1);
        }
    }

    pub(super) fn success(&self, asked: Candidate<'_>) {
        let index = asked.index;
        asked.upstream.succeeded();
        self.count(index, "ok");
        if self.is_news(index, Ok(())) {
            tracing::info!(chain = self.chain, upstream = index, "upstream answers");
        }
    }

    pub(super) fn failure(&self, asked: Candidate<'_>, failure: &Failure) {
        let index = asked.index;
        match failure {
            Failure::Rpc(error) => asked.upstream.failed(error),
            // It may be what is known that lags; to find out it has to be asked.
            Failure::Implausible(Implausible::Ahead) => {}
            _ => asked.upstream.was_refused(),
        }
        let reason = failure.reason();
        self.count(index, reason);
        if self.is_news(index, Err(reason)) {
            let error = text_of(failure);
            tracing::warn!(chain = self.chain, upstream = index, reason, error, "upstream failed");
        }
    }

    pub(super) fn confirmed(&self, index: usize, newest_block: u64) {
        let chain = self.chain.as_str();
        tracing::warn!(
            chain,
            upstream = index,
            newest_block,
            "an unexpected newest block is confirmed"
        );
    }

    fn count(&self, index: usize, outcome: &'static str) {
        self.metrics.attempt(&self.chain, index, outcome);
        tracing::trace!(chain = self.chain, upstream = index, outcome, "upstream asked");
    }

    fn is_news(&self, index: usize, outcome: Result<(), &'static str>) -> bool {
        self.news.get(index).is_some_and(|news| news.is(outcome))
    }
}

/// The failure and what is behind it, on one line.
fn text_of(failure: &Failure) -> String {
    let causes = std::iter::successors(std::error::Error::source(failure), |error| error.source());
    causes.fold(failure.to_string(), |text, cause| format!("{text}: {cause}"))
}
