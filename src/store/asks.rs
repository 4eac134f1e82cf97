//! Asks of one chain's newest blocks: the rewards that polls do not request, as readings bring them.

use std::collections::VecDeque;

use crate::fees::{Block, GRADED_PERCENTILES, column_of};

/// Rewards of blocks at [`GRADED_PERCENTILES`], by block number, ascending. Blocks whose rewards are not known are missing.
#[derive(Debug, Default)]
pub(super) struct Asks(VecDeque<BlockAsk>);

/// Rewards of one block in wei per gas. Those of more than 64 bits are not kept: no chain asks 18 of its coins per gas.
#[derive(Debug, Clone, Copy)]
struct BlockAsk {
    number: u64,
    rewards: [u64; GRADED_PERCENTILES.len()],
}

impl Asks {
    /// Number of the newest block whose rewards were read.
    pub(super) fn newest_block(&self) -> Option<u64> {
        Some(self.0.back()?.number)
    }

    /// Returns the reward of a block at this percentile.
    pub(super) fn reward(&self, number: u64, percentile: f64) -> Option<u128> {
        let column = column_of(percentile, &GRADED_PERCENTILES)?;
        let ask = self.0.get(self.position(number).ok()?)?;
        ask.rewards.get(column).copied().map(u128::from)
    }

    /// Keeps what a reading says of a block. Returns true if nothing was known of it.
    pub(super) fn set(&mut self, number: u64, block: &Block) -> bool {
        let reward = |column| u64::try_from(block.reward(column)?).ok();
        let Some((ask, high)) = reward(0).zip(reward(1)) else { return false };
        let ask = BlockAsk { number, rewards: [ask, high] };
        let position = self.position(number);
        match position.map(|known| self.0.get_mut(known)) {
            Ok(Some(known)) => *known = ask,
            Ok(None) => {}
            Err(place) => self.0.insert(place, ask),
        }
        position.is_err()
    }

    /// Forgets the asks of the blocks from `number` on.
    pub(super) fn forget_from(&mut self, number: u64) {
        self.0.truncate(self.0.partition_point(|ask| ask.number < number));
    }

    /// Forgets the asks of the blocks before `number`.
    pub(super) fn forget_before(&mut self, number: u64) {
        self.0.drain(..self.0.partition_point(|ask| ask.number < number));
    }

    fn position(&self, number: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&number, |ask| ask.number)
    }
}
