//! The newest blocks of one chain, without gaps.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use super::{COMPARED_BLOCKS, EntryWindow};
use crate::fees::{
    Block, EntryBlock, FAIR_PERCENTILE, FeeHistory, GRADED_PERCENTILES, Pricing, Rewards, column_of,
};

/// Consecutive blocks up to the newest known one, limited in number.
#[derive(Debug)]
pub struct RecentBlocks {
    capacity: usize,
    /// Percentiles of the rewards that polls request.
    polled: Vec<f64>,
    /// Percentiles of the rewards that are kept, in ascending order.
    columns: Vec<Column>,
    /// True if the rewards at [`GRADED_PERCENTILES`] come from further readings.
    has_readings: bool,
    /// Number of newest blocks among which one has to be read, so that readings say something of now.
    max_unread: usize,
    blocks: VecDeque<StoredBlock>,
    /// As many as columns for each block; 0 where the block has none.
    rewards: VecDeque<u128>,
    newest_block: u64,
    next_base_fee: Option<u128>,
    /// Number of changes so far.
    revision: u64,
}

/// A percentile, and who reads the rewards at it.
#[derive(Debug, Clone, Copy)]
struct Column {
    percentile: f64,
    is_polled: bool,
    /// True if further readings have it.
    is_read: bool,
}

/// A block without its rewards.
#[derive(Debug, Clone, Copy)]
struct StoredBlock {
    base_fee: u128,
    /// NaN: unknown.
    gas_used_ratio: f64,
    has_rewards: bool,
    has_reading: bool,
}

/// Which blocks have known tips.
struct KnownEntries {
    /// Number of blocks up to the newest of them.
    end: usize,
    /// Percentile of the rewards that count as the tips.
    percentile: f64,
    /// False if the gas used ratios say nothing, see [`have_ratios`](crate::fees::have_ratios).
    have_ratios: bool,
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
    fn gas_used_ratio(self) -> Option<f64> {
        Some(self.gas_used_ratio).filter(|ratio| !ratio.is_nan())
    }

    /// Returns true if polls or further readings have this column of the block.
    fn knows(self, column: Column) -> bool {
        self.has_rewards && column.is_polled || self.has_reading && column.is_read
    }
}

impl RecentBlocks {
    /// Number of rewards of a further reading.
    const READ: usize = GRADED_PERCENTILES.len();

    /// Creates a ring without blocks. `reading_interval` is the number of blocks between two further readings, if there are
    /// any.
    pub(super) fn new(
        capacity: usize,
        pricing: &Pricing,
        reading_interval: Option<NonZeroU64>,
    ) -> Self {
        let polled: Vec<f64> = pricing.percentiles().iter().collect();
        let has_readings = reading_interval.is_some();
        let interval = reading_interval.map_or(0, NonZeroU64::get);
        let interval = usize::try_from(interval).unwrap_or(usize::MAX);
        let read = if has_readings { &GRADED_PERCENTILES[..] } else { &[] };
        let mut percentiles = [&polled[..], read].concat();
        percentiles.sort_unstable_by(f64::total_cmp);
        percentiles.dedup();
        let column = |percentile| Column {
            percentile,
            is_polled: column_of(percentile, &polled).is_some(),
            is_read: column_of(percentile, read).is_some(),
        };
        let columns: Vec<Column> = percentiles.into_iter().map(column).collect();
        Self {
            capacity,
            has_readings,
            max_unread: interval.saturating_mul(3).saturating_add(COMPARED_BLOCKS),
            blocks: VecDeque::with_capacity(capacity),
            rewards: VecDeque::with_capacity(capacity.saturating_mul(columns.len())),
            columns,
            polled,
            newest_block: 0,
            next_base_fee: None,
            revision: 0,
        }
    }

