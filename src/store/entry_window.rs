//! Blocks with the tips that they required.

use crate::fees::EntryBlock;

/// The newest blocks whose tips are known, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryWindow {
    /// Percentile of the rewards that count as the tips.
    pub percentile: f64,
    /// Number of the last of [`blocks`](Self::blocks).
    pub newest_block: u64,
    /// The requested number of blocks, or fewer if fewer are known.
    pub blocks: Vec<EntryBlock>,
}

impl EntryWindow {
    /// Returns the `count` blocks after the block `number`; `None` if one of them is not among these.
    #[must_use]
    pub fn after(&self, number: u64, count: usize) -> Option<&[EntryBlock]> {
        let later = usize::try_from(self.newest_block.checked_sub(number)?).ok()?;
        let start = self.blocks.len().checked_sub(later)?;
        self.blocks.get(start..start.checked_add(count)?)
    }
}
