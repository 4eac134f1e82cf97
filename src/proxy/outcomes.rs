//! What comes of requests to an upstream: each is counted, and the log is told when it changes.

use axum::http::Response;
use metrics::Counter;

use super::{Answer, Failure};
use crate::metrics::Metrics;
use crate::news::News;

#[derive(Debug)]
pub(super) struct Outcomes {
    /// What the upstream is called in the log, where its URL has no place.
    name: &'static str,
    news: News,
    answered: Counter,
    unreachable: Counter,
    broken: Counter,
    interrupted: Counter,
    timeout: Counter,
    invalid: Counter,
    overloaded: Counter,
    too_many_of_client: Counter,
    abandoned: Counter,
    cut: Counter,
}

/// A request of which it is not known yet what comes of it. To drop it is to abandon the request.
pub(super) struct Undecided<'a> {
    outcomes: &'a Outcomes,
    count: Option<&'a Counter>,
}

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        if let Some(counter) = self.count {
            counter.increment(1);
        }
    }
}

impl Outcomes {
    pub(super) fn new(name: &'static str, metrics: &Metrics) -> Self {
        let count = |outcome| metrics.proxied(name, outcome);
        Self {
            name,
            news: News::default(),
            answered: count("answered"),
            unreachable: count("unreachable"),
            broken: count("broken"),
            interrupted: count("interrupted"),
            timeout: count("timeout"),
            invalid: count("invalid"),
            overloaded: count("overloaded"),
            too_many_of_client: count("too_many_of_client"),
            abandoned: count("abandoned"),
            cut: count("cut"),
        }
    }

    pub(super) fn upstream(&self) -> &'static str {
        self.name
    }

    /// The count of answers that ended before their end.
    pub(super) fn cut(&self) -> Counter {
        self.cut.clone()
    }

    pub(super) fn begin(&self) -> Undecided<'_> {
        Undecided { outcomes: self, count: Some(&self.abandoned) }
    }

    /// Tells the log why the upstream gave no answer, with the `error` behind it.
    pub(super) fn failed(&self, failure: Failure, error: Option<reqwest::Error>) {
        let reason = failure.reason();
        if self.news.is(Err(reason)) {
            // The URL may carry a key.
            let error = error.map(|error| anyhow::Error::new(error.without_url()));
            let error = error.map_or_else(|| failure.to_string(), |error| format!("{error:#}"));
            tracing::warn!(upstream = self.name, reason, error, "upstream failed");
        }
    }
}

impl Undecided<'_> {
    pub(super) fn decide(mut self, outcome: &Result<Response<Answer>, Failure>) {
        let outcomes = self.outcomes;
        self.count = match outcome {
            Ok(_) => {
                if outcomes.news.is(Ok(())) {
                    tracing::info!(upstream = outcomes.name, "upstream answers");
                }
                Some(&outcomes.answered)
            }
            Err(Failure::Overloaded) => Some(&outcomes.overloaded),
            Err(Failure::TooManyOfClient) => Some(&outcomes.too_many_of_client),
            Err(Failure::Unreachable) => Some(&outcomes.unreachable),
            Err(Failure::Broken) => Some(&outcomes.broken),
            Err(Failure::Interrupted(_)) => Some(&outcomes.interrupted),
            Err(Failure::Timeout) => Some(&outcomes.timeout),
            Err(Failure::Invalid) => Some(&outcomes.invalid),
            Err(Failure::Query | Failure::Astray) => None,
        };
    }
}
