//! Metrics of the score.

use prometheus_client::metrics::family::Family;

use crate::observe::metrics::{ChainLabels, Counter, FloatGauge, TierLabels, labels, metric_set};

metric_set! {
    /// Metrics of the score.
    pub(crate) ScoreMetrics {
        /// Suggestions of the last hour (at least 100, at most 1,000) that the score_… gauges are computed from
        score_heads: Family<ChainLabels, FloatGauge>,
        /// Share of the suggestions whose max fee was at least the base fee of the block so many blocks later
        score_covered_ratio: Family<DistanceLabels, FloatGauge>,
        /// Share of the suggestions that paid at least the next block's reward at a percentile
        score_outbid_ratio: Family<PercentileLabels, FloatGauge>,
        /// Median and 95th percentile of the price paid in the next block over that of its 10th percentile
        score_price_over_fair: Family<StatisticLabels, FloatGauge>,
        /// Median, 95th percentile and mean of the amount per gas in wei that was paid above the 10th percentile
        score_overpaid_wei: Family<StatisticLabels, FloatGauge>,
        /// Share of the suggestions that a configured floor decided
        score_floor_decided_ratio: Family<TierLabels, FloatGauge>,
        /// Share of blocks whose 10th percentile a tier should reach, if the strategy has targets
        score_target_ratio: Family<TierLabels, FloatGauge>,
        /// The share that was reached, less the target
        score_calibration_error: Family<TierLabels, FloatGauge>,
        /// Lower end of the 95 % interval of score_calibration_error
        score_calibration_error_low: Family<TierLabels, FloatGauge>,
        /// Upper end of the 95 % interval of score_calibration_error: below 0, the target was missed by more than chance
        score_calibration_error_high: Family<TierLabels, FloatGauge>,
        /// Suggestions by whether their max fee was at least the base fee so many blocks later; counted when 25 blocks deep
        score_covered_total: Family<DistanceOutcomeLabels, Counter>,
        /// Suggestions by whether they paid at least the next block's reward at a percentile; counted when 25 blocks deep
        score_outbid_total: Family<PercentileOutcomeLabels, Counter>,
        /// Suggestions whose tip could not be judged, by reason: no_rewards, gap (the next block was never seen), or no_quote
        /// (blocks at which nothing was suggested); counted when 25 blocks deep
        score_unjudged_total: Family<ChainReasonLabels, Counter>,
        /// Base fees that were said to hold for so many seconds with a probability, by whether later blocks kept them
        score_holds_total: Family<HoldLabels, Counter>,
    }
}

labels! {
    DistanceLabels { chain: String, tier: &'static str, blocks: usize }
    DistanceOutcomeLabels { chain: String, tier: &'static str, blocks: usize, outcome: &'static str }
    PercentileLabels { chain: String, tier: &'static str, percentile: String }
    PercentileOutcomeLabels { chain: String, tier: &'static str, percentile: String, outcome: &'static str }
    StatisticLabels { chain: String, tier: &'static str, statistic: &'static str }
    HoldLabels { chain: String, seconds: u64, probability: String, outcome: &'static str }
    ChainReasonLabels { chain: String, reason: &'static str }
}
