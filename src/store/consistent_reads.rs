//! Reads of the servable snapshot together with what belongs to the same blocks.

use std::sync::PoisonError;

use super::{
    BlockWindow, ChainStore, ServableSnapshot, StoredChain, Unavailable, seconds_since_1970,
};
use crate::fee_trend::{Bucket, Level, Period};
use crate::score::Score;

/// The newest level of a chain, and what it was computed from.
#[derive(Debug, Default)]
pub(super) struct LevelCache {
    key: Option<LevelKey>,
    level: Option<Level>,
}

/// Everything that changes a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LevelKey {
    /// Number of changes of the fee trend.
    changes: u64,
    price: u128,
    /// Minutes since 1970. Old prices stop counting with time.
    minute: u64,
}

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
        let level = self.level_of(&current);
        let trend = self.with_fee_trend(|trend| trend.clone());
        drop(recent);
        Ok((current, trend.buckets(period, seconds_since_1970()), level))
    }

    /// Returns the servable snapshot, and where its expected medium price stands among the prices of the last 24 hours;
    /// `None`: less than an hour is known.
    ///
    /// # Errors
    ///
    /// Like [`servable_snapshot`](Self::servable_snapshot).
    pub fn snapshot_with_level(&self) -> Result<(ServableSnapshot, Option<Level>), Unavailable> {
        let _recent = self.inner.recent_blocks.read().unwrap_or_else(PoisonError::into_inner);
        let current = self.servable_snapshot()?;
        let level = self.level_of(&current);
        Ok((current, level))
    }

    /// Computes a level at most once per change and minute, because it sorts the blocks of the open hour.
    fn level_of(&self, current: &ServableSnapshot) -> Option<Level> {
        let mut cache = self.inner.level.lock().unwrap_or_else(PoisonError::into_inner);
        let price = current.snapshot.market.expected_price();
        let now = seconds_since_1970();
        self.with_fee_trend(|trend| {
            let key = LevelKey { changes: trend.changes(), price, minute: now / 60 };
            if cache.key != Some(key) {
                *cache = LevelCache { key: Some(key), level: trend.level(price, now) };
            }
            cache.level
        })
    }
}
