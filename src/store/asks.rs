//! Asks of one chain's newest blocks: the rewards that polls do not request, as readings bring them.

use std::collections::VecDeque;

use super::ring::BlockRing;
use crate::fees::{Block, FeeHistory, GRADED_PERCENTILES, column_of};

/// Rewards of blocks at [`GRADED_PERCENTILES`], by block number, ascending. Blocks whose rewards are not known are missing.
#[derive(Debug, Default)]
pub(super) struct Asks(VecDeque<BlockAsk>);

/// Rewards of one block in wei per gas. Those of more than 64 bits are not kept: no chain asks 18 of its coins per gas.
#[derive(Debug, Clone, Copy)]
struct BlockAsk {
    number: u64,
    rewards: [u64; GRADED_PERCENTILES.len()],
}

impl BlockAsk {
    /// Creates the ask of a block of a reading; `None`: it does not have one.
    fn new(number: u64, block: &Block) -> Option<Self> {
        let [ask, high] = [block.reward(0)?, block.reward(1)?];
        let rewards = [u64::try_from(ask).ok()?, u64::try_from(high).ok()?];
        Some(Self { number, rewards })
    }
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

    /// Adds what a `reading` says of `blocks`. Blocks that are known with other amounts belong to another branch. Returns the
    /// number of blocks that had no ask.
    pub(super) fn add(&mut self, reading: &FeeHistory, blocks: &BlockRing) -> usize {
        let mut learnt = 0_usize;
        for (number, block) in (reading.oldest_block()..).zip(reading.blocks()) {
            let Some(ask) = BlockAsk::new(number, block) else { continue };
            if !blocks.block(number).is_some_and(|known| known.is_same_as(block)) {
                continue;
            }
            match self.position(number) {
                Ok(position) => {
                    if let Some(kept) = self.0.get_mut(position) {
                        *kept = ask;
                    }
                }
                Err(position) => {
                    self.0.insert(position, ask);
                    learnt = learnt.saturating_add(1);
                }
            }
        }
        learnt
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
