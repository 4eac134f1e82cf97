//! The scorers of all chains.

use std::sync::Arc;

use axum::extract::FromRef;
use bytes::Bytes;
use parking_lot::Mutex;

use super::Scorer;
use crate::api::render_cache::{RenderCache, ServedState};
use crate::fees::FeeHistory;
use crate::observe::clock;
use crate::store::{ChainStore, PerChain, Publication, PublishObserver, RecentBlocks, StoredChain};

/// Scorers of all chains. Cheap to clone.
#[derive(Debug, Clone, FromRef)]
pub(crate) struct Scores {
    pub(super) store: ChainStore,
    chains: PerChain<Arc<Mutex<Scorer>>>,
    pub(super) bodies: RenderCache<ServedState, (), Bytes>,
}

impl Scores {
    /// Creates scorers without quotes.
    pub(super) fn new(store: &ChainStore) -> Self {
        let chains = PerChain::new(store, |chain| {
            let interval = chain.config().reading_interval(chain.block_time());
            Arc::new(Mutex::new(Scorer::new(chain, interval, clock::now())))
        });
        Self { store: store.clone(), chains, bodies: RenderCache::new(store) }
    }

    pub(super) fn scorer(&self, chain: &StoredChain) -> &Arc<Mutex<Scorer>> {
        self.chains.get(chain)
    }
}

/// Grades what is published.
impl PublishObserver for Arc<Mutex<Scorer>> {
    fn published(&mut self, publication: &Publication<'_>) {
        let (market, now) = (&publication.snapshot.market, clock::now());
        let mut scorer = self.lock();
        scorer.record(publication.history, market, now);
        scorer.holds.record(publication, now);
    }

    fn rewards_read(&mut self, reading: &FeeHistory, _: &RecentBlocks) {
        self.lock().add_reading(reading);
    }
}
