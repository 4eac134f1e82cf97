//! The newest blocks of one chain, without gaps.

use std::collections::VecDeque;

use crate::fees::{Block, FeeHistory, Rewards};

/// Consecutive blocks up to the newest known one, limited in number.
#[derive(Debug)]
pub struct RecentBlocks {
    capacity: usize,
    /// Rewards of each block that are requested.
    columns: usize,
    blocks: VecDeque<StoredBlock>,
    /// As many as columns for each block; 0 where the block has none.
    rewards: VecDeque<u128>,
    newest_block: u64,
    next_base_fee: Option<u128>,
    /// Number of changes so far.
    revision: u64,
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

impl RecentBlocks {
    pub(super) fn new(capacity: usize, columns: usize) -> Self {
        let columns = columns.min(Rewards::MAX_COLUMNS);
        Self {
            capacity,
            columns,
            blocks: VecDeque::with_capacity(capacity),
            rewards: VecDeque::with_capacity(capacity.saturating_mul(columns)),
            newest_block: 0,
            next_base_fee: None,
            revision: 0,
        }
    }

    /// Merges `history`: blocks with the same number are replaced, because a reorg changes them; blocks above its
    /// newest one and below a gap are removed.
    pub(super) fn extend(&mut self, history: &FeeHistory) {
        let before = self.newest(history.blocks().len());
        let above = self.newest_block.checked_add(1);
        let overlap = above
            .and_then(|above| above.checked_sub(history.oldest_block()))
            .and_then(|count| usize::try_from(count).ok())
            .filter(|count| *count <= self.blocks.len());
        if let Some(count) = overlap {
            self.blocks.truncate(self.blocks.len().saturating_sub(count));
        } else {
            self.blocks.clear();
        }
        self.rewards.truncate(self.blocks.len().saturating_mul(self.columns));
        let newest = history.newest(self.capacity);
        // Room is made first, so that the buffer does not grow.
        let surplus = self.blocks.len().saturating_add(newest.len()).saturating_sub(self.capacity);
        let surplus = surplus.min(self.blocks.len());
        self.blocks.drain(..surplus);
        self.rewards.drain(..surplus.saturating_mul(self.columns));
        for block in newest {
            self.blocks.push_back(StoredBlock {
                base_fee: block.base_fee,
                gas_used_ratio: block.gas_used_ratio.unwrap_or(f64::NAN),
                has_rewards: block.rewards.is_some(),
            });
            let rewards = block.rewards.map(|rewards| rewards.columns()).unwrap_or_default();
            self.rewards.extend(rewards.iter().take(self.columns));
        }
        self.newest_block = history.newest_block();
        self.next_base_fee = history.next_base_fee();
        if self.newest(history.blocks().len()) != before {
            self.revision = self.revision.wrapping_add(1);
        }
    }

    /// Number of changes of the blocks.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the base fees of all blocks in wei, oldest first.
    #[must_use]
    pub fn base_fees(&self) -> Vec<u128> {
        self.blocks.iter().map(|block| block.base_fee).collect()
    }

    /// Returns the newest `count` blocks, or fewer if fewer are known.
    #[must_use]
    pub fn newest(&self, count: usize) -> BlockWindow {
        let skipped = self.blocks.len().saturating_sub(count);
        let mut rewards = self.rewards.range(self.columns.saturating_mul(skipped)..);
        let restored = |block: &StoredBlock| {
            let mut columns = [0; Rewards::MAX_COLUMNS];
            for (column, reward) in columns.iter_mut().zip(rewards.by_ref().take(self.columns)) {
                *column = *reward;
            }
            Block {
                base_fee: block.base_fee,
                gas_used_ratio: Some(block.gas_used_ratio).filter(|ratio| !ratio.is_nan()),
                rewards: block.has_rewards.then(|| Rewards::new(&columns)),
            }
        };
        BlockWindow {
            newest_block: self.newest_block,
            blocks: self.blocks.range(skipped..).map(restored).collect(),
            next_base_fee: self.next_base_fee,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(oldest_block: u64, base_fees: &[u128]) -> FeeHistory {
        let block = |&base_fee| Block { base_fee, gas_used_ratio: None, rewards: None };
        FeeHistory::new(oldest_block, base_fees.iter().map(block).collect(), None).unwrap()
    }

    fn blocks_after(capacity: usize, histories: &[FeeHistory]) -> (u64, Vec<u128>) {
        let mut recent = RecentBlocks::new(capacity, 1);
        for history in histories {
            recent.extend(history);
        }
        let window = recent.newest(capacity);
        (window.newest_block, window.blocks.iter().map(|block| block.base_fee).collect())
    }

    #[test]
    fn an_overlapping_history_replaces_and_appends() {
        let known = [history(10, &[1, 2, 3]), history(11, &[20, 30, 40])];
        assert_eq!(blocks_after(8, &known), (13, vec![1, 20, 30, 40]));
    }

    #[test]
    fn an_adjoining_history_appends() {
        assert_eq!(blocks_after(8, &[history(10, &[1]), history(11, &[2])]), (11, vec![1, 2]));
    }

    #[test]
    fn a_gap_drops_the_blocks_below_it() {
        assert_eq!(blocks_after(8, &[history(10, &[1]), history(12, &[3])]), (12, vec![3]));
    }

    #[test]
    fn a_regressed_head_drops_the_blocks_above_it() {
        assert_eq!(
            blocks_after(8, &[history(10, &[1, 2, 3]), history(9, &[0, 10])]),
            (10, vec![0, 10])
        );
        assert_eq!(blocks_after(8, &[history(10, &[1, 2, 3]), history(10, &[5])]), (10, vec![5]));
        assert_eq!(blocks_after(8, &[history(10, &[1, 2, 3]), history(0, &[7])]), (0, vec![7]));
    }

    #[test]
    fn the_oldest_blocks_are_evicted_at_capacity() {
        assert_eq!(blocks_after(2, &[history(10, &[1, 2]), history(12, &[3])]), (12, vec![2, 3]));
        assert_eq!(blocks_after(2, &[history(10, &[1, 2, 3])]), (12, vec![2, 3]));
    }

    #[test]
    fn blocks_come_back_as_they_were_with_all_rewards() {
        let block = |base_fee, gas_used_ratio, rewards: Option<[u128; 4]>| Block {
            base_fee,
            gas_used_ratio,
            rewards: rewards.map(|columns| Rewards::new(&columns)),
        };
        let mut blocks = vec![block(7, Some(0.25), Some([1, 2, 3, 9])); 30];
        blocks.extend([block(7, None, None), block(u128::MAX, Some(0.0), Some([u128::MAX; 4]))]);
        let mut recent = RecentBlocks::new(31, 4);
        recent.extend(&FeeHistory::new(1, blocks[..25].to_vec(), None).unwrap());
        recent.extend(&FeeHistory::new(13, blocks[12..].to_vec(), None).unwrap());
        assert_eq!(recent.newest(20).blocks, blocks[12..]);
        let all = recent.newest(40).blocks;
        assert_eq!((all.len(), recent.blocks.capacity(), recent.rewards.capacity()), (31, 31, 124));
        assert_eq!(all, blocks[1..]);
    }

    #[test]
    fn a_window_holds_the_newest_blocks() {
        let mut recent = RecentBlocks::new(8, 1);
        recent.extend(&history(u64::MAX - 2, &[1, 2, 3]));
        assert_eq!(recent.newest(2).newest_block, u64::MAX);
        assert_eq!(recent.newest(2).blocks.len(), 2);
        assert_eq!(recent.newest(9).blocks.len(), 3);
    }
}
