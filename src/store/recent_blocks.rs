//! The newest blocks of one chain, without gaps.

use std::collections::VecDeque;

use crate::compat::Ranges;
use crate::fees::{self, Block, FeeHistory, Rewards};

/// Consecutive blocks up to the newest known one, limited in number.
#[derive(Debug)]
pub(super) struct RecentBlocks {
    capacity: usize,
    blocks: VecDeque<StoredBlock>,
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

/// A block in two thirds of the memory: a service may hold a thousand of each of hundreds of chains.
#[derive(Debug, Clone, Copy)]
struct StoredBlock {
    base_fee: u128,
    /// Medium and high reward, as far as `reward_count` says.
    rewards: [u128; 2],
    /// NaN: unknown.
    gas_used_ratio: f64,
    reward_count: u8,
}

impl From<&Block> for StoredBlock {
    fn from(block: &Block) -> Self {
        let (rewards, reward_count) = match block.rewards {
            None => ([0; 2], 0),
            Some(Rewards { medium, high: None, .. }) => ([medium, 0], 1),
            Some(Rewards { medium, high: Some(high), .. }) => ([medium, high], 2),
        };
        let gas_used_ratio = block.gas_used_ratio.unwrap_or(f64::NAN);
        Self { base_fee: block.base_fee, rewards, gas_used_ratio, reward_count }
    }
}

impl StoredBlock {
    fn block(&self, graded: [u128; 2]) -> Block {
        let [medium, high] = self.rewards;
        let high = (self.reward_count > 1).then_some(high);
        Block {
            base_fee: self.base_fee,
            gas_used_ratio: Some(self.gas_used_ratio).filter(|ratio| !ratio.is_nan()),
            rewards: (self.reward_count > 0).then_some(Rewards { medium, high, graded }),
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
        append(
            &mut self.blocks,
            history.newest(self.capacity).iter().map(StoredBlock::from),
            self.capacity,
        );
        let graded = history.newest(Self::GRADED_BLOCKS).iter();
        let graded = graded.map(|block| block.rewards.map_or([0; 2], |rewards| rewards.graded));
        append(&mut self.graded, graded, Self::GRADED_BLOCKS);
        self.newest_block = history.newest_block();
        self.next_base_fee = history.next_base_fee();
        if self.newest(history.blocks().len()) != before {
            self.revision = self.revision.wrapping_add(1);
        }
    }

    /// Number of changes of the blocks.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the lowest and the highest amounts of all blocks, compared with the base fee of the next one.
    pub(super) fn ranges(&self, next_base_fee: u128) -> Ranges {
        let widen = |range: Option<[u128; 2]>, amount: u128| {
            let [lowest, highest] = range.unwrap_or([amount; 2]);
            Some([lowest.min(amount), highest.max(amount)])
        };
        let (mut base_fee, mut reward, mut cheaper) = (None, None, 0_u32);
        for block in &self.blocks {
            base_fee = widen(base_fee, block.base_fee);
            cheaper = cheaper.saturating_add(u32::from(block.base_fee < next_base_fee));
            if let Some(amount) = fees::observed_reward(&block.block([0; 2])) {
                reward = widen(reward, amount);
            }
        }
        let count = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX).max(1);
        Ranges {
            base_fee: base_fee.unwrap_or([next_base_fee; 2]),
            reward,
            cheaper_share: f64::from(cheaper) / f64::from(count),
        }
    }

    pub(super) fn newest(&self, count: usize) -> BlockWindow {
        let skipped = self.blocks.len().saturating_sub(count);
        let without_graded = self.blocks.len().saturating_sub(self.graded.len());
        let blocks = self.blocks.iter().enumerate().skip(skipped).map(|(index, block)| {
            let graded = index.checked_sub(without_graded).and_then(|index| self.graded.get(index));
            block.block(graded.copied().unwrap_or_default())
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
    fn a_window_holds_the_newest_blocks() {
        let mut recent = RecentBlocks::new(8);
        recent.extend(&history(u64::MAX - 2, &[1, 2, 3]));
        assert_eq!(recent.newest(2).newest_block, u64::MAX);
        assert_eq!(recent.newest(2).blocks.len(), 2);
        assert_eq!(recent.newest(9).blocks.len(), 3);
    }
}