    /// Merges `history`: blocks with the same number are replaced, because a reorg changes them; blocks above its
    /// newest one and below a gap are removed. What further readings said of a block stays while the block does.
    pub(super) fn extend(&mut self, history: &FeeHistory) {
        let before = self.newest(history.blocks().len());
        let above = self.newest_block.checked_add(1);
        let overlap = above
            .and_then(|above| above.checked_sub(history.oldest_block()))
            .and_then(|count| usize::try_from(count).ok());
        // Blocks of the history below the oldest known one.
        let below = overlap.map_or(0, |count| count.saturating_sub(self.blocks.len()));
        let kept = overlap.map_or(0, |count| self.blocks.len().saturating_sub(count));
        let known = if self.has_readings && overlap.is_some() { kept } else { self.blocks.len() };
        let replaced: Vec<_> = (known..self.blocks.len())
            .filter_map(|index| Some((self.block(index)?, self.reading(index))))
            .collect();
        self.blocks.truncate(kept);
        self.rewards.truncate(kept.saturating_mul(self.columns.len()));
        let newest = history.newest(self.capacity);
        // The blocks of the history before these have no room.
        let skipped = history.blocks().len().saturating_sub(newest.len());
        self.make_room(newest.len());
        for (index, block) in newest.iter().enumerate() {
            let known = skipped.saturating_add(index).checked_sub(below);
            let known = known.and_then(|index| replaced.get(index));
            let known = known.filter(|(known, _)| known.is_same_as(block));
            let reading = known.and_then(|(_, reading)| *reading);
            self.push(block, reading);
        }
        self.newest_block = history.newest_block();
        self.next_base_fee = history.next_base_fee();
        if self.newest(history.blocks().len()) != before {
            self.revision = self.revision.wrapping_add(1);
        }
    }

    /// Merges a further reading, whose rewards are those at [`GRADED_PERCENTILES`]. Blocks that are known with other
    /// amounts belong to another branch, and stay as they are. Older blocks are added before the known ones, if the
    /// oldest known one is the same in both. Returns the number of blocks whose rewards were learnt.
    pub(super) fn add_reading(&mut self, reading: &FeeHistory) -> usize {
        if !self.has_readings {
            return 0;
        }
        let (oldest, known_blocks) = (self.oldest_block(), self.blocks.len());
        let mut learnt = 0_usize;
        for (number, block) in (reading.oldest_block()..).zip(reading.blocks()) {
            let Some(read) = graded(block) else { continue };
            let Some(index) = self.index(number) else { continue };
            if !self.block(index).is_some_and(|known| known.is_same_as(block)) {
                continue;
            }
            if self.reading(index).is_none() {
                learnt = learnt.saturating_add(1);
            }
            self.set_reading(index, read);
        }
        let adjoins = oldest.is_some_and(|oldest| {
            let position = oldest.checked_sub(reading.oldest_block());
            let position = position.and_then(|position| usize::try_from(position).ok());
            let known = position.and_then(|position| reading.blocks().get(position));
            known.zip(self.block(0)).is_some_and(|(block, oldest)| oldest.is_same_as(block))
        });
        if let Some(oldest) = oldest.filter(|_| adjoins) {
            let older = (reading.oldest_block()..oldest).zip(reading.blocks());
            let older: Vec<Block> = older.map(|(_, block)| *block).collect();
            learnt = learnt.saturating_add(self.push_front(&older));
        }
        if learnt > 0 || self.blocks.len() != known_blocks {
            self.revision = self.revision.wrapping_add(1);
        }
        learnt
    }

    /// Adds blocks of a reading before the oldest known one, the newest first, while there is room.
    fn push_front(&mut self, older: &[Block]) -> usize {
        let room = self.capacity.saturating_sub(self.blocks.len());
        let mut learnt = 0_usize;
        for block in older.iter().rev().take(room) {
            let read = graded(block);
            let has_all_polled = self.columns.iter().all(|it| it.is_read || !it.is_polled);
            self.blocks.push_front(StoredBlock {
                base_fee: block.base_fee,
                gas_used_ratio: block.gas_used_ratio.unwrap_or(f64::NAN),
                has_rewards: has_all_polled && read.is_some(),
                has_reading: read.is_some(),
            });
            for column in self.columns.iter().rev() {
                self.rewards.push_front(read_at(*column, read).unwrap_or_default());
            }
            learnt = learnt.saturating_add(usize::from(read.is_some()));
        }
        learnt
    }

    /// Removes the oldest blocks, so that the buffers do not grow with `added` blocks.
    fn make_room(&mut self, added: usize) {
        let surplus = self.blocks.len().saturating_add(added).saturating_sub(self.capacity);
        let surplus = surplus.min(self.blocks.len());
        self.blocks.drain(..surplus);
        self.rewards.drain(..surplus.saturating_mul(self.columns.len()));
    }

    fn push(&mut self, block: &Block, reading: Option<[u128; Self::READ]>) {
        self.blocks.push_back(StoredBlock {
            base_fee: block.base_fee,
            gas_used_ratio: block.gas_used_ratio.unwrap_or(f64::NAN),
            has_rewards: block.rewards.is_some(),
            has_reading: reading.is_some(),
        });
        let reward = |column: &Column| {
            let of_poll = column_of(column.percentile, &self.polled);
            let of_poll = of_poll.and_then(|column| block.reward(column));
            of_poll.or_else(|| read_at(*column, reading)).unwrap_or_default()
        };
        self.rewards.extend(self.columns.iter().map(reward));
    }

