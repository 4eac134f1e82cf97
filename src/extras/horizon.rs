//! Fees for a horizon and a probability: the pair that one of the next K blocks includes in a share P of cases.
//!
//! The pairs are computed in `fees` and kept in the snapshot. This room serves them, and counts how often the blocks kept
//! the pairs that it served.

mod metrics;
mod routes;

use std::sync::Arc;

use axum::extract::FromRef;
use parking_lot::Mutex;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::assembly::{Assembly, Extra, Join};
use crate::fees::horizon::all_cells;
use crate::observe::clock;
use crate::store::{
    ChainStore, KeptCount, PerChain, Publication, PublishObserver, Question, QuoteRecord,
    RecentBlocks, StoredChain,
};
use metrics::HorizonMetrics;

pub(crate) const EXTRA: Extra = Extra::new("horizon", Join::Always(join));

/// Records what is published, and adds the route and the gauges.
fn join(assembly: &mut Assembly) {
    let records = Records::new(&assembly.store);
    assembly.observe(|chain| Arc::clone(records.chains.get(chain)));
    let metrics = assembly.metrics.set::<HorizonMetrics>();
    let (of_gauges, store) = (records.clone(), assembly.store.clone());
    assembly.metrics.on_scrape(move |_| {
        for chain in store.chains() {
            metrics.update(chain, &of_gauges);
        }
    });
    let routes = OpenApiRouter::new().routes(routes!(routes::get_fees));
    assembly.routes.add(routes.with_state(records));
    assembly.routes.write_examples(routes::write_example);
}

/// Records of all chains. Cheap to clone.
#[derive(Debug, Clone)]
struct Records {
    store: ChainStore,
    chains: PerChain<Arc<ChainRecord>>,
}

/// Record of the pairs of one chain, in the order of the cells.
#[derive(Debug)]
struct ChainRecord(Mutex<QuoteRecord>);

impl FromRef<Records> for ChainStore {
    fn from_ref(records: &Records) -> Self {
        records.store.clone()
    }
}

impl Records {
    fn new(store: &ChainStore) -> Self {
        let record = |chain: &StoredChain| {
            let cells = all_cells().enumerate();
            let questions = cells.map(|(pair, (within, _))| Question { pair, within });
            let interval = chain.config().reading_interval();
            let record = QuoteRecord::new(questions.collect(), interval, clock::now());
            Arc::new(ChainRecord(Mutex::new(record)))
        };
        Self { store: store.clone(), chains: PerChain::new(store, record) }
    }

    /// Returns how often the blocks kept the pairs of each cell.
    fn counts(&self, chain: &StoredChain, blocks: &RecentBlocks) -> Vec<KeptCount> {
        self.chains.get(chain).0.lock().counts(blocks, clock::now())
    }
}

/// Records the pairs of each head.
impl PublishObserver for Arc<ChainRecord> {
    fn horizon_computed(&mut self, publication: &Publication<'_>) {
        let Publication { snapshot, blocks, .. } = publication;
        if let Some(horizon) = snapshot.horizon() {
            let pairs = horizon.fees.cells().map(|cell| cell.fees);
            let (number, percentile) = (snapshot.newest_block, horizon.percentile);
            self.0.lock().record(number, pairs, percentile, blocks, clock::now());
        }
    }
}

#[cfg(test)]
mod tests;
