//! Reports polls to the upstream's health record, the metrics and the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;

use super::comparisons::Pair;
use crate::config;
use crate::fees::gwei::rounded_gwei;
use crate::fees::plausibility::SuspiciousReply;
use crate::fees::{Market, Pricing, PricingError};
use crate::nodes::{self, Candidate, with_causes};
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::{
    AttemptLabels, ChainLabels, ChainOutcomeLabels, Counter, Durations, Metrics, UpstreamLabels,
};

/// Reason why an upstream returned nothing to publish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PollError {
    #[error(transparent)]
    Rpc(#[from] nodes::Error),
    #[error(transparent)]
    Unpriced(#[from] PricingError),
    #[error(transparent)]
    Suspicious(#[from] SuspiciousReply),
    /// With `agreement`: most of the upstreams do not confirm the reply.
    #[error("most of the upstreams do not agree with the reply")]
    Disagreement,
    /// The node has nothing but the genesis block of a chain with more.
    #[error("the node has only the genesis block, with a base fee of 0")]
    Genesis,
    /// Another upstream has a newer block.
    #[error("the newest block is old, and another upstream has a newer block")]
    OldBlock,
    /// The head is late, and another upstream has a newer one.
    #[error("the newest block is late, and another upstream has a newer block")]
    HeadStalled,
}

impl PollError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Rpc(error) => error.reason(),
            Self::Unpriced(rejection) => rejection.reason(),
            Self::Suspicious(reply) => reply.reason(),
            Self::Disagreement => "disagrees",
            Self::Genesis => "genesis",
            Self::OldBlock => "old_block",
            Self::HeadStalled => "head_stalled",
        }
    }
}

/// Reports the outcome of each attempt to the node's health record, the metrics and the log.
///
/// The log gets state changes only, and identifies an upstream by its index, because its URL may contain a key.
#[derive(Debug)]
pub(crate) struct PollReporter {
    metrics: Metrics,
    chain: String,
    /// By index of the upstream.
    outcome_logs: Vec<LogOnChange>,
    /// By index of the upstream.
    in_use_gauges: Vec<Gauge>,
    ok_poll_counter: Counter,
    failed_poll_counter: Counter,
    poll_duration: Durations,
    regression_counter: Counter,
    disagreement_counter: Counter,
    disagreement_gauge: Gauge,
    outlying_rewards_gauge: Gauge,
    rewards_log: LogOnChange,
    /// Floors that were warned of: of the base fee and of the tip.
    warned_floors: [AtomicBool; 2],
}

/// Outcomes of a comparison of two upstreams.
const COMPARISON_OUTCOMES: [&str; 3] = ["agrees", "disagrees", "failed"];

impl PollReporter {
    pub(crate) fn new(metrics: Metrics, chain: &config::Chain) -> Self {
        let (key, upstreams) = (chain.key.as_str(), chain.rpc_urls.len());
        let labels = ChainLabels { chain: key.to_owned() };
        let in_use_gauge = |upstream| {
            let labels = UpstreamLabels { chain: key.to_owned(), upstream };
            metrics.upstream_in_use.get_or_create_owned(&labels)
        };
        let polls = |outcome| {
            let labels = ChainOutcomeLabels { chain: key.to_owned(), outcome };
            metrics.polls_total.get_or_create_owned(&labels)
        };
        // Counters begin at 0, so that an alert sees the first increment.
        for upstream in 0..upstreams {
            for outcome in COMPARISON_OUTCOMES {
                let labels = AttemptLabels { chain: key.to_owned(), upstream, outcome };
                drop(metrics.upstream_comparisons_total.get_or_create(&labels));
            }
        }
        Self {
            chain: key.to_owned(),
            outcome_logs: (0..upstreams).map(|_| LogOnChange::default()).collect(),
            in_use_gauges: (0..upstreams).map(in_use_gauge).collect(),
            ok_poll_counter: polls("ok"),
            failed_poll_counter: polls("failed"),
            poll_duration: metrics.poll_duration_seconds.get_or_create_owned(&labels),
            regression_counter: metrics.head_regressions_total.get_or_create_owned(&labels),
            disagreement_counter: metrics.upstream_disagreements_total.get_or_create_owned(&labels),
            disagreement_gauge: metrics.upstreams_disagree.get_or_create_owned(&labels),
            outlying_rewards_gauge: metrics.outlying_reward_blocks.get_or_create_owned(&labels),
            rewards_log: LogOnChange::default(),
            warned_floors: [const { AtomicBool::new(false) }; 2],
            metrics,
        }
    }

    pub(crate) fn record_poll(&self, is_success: bool, duration: Duration) {
        let count = if is_success { &self.ok_poll_counter } else { &self.failed_poll_counter };
        count.increment();
        self.poll_duration.record(duration);
    }