    fn oldest_block(&self) -> Option<u64> {
        let later = u64::try_from(self.blocks.len().checked_sub(1)?).ok()?;
        self.newest_block.checked_sub(later)
    }

    fn index(&self, number: u64) -> Option<usize> {
        let index = usize::try_from(number.checked_sub(self.oldest_block()?)?).ok()?;
        (index < self.blocks.len()).then_some(index)
    }

    fn block(&self, index: usize) -> Option<Block> {
        let stored = self.blocks.get(index)?;
        let polled = self.columns_of(index).filter(|(column, _)| column.is_polled);
        let mut amounts = [0; Rewards::MAX_COLUMNS];
        for (amount, (_, reward)) in amounts.iter_mut().zip(polled) {
            *amount = reward;
        }
        Some(Block {
            base_fee: stored.base_fee,
            gas_used_ratio: stored.gas_used_ratio(),
            rewards: stored.has_rewards.then(|| Rewards::new(&amounts)),
        })
    }

    /// Returns the columns of a block and their rewards, 0 where the block has none.
    fn columns_of(&self, index: usize) -> impl Iterator<Item = (Column, u128)> {
        let range = range_of(index, self.columns.len(), self.rewards.len());
        self.columns.iter().copied().zip(self.rewards.range(range).copied())
    }

    /// Returns the reward of a block at this percentile, from polls or further readings.
    fn reward(&self, index: usize, percentile: f64) -> Option<u128> {
        let stored = self.blocks.get(index)?;
        let is_same = |column: &Column| column_of(percentile, &[column.percentile]).is_some();
        let (column, reward) = self.columns_of(index).find(|(column, _)| is_same(column))?;
        stored.knows(column).then_some(reward)
    }

    /// Returns the rewards at [`GRADED_PERCENTILES`] of a block that was read, those of its poll where it has them.
    fn reading(&self, index: usize) -> Option<[u128; Self::READ]> {
        self.blocks.get(index).filter(|stored| stored.has_reading)?;
        let [fair, high] = GRADED_PERCENTILES.map(|percentile| self.reward(index, percentile));
        Some([fair?, high?])
    }

    /// Keeps what a reading says of a block. What its poll said stays.
    fn set_reading(&mut self, index: usize, read: [u128; Self::READ]) {
        let Some(stored) = self.blocks.get_mut(index) else { return };
        stored.has_reading = true;
        let has_rewards = stored.has_rewards;
        let range = range_of(index, self.columns.len(), self.rewards.len());
        for (kept, column) in self.rewards.range_mut(range).zip(&self.columns) {
            if let Some(amount) = read_at(*column, Some(read))
                && !(has_rewards && column.is_polled)
            {
                *kept = amount;
            }
        }
    }

    /// Number of changes of the blocks.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the base fees of all blocks in wei, oldest first.
    #[must_use]
    pub fn base_fees(&self) -> impl DoubleEndedIterator<Item = u128> + ExactSizeIterator {
        self.blocks.iter().map(|block| block.base_fee)
    }

    /// Number of the newest block.
    #[must_use]
    pub fn newest_block(&self) -> u64 {
        self.newest_block
    }

    /// Returns the newest `count` blocks, or fewer if fewer are known.
    #[must_use]
    pub fn newest(&self, count: usize) -> BlockWindow {
        let skipped = self.blocks.len().saturating_sub(count);
        BlockWindow {
            newest_block: self.newest_block,
            blocks: (skipped..self.blocks.len()).filter_map(|index| self.block(index)).collect(),
            next_base_fee: self.next_base_fee,
        }
    }

    /// Returns the newest `count` blocks whose tips are known, or fewer if fewer are known. The tips are the rewards at
    /// percentile 10, from polls or further readings, which end some blocks below the newest one. If neither has any, or
    /// readings have failed for long, they are those at the lowest percentile of polls.
    #[must_use]
    pub fn newest_entries(&self, count: usize) -> EntryWindow {
        let known = self.known_entries();
        let blocks = (known.end.saturating_sub(count)..known.end)
            .filter_map(|index| self.entry(index, &known));
        self.entry_window(&known, blocks.collect())
    }

    /// Like [`newest_entries`](Self::newest_entries), for the newest `count` blocks that have an ask.
    #[must_use]
    pub fn newest_asks(&self, count: usize) -> EntryWindow {
        let known = self.known_entries();
        let entries = (0..known.end).rev().filter_map(|index| self.entry(index, &known));
        let mut blocks: Vec<_> =
            entries.filter(|entry| entry.ask().is_some()).take(count).collect();
        blocks.reverse();
        self.entry_window(&known, blocks)
    }

