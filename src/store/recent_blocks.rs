//! The newest blocks of one chain, without gaps.

use std::collections::{BTreeMap, VecDeque};

use crate::fees::{Block, FeeHistory, Rewards};

/// Consecutive blocks up to the newest known one, limited in number.
#[derive(Debug)]
pub struct RecentBlocks {
    capacity: usize,
    blocks: VecDeque<StoredBlock>,
    /// Blocks with an amount that [`StoredBlock`] has no room for, by number. Nearly always empty.
    wide: BTreeMap<u64, Block>,
    /// [`Rewards::graded`] of the newest blocks alone. Only comparisons of a caller's fee read them from here.
    graded: VecDeque<[u128; 2]>,
    newest_block: u64,
    next_base_fee: Option<u128>,
    /// Number of changes so far.
    revision: u64,
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

/// A block in a third of the memory: a service may hold a thousand of each of hundreds of chains.
#[derive(Debug, Clone, Copy)]
struct StoredBlock {
    /// [`NONE`](Self::NONE): the block is in [`RecentBlocks::wide`].
    base_fee: u64,
    /// Medium and high reward; [`NONE`](Self::NONE): there is none.
    rewards: [u64; 2],
    /// NaN: unknown.
    gas_used_ratio: f64,
}

impl StoredBlock {
    const NONE: u64 = u64::MAX;

    /// Takes the place of a block in [`RecentBlocks::wide`].
    const WIDE: Self =
        Self { base_fee: Self::NONE, rewards: [Self::NONE; 2], gas_used_ratio: f64::NAN };

    /// Converts a block; `None`: an amount is too large.
    fn new(block: &Block) -> Option<Self> {
        let narrow = |wei: u128| u64::try_from(wei).ok().filter(|wei| *wei < Self::NONE);
        let reward = |wei: Option<u128>| wei.map_or(Some(Self::NONE), narrow);
        let [medium, high] = match block.rewards {
            None => [None; 2],
            Some(Rewards { medium, high, .. }) => [Some(medium), high],
        };
        Some(Self {
            base_fee: narrow(block.base_fee)?,
            rewards: [reward(medium)?, reward(high)?],
            gas_used_ratio: block.gas_used_ratio.unwrap_or(f64::NAN),
        })
    }

    fn block(&self) -> Block {
        let [medium, high] =
            self.rewards.map(|wei| Some(u128::from(wei)).filter(|_| wei != Self::NONE));
        Block {
            base_fee: self.base_fee.into(),
            gas_used_ratio: Some(self.gas_used_ratio).filter(|ratio| !ratio.is_nan()),
            rewards: medium.map(|medium| Rewards { medium, high, graded: [0; 2] }),
        }
    }
}

impl RecentBlocks {
    /// Number of blocks that a caller's fee is compared with.
    pub(super) const GRADED_BLOCKS: usize = 20;

    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            blocks: VecDeque::with_capacity(capacity),
            wide: BTreeMap::new(),
            graded: VecDeque::with_capacity(Self::GRADED_BLOCKS),
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
            self.graded.truncate(self.graded.len().saturating_sub(count));
        } else {
            self.blocks.clear();
            self.graded.clear();
        }
        let newest = history.newest(self.capacity);
        let stored =
            newest.iter().map(|block| StoredBlock::new(block).unwrap_or(StoredBlock::WIDE));
        append(&mut self.blocks, stored, self.capacity);
        self.wide.retain(|number, _| *number < history.oldest_block());
        let newest_first = (0..=history.newest_block()).rev().zip(newest.iter().rev());
        let wide = newest_first.filter(|(_, block)| StoredBlock::new(block).is_none());
        self.wide.extend(wide.map(|(number, block)| {
            let rewards = block.rewards.map(|rewards| Rewards { graded: [0; 2], ..rewards });
            (number, Block { rewards, ..*block })
        }));
        let graded = history.newest(Self::GRADED_BLOCKS).iter();
        let graded = graded.map(|block| block.rewards.map_or([0; 2], |rewards| rewards.graded));
        append(&mut self.graded, graded, Self::GRADED_BLOCKS);
        self.newest_block = history.newest_block();
        self.next_base_fee = history.next_base_fee();
        let oldest = self.number_at(0);
        self.wide.retain(|number, _| *number >= oldest);
        if self.newest(history.blocks().len()) != before {
            self.revision = self.revision.wrapping_add(1);
        }
    }

    /// Returns the number of the block at this index.
    fn number_at(&self, index: usize) -> u64 {
        let above = self.blocks.len().saturating_sub(index).saturating_sub(1);
        self.newest_block.saturating_sub(u64::try_from(above).unwrap_or(u64::MAX))
    }

    /// Returns the blocks from this index on, without graded rewards.
    fn blocks_from(&self, index: usize) -> impl Iterator<Item = Block> {
        let numbers = self.number_at(index)..=self.newest_block;
        self.blocks.range(index..).zip(numbers).map(|(stored, number)| match stored.base_fee {
            StoredBlock::NONE => self.wide.get(&number).copied().unwrap_or_else(|| stored.block()),
            _ => stored.block(),
        })
    }

    /// Number of changes of the blocks.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the base fees of all blocks in wei, oldest first.
    #[must_use]
    pub fn base_fees(&self) -> Vec<u128> {
        self.blocks_from(0).map(|block| block.base_fee).collect()
    }

    /// Returns the newest `count` blocks, or fewer if fewer are known.
    #[must_use]
    pub fn newest(&self, count: usize) -> BlockWindow {
        let skipped = self.blocks.len().saturating_sub(count);
        let without_graded = self.blocks.len().saturating_sub(self.graded.len());
        let blocks = self.blocks_from(skipped).zip(skipped..).map(|(mut block, index)| {
            let graded = index.checked_sub(without_graded).and_then(|index| self.graded.get(index));
            if let Some((rewards, graded)) = block.rewards.as_mut().zip(graded) {
                rewards.graded = *graded;
            }
            block
        });
        BlockWindow {
            newest_block: self.newest_block,
            blocks: blocks.collect(),
            next_base_fee: self.next_base_fee,
        }
    }
}

