//! The newest blocks of one chain, without gaps: polls bring the blocks, and readings their asks.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::time::Duration;

use super::base_fee_steps::BaseFeeSteps;
use super::{COMPARED_BLOCKS, EntryWindow};
use crate::fees::{
    BaseFeeStep, Block, EntryBlock, FAIR_PERCENTILE, FeeHistory, GRADED_PERCENTILES, Pricing,
    Rewards, column_of, have_ratios,
};

/// Consecutive blocks up to the newest known one, limited in number, and the asks of those that were read.
#[derive(Debug)]
pub struct RecentBlocks {
    capacity: usize,
    blocks: VecDeque<Block>,
    /// Percentiles of the rewards that polls request, ascending.
    polled: Vec<f64>,
    /// Number of the newest block.
    pub newest_block: u64,
    next_base_fee: Option<u128>,
    /// Number of blocks between two readings, if there are any.
    reading_interval: Option<NonZeroU64>,
    /// Rewards at [`GRADED_PERCENTILES`], as readings bring them, by block number.
    asks: BTreeMap<u64, Rewards>,
    steps: BaseFeeSteps,
    /// Number of changes of the blocks and of their asks.
    pub revision: u64,
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
    /// Bytes of a block and its asks. The nodes of a map may be half empty.
    pub(crate) const BYTES_PER_BLOCK: usize = size_of::<Block>() + 2 * size_of::<(u64, Rewards)>();

    pub(super) fn new(
        capacity: usize,
        pricing: &Pricing,
        reading_interval: Option<NonZeroU64>,
    ) -> Self {
        Self {
            capacity,
            blocks: VecDeque::with_capacity(capacity),
            polled: pricing.percentiles().iter().collect(),
            newest_block: 0,
            next_base_fee: None,
            reading_interval,
            asks: BTreeMap::new(),
            steps: BaseFeeSteps::default(),
            revision: 0,
        }
    }

    /// Merges a reply to a poll. Blocks with the same number are replaced, because a reorg changes them; blocks above its
    /// newest one and below a gap are removed. The asks of the blocks that it replaces, and of those above, are forgotten.
    pub(super) fn extend(&mut self, history: &FeeHistory) {
        let added = history.newest(self.capacity);
        let newest = history.newest_block();
        let first = newest.saturating_sub(to_u64(added.len()).saturating_sub(1));
        let is_known = self.newest_block == newest && self.next_base_fee == history.next_base_fee;
        if is_known && (first..=newest).all(|it| self.block(it) == history.block(it)) {
            return;
        }
        if let Some(replaced) = self.first_replaced(history) {
            self.asks.split_off(&replaced);
        }
        let is_gap = first > self.newest_block.saturating_add(1);
        let oldest = self.oldest_block().filter(|_| !is_gap);
        let kept = oldest.map_or(0, |oldest| first.saturating_sub(oldest));
        self.blocks.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        // Before the others are added, so that the buffer does not grow.
        let surplus = (self.blocks.len() + added.len()).saturating_sub(self.capacity);
        self.blocks.drain(..surplus.min(self.blocks.len()));
        self.blocks.extend(added);
        self.newest_block = newest;
        self.next_base_fee = history.next_base_fee;
        self.asks = self.asks.split_off(&self.oldest_block().unwrap_or_default());
        self.revision = self.revision.wrapping_add(1);
    }

    /// Number of the first known block that is another one in `history`, or that the chain does not have any more.
    fn first_replaced(&self, history: &FeeHistory) -> Option<u64> {
        let oldest = self.oldest_block()?.max(history.oldest_block());
        (oldest..=self.newest_block).find(|number| !self.is_same(*number, history))
    }

    /// Returns true if the block with this number is known, and the same in `history`.
    fn is_same(&self, number: u64, history: &FeeHistory) -> bool {
        let both = self.block(number).zip(history.block(number));
        both.is_some_and(|(known, block)| known.is_same_as(block))
    }

    /// Sets the number of blocks between two readings of asks, which follows the block time.
    pub(super) fn set_reading_interval(&mut self, interval: Option<NonZeroU64>) {
        self.reading_interval = interval;
    }