    fn entry(&self, index: usize, known: &KnownEntries) -> Option<EntryBlock> {
        let [_, high] = GRADED_PERCENTILES;
        let [tip, high] = [known.percentile, high].map(|percentile| self.reward(index, percentile));
        Some(EntryBlock::new(&self.block(index)?, known.have_ratios, tip, high))
    }

    fn entry_window(&self, known: &KnownEntries, blocks: Vec<EntryBlock>) -> EntryWindow {
        let later = u64::try_from(self.blocks.len().saturating_sub(known.end)).unwrap_or_default();
        let newest_block = self.newest_block.saturating_sub(later);
        EntryWindow { percentile: known.percentile, newest_block, blocks }
    }

    fn known_entries(&self) -> KnownEntries {
        let newest_read = self.blocks.iter().rposition(|block| block.has_reading);
        let newest_read = newest_read
            .filter(|newest| self.blocks.len().saturating_sub(*newest) <= self.max_unread);
        let (end, percentile) = match (column_of(FAIR_PERCENTILE, &self.polled), newest_read) {
            (Some(_), _) => (self.blocks.len(), FAIR_PERCENTILE),
            (None, Some(newest)) => (newest.saturating_add(1), FAIR_PERCENTILE),
            (None, None) => {
                (self.blocks.len(), self.polled.first().copied().unwrap_or(FAIR_PERCENTILE))
            }
        };
        let are_zero = self.blocks.iter().all(|block| block.gas_used_ratio == 0.0);
        let have_ratios = !are_zero || self.rewards.iter().all(|reward| *reward == 0);
        KnownEntries { end, percentile, have_ratios }
    }

    /// Returns the `count` blocks up to `newest`, or fewer if fewer are known, with their rewards at these percentiles,
    /// each from polls or further readings. A block without one of them has no rewards. `None`: the block is not known.
    #[must_use]
    pub fn history(&self, newest: u64, count: usize, percentiles: &[f64]) -> Option<FeeHistory> {
        let end = self.index(newest)?.checked_add(1)?;
        let start = end.saturating_sub(count);
        let block = |index: usize| {
            let mut rewards = [0; Rewards::MAX_COLUMNS];
            let are_known = rewards.iter_mut().zip(percentiles).all(|(reward, percentile)| {
                let known = self.reward(index, *percentile);
                *reward = known.unwrap_or_default();
                known.is_some()
            });
            Some(Block { rewards: are_known.then(|| Rewards::new(&rewards)), ..self.block(index)? })
        };
        let blocks: Vec<Block> = (start..end).filter_map(block).collect();
        let next_base_fee = match self.blocks.get(end) {
            Some(next) => Some(next.base_fee),
            None => self.next_base_fee,
        };
        let before = u64::try_from(blocks.len().checked_sub(1)?).ok()?;
        FeeHistory::new(newest.checked_sub(before)?, blocks, next_base_fee)
    }

    /// Returns how many of the `count` blocks up to `newest` have to be read: those down to the newest one that was read. If
    /// polls have all rewards that readings have, only what is missing after a start or a gap is read, once. `None`: that
    /// block is not known.
    #[must_use]
    pub fn unread(&self, newest: u64, count: usize) -> Option<usize> {
        let end = self.index(newest)?.checked_add(1)?;
        let read = self.blocks.range(..end).rposition(|block| block.has_reading);
        if self.columns.iter().all(|column| column.is_polled) {
            let is_whole = read.is_some() || end >= count || self.oldest_block() == Some(0);
            return Some(if is_whole { 0 } else { count });
        }
        Some(read.map_or(count, |read| end.saturating_sub(read.saturating_add(1))).min(count))
    }
}

/// Returns the rewards of a reading's block at [`GRADED_PERCENTILES`].
fn graded(block: &Block) -> Option<[u128; RecentBlocks::READ]> {
    Some([block.reward(0)?, block.reward(1)?])
}

/// Returns the column of a reading; `None`: there is none, or it has another percentile.
fn read_at(column: Column, reading: Option<[u128; RecentBlocks::READ]>) -> Option<u128> {
    reading?.get(column_of(column.percentile, &GRADED_PERCENTILES)?).copied()
}

/// Returns the range of a block's amounts in a buffer of `length` amounts with `columns` for each block.
fn range_of(index: usize, columns: usize, length: usize) -> std::ops::Range<usize> {
    let start = index.saturating_mul(columns).min(length);
    start..start.saturating_add(columns).min(length)
}

#[cfg(test)]
mod tests;
