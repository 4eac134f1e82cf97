//! Estimators: this service's own rules, and those of other systems as they document or publish them.
//!
//! A quote is a pure function of the blocks up to the head and of the next base fee. Amounts are wei in `u128`, and
//! divisions round down unless a system rounds otherwise. An overflow yields no quote.

mod external_rules;
mod stats;

use super::recording::{HistoryAt, RecordedBlock};
use crate::fees::{self, ChainParameters, FeeHistory, Pricing, Rewards, Strategy, Target};
use external_rules::EXTERNAL_RULES;

/// Quote of an estimator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EstimatorQuote {
    /// The tip; `None` if no tips are recorded.
    pub tip: Option<u128>,
    /// Base fee that the max fee allows; `None`: the estimator quotes only a tip.
    pub base_fee: Option<u128>,
}

impl EstimatorQuote {
    /// Returns the max fee; without the tip if no tips are recorded.
    #[must_use]
    pub fn max_fee(&self) -> Option<u128> {
        self.base_fee?.checked_add(self.tip.unwrap_or_default())
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct Estimator {
    /// Display name.
    pub name: String,
    /// Reward percentiles that it uses. Without one of them it has no quote.
    pub percentiles: Vec<f64>,
    /// Number of blocks that it looks back.
    pub window: usize,
    /// Number of blocks without which it has no quote.
    pub min_window: usize,
    /// Share of blocks whose required tip it promises to reach; `None`: it promises none.
    pub target: Option<Target>,
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    Own(Box<Pricing>, TierChoice),
    External(ExternalRule),
}

#[derive(Debug, Clone, Copy)]
enum TierChoice {
    Medium,
    High,
}

/// Rule of another system, in two independent parts.
#[derive(Debug, Clone, Copy)]
struct ExternalRule {
    name: &'static str,
    percentiles: &'static [f64],
    window: usize,
    tip: fn(HistoryAt<'_>) -> Option<u128>,
    /// Quoted base fee; `None`: the system quotes none.
    base_fee: Option<fn(HistoryAt<'_>) -> Option<u128>>,
}

/// Returns all estimators: the configured `pricing`, the network's and the calibrated strategy without floors, and those
/// of other systems.
#[must_use]
pub fn all_estimators(pricing: &Pricing) -> Vec<Estimator> {
    let without_floors = Pricing { base_fee_floor: 0, priority_fee_floor: 1, ..Pricing::default() };
    let calibrated = Pricing { strategy: Strategy::Calibrated, ..without_floors };
    let own = [
        ("configured", pricing),
        ("network rule without floors", &without_floors),
        ("calibrated without floors", &calibrated),
    ];
    let own = own.into_iter().flat_map(|(name, pricing)| {
        [("medium", TierChoice::Medium), ("high", TierChoice::High)].map(|(tier, tier_choice)| {
            Estimator::own(format!("{name}, {tier}"), pricing, tier_choice)
        })
    });
    own.chain(EXTERNAL_RULES.iter().map(Estimator::external)).collect()
}

impl Estimator {
    fn own(name: String, pricing: &Pricing, tier: TierChoice) -> Self {
        let pricing = pricing.for_whole_histories();
        let percentiles = pricing.percentiles().iter().collect();
        let target = match (pricing.strategy, tier) {
            (Strategy::Network, _) => None,
            (Strategy::Calibrated, TierChoice::Medium) => Some(pricing.targets.medium),
            (Strategy::Calibrated, TierChoice::High) => Some(pricing.targets.high),
        };
        Self {
            name,
            percentiles,
            window: pricing.history_blocks(),
            min_window: pricing.window_blocks.get(),
            target,
            rule: Rule::Own(Box::new(pricing), tier),
        }
    }

    fn external(rule_definition: &ExternalRule) -> Self {
        let ExternalRule { name, percentiles, window, .. } = *rule_definition;
        let rule = Rule::External(*rule_definition);
        Self {
            name: name.into(),
            percentiles: percentiles.to_vec(),
            window,
            min_window: window,
            target: None,
            rule,
        }
    }

    /// Quotes from the history up to its head; `None` if the estimator has no quote there.
    #[must_use]
    pub fn quote(&self, history: HistoryAt<'_>) -> Option<EstimatorQuote> {
        let recording = history.recording();
        let is_recorded = |percentile: &f64| recording.reward_column(*percentile).is_some();
        if recording.has_tips() && !self.percentiles.iter().all(is_recorded) {
            return None;
        }
        match &self.rule {
            Rule::Own(pricing, tier) => quote_own(history, pricing, *tier),
            Rule::External(ExternalRule { tip, base_fee, .. }) => {
                let tip = if recording.has_tips() { Some(tip(history)?) } else { None };
                let base_fee = match base_fee {
                    Some(base_fee) => Some(base_fee(history)?),
                    None => None,
                };
                Some(EstimatorQuote { tip, base_fee })
            }
        }
    }
}

/// Quotes with the code of the service.
fn quote_own(
    history: HistoryAt<'_>,
    pricing: &Pricing,
    tier: TierChoice,
) -> Option<EstimatorQuote> {
    let columns = pricing.percentiles().iter();
    let columns: Option<Vec<_>> =
        columns.map(|percentile| history.recording().reward_column(percentile)).collect();
    let min_window = pricing.window_blocks.get();
    history.window(min_window)?;
    // The base fee, all that is quoted without tips, depends on no more blocks.
    let longest = if columns.is_some() { pricing.history_blocks() } else { min_window };
    let window = longest.min(history.count_blocks());
    let blocks = history.window(window)?;
    let rewards = |block: &RecordedBlock| {
        // Without recorded tips none is quoted. The base fee does not depend on them.
        let columns = columns.as_deref().unwrap_or_default();
        let amounts = columns.iter().map(|column| block.reward(*column));
        Some(Rewards::new(&amounts.collect::<Option<Vec<_>>>()?))
    };
    let blocks = blocks.iter().map(|block| fees::Block {
        base_fee: block.base_fee,
        gas_used_ratio: block.gas_used_ratio,
        rewards: rewards(block),
    });
    let blocks: Vec<_> = blocks.collect();
    let entries = pricing.entries(&blocks);
    let oldest = history.oldest_in_window(window)?;
    let history_of_window = FeeHistory::new(oldest, blocks, history.next_base_fee())?;
    let parameters = ChainParameters::without_header(pricing);
    let market = fees::price(&history_of_window, &entries, pricing, &parameters).ok()?;
    let suggestion = market.suggestion;
    let tier = match tier {
        TierChoice::Medium => suggestion.tiers.medium,
        TierChoice::High => suggestion.tiers.high,
    };
    let tip = tier.max_priority_fee_per_gas;
    let base_fee = tier.max_fee_per_gas.checked_sub(tip);
    Some(EstimatorQuote { tip: columns.is_some().then_some(tip), base_fee })
}

/// Returns `amount` times a fraction, rounded down.
fn scaled(amount: u128, numerator: u128, denominator: u128) -> Option<u128> {
    amount.checked_mul(numerator)?.checked_div(denominator)
}

#[cfg(test)]
mod tests;
