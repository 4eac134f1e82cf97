//! Checks of a fee history against the rules of the base fee and against the blocks that were known before.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Block, ChainParameters, DenominatorSource, FeeHistory, Pricing, Rewards};

/// Comparison of a fee history with an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuity {
    /// Most common blocks have the same amounts; a reorg may have changed the others.
    Same,
    /// The rewards of most common blocks have changed, or the newest reward is far from all known ones: another implementation
    /// of a node, another chain, or a sudden change of tips.
    OtherRewards,
    /// There is no common block, or most have other base fees: a deep reorg, or another chain.
    Changed,
    /// Every common block has another base fee.
    Rewritten,
}

/// Reason why a reply is not published unless it is confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SuspiciousReply {
    /// Lower than the published head: a node that lags, or a chain that was reset.
    #[error("the newest block is lower than the known one")]
    #[strum(serialize = "head_behind")]
    Regression,
    /// Higher than the chain can be by now, unless the published head is wrong or lags.
    #[error("the newest block is further ahead than the chain can be")]
    #[strum(serialize = "head_ahead")]
    Jump,
    /// The base fee changes more from one block to the next than the chain allows.
    #[error("the base fee changes more between two blocks than the chain allows")]
    BaseFeeLeap,
    /// The blocks that were published before have base fees that the chain does not allow after those.
    #[error("all known blocks have implausibly different base fees than before")]
    #[strum(serialize = "history_rewritten")]
    Rewritten,
}

impl SuspiciousReply {
    /// Label of the reason, from a closed list.
    #[must_use]
    pub fn reason(self) -> &'static str {
        self.into()
    }

    /// Returns true for a reason that is the head, not an amount.
    #[must_use]
    pub fn concerns_head(self) -> bool {
        matches!(self, Self::Regression | Self::Jump)
    }
}

/// Reason to doubt a value: it cannot follow from the blocks before, and the only node there is repeats it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    ToSchema,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Doubt {
    /// A base fee changed more than the chain allows.
    BaseFeeLeap,
    /// A reward is far above those of the other blocks.
    RewardLeap,
    /// The head jumped ahead or went back.
    HeadLeap,
    /// Another node lastingly says otherwise.
    Disagreement,
}

impl Doubt {
    /// Name of the doubt in responses.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Number of common blocks from which [`compare`] takes differences for another history.
const MIN_COMMON_BLOCKS: usize = 4;

/// Number of newest common blocks that [`compare`] looks at. Older ones would hide what has changed since.
const COMPARED_BLOCKS: usize = 20;

/// Compares `history` with an earlier one.
#[must_use]
pub fn compare(history: &FeeHistory, earlier: &FeeHistory) -> Continuity {
    let mut common = common_blocks(history, earlier);
    common.drain(..common.len().saturating_sub(COMPARED_BLOCKS));
    let base_fees = common.iter().filter(|(now, before)| now.base_fee != before.base_fee).count();
    let rewards = common.iter().filter(|(now, before)| now.rewards != before.rewards).count();
    let is_comparable = common.len() >= MIN_COMMON_BLOCKS;
    if is_comparable && base_fees == common.len() {
        Continuity::Rewritten
    } else if base_fees * 2 >= common.len() {
        Continuity::Changed
    } else if rewards * 2 >= common.len() || has_distant_reward(history, earlier) {
        Continuity::OtherRewards
    } else {
        Continuity::Same
    }
}

/// Returns true if the newest reward is more than half above the highest of `earlier`, or a third below the lowest.
fn has_distant_reward(history: &FeeHistory, earlier: &FeeHistory) -> bool {
    let reward = |block: &Block| block.reward(0);
    let known = earlier.blocks().iter().filter_map(reward);
    let newest = history.blocks().last().and_then(reward);
    known
        .clone()
        .min()
        .zip(known.max())
        .zip(newest)
        .is_some_and(|((low, high), newest)| newest / 3 > high / 2 || newest / 2 < low / 3)
}

/// Returns true if both histories have nearly the same amounts for the same blocks; `None`: they have no block in common.
/// Rewards are those in one column of each. The base fee of a block is the same everywhere, but implementations of nodes
/// compute rewards in different ways.
#[must_use]
pub fn agree(one: &FeeHistory, other: &FeeHistory, columns: [usize; 2]) -> Option<bool> {
    /// Largest ratio of the sums of rewards.
    const MAX_REWARD_FACTOR: u128 = 2;
    let common = common_blocks(one, other);
    let (newest, newest_of_other) = common.last()?;
    let (base_fee, other_base_fee) = (newest.base_fee, newest_of_other.base_fee);
    // As in polls with `agreement`.
    let is_near = base_fee.abs_diff(other_base_fee) <= base_fee.max(other_base_fee) / 4;
    let [column, other_column] = columns;
    let (mut sum, mut other_sum) = (0_u128, 0_u128);
    for (block, other_block) in common {
        if let Some((reward, other)) = block.reward(column).zip(other_block.reward(other_column)) {
            sum = sum.saturating_add(reward);
            other_sum = other_sum.saturating_add(other);
        }
    }
    let is_similar = sum.max(other_sum) <= sum.min(other_sum).saturating_mul(MAX_REWARD_FACTOR);
    Some(is_near && is_similar)
}

/// Returns the blocks that both histories have, as pairs.
fn common_blocks<'a>(
    history: &'a FeeHistory,
    earlier: &'a FeeHistory,
) -> Vec<(&'a Block, &'a Block)> {
    let skip = |from: u64, to: u64| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let (oldest, known) = (history.oldest_block(), earlier.oldest_block());
    let blocks = history.blocks().iter().skip(skip(oldest, known));
    blocks.zip(earlier.blocks().iter().skip(skip(known, oldest))).collect()
}

