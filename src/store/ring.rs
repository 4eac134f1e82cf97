//! The newest blocks of one chain as polls read them, without gaps.

use std::collections::VecDeque;

use crate::fees::{Block, FeeHistory, GRADED_PERCENTILES, Rewards, column_of};

/// Consecutive blocks up to the newest known one, limited in number.
#[derive(Debug)]
pub(super) struct BlockRing {
    capacity: usize,
    /// Percentiles of the rewards that polls request.
    percentiles: Vec<f64>,
    blocks: VecDeque<StoredBlock>,
    /// Rewards of the blocks, for each percentile; 0 where a block has none.
    rewards: Vec<VecDeque<u128>>,
    newest_block: u64,
    next_base_fee: Option<u128>,
}

/// A block without its rewards.
#[derive(Debug, Clone, Copy)]
struct StoredBlock {
    base_fee: u128,
    /// NaN: unknown.
    gas_used_ratio: f64,
    has_rewards: bool,
}

/// The last blocks of a chain, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockWindow {
    /// Number of the last of [`blocks`](Self::blocks).
    pub newest_block: u64,
    /// The requested number of blocks, or fewer if fewer are known.
    pub blocks: Vec<Block>,
    /// Base fee of the block after them in wei; `None`: unknown.
    pub next_base_fee: Option<u128>,
}

impl StoredBlock {
    fn new(block: &Block) -> Self {
        Self {
            base_fee: block.base_fee,
            gas_used_ratio: block.gas_used_ratio.unwrap_or(f64::NAN),
            has_rewards: block.rewards.is_some(),
        }
    }
}

impl BlockRing {
    /// Creates a ring without blocks, for rewards at these percentiles.
    pub(super) fn new(capacity: usize, percentiles: Vec<f64>) -> Self {
        Self {
            capacity,
            blocks: VecDeque::with_capacity(capacity),
            rewards: percentiles.iter().map(|_| VecDeque::with_capacity(capacity)).collect(),
            percentiles,
            newest_block: 0,
            next_base_fee: None,
        }
    }

    /// Percentiles of the rewards that polls request, ascending.
    pub(super) fn percentiles(&self) -> &[f64] {
        &self.percentiles
    }

    /// Number of the newest block.
    pub(super) fn newest_block(&self) -> u64 {
        self.newest_block
    }

    /// Number of the oldest block; `None`: no block is known.
    pub(super) fn oldest_block(&self) -> Option<u64> {
        let later = u64::try_from(self.blocks.len().checked_sub(1)?).ok()?;
        self.newest_block.checked_sub(later)
    }

    /// Numbers of the known blocks, ascending.
    pub(super) fn numbers(&self) -> impl DoubleEndedIterator<Item = u64> + Clone + use<> {
        let newest = self.newest_block;
        self.oldest_block().into_iter().flat_map(move |oldest| oldest..=newest)
    }

    /// Returns true if `count` blocks are known, or all that the chain has.
    pub(super) fn is_full(&self, count: usize) -> bool {
        self.blocks.len() >= count || self.oldest_block() == Some(0)
    }

    fn index(&self, number: u64) -> Option<usize> {
        let index = usize::try_from(number.checked_sub(self.oldest_block()?)?).ok()?;
        (index < self.blocks.len()).then_some(index)
    }

    /// Returns the block with this number.
    pub(super) fn block(&self, number: u64) -> Option<Block> {
        self.block_at(self.index(number)?)
    }

    fn block_at(&self, index: usize) -> Option<Block> {
        let stored = self.blocks.get(index)?;
        let mut amounts = [0; Rewards::MAX_COLUMNS];
        for (amount, rewards) in amounts.iter_mut().zip(&self.rewards) {
            *amount = *rewards.get(index)?;
        }
        Some(Block {
            base_fee: stored.base_fee,
            gas_used_ratio: Some(stored.gas_used_ratio).filter(|ratio| !ratio.is_nan()),
            rewards: stored.has_rewards.then(|| Rewards::new(&amounts)),
        })
    }

    /// Returns the reward of a block at this percentile, if polls request it.
    pub(super) fn reward(&self, number: u64, percentile: f64) -> Option<u128> {
        let index = self.index(number)?;
        let rewards = self.rewards.get(column_of(percentile, &self.percentiles)?)?;
        self.blocks.get(index).filter(|block| block.has_rewards)?;
        rewards.get(index).copied()
    }

    /// Returns the base fees of all blocks in wei, oldest first.
    pub(super) fn base_fees(&self) -> impl DoubleEndedIterator<Item = u128> + ExactSizeIterator {
        self.blocks.iter().map(|block| block.base_fee)
    }

