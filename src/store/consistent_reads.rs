//! Reads of the servable snapshot together with what belongs to the same blocks.

use super::{
    BlockWindow, ChainStore, EntryWindow, RecentBlocks, ServableSnapshot, StoredChain, Unavailable,
};

impl ChainStore {
    /// Returns the chains that have a servable snapshot, with it, in ascending order of chain id.
    pub(crate) fn servable_snapshots(&self) -> Vec<(&StoredChain, ServableSnapshot)> {
        let chains = self.chains().iter();
        chains.filter_map(|chain| Some((chain, chain.servable_snapshot().ok()?))).collect()
    }
}

impl StoredChain {
    /// Calls `read` with the recent blocks. Nothing is published meanwhile, so all that it reads of the chain, and of what
    /// observers keep, belongs to the same blocks. It must not wait.
    pub fn read_together<T>(&self, read: impl FnOnce(&RecentBlocks) -> T) -> T {
        read(&self.record.recent_blocks.read())
    }

    /// Returns the servable snapshot and the newest `count` blocks, or fewer if fewer are known.
    ///
    /// # Errors
    ///
    /// Like [`servable_snapshot`](Self::servable_snapshot).
    pub fn snapshot_with_blocks(
        &self,
        count: usize,
    ) -> Result<(ServableSnapshot, BlockWindow), Unavailable> {
        self.read_together(|recent| Ok((self.servable_snapshot()?, recent.newest(count))))
    }

    /// Returns the servable snapshot and the newest `count` blocks with an ask, or fewer if fewer are known.
    ///
    /// # Errors
    ///
    /// Like [`servable_snapshot`](Self::servable_snapshot).
    pub fn snapshot_with_asks(
        &self,
        count: usize,
    ) -> Result<(ServableSnapshot, EntryWindow), Unavailable> {
        self.read_together(|recent| Ok((self.servable_snapshot()?, recent.newest_asks(count))))
    }
}