/// Returns why the amounts of `history` are suspicious, by themselves or after `earlier`, on a chain with these
/// `parameters`.
#[must_use]
pub fn suspicious_amounts(
    history: &FeeHistory,
    earlier: Option<&FeeHistory>,
    pricing: &Pricing,
    parameters: &ChainParameters,
) -> Option<SuspiciousReply> {
    if !pricing.check_base_fees {
        return None;
    }
    let rule = LeapRule::new(parameters);
    // The blocks before the window were checked when they were in it.
    let window = history.newest(pricing.window_blocks.get());
    let mut leaps = rule.leaps(window, history.next_base_fee);
    if leaps.any(|(_, before)| before > 0) {
        return Some(SuspiciousReply::BaseFeeLeap);
    }
    let common = common_blocks(history, earlier?);
    let is_rewritten = common.len() >= MIN_COMMON_BLOCKS
        && common.iter().all(|(now, before)| rule.is_leap(now.base_fee, before.base_fee));
    is_rewritten.then_some(SuspiciousReply::Rewritten)
}

/// Returns true if the blocks of `history` can be those of the chain before and at the known one, which has this `number` and
/// `base_fee` in wei. All blocks are checked, because old ones were never in a window. The known one may differ from it as
/// two neighbours may.
#[must_use]
pub fn is_plausible_past(
    history: &FeeHistory,
    (number, base_fee): (u64, u128),
    pricing: &Pricing,
    parameters: &ChainParameters,
) -> bool {
    let (blocks, next) = (history.blocks(), history.next_base_fee);
    let mut base_fees = blocks.iter().map(|block| block.base_fee).chain(next);
    if base_fees.any(|base_fee| base_fee > pricing.max_base_fee) {
        return false;
    }
    let rule = LeapRule::new(parameters);
    let known_there = history.block(number);
    let contradicts = known_there.is_some_and(|block| rule.is_leap(block.base_fee, base_fee));
    !pricing.check_base_fees || (rule.leaps(blocks, next).next().is_none() && !contradicts)
}

