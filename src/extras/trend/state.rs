//! The fee trends of all chains, and reads that belong to one publication.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRef;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::level::{Level, PriceLevel};
use super::routes::FeeTrendBody;
use super::{FeeTrend, MAX_CLOCK_DIFFERENCE, Period, seconds_since_1970};
use crate::api::render_cache::{RenderCache, json_bytes};
use crate::observe::clock;
use crate::store::{
    ChainStore, PerChain, Publication, PublishObserver, ServableSnapshot, Snapshot, StoredChain,
    Unavailable, since_1970,
};

/// Fee trends of all chains. Cheap to clone.
#[derive(Debug, Clone, FromRef)]
pub(crate) struct Trends {
    pub(super) store: ChainStore,
    /// Days of hourly prices that are kept.
    pub(super) days: u32,
    pub(super) chains: PerChain<Arc<Mutex<FeeTrend>>>,
    /// Computed at most once per state, because that sorts the blocks of the open hour.
    day_prices: RenderCache<TrendState, (), Option<Arc<[u64]>>>,
    bodies: RenderCache<(TrendState, Option<Level>), Period, Bytes>,
}

/// Everything that changes what a trend shows.
#[derive(Debug, Default, PartialEq, Eq)]
struct TrendState {
    /// Number of changes of the trend.
    changes: u64,
    /// Minutes since 1970. Old prices stop counting with time.
    minute: u64,
}

/// A fee trend that may be served. What is past stays true, so it outlives the suggestion.
#[derive(Debug)]
pub(crate) struct ServedTrend {
    /// JSON.
    pub body: Bytes,
    /// `None`: the suggestion is too old to serve.
    pub current: Option<ServableSnapshot>,
    /// `None`: no reply was accepted since the trend was restored from the database.
    pub newest: Option<Arc<Snapshot>>,
}

impl Trends {
    /// Creates empty trends of the chains of `store`, with hourly buckets for so many days.
    #[must_use]
    pub(crate) fn new(store: &ChainStore, days: u32) -> Self {
        Self {
            store: store.clone(),
            days,
            chains: PerChain::new(store, |_| Arc::new(Mutex::new(FeeTrend::new(days)))),
            day_prices: RenderCache::new(store),
            bodies: RenderCache::new(store),
        }
    }

    /// Locks the trend of a chain of the store.
    pub(crate) fn trend(&self, chain: &StoredChain) -> MutexGuard<'_, FeeTrend> {
        self.chains.get(chain).lock()
    }

    fn state(&self, chain: &StoredChain, now: u64) -> TrendState {
        TrendState { changes: self.trend(chain).changes, minute: now / 60 }
    }

    /// Returns the fee trend of a period.
    ///
    /// # Errors
    ///
    /// Returns [`Unavailable::NoData`] if no reply was ever accepted, and no trend was restored.
    pub(crate) fn read(
        &self,
        chain: &StoredChain,
        period: Period,
    ) -> Result<ServedTrend, Unavailable> {
        chain.read_together(|_| {
            let (current, newest) = (chain.servable_snapshot(), chain.newest_snapshot());
            let now = seconds_since_1970();
            if newest.is_none() && !self.trend(chain).has_blocks(now) {
                return Err(Unavailable::NoData);
            }
            let current = current.ok();
            let level = current.as_ref().and_then(|current| self.level(chain, current).level);
            let state = (self.state(chain, now), level);
            let body = self.bodies.get_or_render(chain, state, period, || {
                let buckets = self.trend(chain).buckets(period, now);
                json_bytes(&FeeTrendBody::new(chain.config(), period, &buckets, level))
            });
            Ok(ServedTrend { body, current, newest })
        })
    }

    /// Returns where the expected medium price of this snapshot stands among those of the last 24 hours, if at least an hour
    /// is known, and the chain is not stale.
    pub(crate) fn level(&self, chain: &StoredChain, current: &ServableSnapshot) -> PriceLevel {
        let is_fresh = !current.is_stale();
        let day = is_fresh.then(|| self.day_prices(chain)).flatten().unwrap_or_default();
        PriceLevel::new(current.snapshot.market.expected_price(), &day)
    }

    /// Returns the ten-minute medians of the last 24 hours, ascending; `None`: less than an hour is known.
    pub(super) fn day_prices(&self, chain: &StoredChain) -> Option<Arc<[u64]>> {
        let now = seconds_since_1970();
        self.day_prices.get_or_render(chain, self.state(chain, now), (), || {
            self.trend(chain).day_prices(now).map(Arc::from)
        })
    }
}

/// Returns true if the header that the node told last differs from the clock by more than ten minutes: the clock is wrong,
/// as on a machine that starts without the time, or the block is old. Its price at that time would replace others.
fn contradicts_clock(snapshot: &Snapshot, block_time: Duration) -> bool {
    let Some(header) = snapshot.block.told_header else { return false };
    let told = header.unix_seconds.saturating_add(clock::elapsed(header.read_at).as_secs());
    let allowed = MAX_CLOCK_DIFFERENCE.max(block_time.as_secs().saturating_mul(2));
    told.abs_diff(seconds_since_1970()) > allowed
}

/// Records what is published.
impl PublishObserver for Arc<Mutex<FeeTrend>> {
    fn published(&mut self, publication: &Publication<'_>) {
        let Publication { chain, snapshot, history, blocks } = *publication;
        // Without block ages there is nothing but the clock.
        if chain.max_block_age(chain.block_time).is_some()
            && contradicts_clock(snapshot, snapshot.block_time)
        {
            return;
        }
        // Those of the reply, and those that the tip at its oldest block depends on.
        let count = chain.pricing.window_blocks.get().saturating_add(history.blocks().len());
        let (known, block_time) = (blocks.newest(count).blocks, snapshot.block_time);
        let newest_time = since_1970(snapshot.head_changed_time());
        let (market, pricing) = (&snapshot.market, &chain.pricing);
        self.lock().record(history, market, pricing, &known, newest_time, block_time);
    }
}

#[cfg(test)]
mod tests;