    /// Merges a reading, whose rewards are those at [`GRADED_PERCENTILES`]. Blocks that are known with other amounts belong
    /// to another branch, and stay as they are. Older blocks are added before the known ones, if the oldest known one is the
    /// same in both. Returns the number of blocks whose ask was learnt.
    pub(super) fn add_reading(&mut self, reading: &FeeHistory) -> usize {
        if self.reading_interval.is_none() {
            return 0;
        }
        let known_blocks = self.blocks.len();
        self.add_older(reading);
        let mut learnt = 0_usize;
        for (number, block) in (reading.oldest_block()..).zip(reading.blocks()) {
            if let Some(rewards) = block.rewards.filter(|_| self.is_same(number, reading)) {
                let is_new = self.asks.insert(number, rewards).is_none();
                learnt = learnt.saturating_add(is_new.into());
            }
        }
        if learnt > 0 || self.blocks.len() > known_blocks {
            self.revision = self.revision.wrapping_add(1);
        }
        learnt
    }

    /// Adds blocks of a reading before the oldest known one, the newest first, while there is room.
    fn add_older(&mut self, reading: &FeeHistory) {
        let Some(oldest) = self.oldest_block().filter(|oldest| self.is_same(*oldest, reading))
        else {
            return;
        };
        let room = self.capacity.saturating_sub(self.blocks.len());
        let numbers = (reading.oldest_block()..oldest).rev().take(room);
        for block in numbers.filter_map(|number| reading.block(number)) {
            let rewards = block.rewards.and_then(|read| self.as_polled(read));
            self.blocks.push_front(Block { rewards, ..*block });
        }
    }

    /// Returns what polls request of the rewards of a reading; `None`: it does not have all of it.
    fn as_polled(&self, read: Rewards) -> Option<Rewards> {
        let mut polled = Rewards::default();
        for (amount, percentile) in polled.iter_mut().zip(&self.polled) {
            *amount = *read.get(column_of(*percentile, &GRADED_PERCENTILES)?)?;
        }
        Some(polled)
    }

    /// Number of the newest block whose rewards were read.
    fn newest_ask(&self) -> Option<u64> {
        self.asks.last_key_value().map(|(number, _)| *number)
    }

    fn oldest_block(&self) -> Option<u64> {
        self.newest_block.checked_sub(to_u64(self.blocks.len().checked_sub(1)?))
    }

    fn block(&self, number: u64) -> Option<&Block> {
        self.blocks.get(usize::try_from(number.checked_sub(self.oldest_block()?)?).ok()?)
    }

    /// Returns the base fees of all blocks in wei, oldest first.
    #[must_use]
    pub fn base_fees(&self) -> impl DoubleEndedIterator<Item = u128> + ExactSizeIterator {
        self.blocks.iter().map(|block| block.base_fee)
    }

