//! Grades fees by blocks: whether a block would have included a transaction with them.

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
        Some(offered.is_enough(self.base_fee, ask))
    }
}

impl Tier {
    /// Returns true if the max fee is at least this base fee.
    #[must_use]
    pub fn covers(&self, base_fee: u128) -> bool {
        self.max_fee_per_gas >= base_fee
    }

    /// Returns true if the max fee covers this base fee, and what it leaves for the tip is at least `ask`.
    #[must_use]
    pub fn is_enough(&self, base_fee: u128, ask: u128) -> bool {
        self.tip_paid(base_fee).is_some_and(|paid| paid >= ask)
    }

    /// Returns true if one of the `following` blocks would have included these fees. `None`: none is known to, and the tip of
    /// one is unknown, or none has an ask.
    #[must_use]
    pub fn kept_by(&self, following: &[EntryBlock]) -> Option<bool> {
        let is_kept = following.iter().filter_map(|block| block.accepts(*self)).max()?;
        let is_known = is_kept || following.iter().all(|block| block.tip.is_some());
        is_known.then_some(is_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(base_fee: u128, tip: u128) -> EntryBlock {
        EntryBlock { base_fee, tip: Some(tip), high: None }
    }

    #[test]
    fn fees_are_kept_if_one_of_the_blocks_includes_it() {
        let fees = Tier { max_priority_fee_per_gas: 10, max_fee_per_gas: 105 };
        let unknown = EntryBlock { tip: None, ..block(1, 0) };
        let (dear, without_ask) = (block(106, 1), block(90, 0));
        for (blocks, expected) in [
            (vec![block(100, 5)], Some(true)),
            // The max fee leaves 5 for the tip.
            (vec![block(100, 6)], Some(false)),
            (vec![block(90, 10)], Some(true)),
            (vec![block(90, 11), block(90, 10)], Some(true)),
            // A block without an ask neither includes nor refuses.
            (vec![without_ask], None),
            (vec![dear, without_ask], Some(false)),
            (vec![without_ask, block(100, 5)], Some(true)),
            (vec![unknown], None),
            (vec![dear, unknown], None),
            (vec![unknown, block(100, 5)], Some(true)),
            // The base fee alone says that the fees are not enough.
            (vec![EntryBlock { base_fee: 106, ..unknown }], None),
        ] {
            assert_eq!(fees.kept_by(&blocks), expected, "{blocks:?}");
        }
    }
}
