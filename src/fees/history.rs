//! Mined blocks in the form that pricing needs, validated.

/// Consecutive mined blocks, oldest first. Never empty; all block numbers fit in 64 bits.
#[derive(Debug, Clone, PartialEq)]
pub struct FeeHistory {
    oldest_block: u64,
    newest_block: u64,
    blocks: Vec<Block>,
    next_base_fee: Option<u128>,
}

/// One mined block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// Base fee per gas in wei. 0 is a value, not a missing one.
    pub base_fee: u128,
    /// Gas used divided by gas limit, from 0 to 1; `None` if the node returned no credible ratio.
    pub gas_used_ratio: Option<f64>,
    /// `None` if the node returned no usable rewards for this block.
    pub rewards: Option<Rewards>,
}

/// Priority fees of a block's transactions in wei per gas, at the configured percentiles (the network document's
/// `Reward[0]` and `Reward[1]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewards {
    /// At the first percentile.
    pub medium: u128,
    /// At the second; `None` if only one was requested.
    pub high: Option<u128>,
}

impl FeeHistory {
    /// Creates a history of the `blocks` from `oldest_block` on, and the base fee of the block after them, if known.
    /// `None` without blocks, or if numbers exceed 64 bits.
    #[must_use]
    pub fn new(oldest_block: u64, blocks: Vec<Block>, next_base_fee: Option<u128>) -> Option<Self> {
        let last_index = u64::try_from(blocks.len().checked_sub(1)?).ok()?;
        let newest_block = oldest_block.checked_add(last_index)?;
        Some(Self { oldest_block, newest_block, blocks, next_base_fee })
    }

    /// Number of the first block.
    #[must_use]
    pub fn oldest_block(&self) -> u64 {
        self.oldest_block
    }

    /// Number of the last mined block.
    #[must_use]
    pub fn newest_block(&self) -> u64 {
        self.newest_block
    }

    /// The mined blocks, oldest first.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Base fee of the block after the newest one in wei; `None`: unknown.
    #[must_use]
    pub fn next_base_fee(&self) -> Option<u128> {
        self.next_base_fee
    }

    /// Base fee of the next block, or of the newest mined one if that is unknown, in wei.
    #[must_use]
    pub fn newest_known_base_fee(&self) -> u128 {
        let newest_mined = self.blocks.last().map(|block| block.base_fee);
        self.next_base_fee.or(newest_mined).unwrap_or_default()
    }
}