    /// Returns the steps in which the base fee rose, oldest first: those of the last hour, or on a chain with longer block
    /// times its blocks.
    #[must_use]
    pub fn base_fee_steps(&self, block_time: Duration) -> Cow<'_, [BaseFeeStep]> {
        if BaseFeeStep::is_timed(block_time) {
            return Cow::Borrowed(self.steps.all());
        }
        self.base_fees().map(BaseFeeStep::from_base_fee).collect()
    }

    /// Adds the newest block, which was seen so many milliseconds after 1970, and those before it to the steps.
    pub(super) fn update_steps(&mut self, seen_at: u64, block_time: Duration) {
        if BaseFeeStep::is_timed(block_time) {
            let base_fees = self.blocks.iter().map(|block| block.base_fee);
            self.steps.update(base_fees, self.newest_block, seen_at, block_time);
        }
    }

    /// Returns the newest `count` blocks, or fewer if fewer are known.
    #[must_use]
    pub fn newest(&self, count: usize) -> BlockWindow {
        let skipped = self.blocks.len().saturating_sub(count);
        BlockWindow {
            newest_block: self.newest_block,
            blocks: self.blocks.iter().skip(skipped).copied().collect(),
            next_base_fee: self.next_base_fee,
        }
    }

    /// Returns the `count` blocks up to `newest`, or fewer if fewer are known, with their reward at `percentile` as the only
    /// column. `None`: the block is not known.
    #[must_use]
    pub fn history(&self, newest: u64, count: usize, percentile: f64) -> Option<FeeHistory> {
        let oldest = newest.saturating_sub(to_u64(count).saturating_sub(1));
        let oldest = oldest.max(self.oldest_block()?);
        let with_reward = |number| {
            let block = self.block(number)?;
            let reward = self.reward(number, block, percentile);
            Some(Block { rewards: reward.map(|reward| [reward, 0]), ..*block })
        };
        FeeHistory::new(oldest, (oldest..=newest).map(with_reward).collect::<Option<_>>()?, None)
    }

    /// Returns the reward of a known block at this percentile. What a poll said goes before what a reading says.
    fn reward(&self, number: u64, block: &Block, percentile: f64) -> Option<u128> {
        let column = column_of(percentile, &self.polled);
        let polled = column.and_then(|column| block.reward(column));
        let read = || self.asks.get(&number)?.get(column_of(percentile, &GRADED_PERCENTILES)?);
        polled.or_else(|| read().copied())
    }

    /// Returns the newest `count` blocks whose tips are known, or fewer if fewer are known. The tips are the rewards at
    /// percentile 10, from polls or readings, which end some blocks below the newest one. If neither has any, or readings
    /// have failed for long, they are those at the lowest percentile of polls.
    #[must_use]
    pub fn newest_entries(&self, count: usize) -> EntryWindow {
        self.entries(count, |_| true)
    }

    /// Like [`newest_entries`](Self::newest_entries), for the newest `count` blocks that have an ask.
    #[must_use]
    pub fn newest_asks(&self, count: usize) -> EntryWindow {
        self.entries(count, |entry| entry.ask().is_some())
    }

    fn entries(&self, count: usize, is_wanted: impl Fn(&EntryBlock) -> bool) -> EntryWindow {
        let (newest_block, percentile) = self.known_tips();
        let [_, high] = GRADED_PERCENTILES;
        let numbers = self.oldest_block().map(|oldest| oldest..=self.newest_block);
        let blocks = numbers.into_iter().flatten().rev().filter_map(|number| {
            let block = self.block(number)?;
            let rewards = [percentile, high].map(|it| self.reward(number, block, it));
            Some((number, block, rewards))
        });
        let have_ratios = have_ratios(blocks.clone().map(|(_, block, rewards)| Block {
            rewards: Some(rewards.map(Option::unwrap_or_default)),
            ..*block
        }));
        let known = blocks.skip_while(|(number, ..)| *number > newest_block);
        let entries = known
            .map(|(_, block, [tip, high])| EntryBlock::new(block, have_ratios, tip, high))
            .filter(is_wanted)
            .take(count);
        let mut blocks: Vec<EntryBlock> = entries.collect();
        blocks.reverse();
        EntryWindow { percentile, newest_block, blocks }
    }

    /// Returns the number of the newest block whose tip is known, and the percentile of the rewards that count as tips.
    fn known_tips(&self) -> (u64, f64) {
        /// Readings of which one has to succeed, so that asks say something of now.
        const READINGS: u64 = 3;
        let between = self.reading_interval.map_or(0, NonZeroU64::get).saturating_mul(READINGS);
        let max_unread = between.saturating_add(to_u64(COMPARED_BLOCKS));
        let is_recent = |read: &u64| self.newest_block.saturating_sub(*read) < max_unread;
        match self.newest_ask().filter(is_recent) {
            _ if column_of(FAIR_PERCENTILE, &self.polled).is_some() => {
                (self.newest_block, FAIR_PERCENTILE)
            }
            Some(read) => (read, FAIR_PERCENTILE),
            None => (self.newest_block, self.polled.first().copied().unwrap_or(FAIR_PERCENTILE)),
        }
    }

    /// Returns how many of the `count` blocks up to `newest` have to be read: those after the newest one that was read. If
    /// polls have all rewards that readings have, only what is missing after a start or a gap is read, once. `None`: that
    /// block is not known.
    #[must_use]
    pub fn unread(&self, newest: u64, count: usize) -> Option<usize> {
        self.block(newest)?;
        let read = self.newest_ask();
        if GRADED_PERCENTILES.iter().all(|it| column_of(*it, &self.polled).is_some()) {
            let is_full = self.blocks.len() >= count || self.oldest_block() == Some(0);
            return Some(if read.is_some() || is_full { 0 } else { count });
        }
        let unread = read.map_or(u64::MAX, |read| newest.saturating_sub(read));
        Some(usize::try_from(unread).unwrap_or(usize::MAX).min(count))
    }
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
