//! The cost of a transaction in all, and the amount that can be sent beside it.
//!
//! On OP Stack chains a transaction pays for its data and to the operator too, which no gas price contains. The parameters
//! of both stand in the first transaction of each block, which a task of its own reads. Another task reads the price of
//! the coin in dollars. No request causes a call, and no poll waits for one.

mod chain_keys;
mod cheapest;
mod data_fee;
mod dollars;
mod metrics;
mod op_stack;
mod reader;
mod routes;
mod sum;
mod transaction;
mod usd_feed;
mod wire;

use std::sync::Arc;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::assembly::{Assembly, Extra, Join};
use crate::config::SectionKind;
use crate::extras::reads::ReadNodes;
use crate::store::{ChainStore, StoredChain};
use chain_keys::{CostKeys, DataFeeKind};
use data_fee::DataFees;
use metrics::CostMetrics;
use reader::AttributesReader;
use usd_feed::{FeedReader, UsdPrices};

pub(crate) const EXTRA: Extra =
    Extra { sections: &[SectionKind::new::<CostKeys>()], ..Extra::new("cost", Join::Always(join)) };

/// Reads the parameters of OP Stack chains and the prices of coins, and adds the routes and members of the fee market.
fn join(assembly: &mut Assembly) {
    let keys: CostKeys = assembly.config.section();
    let fees = DataFees::new(&assembly.store, &keys);
    let metrics = assembly.metrics.set::<CostMetrics>();
    let chains = assembly.store.clone();
    let nodes = ReadNodes::shared(assembly);
    let readers = chains.chains().iter().zip(&nodes).filter_map(|(chain, upstreams)| {
        let is_read = keys.data_fee(chain.config()) == Some(DataFeeKind::OpStack);
        is_read.then(|| {
            let counters = metrics.attributes_reads(&chain.config().key);
            AttributesReader::new(chain, Arc::clone(upstreams), &fees, counters)
        })
    });
    let readers: Vec<_> = readers.collect();
    for reader in readers {
        assembly.add_task(async { match reader.run().await {} });
    }
    let prices = UsdPrices::new(&assembly.store, &keys);
    for reader in feed_readers(&chains, &nodes, &prices, &metrics) {
        assembly.add_task(async { match reader.run().await {} });
    }
    let (of_gauges, store) = ((fees.clone(), prices.clone()), assembly.store.clone());
    assembly.metrics.on_scrape(move |_| metrics.update(&store, &of_gauges.0, &of_gauges.1));
    assembly.routes.add_market_member(data_fee::market_member(&fees));
    assembly.routes.add_market_member(usd_feed::market_member(&prices));
    let state = routes::CostState::new(&assembly.store, &fees, &prices, &assembly.memory);
    let routes = OpenApiRouter::new()
        .routes(routes!(routes::get_cost, routes::post_cost))
        .routes(routes!(cheapest::list_cheapest));
    assembly.routes.add(routes.with_state(state));
    assembly.routes.mark_costly(routes::COST_PATH);
    assembly.routes.mark_costly(cheapest::PATH);
    assembly.routes.write_examples(routes::write_example);
    assembly.routes.write_examples(cheapest::write_example);
}

/// Creates the readers of the price feeds of all chains that have one.
fn feed_readers(
    store: &ChainStore,
    nodes: &[Arc<ReadNodes>],
    prices: &UsdPrices,
    metrics: &CostMetrics,
) -> Vec<FeedReader> {
    let chains = store.chains();
    let with_nodes = || chains.iter().zip(nodes);
    let reader = |chain: &StoredChain| {
        let feed = prices.feed(chain)?;
        let key = feed.chain.as_ref().unwrap_or(&chain.config().key);
        let (at, upstreams) = with_nodes().find(|(at, _)| at.config().key == *key)?;
        let counters = metrics.feed_reads(&chain.config().key);
        let at = (at.clone(), Arc::clone(upstreams));
        Some(FeedReader::new(chain, feed, at, prices, counters))
    };
    chains.iter().filter_map(reader).collect()
}