/// Returns what can be right of a further `reading` of rewards at [`GRADED_PERCENTILES`](super::GRADED_PERCENTILES): its base
/// fees can follow each other, but where `polled` has the same, and the rewards that `polled` has too are nearly the same. Rows
/// whose rewards do not rise with the percentile, are above their maximum, or are more than a thousand times what polls have,
/// are left out. `None`: the reading as a whole is of another chain or branch, or invented.
#[must_use]
pub fn plausible_reading(
    reading: &FeeHistory,
    polled: &FeeHistory,
    pricing: &Pricing,
    parameters: &ChainParameters,
) -> Option<FeeHistory> {
    const FACTOR: u128 = 1000;
    let (oldest, blocks) = (reading.oldest_block(), reading.blocks());
    let rule = LeapRule::new(parameters);
    let is_polled = |position: u64| {
        let number = oldest.saturating_add(position);
        let both = polled.block(number).zip(reading.block(number));
        both.is_some_and(|(known, block)| known.base_fee == block.base_fee)
    };
    let mut leaps = rule.leaps(blocks, reading.next_base_fee);
    let has_leap = leaps.any(|(position, before)| before > 0 && !is_polled(position));
    let is_above = blocks.iter().any(|block| block.base_fee > pricing.max_base_fee);
    if is_above
        || (pricing.check_base_fees && has_leap)
        || agree(polled, reading, [0, 1]) == Some(false)
    {
        return None;
    }
    let known = polled.blocks().iter().filter_map(|block| block.reward(0)).max();
    let limit = known.filter(|known| *known > 0).map_or(u128::MAX, |it| it.saturating_mul(FACTOR));
    let limit = limit.min(pricing.max_priority_fee);
    let is_allowed = |[fair, high]: &Rewards| fair <= high && *high <= limit;
    let usable = |block: &Block| Block { rewards: block.rewards.filter(is_allowed), ..*block };
    FeeHistory::new(oldest, blocks.iter().map(usable).collect(), reading.next_base_fee)
}

/// How far a base fee may be from that of the block before.
///
/// EIP-1559 raises it by at most (elasticity - 1)/denominator. The elasticity is 2 on Ethereum and 6 on OP Stack chains;
/// up to 17 is allowed. Without a known denominator any change up to a factor of 8 is allowed.
struct LeapRule {
    numerator: u128,
    denominator: u128,
}

impl LeapRule {
    /// Smaller changes are rounding.
    const MIN_CHANGE: u128 = 1000;
    /// Largest elasticity, less one.
    const MARGIN: u128 = 16;
    const UNKNOWN_RULE_FACTOR: u128 = 8;
    /// Denominator of Ethereum.
    const ETHEREUM: NonZeroU64 = NonZeroU64::new(8).expect("8 is not 0");

    fn new(parameters: &ChainParameters) -> Self {
        match parameters.denominators {
            Some(known) => {
                let full_block = match known.source {
                    DenominatorSource::Configuration => known.full_block,
                    // The rule may change with the next block, and a lying node could tighten it for the others.
                    DenominatorSource::Header | DenominatorSource::Observed => {
                        known.full_block.min(Self::ETHEREUM)
                    }
                };
                let denominator = u128::from(full_block.get());
                Self { numerator: denominator.saturating_add(Self::MARGIN), denominator }
            }
            None => Self { numerator: Self::UNKNOWN_RULE_FACTOR, denominator: 1 },
        }
    }

    /// Returns the positions of the blocks, the `next` one last, whose base fee cannot follow that of the block before, and the
    /// latter. A rise from 0 is the activation of EIP-1559 (network document, section 4.1).
    fn leaps(&self, blocks: &[Block], next: Option<u128>) -> impl Iterator<Item = (u64, u128)> {
        let mined = blocks.iter().map(|block| block.base_fee);
        let following = mined.clone().skip(1).chain(next);
        let leaps = (1..).zip(mined.zip(following));
        leaps
            .filter(|(_, (before, after))| self.is_leap(*before, *after))
            .map(|(at, (before, _))| (at, before))
    }

    /// Returns true if neither base fee can follow the other.
    fn is_leap(&self, one: u128, other: u128) -> bool {
        let (low, high) = (one.min(other), one.max(other));
        let allowed =
            low.checked_mul(self.numerator).map_or(u128::MAX, |product| product / self.denominator);
        high > allowed && high.saturating_sub(low) > Self::MIN_CHANGE
    }
}

/// Number of blocks whose reward at the highest percentile is more than a thousand times the median of all blocks with a
/// reward. Any reward may follow a median of 0. Low percentiles differ that much between honest blocks.
#[must_use]
pub fn count_outlying_rewards(blocks: &[Block], pricing: &Pricing) -> usize {
    const FACTOR: u128 = 1000;
    let column = pricing.high_column().unwrap_or_default();
    let mut rewards: Vec<u128> = blocks.iter().filter_map(|block| block.reward(column)).collect();
    rewards.sort_unstable();
    let Some(median) = rewards.get(rewards.len() / 2).filter(|median| **median > 0) else {
        return 0;
    };
    let limit = median.saturating_mul(FACTOR);
    rewards.iter().filter(|reward| **reward > limit).count()
}

#[cfg(test)]
mod tests;