    /// Returns the newest `count` blocks, or fewer if fewer are known.
    pub(super) fn newest(&self, count: usize) -> BlockWindow {
        let skipped = self.blocks.len().saturating_sub(count);
        BlockWindow {
            newest_block: self.newest_block,
            blocks: (skipped..self.blocks.len()).filter_map(|index| self.block_at(index)).collect(),
            next_base_fee: self.next_base_fee,
        }
    }

    /// Returns true if `history` says nothing new.
    pub(super) fn has(&self, history: &FeeHistory) -> bool {
        let mut known = (0..self.blocks.len()).rev().map(|index| self.block_at(index));
        self.newest_block == history.newest_block()
            && self.next_base_fee == history.next_base_fee()
            && history
                .newest(self.capacity)
                .iter()
                .rev()
                .all(|block| known.next().flatten() == Some(*block))
    }

    /// Number of the first known block that is another one in `history`, or that the chain does not have any more; `None`:
    /// there is none.
    pub(super) fn first_replaced(&self, history: &FeeHistory) -> Option<u64> {
        let oldest = self.oldest_block()?.max(history.oldest_block());
        (oldest..=self.newest_block).find(|number| {
            let both = self.block(*number).zip(history.block(*number));
            !both.is_some_and(|(known, block)| known.is_same_as(block))
        })
    }

    /// Merges `history`: blocks with the same number are replaced, because a reorg changes them; blocks above its newest one
    /// and below a gap are removed.
    pub(super) fn extend(&mut self, history: &FeeHistory) {
        let added = history.newest(self.capacity);
        let later = u64::try_from(added.len().saturating_sub(1)).unwrap_or(u64::MAX);
        let first = history.newest_block().saturating_sub(later);
        let is_gap = first > self.newest_block.saturating_add(1);
        let oldest = self.oldest_block().filter(|_| !is_gap);
        let kept = oldest.map_or(0, |oldest| first.saturating_sub(oldest));
        self.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        self.make_room(added.len());
        for block in added {
            self.blocks.push_back(StoredBlock::new(block));
            for (column, rewards) in self.rewards.iter_mut().enumerate() {
                rewards.push_back(block.reward(column).unwrap_or_default());
            }
        }
        self.newest_block = history.newest_block();
        self.next_base_fee = history.next_base_fee();
    }

    /// Adds blocks of a `reading`, whose rewards are those at [`GRADED_PERCENTILES`], before the oldest known one, the newest
    /// first, while there is room. The oldest known one has to be the same in both. Returns true if there were any.
    pub(super) fn prepend(&mut self, reading: &FeeHistory) -> bool {
        let Some(oldest) = self.oldest_block() else { return false };
        let both = self.block(oldest).zip(reading.block(oldest));
        if !both.is_some_and(|(known, block)| known.is_same_as(block)) {
            return false;
        }
        let columns = self.percentiles.iter().map(|it| column_of(*it, &GRADED_PERCENTILES));
        let columns: Option<Vec<usize>> = columns.collect();
        let older = usize::try_from(oldest.saturating_sub(reading.oldest_block()));
        let older = reading.blocks().get(..older.unwrap_or_default()).unwrap_or_default();
        let room = self.capacity.saturating_sub(self.blocks.len());
        for block in older.iter().rev().take(room) {
            let amounts = columns.as_ref().and_then(|columns| {
                columns.iter().map(|column| block.reward(*column)).collect::<Option<Vec<u128>>>()
            });
            let has_rewards = amounts.is_some();
            self.blocks.push_front(StoredBlock { has_rewards, ..StoredBlock::new(block) });
            let mut amounts = amounts.unwrap_or_default().into_iter();
            for rewards in &mut self.rewards {
                rewards.push_front(amounts.next().unwrap_or_default());
            }
        }
        room > 0 && !older.is_empty()
    }

    /// Removes all but the oldest `count` blocks.
    fn truncate(&mut self, count: usize) {
        self.blocks.truncate(count);
        self.rewards.iter_mut().for_each(|rewards| rewards.truncate(count));
    }

    /// Removes the oldest blocks, so that the buffers do not grow with `added` blocks.
    fn make_room(&mut self, added: usize) {
        let surplus = self.blocks.len().saturating_add(added).saturating_sub(self.capacity);
        let surplus = surplus.min(self.blocks.len());
        self.blocks.drain(..surplus);
        for rewards in &mut self.rewards {
            rewards.drain(..surplus);
        }
    }

    /// Room of the buffers in blocks.
    #[cfg(test)]
    pub(super) fn capacities(&self) -> Vec<usize> {
        let rewards = self.rewards.iter().map(VecDeque::capacity);
        std::iter::once(self.blocks.capacity()).chain(rewards).collect()
    }
}
