//! Mined blocks in the form that pricing needs, validated.

use std::borrow::Borrow;

use serde::Serialize;
use utoipa::ToSchema;

use super::amount::Wei;

/// Consecutive mined blocks, oldest first. Never empty; all block numbers fit in 64 bits.
#[derive(Debug, Clone, PartialEq)]
pub struct FeeHistory {
    oldest_block: u64,
    newest_block: u64,
    blocks: Vec<Block>,
    /// Base fee of the block after the newest one in wei; `None`: unknown.
    pub next_base_fee: Option<u128>,
    /// Base fees per blob gas; `None`: unknown, or the chain has no blobs.
    pub blob_base_fees: Option<BlobBaseFees>,
}

/// Base fees per blob gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = BlobBaseFeePerGas)]
pub struct BlobBaseFees {
    /// That of the newest block.
    #[serde(serialize_with = "Wei::serialize_field")]
    #[schema(value_type = Wei)]
    pub latest: u128,
    /// That of the next block.
    #[serde(serialize_with = "Wei::serialize_field")]
    #[schema(value_type = Wei)]
    pub next: u128,
}

/// One mined block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// Base fee per gas in wei. 0 is a value, not a missing one.
    pub base_fee: u128,
    /// Gas used divided by gas limit, from 0 to 1; `None` if the node returned no credible ratio.
    pub gas_used_ratio: Option<f64>,
    /// `None` if the node returned no usable rewards for this block.
    pub rewards: Option<Rewards>,
}

/// Highest number of reward percentiles of a chain.
pub const MAX_PERCENTILES: usize = 2;

/// Priority fees of a block's transactions in wei per gas: one column per requested percentile, in the order of
/// [`Pricing::percentiles`](super::Pricing::percentiles). [`Pricing::column`](super::Pricing::column)
/// finds the column of a percentile. Columns beyond the requested ones are 0.
pub type Rewards = [u128; MAX_PERCENTILES];

impl Block {
    /// Returns true if both can be the same block. A block of another branch may have the same base fee, but rarely is as
    /// full. Rewards are not compared, because implementations of nodes compute them in different ways.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        const MAX_ROUNDING: f64 = 1e-9;
        let ratios = self.gas_used_ratio.zip(other.gas_used_ratio);
        self.base_fee == other.base_fee
            && ratios.is_none_or(|(one, other)| (one - other).abs() <= MAX_ROUNDING)
    }

    /// Returns true if the block had no transactions. Some nodes return a ratio of 0 for every block, see
    /// [`have_ratios`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gas_used_ratio == Some(0.0)
    }

    /// Returns the block's reward in this column; `None` if it has no usable rewards.
    #[must_use]
    pub fn reward(&self, column: usize) -> Option<u128> {
        self.rewards?.get(column).copied()
    }
}

/// Returns false if the gas used ratios say nothing of the `blocks`: all are 0, and a reward above 0 stands beside one, as
/// on zkSync chains.
#[must_use]
pub fn have_ratios<B: Borrow<Block>>(mut blocks: impl Iterator<Item = B> + Clone) -> bool {
    let has_reward = |block: B| {
        let rewards = block.borrow().rewards;
        rewards.is_some_and(|rewards| rewards.iter().any(|reward| *reward > 0))
    };
    !blocks.clone().all(|block| block.borrow().is_empty()) || !blocks.any(has_reward)
}

/// Returns the rewards above 0 of the blocks with transactions, in this column, in wei per gas. For an empty block nodes
/// return a reward of 0, or that of another block.
pub fn paid_rewards(blocks: &[Block], column: usize) -> impl Iterator<Item = u128> {
    let have_ratios = have_ratios(blocks.iter());
    let used = blocks.iter().filter(move |block| !(have_ratios && block.is_empty()));
    used.filter_map(move |block| block.reward(column)).filter(|reward| *reward > 0)
}

impl FeeHistory {
    /// Creates a history of the `blocks` from `oldest_block` on, and the base fee of the block after them, if known.
    /// `None` without blocks, or if numbers exceed 64 bits.
    #[must_use]
    pub fn new(oldest_block: u64, blocks: Vec<Block>, next_base_fee: Option<u128>) -> Option<Self> {
        let last_index = u64::try_from(blocks.len().checked_sub(1)?).ok()?;
        let newest_block = oldest_block.checked_add(last_index)?;
        let blob_base_fees = None;
        Some(Self { oldest_block, newest_block, blocks, next_base_fee, blob_base_fees })
    }

    /// Number of the first block.
    #[must_use]
    pub fn oldest_block(&self) -> u64 {
        self.oldest_block
    }

    /// Number of the last mined block.
    #[must_use]
    pub fn newest_block(&self) -> u64 {
        self.newest_block
    }

    /// The mined blocks, oldest first.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the newest `count` blocks, oldest first, or all if there are fewer.
    #[must_use]
    pub fn newest(&self, count: usize) -> &[Block] {
        let skipped = self.blocks.len().saturating_sub(count);
        self.blocks.get(skipped..).unwrap_or_default()
    }

    /// Returns a history of the newest `count` blocks, at least one, or of all if there are fewer.
    #[must_use]
    pub fn newest_blocks(&self, count: usize) -> Self {
        let blocks = self.newest(count.max(1)).to_vec();
        let before = u64::try_from(blocks.len().saturating_sub(1)).unwrap_or_default();
        let oldest_block = self.newest_block.saturating_sub(before);
        Self { oldest_block, blocks, ..self.clone() }
    }

    /// Returns the block with this number.
    #[must_use]
    pub fn block(&self, number: u64) -> Option<&Block> {
        self.blocks.get(usize::try_from(number.checked_sub(self.oldest_block)?).ok()?)
    }

    /// Puts the blocks of an `earlier` history before these, up to `max_blocks` blocks in all. Blocks that both have are
    /// taken from this history. If the two do not adjoin, or if the oldest block of this history has another base fee or
    /// gas used ratio in the earlier one, a reorg may have changed the blocks before it, and none is added.
    #[must_use]
    pub fn after(mut self, earlier: &Self, max_blocks: usize) -> Self {
        let position = self.oldest_block.checked_sub(earlier.oldest_block);
        let position = position.and_then(|blocks| usize::try_from(blocks).ok());
        let split = position.and_then(|position| earlier.blocks.split_at_checked(position));
        let Some((before, common)) = split else { return self };
        let is_same = self.blocks.first().is_some_and(|oldest| match common.first() {
            Some(known) => {
                (known.base_fee, known.gas_used_ratio) == (oldest.base_fee, oldest.gas_used_ratio)
            }
            None => earlier.next_base_fee.is_none_or(|known| known == oldest.base_fee),
        });
        if !is_same {
            return self;
        }
        let room = max_blocks.saturating_sub(self.blocks.len());
        let skipped = before.len().saturating_sub(room);
        let added = before.get(skipped..).unwrap_or_default();
        let count = u64::try_from(added.len()).unwrap_or_default();
        self.oldest_block = self.oldest_block.saturating_sub(count);
        self.blocks.splice(0..0, added.iter().copied());
        self
    }

    /// Base fee of the next block, or of the newest mined one if that is unknown, in wei.
    #[must_use]
    pub fn newest_known_base_fee(&self) -> u128 {
        let newest_mined = self.blocks.last().map(|block| block.base_fee);
        self.next_base_fee.or(newest_mined).unwrap_or_default()
    }
}
