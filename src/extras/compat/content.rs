//! The content of a chain's documents, which they have in common.

use std::time::Duration;

use crate::config;
use crate::fees::{Block, EntryBlock, Market, SinglePrices, Tier, Tiers};
use crate::store::{COMPARED_BLOCKS, RecentBlocks, Snapshot};

/// A suggestion, and what was observed of the chain when it was made.
#[derive(Debug)]
pub(crate) struct DocumentContent<'a> {
    pub(crate) chain: &'a config::Chain,
    pub(crate) market: &'a Market,
    pub(crate) prices: SinglePrices,
    pub(crate) newest_block: u64,
    /// The blocks that are kept, oldest first.
    pub(crate) blocks: Vec<Block>,
    /// The newest blocks with an ask, oldest first, at most [`COMPARED_BLOCKS`].
    pub(crate) entries: Vec<EntryBlock>,
    /// Fees for the next block with their probabilities in percent, ascending; `None`: too few blocks are known.
    pub(crate) next_block: Option<Vec<(u8, Tier)>>,
    /// Numbers of blocks within which the tiers are nearly always kept; `None`: too few quotes were judged.
    pub(crate) kept_within: Option<Tiers<u32>>,
    /// Mean time between the newest blocks; the configured block time until enough were seen.
    pub(crate) block_time: Duration,
    /// Time from the first sight of the newest block to the reply that the content was made of.
    pub(crate) head_age: Duration,
}

impl<'a> DocumentContent<'a> {
    /// Creates the content of the documents of a snapshot, with the recent blocks that belong to it. Nothing is known of the
    /// outcomes of earlier quotes.
    pub(crate) fn new(
        chain: &'a config::Chain,
        snapshot: &'a Snapshot,
        recent: &RecentBlocks,
    ) -> Self {
        Self {
            chain,
            market: &snapshot.market,
            prices: snapshot.prices,
            newest_block: snapshot.newest_block,
            blocks: recent.newest(usize::MAX).blocks,
            entries: recent.newest_asks(COMPARED_BLOCKS).blocks,
            next_block: None,
            kept_within: None,
            block_time: snapshot.block_time,
            head_age: snapshot.head_age_at_reply(),
        }
    }

    pub(crate) fn tiers(&self) -> Tiers<Tier> {
        self.market.suggestion.tiers
    }

    /// Base fee of the next block in wei.
    pub(crate) fn next_base_fee(&self) -> u128 {
        self.market.newest_known_base_fee
    }

    /// Base fee of the newest block in wei.
    pub(crate) fn newest_base_fee(&self) -> u128 {
        self.blocks.last().map_or(self.next_base_fee(), |block| block.base_fee)
    }

    /// True if any block says which fees it accepts.
    pub(crate) fn has_outcomes(&self) -> bool {
        self.entries.iter().any(|block| block.ask().is_some())
    }

    /// Longest waiting times of transactions with the fees of these tiers: the blocks within which the tiers were nearly always
    /// kept. While those are unknown, a transaction waits longest if it comes before the longest run of the newest blocks that
    /// were not seen to accept its fees.
    pub(crate) fn longest_waits(&self, tiers: Tiers<Tier>) -> Tiers<Duration> {
        let unknown = || tiers.map(|tier| self.longest_run(tier).saturating_add(1));
        let blocks = self.kept_within.unwrap_or_else(unknown);
        blocks.map(|blocks| self.block_time.saturating_mul(blocks))
    }

    /// Returns the length of the longest run of the newest blocks with an ask that did not accept these fees.
    fn longest_run(&self, tier: Tier) -> u32 {
        let runs = self.entries.split(|block| block.accepts(tier) == Some(true));
        let longest = runs.map(<[_]>::len).max().filter(|_| !self.entries.is_empty());
        u32::try_from(longest.unwrap_or(COMPARED_BLOCKS)).unwrap_or(u32::MAX)
    }

    /// Percentage of the newest blocks at which the fees were enough, rounded down, from 1 to 99; `None`: no block had
    /// rewards to compare with.
    pub(crate) fn confidence(&self, tier: Tier) -> Option<usize> {
        let outcomes = self.entries.iter().filter_map(|block| block.accepts(tier));
        let outcomes: Vec<bool> = outcomes.collect();
        let accepted = outcomes.iter().filter(|is_accepted| **is_accepted).count();
        let percentage = accepted.saturating_mul(100).checked_div(outcomes.len())?;
        Some(percentage.clamp(1, 99))
    }
}
