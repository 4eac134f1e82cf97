//! What is known of the newest blocks of one chain: the blocks come from polls, their asks from readings.

use std::num::NonZeroU64;

use super::asks::Asks;
use super::ring::{BlockRing, BlockWindow};
use super::{COMPARED_BLOCKS, EntryWindow};
use crate::fees::{
    Block, EntryBlock, FAIR_PERCENTILE, FeeHistory, GRADED_PERCENTILES, Pricing, Rewards,
    column_of, have_ratios,
};

/// Consecutive blocks up to the newest known one, limited in number, and the asks of those that were read.
#[derive(Debug)]
pub struct RecentBlocks {
    ring: BlockRing,
    asks: Asks,
    /// Number of blocks between two readings, if there are any.
    reading_interval: Option<NonZeroU64>,
    /// Number of changes so far.
    revision: u64,
}

impl RecentBlocks {
    pub(super) fn new(
        capacity: usize,
        pricing: &Pricing,
        reading_interval: Option<NonZeroU64>,
    ) -> Self {
        Self {
            ring: BlockRing::new(capacity, pricing.percentiles().iter().collect()),
            asks: Asks::default(),
            reading_interval,
            revision: 0,
        }
    }

    /// Merges a reply to a poll. The asks of blocks that it replaces, and of those above them, are forgotten.
    pub(super) fn extend(&mut self, history: &FeeHistory) {
        if self.ring.has(history) {
            return;
        }
        if let Some(replaced) = self.ring.first_replaced(history) {
            self.asks.forget_from(replaced);
        }
        self.ring.extend(history);
        self.asks.forget_before(self.ring.oldest_block().unwrap_or_default());
        self.revision = self.revision.wrapping_add(1);
    }

    /// Merges a reading, whose rewards are those at [`GRADED_PERCENTILES`]. Older blocks than the known ones are added, if
    /// they adjoin. Returns the number of blocks whose ask was learnt.
    pub(super) fn add_reading(&mut self, reading: &FeeHistory) -> usize {
        if self.reading_interval.is_none() {
            return 0;
        }
        let is_longer = self.ring.prepend(reading);
        let learnt = self.asks.add(reading, &self.ring);
        if learnt > 0 || is_longer {
            self.revision = self.revision.wrapping_add(1);
        }
        learnt
    }

    /// Number of changes of the blocks and their asks.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the base fees of all blocks in wei, oldest first.
    #[must_use]
    pub fn base_fees(&self) -> impl DoubleEndedIterator<Item = u128> + ExactSizeIterator {
        self.ring.base_fees()
    }

    /// Number of the newest block.
    #[must_use]
    pub fn newest_block(&self) -> u64 {
        self.ring.newest_block()
    }

    /// Returns the newest `count` blocks, or fewer if fewer are known.
    #[must_use]
    pub fn newest(&self, count: usize) -> BlockWindow {
        self.ring.newest(count)
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
        let rewards = |number| [percentile, high].map(|percentile| self.reward(number, percentile));
        let have_ratios = have_ratios(self.ring.numbers().filter_map(|number| {
            let rewards = Some(Rewards::new(&rewards(number).map(Option::unwrap_or_default)));
            Some(Block { rewards, ..self.ring.block(number)? })
        }));
        let entries = self.ring.numbers().rev().skip_while(|number| *number > newest_block);
        let entries = entries.filter_map(|number| {
            let [tip, high] = rewards(number);
            Some(EntryBlock::new(&self.ring.block(number)?, have_ratios, tip, high))
        });
        let mut blocks: Vec<_> = entries.filter(is_wanted).take(count).collect();
        blocks.reverse();
        EntryWindow { percentile, newest_block, blocks }
    }

    /// Returns the number of the newest block whose tip is known, and the percentile of the rewards that count as the tips.
    fn known_tips(&self) -> (u64, f64) {
        /// Readings of which one has to succeed, so that asks say something of now.
        const READINGS: u64 = 3;
        let (newest, polled) = (self.ring.newest_block(), self.ring.percentiles());
        let between = self.reading_interval.map_or(0, NonZeroU64::get).saturating_mul(READINGS);
        let recent = between.saturating_add(u64::try_from(COMPARED_BLOCKS).unwrap_or_default());
        let read = self.asks.newest_block();
        match read.filter(|read| newest.saturating_sub(*read) < recent) {
            _ if column_of(FAIR_PERCENTILE, polled).is_some() => (newest, FAIR_PERCENTILE),
            Some(read) => (read, FAIR_PERCENTILE),
            None => (newest, polled.first().copied().unwrap_or(FAIR_PERCENTILE)),
        }
    }

    /// Returns the reward of a block at this percentile. What a poll said goes before what a reading says.
    fn reward(&self, number: u64, percentile: f64) -> Option<u128> {
        let polled = self.ring.reward(number, percentile);
        polled.or_else(|| self.asks.reward(number, percentile))
    }

    /// Returns the `count` blocks up to `newest`, or fewer if fewer are known, with their reward at `percentile` as the only
    /// column. `None`: the block is not known.
    #[must_use]
    pub fn history(&self, newest: u64, count: usize, percentile: f64) -> Option<FeeHistory> {
        let oldest = newest.saturating_sub(u64::try_from(count).ok()?.checked_sub(1)?);
        let numbers = oldest.max(self.ring.oldest_block()?)..=newest;
        let block = |number| {
            let rewards = self.reward(number, percentile).map(|reward| Rewards::new(&[reward]));
            Some(Block { rewards, ..self.ring.block(number)? })
        };
        let first = *numbers.start();
        FeeHistory::new(first, numbers.map(block).collect::<Option<_>>()?, None)
    }

    /// Returns how many of the `count` blocks up to `newest` have to be read: those after the newest one that was read. If
    /// polls have all rewards that readings have, only what is missing after a start or a gap is read, once. `None`: that
    /// block is not known.
    #[must_use]
    pub fn unread(&self, newest: u64, count: usize) -> Option<usize> {
        self.ring.block(newest)?;
        let polled = self.ring.percentiles();
        let is_polled = GRADED_PERCENTILES.iter().all(|it| column_of(*it, polled).is_some());
        Some(match self.asks.newest_block() {
            _ if is_polled && self.ring.is_full(count) => 0,
            Some(_) if is_polled => 0,
            Some(read) => usize::try_from(newest.saturating_sub(read)).unwrap_or(count).min(count),
            None => count,
        })
    }
}

#[cfg(test)]
mod tests;
