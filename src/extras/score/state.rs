//! The scorers of all chains.

use std::sync::Arc;

use axum::extract::FromRef;
use bytes::Bytes;
use parking_lot::Mutex;

use super::{Score, Scorer, Totals};
use crate::api::render_cache::{RenderCache, ServedState};
use crate::fees::FeeHistory;
use crate::observe::clock;
use crate::store::{ChainStore, PerChain, Publication, PublishObserver, RecentBlocks, StoredChain};

/// Scorers of all chains. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Scores {
    store: ChainStore,
    chains: PerChain<Arc<ChainScorer>>,
    pub(super) bodies: RenderCache<ServedState, (), Bytes>,
}

/// Scorer of one chain.
#[derive(Debug)]
pub(crate) struct ChainScorer(Mutex<Scorer>);

impl FromRef<Scores> for ChainStore {
    fn from_ref(scores: &Scores) -> Self {
        scores.store.clone()
    }
}

impl Scores {
    /// Creates scorers without quotes.
    pub(super) fn new(store: &ChainStore) -> Self {
        let scorer = |chain: &StoredChain| {
            let config = chain.config();
            let scorer = Scorer::new(&config.pricing, config.reading_interval(), clock::now());
            Arc::new(ChainScorer(Mutex::new(scorer)))
        };
        let chains = PerChain::new(store, scorer);
        Self { store: store.clone(), chains, bodies: RenderCache::new(store) }
    }

    pub(super) fn scorer(&self, chain: &StoredChain) -> &Arc<ChainScorer> {
        self.chains.get(chain)
    }

    /// Returns how the quotes of the last hour did.
    pub(super) fn score(&self, chain: &StoredChain) -> Score {
        self.scorer(chain).0.lock().score(clock::now())
    }

    /// Returns counts of all grades since the start, and their percentiles.
    pub(super) fn totals(&self, chain: &StoredChain) -> (Totals, Vec<f64>) {
        let scorer = self.scorer(chain).0.lock();
        (*scorer.totals(), scorer.percentiles().to_vec())
    }
}

/// Grades what is published.
impl PublishObserver for Arc<ChainScorer> {
    fn published(&mut self, publication: &Publication<'_>) {
        let market = &publication.snapshot.market;
        self.0.lock().record(publication.history, market, clock::now());
    }

    fn rewards_read(&mut self, reading: &FeeHistory, _: &RecentBlocks) {
        self.0.lock().add_reading(reading);
    }
}