/// Appends to a ring of at most `capacity` values, without a larger buffer in between.
fn append<T>(ring: &mut VecDeque<T>, values: impl ExactSizeIterator<Item = T>, capacity: usize) {
    let surplus = ring.len().saturating_add(values.len()).saturating_sub(capacity);
    ring.drain(..surplus.min(ring.len()));
    ring.extend(values);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(oldest_block: u64, base_fees: &[u128]) -> FeeHistory {
        let block = |&base_fee| Block { base_fee, gas_used_ratio: None, rewards: None };
        FeeHistory::new(oldest_block, base_fees.iter().map(block).collect(), None).unwrap()
    }

    fn blocks_after(capacity: usize, histories: &[FeeHistory]) -> (u64, Vec<u128>) {
        let mut recent = RecentBlocks::new(capacity);
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
    fn blocks_come_back_as_they_were_and_the_newest_with_all_rewards() {
        let rewards = |medium, high| Some(Rewards { medium, high, graded: [medium + 1, 9] });
        let block = |gas_used_ratio, rewards| Block { base_fee: 7, gas_used_ratio, rewards };
        let mut blocks = vec![block(Some(0.25), rewards(1, None)); 30];
        blocks.extend([block(None, None), block(Some(0.0), rewards(0, Some(u128::MAX - 1)))]);
        let mut recent = RecentBlocks::new(31);
        recent.extend(&FeeHistory::new(1, blocks[..25].to_vec(), None).unwrap());
        recent.extend(&FeeHistory::new(13, blocks[12..].to_vec(), None).unwrap());
        assert_eq!(recent.newest(20).blocks, blocks[12..]);
        let all = recent.newest(40).blocks;
        assert_eq!((all.len(), recent.blocks.capacity()), (31, 31));
        let older = Rewards { medium: 1, high: None, graded: [0; 2] };
        assert_eq!(all[0], block(Some(0.25), Some(older)));
    }

    #[test]
    fn amounts_beyond_64_bits_come_back_until_their_block_is_gone() {
        let huge = u128::from(u64::MAX);
        let mut recent = RecentBlocks::new(4);
        recent.extend(&history(10, &[1, huge, u128::MAX, huge - 1]));
        let base_fees = |recent: &RecentBlocks| -> Vec<_> {
            recent.newest(4).blocks.iter().map(|block| block.base_fee).collect()
        };
        assert_eq!(base_fees(&recent), [1, huge, u128::MAX, huge - 1]);
        recent.extend(&history(12, &[5, 6]));
        assert_eq!((base_fees(&recent), recent.wide.len()), (vec![1, huge, 5, 6], 1));
        recent.extend(&history(14, &[7, huge]));
        assert_eq!((base_fees(&recent), recent.wide.len()), (vec![5, 6, 7, huge], 1));
        recent.extend(&history(20, &[8]));
        assert_eq!((base_fees(&recent), recent.wide.len()), (vec![8], 0));
        let rewards = Some(Rewards { medium: 1, high: Some(huge), graded: [2, 3] });
        let wide = Block { base_fee: 9, gas_used_ratio: None, rewards };
        recent.extend(&FeeHistory::new(21, vec![wide], None).unwrap());
        assert_eq!(recent.newest(1).blocks, [wide]);
    }

    #[test]
    fn a_window_holds_the_newest_blocks() {
        let mut recent = RecentBlocks::new(8);
        recent.extend(&history(u64::MAX - 2, &[1, 2, 3]));
        assert_eq!(recent.newest(2).newest_block, u64::MAX);
        assert_eq!(recent.newest(2).blocks.len(), 2);
        assert_eq!(recent.newest(9).blocks.len(), 3);
    }
}
