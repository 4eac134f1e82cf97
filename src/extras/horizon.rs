//! Fees for a horizon and a probability: the pair that one of the next K blocks includes in a share P of cases.
//!
//! `estimator` computes the pairs of each publication. The blocks after it show whether they kept them.

pub mod estimator;
mod metrics;
mod routes;

use std::sync::Arc;

use axum::extract::FromRef;
use parking_lot::Mutex;
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use crate::api::render_cache::{RenderCache, ServedState};
use crate::api::routes::{routes, with_schemas};
use crate::assembly::{Assembly, Extra, NextBlockFees};
use crate::extras::quotes::{KeptCount, Question, QuoteRecord};
use crate::fees::{ChainParameters, FeeHistory, Market, Pricing, Tier};
use crate::observe::clock;
use crate::store::{
    ChainStore, EntryWindow, PerChain, Publication, PublishObserver, RecentBlocks, StoredChain,
};
use estimator::{BLOCKS, HorizonFees, all_cells};
use metrics::HorizonMetrics;

pub(crate) const EXTRA: Extra = Extra { name: "horizon", sections: &[], command: None, join };

/// Follows what is published, adds the route and the gauges, and hands in the fees for the next block.
fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    let records = Records::new(&assembly.store);
    assembly.observe(|chain| Arc::clone(records.chains.get(chain)));
    let metrics = assembly.metrics.set::<HorizonMetrics>();
    let (of_gauges, store) = (records.clone(), assembly.store.clone());
    assembly.metrics.on_scrape(move |_| {
        for chain in store.chains() {
            metrics.update(chain, &of_gauges);
        }
    });
    let next_block = records.clone();
    let next_block_fees: NextBlockFees = Arc::new(move |chain| next_block.next_block_fees(chain));
    assembly.offers.insert(next_block_fees);
    let of_market = records.clone();
    assembly.routes.market_members.add(move |chain, _| {
        let fees_ready = of_market.chains.get(chain).lock().matrix.is_some();
        MarketMembers { fees_ready }
    });
    let routes = with_schemas::<Schemas, _>();
    let routes = routes.routes(routes!(routes::get_fees));
    assembly.routes.timed.push(routes.with_state(records));
    Ok(())
}

/// Members of the fee market.
#[derive(Serialize, ToSchema)]
#[schema(as = FeeMarket)]
struct MarketMembers {
    /// True if `/v1/{chain}/fees` has fees: 200 blocks and their tips are known.
    fees_ready: bool,
}

#[derive(OpenApi)]
#[openapi(components(schemas(MarketMembers)))]
struct Schemas;

/// Records of all chains. Cheap to clone.
#[derive(Debug, Clone, FromRef)]
struct Records {
    store: ChainStore,
    chains: PerChain<Arc<Mutex<ChainRecord>>>,
    graded: RenderCache<ServedState, (), GradedMatrix>,
}

/// A matrix, if there is one, and how often the blocks kept the pairs of each cell.
type GradedMatrix = (Option<Arc<Matrix>>, Vec<KeptCount>);

/// The matrix of the newest publication of one chain, and the record of its pairs.
#[derive(Debug)]
struct ChainRecord {
    chain: StoredChain,
    /// Revision of the blocks, and the chain's parameters, that the matrix was made of. Most polls change neither.
    made_of: Option<(u64, ChainParameters)>,
    /// `None`: too few blocks are known.
    matrix: Option<Arc<Matrix>>,
    /// Pairs in the order of the cells.
    quotes: QuoteRecord,
}

/// The pairs of one publication, and the blocks that they were made of.
#[derive(Debug, Clone, PartialEq)]
struct Matrix {
    fees: HorizonFees,
    /// Percentile of the rewards that count as the tips that blocks require.
    percentile: f64,
    /// Number of the newest block whose rewards are known.
    rewards_to: u64,
}

impl Records {
    fn new(store: &ChainStore) -> Self {
        let record = |chain: &StoredChain| {
            let cells = all_cells().enumerate();
            let questions = cells.map(|(pair, (within, _))| Question { pair, within });
            let quotes = QuoteRecord::new(chain, questions.collect(), clock::now());
            let chain = chain.clone();
            Arc::new(Mutex::new(ChainRecord { chain, made_of: None, matrix: None, quotes }))
        };
        let chains = PerChain::new(store, record);
        Self { store: store.clone(), chains, graded: RenderCache::new(store) }
    }

    /// Returns the matrix of the newest publication with its grades.
    fn read(&self, chain: &StoredChain, blocks: &RecentBlocks) -> GradedMatrix {
        let record = self.chains.get(chain).lock();
        (record.matrix.clone(), record.quotes.counts(blocks, clock::now()))
    }

    /// Returns the fees for the next block. Nothing must be published meanwhile.
    fn next_block_fees(&self, chain: &StoredChain) -> Option<Vec<(u8, Tier)>> {
        let record = self.chains.get(chain).lock();
        Some(record.matrix.as_ref()?.fees.next_block().collect())
    }
}

impl ChainRecord {
    /// Computes the matrix unless it was made of the same.
    fn update(&mut self, blocks: &RecentBlocks, market: &Market) {
        // A change of the next base fee, or of the rewards that are known, changes the revision.
        let made_of = Some((blocks.revision, market.chain_parameters));
        if self.made_of != made_of {
            let window = blocks.newest_entries(BLOCKS);
            self.matrix = Matrix::new(&window, market, &self.chain.config().pricing).map(Arc::new);
            self.made_of = made_of;
        }
    }
}

impl Matrix {
    /// Computes the matrix from the blocks of a window. `None`: there are too few.
    fn new(window: &EntryWindow, market: &Market, pricing: &Pricing) -> Option<Self> {
        let (next_base_fee, parameters) = (market.newest_known_base_fee, &market.chain_parameters);
        let pricing_type = market.suggestion.pricing_type;
        let fees =
            HorizonFees::new(&window.blocks, next_base_fee, pricing_type, pricing, parameters)?;
        Some(Self { fees, percentile: window.percentile, rewards_to: window.newest_block })
    }
}

impl PublishObserver for Arc<Mutex<ChainRecord>> {
    fn served(&mut self, publication: &Publication<'_>) {
        let Publication { snapshot, blocks, .. } = publication;
        let mut record = self.lock();
        record.update(blocks, &snapshot.market);
        if let Some(matrix) = record.matrix.clone() {
            let pairs = matrix.fees.cells().map(|cell| cell.fees);
            let (number, percentile) = (snapshot.newest_block, matrix.percentile);
            record.quotes.record(number, pairs, percentile, blocks, clock::now());
        }
    }

    /// Computes the first matrix. Later ones come with publications.
    fn rewards_read(&mut self, _: &FeeHistory, blocks: &RecentBlocks) {
        let mut record = self.lock();
        if let Some(newest) = record.chain.newest_snapshot().filter(|_| record.matrix.is_none()) {
            record.update(blocks, &newest.market);
        }
    }
}

#[cfg(test)]
mod tests;
