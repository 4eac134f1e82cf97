//! Reads of the servable snapshot together with what belongs to the same blocks.

use std::sync::PoisonError;
use std::time::Duration;

use super::{
    BlockWindow, ChainStore, ServableSnapshot, StoredChain, Unavailable, seconds_since_1970,
};
use crate::extras::score::Score;
use crate::extras::trend::{Bucket, Period, PriceLevel};

/// The newest level of a chain, and what it was computed from.
#[derive(Debug, Default)]
pub(super) struct LevelCache {
    key: Option<LevelKey>,
    level: Option<PriceLevel>,
}

/// Everything that changes a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LevelKey {
    /// Number of changes of the fee trend.
    changes: u64,
    /// Minutes since 1970. Old prices stop counting with time.
    minute: u64,
}

/// Fee trend of a chain, and how new it is.
#[derive(Debug)]
pub struct TrendReading {
    /// Age of the trend.
    pub age: TrendAge,
    /// Number of changes of the trend.
    pub changes: u64,
    /// Its buckets, oldest first.
    pub buckets: Vec<Bucket>,
    /// Where the price stands; `None`: less than an hour is known, or the chain is stale.
    pub level: Option<PriceLevel>,
}

/// Age of a fee trend. What is past stays true, so a trend outlives the suggestion.
#[derive(Debug, Clone)]
pub enum TrendAge {
    /// The trend belongs to a suggestion that may be served.
    Servable(ServableSnapshot),
    /// The suggestion is too old to serve.
    Expired {
        /// Number of the newest block.
        newest_block: u64,
        /// Time since the last reply was accepted.
        age: Duration,
    },
    /// The trend was restored from the history file, and no reply was accepted since.
    Restored,
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

    /// Returns the age of the fee trend and the number of its changes.
    ///
    /// # Errors
    ///
    /// Returns [`Unavailable::NoData`] if no reply was ever accepted, and no trend was restored.
    pub(crate) fn trend_age(&self) -> Result<(TrendAge, u64), Unavailable> {
        let _recent = self.inner.recent_blocks.read().unwrap_or_else(PoisonError::into_inner);
        Ok((self.current_trend_age()?, self.with_fee_trend(|trend| trend.changes())))
    }

    /// Returns the fee trend.
    ///
    /// # Errors
    ///
    /// Returns [`Unavailable::NoData`] if no reply was ever accepted, and no trend was restored.
    pub fn read_fee_trend(&self, period: Period) -> Result<TrendReading, Unavailable> {
        let recent = self.inner.recent_blocks.read().unwrap_or_else(PoisonError::into_inner);
        let age = self.current_trend_age()?;
        let level = match &age {
            TrendAge::Servable(current) => self.level_of(current),
            TrendAge::Expired { .. } | TrendAge::Restored => None,
        };
        let trend = self.with_fee_trend(|trend| trend.clone());
        drop(recent);
        let buckets = trend.buckets(period, seconds_since_1970());
        Ok(TrendReading { age, changes: trend.changes(), buckets, level })
    }

    fn current_trend_age(&self) -> Result<TrendAge, Unavailable> {
        let newest = self.inner.latest.borrow().snapshot.clone();
        match (self.servable_snapshot(), newest) {
            (Ok(current), _) => Ok(TrendAge::Servable(current)),
            (Err(_), Some(newest)) => Ok(TrendAge::Expired {
                newest_block: newest.newest_block,
                age: newest.timestamps.observed_at.elapsed(),
            }),
            (Err(reason), None) => {
                let is_restored =
                    self.with_fee_trend(|trend| trend.has_blocks(seconds_since_1970()));
                is_restored.then_some(TrendAge::Restored).ok_or(reason)
            }
        }
    }

    /// Returns the servable snapshot, and where the price stands among those of the last 24 hours; `None`: less than an
    /// hour is known, or the chain is stale.
    ///
    /// # Errors
    ///
    /// Like [`servable_snapshot`](Self::servable_snapshot).
    pub fn snapshot_with_level(
        &self,
    ) -> Result<(ServableSnapshot, Option<PriceLevel>), Unavailable> {
        let _recent = self.inner.recent_blocks.read().unwrap_or_else(PoisonError::into_inner);
        let current = self.servable_snapshot()?;
        let level = self.level_of(&current);
        Ok((current, level))
    }

    /// Computes a level at most once per change and minute, because it sorts the blocks of the open hour.
    fn level_of(&self, current: &ServableSnapshot) -> Option<PriceLevel> {
        if current.is_stale() {
            return None;
        }
        let mut cache = self.inner.level.lock().unwrap_or_else(PoisonError::into_inner);
        let now = seconds_since_1970();
        self.with_fee_trend(|trend| {
            let key = LevelKey { changes: trend.changes(), minute: now / 60 };
            if cache.key != Some(key) {
                *cache = LevelCache { key: Some(key), level: trend.level(now) };
            }
            cache.level
        })
    }
}
