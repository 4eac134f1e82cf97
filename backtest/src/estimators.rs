//! Estimators: the service's own rules, and those of other systems as they document or publish them.
//!
//! A quote is a pure function of the blocks up to the head and of the next base fee. Amounts are wei in `u128`, and
//! divisions round down unless a system rounds otherwise. An overflow yields no quote.

mod external_rules;

use std::array;

use gas_suggestion::fees::{
    self, Block, ChainParameters, FeeHistory, Pricing, Strategy, Target, TierName,
};

use crate::recording::HistoryAt;
use external_rules::{EXTERNAL_RULES, ExternalRule};

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
    Own(Box<Pricing>, TierName),
    External(&'static ExternalRule),
}

/// Returns all estimators: the configured `pricing`, the network's and the calibrated strategy without floors, and those
/// of other systems.
pub fn all_estimators(pricing: &Pricing) -> Vec<Estimator> {
    let without_floors = Pricing { base_fee_floor: 0, priority_fee_floor: 1, ..Pricing::default() };
    let calibrated = Pricing { strategy: Strategy::Calibrated, ..without_floors };
    let mut all = Vec::new();
    for (name, pricing) in [
        ("configured", pricing),
        ("network rule without floors", &without_floors),
        ("calibrated without floors", &calibrated),
    ] {
        all.extend(TierName::SUGGESTED.map(|tier| Estimator::own(name, pricing, tier)));
    }
    all.extend(EXTERNAL_RULES.iter().map(Estimator::external));
    all
}

impl Estimator {
    fn own(name: &str, pricing: &Pricing, tier: TierName) -> Self {
        let pricing = pricing.for_whole_histories();
        Self {
            name: format!("{name}, {}", tier.as_str()),
            percentiles: pricing.percentiles().iter().collect(),
            window: pricing.history_blocks(),
            min_window: pricing.window_blocks.get(),
            target: (pricing.strategy == Strategy::Calibrated).then_some(pricing.targets[tier]),
            rule: Rule::Own(Box::new(pricing), tier),
        }
    }

    fn external(rule: &'static ExternalRule) -> Self {
        Self {
            name: rule.name.into(),
            percentiles: rule.percentiles.to_vec(),
            window: rule.window,
            min_window: rule.window,
            target: None,
            rule: Rule::External(rule),
        }
    }

    /// Quotes from the history up to its head; `None` if the estimator has no quote there.
    pub fn quote(&self, history: HistoryAt<'_>) -> Option<EstimatorQuote> {
        let recording = history.recording;
        let is_recorded = |percentile: &f64| recording.reward_column(*percentile).is_some();
        if recording.has_tips() && !self.percentiles.iter().all(is_recorded) {
            return None;
        }
        match &self.rule {
            Rule::Own(pricing, tier) => quote_own(history, pricing, *tier),
            Rule::External(rule) => rule.quote(history),
        }
    }
}

/// Quotes with the code of the service.
fn quote_own(history: HistoryAt<'_>, pricing: &Pricing, tier: TierName) -> Option<EstimatorQuote> {
    let recording = history.recording;
    let percentiles = pricing.percentiles();
    let columns = percentiles.iter().map(|percentile| recording.reward_column(percentile));
    let columns: Option<Vec<usize>> = columns.collect();
    let min_window = pricing.window_blocks.get();
    history.window(min_window)?;
    // The base fee, all that is quoted without tips, depends on no more blocks.
    let longest = if columns.is_some() { pricing.history_blocks() } else { min_window };
    let count = longest.min(history.head + 1);
    let blocks = history.window(count)?.iter().map(|block| {
        // Without recorded tips none is quoted. The base fee does not depend on them.
        let columns = columns.iter().flatten();
        let row: Option<Vec<u128>> = columns.map(|column| block.reward(*column)).collect();
        let rewards = row.map(|row| array::from_fn(|column| row.get(column).copied().unwrap_or(0)));
        Block { base_fee: block.base_fee, gas_used_ratio: block.gas_used_ratio, rewards }
    });
    let blocks: Vec<Block> = blocks.collect();
    let entries = pricing.entries(&blocks);
    let oldest = recording.oldest_block + (history.head + 1 - count) as u64;
    let window = FeeHistory::new(oldest, blocks, history.next_base_fee())?;
    let parameters = ChainParameters::from_pricing(pricing);
    let market = fees::price(&window, &entries, pricing, &parameters).ok()?;
    let tier = market.suggestion.tiers[tier];
    let tip = tier.max_priority_fee_per_gas;
    let base_fee = tier.max_fee_per_gas.checked_sub(tip);
    Some(EstimatorQuote { tip: columns.is_some().then_some(tip), base_fee })
}

#[cfg(test)]
mod tests;
