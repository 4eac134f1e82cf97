//! The fee trends of all chains, and reads that belong to one publication.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::level;
use super::routes::FeeTrendBody;
use super::{
    FeeTrend, Level, MAX_CLOCK_DIFFERENCE, Observation, Period, PriceLevel, seconds_since_1970,
};
use crate::api::render_cache::{RenderCache, json_bytes};
use crate::observe::clock;
use crate::store::{
    ChainStore, PerChain, Publication, PublishObserver, ServableSnapshot, Snapshot, StoredChain,
    Unavailable, since_1970,
};

/// Fee trends of all chains. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Trends {
    pub(super) store: ChainStore,
    /// Days of hourly prices that are kept.
    pub(super) days: u32,
    chains: PerChain<Arc<ChainTrend>>,
    bodies: RenderCache<TrendState, Period, Bytes>,
}

/// Fee trend of one chain.
#[derive(Debug)]
pub(crate) struct ChainTrend {
    trend: Mutex<FeeTrend>,
    day: Mutex<DayCache>,
}

/// The newest prices of a day, and what they were computed from.
#[derive(Debug, Default)]
struct DayCache {
    key: Option<DayKey>,
    prices: Option<Arc<[u64]>>,
}

/// Everything that changes the prices of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DayKey {
    /// Number of changes of the fee trend.
    changes: u64,
    /// Minutes since 1970. Old prices stop counting with time.
    minute: u64,
}

/// Everything that changes the body of a trend.
#[derive(Debug, Default, PartialEq, Eq)]
struct TrendState {
    /// Number of changes of the trend.
    changes: u64,
    level: Option<Level>,
    /// Buckets disappear with time.
    minute: u64,
}

/// Age of a fee trend. What is past stays true, so a trend outlives the suggestion.
#[derive(Debug, Clone)]
pub(crate) enum TrendAge {
    /// The trend belongs to a suggestion that may be served.
    Servable(ServableSnapshot),
    /// The suggestion is too old to serve.
    Expired {
        /// Number of the newest block.
        newest_block: u64,
        /// Time since the last reply was accepted.
        age: Duration,
    },
    /// The trend was restored from the database, and no reply was accepted since.
    Restored,
}

impl Trends {
    /// Creates empty trends of the chains of `store`, with hourly buckets for so many days.
    #[must_use]
    pub(crate) fn new(store: &ChainStore, days: u32) -> Self {
        let trend = |_: &StoredChain| {
            let trend = Mutex::new(FeeTrend::new(days));
            Arc::new(ChainTrend { trend, day: Mutex::default() })
        };
        let chains = PerChain::new(store, trend);
        Self { store: store.clone(), days, chains, bodies: RenderCache::new(store) }
    }

    /// Returns the trend of a chain of the store.
    pub(crate) fn trend(&self, chain: &StoredChain) -> &Arc<ChainTrend> {
        self.chains.get(chain)
    }

    /// Calls `access` with the trend of a chain of the store.
    pub(crate) fn with<T>(
        &self,
        chain: &StoredChain,
        access: impl FnOnce(&mut FeeTrend) -> T,
    ) -> T {
        self.trend(chain).with(access)
    }

    /// Returns the fee trend of a period as JSON, and its age.
    ///
    /// # Errors
    ///
    /// Returns [`Unavailable::NoData`] if no reply was ever accepted, and no trend was restored.
    pub(crate) fn read(
        &self,
        chain: &StoredChain,
        period: Period,
    ) -> Result<(TrendAge, Bytes), Unavailable> {
        chain.read_together(|_| {
            let age = self.current_age(chain)?;
            let level = match &age {
                TrendAge::Servable(current) => self.trend(chain).level(current),
                TrendAge::Expired { .. } | TrendAge::Restored => None,
            };
            let level = level.map(|it| it.level);
            let (changes, now) = (self.with(chain, |trend| trend.changes()), seconds_since_1970());
            let state = TrendState { changes, level, minute: now / 60 };
            let body = self.bodies.get_or_render(chain, state, period, || {
                let buckets = self.with(chain, |trend| trend.buckets(period, now));
                json_bytes(&FeeTrendBody::new(chain.config(), period, &buckets, level))
            });
            Ok((age, body))
        })
    }

    fn current_age(&self, chain: &StoredChain) -> Result<TrendAge, Unavailable> {
        match (chain.servable_snapshot(), chain.newest_snapshot()) {
            (Ok(current), _) => Ok(TrendAge::Servable(current)),
            (Err(_), Some(newest)) => {
                Ok(TrendAge::Expired { newest_block: newest.newest_block, age: newest.age() })
            }
            (Err(reason), None) => {
                let is_restored = self.with(chain, |trend| trend.has_blocks(seconds_since_1970()));
                is_restored.then_some(TrendAge::Restored).ok_or(reason)
            }
        }
    }
}

impl ChainTrend {
    fn with<T>(&self, access: impl FnOnce(&mut FeeTrend) -> T) -> T {
        access(&mut self.trend.lock())
    }

    /// Returns where the expected medium price of this snapshot stands among those of the last 24 hours; `None`: less
    /// than an hour is known, or the chain is stale.
    pub(crate) fn level(&self, current: &ServableSnapshot) -> Option<PriceLevel> {
        if current.is_stale() {
            return None;
        }
        level::level(current.snapshot.market.expected_price(), &self.day_prices()?)
    }

    /// Returns the ten-minute medians of the last 24 hours, ascending; `None`: less than an hour is known. They are
    /// computed at most once per change and minute, because that sorts the blocks of the open hour.
    pub(super) fn day_prices(&self) -> Option<Arc<[u64]>> {
        let mut cache = self.day.lock();
        let now = seconds_since_1970();
        self.with(|trend| {
            let key = DayKey { changes: trend.changes(), minute: now / 60 };
            if cache.key != Some(key) {
                *cache = DayCache { key: Some(key), prices: trend.day_prices(now).map(Arc::from) };
            }
            cache.prices.clone()
        })
    }
}

/// Returns true if the header that the node told last differs from the clock by more than ten minutes: the clock is wrong,
/// as on a machine that starts without the time, or the block is old. Its price at that time would replace others.
fn contradicts_clock(snapshot: &Snapshot, block_time: Duration) -> bool {
    let Some(header) = snapshot.block.told_header() else { return false };
    let told = header.unix_seconds.saturating_add(clock::elapsed(header.read_at).as_secs());
    let allowed = MAX_CLOCK_DIFFERENCE.max(block_time.as_secs().saturating_mul(2));
    told.abs_diff(seconds_since_1970()) > allowed
}

/// Records what is published.
impl PublishObserver for Arc<ChainTrend> {
    fn published(&mut self, publication: &Publication<'_>) {
        let Publication { chain, snapshot, history, blocks } = *publication;
        // Without block ages there is nothing but the clock.
        if chain.max_block_age().is_some() && contradicts_clock(snapshot, chain.block_time) {
            return;
        }
        let seen = Observation {
            history,
            market: &snapshot.market,
            pricing: &chain.pricing,
            newest_time: since_1970(snapshot.head_changed_time()),
            block_time: u64::try_from(snapshot.block_time.as_millis()).unwrap_or(u64::MAX),
            known_blocks: &|count| blocks.newest(count),
        };
        self.with(|trend| trend.record(&seen));
    }
}

#[cfg(test)]
mod tests;
