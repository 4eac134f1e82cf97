//! Checks of a fee history against the rules of the base fee and against the blocks that were known before.

use super::head_tracker::SuspiciousReply;
use super::{FeeHistory, Pricing, Rewards};

/// Comparison of a fee history with an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuity {
    /// The common blocks have the same amounts.
    Same,
    /// There is no common block, or some have other amounts: a reorg, another node, or another chain.
    Changed,
    /// Every common block has another base fee.
    Rewritten,
}

/// Number of common blocks from which [`compare`] takes differences for another history.
const MIN_COMMON_BLOCKS: usize = 4;

/// Compares `history` with an earlier one.
#[must_use]
pub fn compare(history: &FeeHistory, earlier: &FeeHistory) -> Continuity {
    let skip = |from: u64, to: u64| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let (oldest, known) = (history.oldest_block(), earlier.oldest_block());
    let blocks = history.blocks().iter().skip(skip(oldest, known));
    let common: Vec<_> = blocks.zip(earlier.blocks().iter().skip(skip(known, oldest))).collect();
    let base_fees = common.iter().filter(|(now, before)| now.base_fee != before.base_fee).count();
    let rewards = common.iter().filter(|(now, before)| now.rewards != before.rewards).count();
    let is_comparable = common.len() >= MIN_COMMON_BLOCKS;
    if is_comparable && base_fees == common.len() {
        Continuity::Rewritten
    } else if common.is_empty() || base_fees > 0 || (is_comparable && rewards == common.len()) {
        Continuity::Changed
    } else {
        Continuity::Same
    }
}

/// Returns why the amounts of `history` are suspicious, by themselves or after `earlier`.
#[must_use]
pub fn suspicious_amounts(
    history: &FeeHistory,
    earlier: Option<&FeeHistory>,
    pricing: &Pricing,
) -> Option<SuspiciousReply> {
    if pricing.check_base_fees && has_base_fee_leap(history, pricing) {
        return Some(SuspiciousReply::BaseFeeLeap);
    }
    let is_rewritten = |earlier| compare(history, earlier) == Continuity::Rewritten;
    earlier.is_some_and(is_rewritten).then_some(SuspiciousReply::Rewritten)
}

/// Returns true if a base fee differs from that of the block before by more than the rule allows.
///
/// EIP-1559 raises it by at most (elasticity - 1)/denominator. The elasticity is 2 on Ethereum and 6 on OP Stack chains;
/// up to 17 is allowed. Without a configured denominator any change up to a factor of 8 is allowed.
fn has_base_fee_leap(history: &FeeHistory, pricing: &Pricing) -> bool {
    /// Smaller changes are rounding.
    const MIN_CHANGE: u128 = 1000;
    /// Largest elasticity, less one.
    const MARGIN: u128 = 16;
    const UNKNOWN_RULE_FACTOR: u128 = 8;
    let (numerator, denominator) = match pricing.base_fee_change_denominator {
        Some(denominator) => {
            let denominator = u128::from(denominator.get());
            (denominator.saturating_add(MARGIN), denominator)
        }
        None => (UNKNOWN_RULE_FACTOR, 1),
    };
    let is_leap = |one: u128, other: u128| {
        let (low, high) = (one.min(other), one.max(other));
        let allowed = low.checked_mul(numerator).map_or(u128::MAX, |product| product / denominator);
        high > allowed && high.saturating_sub(low) > MIN_CHANGE
    };
    let mined = history.blocks().iter().map(|block| block.base_fee);
    let following = mined.clone().skip(1).chain(history.next_base_fee());
    mined.zip(following).any(|(one, other)| is_leap(one, other))
}

/// Number of blocks whose medium reward is more than a thousand times the median of all blocks with a reward.
#[must_use]
pub fn count_outlying_rewards(history: &FeeHistory) -> usize {
    const FACTOR: u128 = 1000;
    let usable = history.blocks().iter().filter_map(|block| block.rewards);
    let mut rewards: Vec<u128> = usable.map(|Rewards { medium, .. }| medium).collect();
    rewards.sort_unstable();
    let Some(median) = rewards.get(rewards.len() / 2) else { return 0 };
    let limit = median.saturating_mul(FACTOR).max(FACTOR);
    rewards.iter().filter(|reward| **reward > limit).count()
}

#[cfg(test)]
mod tests;
