//! A block as the transactions found it that got into it.

use super::{Block, Tier};

/// A block, and the tip that a transaction needed to get into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryBlock {
    /// Base fee in wei per gas.
    pub base_fee: u128,
    /// The block's reward at a low percentile in wei per gas; 0: it has no ask. `None`: unknown.
    pub tip: Option<u128>,
    /// Tip in wei per gas that no transaction has to exceed: the block's reward at percentile 60. `None`: unknown.
    pub high: Option<u128>,
}

impl EntryBlock {
    /// Creates the entry of a block with these rewards, at a low percentile and at percentile 60. Without `have_ratios` the
    /// block's gas used ratio says nothing.
    #[must_use]
    pub fn new(block: &Block, have_ratios: bool, tip: Option<u128>, high: Option<u128>) -> Self {
        let tip = if have_ratios && block.is_empty() { Some(0) } else { tip };
        Self { base_fee: block.base_fee, tip, high }
    }

    /// Returns the least tip that was sufficient, above 0. A block without transactions has no ask, and neither has one
    /// whose reward is 0: those transactions pay its producer directly, or are the chain's own. `None`: no ask is known.
    #[must_use]
    pub fn ask(&self) -> Option<u128> {
        self.tip.filter(|tip| *tip > 0)
    }

    /// Returns true if the block would have included the fee: the max fee covers its base fee, and what the max fee
    /// leaves for the tip is enough. `None`: no ask is known.
    #[must_use]
    pub fn accepts(&self, offered: Tier) -> Option<bool> {
        let ask = self.ask()?;
        Some(offered.tip_paid(self.base_fee).is_some_and(|paid| paid >= ask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GWEI: u128 = 1_000_000_000;

    fn block(gas_used_ratio: Option<f64>, tip: Option<u128>) -> EntryBlock {
        let block = Block { base_fee: GWEI, gas_used_ratio, rewards: None };
        EntryBlock::new(&block, true, tip, None)
    }

    #[test]
    fn a_block_accepts_a_fee_whose_max_fee_covers_its_base_fee_and_its_reward() {
        // A base fee of 1 gwei, and a tip of 2.
        let busy = block(Some(0.5), Some(2 * GWEI));
        let accepts = |block: &EntryBlock, tip, max_fee| {
            block.accepts(Tier { max_priority_fee_per_gas: tip, max_fee_per_gas: max_fee })
        };
        assert_eq!(accepts(&busy, 2 * GWEI, 3 * GWEI), Some(true));
        assert_eq!(accepts(&busy, 3 * GWEI, 3 * GWEI), Some(true));
        assert_eq!(accepts(&busy, 2 * GWEI - 1, 30 * GWEI), Some(false));
        // The max fee leaves too little for the tip, or is below the base fee.
        assert_eq!(accepts(&busy, 2 * GWEI, 3 * GWEI - 1), Some(false));
        assert_eq!(accepts(&busy, GWEI - 1, GWEI - 1), Some(false));
        assert_eq!(accepts(&block(Some(0.0), Some(2 * GWEI)), 3 * GWEI, 9 * GWEI), None);
        assert_eq!(accepts(&block(Some(0.5), None), 0, 0), None);
    }
}
