//! Reads of the servable snapshot together with what belongs to the same blocks.

use std::sync::PoisonError;
use std::time::SystemTime;

use super::{BlockWindow, ChainStore, ServableSnapshot, StoredChain, Unavailable, since_1970};
use crate::fee_trend::{Bucket, Level, Period};
use crate::score::Score;

impl ChainStore {
    /// Returns the chains that have a servable snapshot, with it, in ascending order of chain id.
    pub(crate) fn servable_snapshots(&self) -> Vec<(&StoredChain, ServableSnapshot)> {
        let chains = self.chains().iter();
        chains.filter_map(|chain| Some((chain, chain.servable_snapshot().ok()?))).collect()
    }
}

impl StoredChain {
    /// Returns the servable snapshot and the revision of the recent blocks.
    ///
    /// # Errors
    ///
    /// Like [`servable_snapshot`](Self::servable_snapshot).
    pub fn snapshot_with_revision(&self) -> Result<(ServableSnapshot, u64), Unavailable> {
        let recent = self.inner.recent_blocks.read().unwrap_or_else(PoisonError::into_inner);
        Ok((self.servable_snapshot()?, recent.revision()))
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
        let recent = self.inner.recent_blocks.read().unwrap_or_else(PoisonError::into_inner);
        Ok((self.servable_snapshot()?, recent.newest(count)))
    }

    /// Returns the servable snapshot, and how the quotes up to it did.
    ///
    /// # Errors
    ///
    /// Like [`servable_snapshot`](Self::servable_snapshot).
    pub fn snapshot_with_score(&self) -> Result<(ServableSnapshot, Score), Unavailable> {
        let _recent = self.inner.recent_blocks.read().unwrap_or_else(PoisonError::into_inner);
        Ok((self.servable_snapshot()?, self.score()))
    }

    /// Returns the servable snapshot, and the number of changes of the fee trend up to it.
    ///
    /// # Errors
    ///
    /// Like [`servable_snapshot`](Self::servable_snapshot).
    pub(crate) fn snapshot_with_trend_changes(
        &self,
    ) -> Result<(ServableSnapshot, u64), Unavailable> {
        let _recent = self.inner.recent_blocks.read().unwrap_or_else(PoisonError::into_inner);
        Ok((self.servable_snapshot()?, self.with_fee_trend(|trend| trend.changes())))
    }

    /// Returns the servable snapshot, the buckets of the fee trend, and where the expected medium price stands among
    /// the prices of the last 24 hours; `None`: less than an hour is known.
    ///
    /// # Errors
    ///
    /// Like [`servable_snapshot`](Self::servable_snapshot).
    pub fn snapshot_with_fee_trend(
        &self,
        period: Period,
    ) -> Result<(ServableSnapshot, Vec<Bucket>, Option<Level>), Unavailable> {
        let recent = self.inner.recent_blocks.read().unwrap_or_else(PoisonError::into_inner);
        let current = self.servable_snapshot()?;
        let trend = self.with_fee_trend(|trend| trend.clone());
        drop(recent);
        let now = since_1970(SystemTime::now()) / 1000;
        let price = current.snapshot.market.expected_price();
        let level = trend.level(price, now);
        Ok((current, trend.buckets(period, now), level))
    }
}
