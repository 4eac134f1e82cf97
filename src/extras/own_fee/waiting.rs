//! Requests that wait for a price. A publication wakes those whose limit it reaches, and costs the others a comparison.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::assembly::{DayPrices, PriceLimit};
use crate::store::StoredChain;

/// Waiting requests of one chain. One whose handle is dropped has ended.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests(Mutex<Vec<(PriceLimit, Weak<Notify>)>>);

impl WaitingRequests {
    /// Adds a request, which is woken until the handle is dropped. It has to look at the price after that: it is woken by later
    /// ones alone.
    pub(super) fn add(&self, limit: PriceLimit) -> Arc<Notify> {
        let request = Arc::<Notify>::default();
        let mut waiting = self.0.lock();
        waiting.retain(|(_, request)| request.strong_count() > 0);
        waiting.push((limit, Arc::downgrade(&request)));
        request
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
                let is_reached = |limit: PriceLimit| {
                    limit.wei(&chain, prices.as_deref()).is_some_and(|limit| price <= limit)
                };
                // A copy: percentiles may have to be computed, which takes longer than others can wait for the lock.
                let mut waiting = self.0.lock().clone();
                waiting.retain(|(limit, _)| is_reached(*limit));
                for batch in waiting.chunks(BATCH) {
                    for request in batch.iter().filter_map(|(_, request)| request.upgrade()) {
                        request.notify_one();
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
            // The sender lives as long as the chain.
            let _ = changes.changed().await;
        }
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
            waiting.iter().map(|request| request.notified().now_or_never().is_some()).collect()
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
        let _only = requests.add(gwei(1));
        assert_eq!(requests.0.lock().len(), 1);
    }
}
