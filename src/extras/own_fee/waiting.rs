//! Requests that wait for a price, in the order of their limits. A publication wakes those whose limit it reaches, and costs
//! the others nothing, however many they are.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::assembly::{DayPrices, PriceLimit};
use crate::store::StoredChain;

/// Waiting requests of one chain. Each has a number of its own.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests {
    by_limit: Mutex<BTreeMap<(PriceLimit, u64), Arc<Notify>>>,
    last_number: AtomicU64,
}

/// A request that waits. Dropping it ends that.
#[derive(Debug)]
pub(super) struct WaitingRequest {
    all: Arc<WaitingRequests>,
    key: (PriceLimit, u64),
    woken: Arc<Notify>,
}

impl WaitingRequests {
    /// Adds a request. It has to look at the price after that: it is woken by later ones alone.
    pub(super) fn add(self: &Arc<Self>, limit: PriceLimit) -> WaitingRequest {
        let key = (limit, self.last_number.fetch_add(1, Ordering::Relaxed));
        let woken = Arc::<Notify>::default();
        self.by_limit.lock().insert(key, Arc::clone(&woken));
        WaitingRequest { all: Arc::clone(self), key, woken }
    }

    /// Wakes the requests of a chain at each price that is not stale, for ever.
    pub(super) async fn wake(
        self: Arc<Self>,
        chain: StoredChain,
        prices: Option<Arc<dyn DayPrices>>,
    ) -> Infallible {
        /// Requests that are woken at a time: a wave of all would make other clients wait.
        const BATCH: usize = 32;
        const PAUSE: Duration = Duration::from_millis(2);
        let mut changes = chain.subscribe();
        loop {
            changes.mark_unchanged();
            let fresh = chain.servable_snapshot().ok().filter(|current| !current.is_stale());
            if let Some(current) = fresh {
                let price = current.snapshot.market.expected_price();
                // Percentiles of the day may have to be computed, which takes longer than others can wait for the lock.
                let is_reached = |limit: &PriceLimit| {
                    limit.wei(&chain, prices.as_deref()).is_some_and(|limit| price <= limit)
                };
                let percentiles = self.lowest_percentile()..100;
                let percentile = percentiles.map(PriceLimit::Percentile).find(is_reached);
                for batch in self.reached(price, percentile).chunks(BATCH) {
                    for request in batch {
                        request.notify_one();
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
            // The sender lives as long as the chain.
            let _ = changes.changed().await;
        }
    }

    /// Returns the lowest percentile that a request waits for; 100: there is none.
    fn lowest_percentile(&self) -> usize {
        match self.by_limit.lock().range((PriceLimit::Percentile(0), 0)..).next() {
            Some(((PriceLimit::Percentile(lowest), _), _)) => *lowest,
            _ => 100,
        }
    }

    /// Returns the requests whose limit is at least this price, or this percentile.
    fn reached(&self, price: u128, percentile: Option<PriceLimit>) -> Vec<Arc<Notify>> {
        let by_limit = self.by_limit.lock();
        let amounts = (PriceLimit::Wei(price), 0)..(PriceLimit::Percentile(0), 0);
        let percentiles = percentile.map(|lowest| by_limit.range((lowest, 0)..));
        let reached = by_limit.range(amounts).chain(percentiles.into_iter().flatten());
        reached.map(|(_, request)| Arc::clone(request)).collect()
    }
}

impl WaitingRequest {
    /// Waits until the request is woken. A price that came since the last call wakes it at once.
    pub(super) async fn woken(&self) {
        self.woken.notified().await;
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.all.by_limit.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::store::tests::{publish, store_with_chain};

    /// Percentile p of the day is p gwei.
    #[derive(Debug)]
    struct Prices;

    impl DayPrices for Prices {
        fn percentile(&self, _: &StoredChain, percent: usize) -> Option<u128> {
            Some(u128::try_from(percent).unwrap() * 1_000_000_000)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_price_wakes_those_whose_limit_it_reaches_and_no_others() {
        let (_store, chain, mut publisher) = store_with_chain("block_time = \"1h\"");
        let requests = Arc::<WaitingRequests>::default();
        let gwei = |gwei: u128| PriceLimit::Wei(gwei * 1_000_000_000);
        let percentiles = [20, 21, 40].map(PriceLimit::Percentile);
        let limits = [gwei(20), gwei(21), gwei(40)].into_iter().chain(percentiles);
        let waiting: Vec<_> = limits.chain([gwei(21)]).map(|limit| requests.add(limit)).collect();
        let woken = || -> Vec<_> {
            waiting.iter().map(|request| request.woken().now_or_never().is_some()).collect()
        };
        let waking = Arc::clone(&requests).wake(chain.clone(), Some(Arc::new(Prices)));
        let task = tokio::spawn(waking);
        // A tip of 1 wei comes to the base fee.
        for (block, base_fee, expected) in [
            (1, 40_000_000_000, [false; 7]),
            (2, 20_999_999_999, [false, true, true, false, true, true, true]),
            (3, 19_999_999_999, [true; 7]),
        ] {
            publish(&mut publisher, block, base_fee);
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(woken(), expected, "{base_fee}");
        }
        task.abort();
        drop(waiting);
        assert_eq!(requests.by_limit.lock().len(), 0);
    }
}
