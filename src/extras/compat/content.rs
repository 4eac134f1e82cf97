//! The content of a chain's documents, which they have in common.

use std::time::Duration;

use crate::config;
use crate::fees::{self, Block, EntryBlock, Market, Pricing, SinglePrices, Tier, Tiers};
use crate::store::{COMPARED_BLOCKS, RecentBlocks, Snapshot};

/// A suggestion, and what was observed of the chain when it was made.
#[derive(Debug)]
pub(crate) struct DocumentContent<'a> {
    pub(crate) chain: &'a config::Chain,
    pub(crate) market: &'a Market,
    pub(crate) prices: SinglePrices,
    pub(crate) newest_block: u64,
    /// The newest blocks, oldest first, at most [`COMPARED_BLOCKS`].
    pub(crate) blocks: Vec<Block>,
    /// The newest blocks with an ask, oldest first, at most [`COMPARED_BLOCKS`].
    pub(crate) entries: Vec<EntryBlock>,
    pub(crate) ranges: Ranges,
    /// Fees for the next block with their probabilities in percent, ascending; `None`: too few blocks are known.
    pub(crate) next_block: Option<Vec<(u8, Tier)>>,
    /// Numbers of blocks within which the tiers are nearly always kept; `None`: too few quotes were judged.
    pub(crate) kept_within: Option<Tiers<u32>>,
    /// Mean time between the newest blocks; the configured block time until enough were seen.
    pub(crate) block_time: Duration,
    /// Time from the first sight of the newest block to the reply that the content was made of.
    pub(crate) head_age: Duration,
}

/// Outcomes of earlier quotes in the blocks after them.
#[derive(Debug, Default)]
pub(crate) struct Learnt {
    /// See [`DocumentContent::next_block`].
    pub(crate) next_block: Option<Vec<(u8, Tier)>>,
    /// See [`DocumentContent::kept_within`].
    pub(crate) kept_within: Option<Tiers<u32>>,
}

/// Amounts in the blocks that are kept, in wei per gas.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Ranges {
    /// Lowest and highest base fee.
    pub(crate) base_fee: [u128; 2],
    /// Lowest and highest reward; `None`: no block had usable rewards.
    pub(crate) reward: Option<[u128; 2]>,
    /// Share of the blocks whose base fee is below that of the next one, from 0 to 1.
    pub(crate) cheaper_share: f64,
}

impl Ranges {
    /// Returns the lowest and the highest amounts of the blocks, compared with the base fee of the next one. Rewards are
    /// those of the medium tip's percentile.
    pub(super) fn new(blocks: &[Block], next_base_fee: u128, pricing: &Pricing) -> Self {
        let widen = |range: Option<[u128; 2]>, amount: u128| {
            let [lowest, highest] = range.unwrap_or([amount; 2]);
            Some([lowest.min(amount), highest.max(amount)])
        };
        let (mut base_fee, mut cheaper) = (None, 0_u32);
        for block in blocks {
            base_fee = widen(base_fee, block.base_fee);
            cheaper = cheaper.saturating_add(u32::from(block.base_fee < next_base_fee));
        }
        let count = u32::try_from(blocks.len()).unwrap_or(u32::MAX).max(1);
        Self {
            base_fee: base_fee.unwrap_or([next_base_fee; 2]),
            reward: fees::paid_rewards(blocks, pricing.tier_columns().medium).fold(None, widen),
            cheaper_share: f64::from(cheaper) / f64::from(count),
        }
    }
}

/// The shortest and the longest time that a transaction waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitTimes {
    pub(crate) shortest: Duration,
    pub(crate) longest: Duration,
}

impl<'a> DocumentContent<'a> {
    /// Creates the content of the documents of a snapshot, with the recent blocks that belong to it.
    pub(crate) fn new(
        chain: &'a config::Chain,
        snapshot: &'a Snapshot,
        recent: &RecentBlocks,
        learnt: Learnt,
    ) -> Self {
        let market = &snapshot.market;
        let all = recent.newest(usize::MAX).blocks;
        Self {
            chain,
            market,
            prices: snapshot.prices,
            newest_block: snapshot.newest_block,
            ranges: Ranges::new(&all, market.newest_known_base_fee, &chain.pricing),
            blocks: recent.newest(COMPARED_BLOCKS).blocks,
            entries: recent.newest_asks(COMPARED_BLOCKS).blocks,
            next_block: learnt.next_block,
            kept_within: learnt.kept_within,
            block_time: snapshot.block_time,
            head_age: snapshot.head_age_at_reply(),
        }
    }

    pub(crate) fn tiers(&self) -> Tiers<Tier> {
        self.market.suggestion.tiers
    }

    /// Returns the tiers with the numbers of blocks within which they are nearly always kept.
    pub(crate) fn tiers_kept_within(&self) -> Tiers<(Tier, Option<u32>)> {
        let tiers = self.tiers();
        match self.kept_within {
            Some(blocks) => tiers.zip(blocks.map(Some)),
            None => tiers.map(|tier| (tier, None)),
        }
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
        self.outcomes(self.market.suggestion.tiers.low).next().is_some()
    }

    /// Returns whether each of the newest blocks with an ask would have included these fees.
    fn outcomes(&self, tier: Tier) -> impl Iterator<Item = bool> {
        self.entries.iter().filter_map(move |block| block.accepts(tier))
    }

    /// Waiting times of a transaction with these fees: one block, and `kept_within` blocks, within which such fees were
    /// nearly always kept. While that is unknown, a transaction waits longest if it comes before the longest run of the
    /// newest blocks that were not seen to accept its fees.
    pub(crate) fn wait_times(&self, tier: Tier, kept_within: Option<u32>) -> WaitTimes {
        let blocks = kept_within.unwrap_or_else(|| self.longest_run(tier).saturating_add(1));
        WaitTimes { shortest: self.block_time, longest: self.block_time.saturating_mul(blocks) }
    }

    /// Returns the length of the longest run of the newest blocks with an ask that did not accept these fees.
    fn longest_run(&self, tier: Tier) -> u32 {
        if self.entries.is_empty() {
            return u32::try_from(COMPARED_BLOCKS).unwrap_or(u32::MAX);
        }
        let (mut run, mut longest) = (0_u32, 0_u32);
        for block in &self.entries {
            let is_accepted = block.accepts(tier) == Some(true);
            run = if is_accepted { 0 } else { run.saturating_add(1) };
            longest = longest.max(run);
        }
        longest
    }

    /// Percentage of the newest blocks at which the fees were enough, rounded down, from 1 to 99; `None`: no block had
    /// rewards to compare with.
    pub(crate) fn confidence(&self, tier: Tier) -> Option<usize> {
        let accepted = self.outcomes(tier).filter(|is_accepted| *is_accepted).count();
        let percentage = accepted.saturating_mul(100).checked_div(self.outcomes(tier).count())?;
        Some(percentage.clamp(1, 99))
    }

    /// Rewards above 0 of the newest blocks that have some, in wei per gas, oldest first.
    pub(crate) fn rewards(&self) -> Vec<u128> {
        fees::paid_rewards(&self.blocks, self.chain.pricing.tier_columns().medium).collect()
    }
}