    /// Records a publication of the reply of this upstream; `None`: of the record of another process.
    pub(crate) fn record_published(&self, source: Option<usize>, is_regression: bool) {
        for (index, gauge) in self.in_use_gauges.iter().enumerate() {
            gauge.set(i64::from(source == Some(index)));
        }
        if is_regression {
            self.regression_counter.increment();
        }
    }

    pub(crate) fn record_success(&self, candidate: Candidate<'_>) {
        let index = candidate.index;
        candidate.upstream.record_success();
        self.count_attempt(index, "ok");
        if let Some(change) = self.outcome_logs.get(index).and_then(LogOnChange::success) {
            tracing::info!(chain = self.chain, upstream = index, "upstream {change}");
        }
    }

    pub(crate) fn record_failure(&self, candidate: Candidate<'_>, failure: &PollError) {
        let index = candidate.index;
        match failure {
            PollError::Rpc(error) => candidate.upstream.record_failure(error),
            // The end of the poll decides whether it counts against the upstream.
            PollError::Suspicious(_) => {}
            _ => candidate.upstream.record_rejected_reply(),
        }
        let reason = failure.reason();
        self.count_attempt(index, reason);
        if self.outcome_logs.get(index).is_some_and(|log| log.changed_to(Err(reason))) {
            let error = with_causes(failure);
            tracing::warn!(chain = self.chain, upstream = index, reason, error, "upstream failed");
        }
    }

    pub(crate) fn log_confirmed(&self, upstream: usize, reply: SuspiciousReply, newest_block: u64) {
        let (chain, reason) = (self.chain.as_str(), reply.reason());
        tracing::warn!(chain, upstream, reason, newest_block, "suspicious reply confirmed");
    }

    /// Counts a poll in which upstreams that were asked together disagreed.
    pub(crate) fn record_disagreement(&self) {
        self.disagreement_counter.increment();
    }

    /// Counts a comparison of two upstreams, after which some lastingly disagree or all agree, and logs if that has changed.
    /// `None`: they have no block in common, or one does not answer.
    pub(crate) fn record_comparison(
        &self,
        pair: Pair,
        agrees: Option<bool>,
        has_disagreement: bool,
    ) {
        let [agreeing, contrary, failed] = COMPARISON_OUTCOMES;
        let outcome = match agrees {
            Some(true) => agreeing,
            Some(false) => contrary,
            None => failed,
        };
        let Pair { in_use, other } = pair;
        let labels = AttemptLabels { chain: self.chain.clone(), upstream: other, outcome };
        self.metrics.upstream_comparisons_total.get_or_create(&labels).increment();
        let was_set = self.disagreement_gauge.set(i64::from(has_disagreement)) > 0;
        let chain = self.chain.as_str();
        if has_disagreement && !was_set {
            tracing::warn!(
                chain,
                in_use,
                other,
                "upstreams lastingly disagree about the same blocks"
            );
        } else if was_set && !has_disagreement {
            tracing::info!(chain, in_use, other, "upstreams agree again");
        }
    }

    /// Reports the number of blocks whose rewards are far above those of the others.
    pub(crate) fn record_outlying_rewards(&self, blocks: usize) {
        self.outlying_rewards_gauge.set(i64::try_from(blocks).unwrap_or(i64::MAX));
        let outcome = if blocks == 0 { Ok(()) } else { Err("outlying_rewards") };
        if self.rewards_log.changed_to(outcome) && blocks > 0 {
            tracing::warn!(
                chain = self.chain,
                blocks,
                "rewards of some blocks exceed the median a thousand times"
            );
        }
    }

    /// Warns once of each floor that is far above what the market pays.
    pub(crate) fn record_floors(&self, market: &Market, pricing: &Pricing) {
        let tip = market.average_reward.map_or(0, |average| average.medium);
        let above = market.floors_above_market;
        let floors = [
            (above.base_fee, "base_fee_floor", pricing.base_fee_floor, market.average_base_fee),
            (above.priority_fee, "priority_fee_floor", pricing.priority_fee_floor, tip),
        ];
        for ((is_above, key, floor, pays), warned) in floors.into_iter().zip(&self.warned_floors) {
            if is_above && !warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    chain = self.chain,
                    key = format!("chains.{}.pricing.{key}", self.chain),
                    floor_gwei = rounded_gwei(floor),
                    market_gwei = rounded_gwei(pays),
                    "the configured floor is more than ten times what the market pays"
                );
            }
        }
    }

    fn count_attempt(&self, upstream: usize, outcome: &'static str) {
        let labels = AttemptLabels { chain: self.chain.clone(), upstream, outcome };
        self.metrics.upstream_attempts_total.get_or_create(&labels).increment();
        tracing::trace!(chain = self.chain, upstream, outcome, "upstream polled");
    }
}
