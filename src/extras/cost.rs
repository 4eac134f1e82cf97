//! The cost of a transaction in all, and the amount that can be sent beside it.
//!
//! On OP Stack chains a transaction pays for its data and to the operator too, which no gas price contains. The parameters
//! of both stand in the first transaction of each block, which a task of its own reads. Other tasks read the price of the
//! coin in dollars, and what a chain tells about costs. No request causes a call, and no poll waits for one.

mod chain_facts;
mod chain_keys;
mod cheapest;
mod confirmed;
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

use parking_lot::Mutex;
use utoipa::OpenApi;

use crate::api::routes::{routes, with_schemas};
use crate::assembly::{Assembly, Extra};
use crate::extras::reads::ReadNodes;
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::chain_counters;
use crate::store::PerChain;
use chain_facts::FactsReader;
use chain_keys::{CostKeys, DataFeeKind};
use data_fee::DataFees;
use metrics::CostMetrics;
use reader::read_attributes;
use routes::CostState;
use usd_feed::{FeedReader, UsdPrices};
use wire::MarketMembers;

pub(crate) const EXTRA: Extra =
    Extra { name: "cost", sections: &[CostKeys::SECTION], command: None, join };

/// Reads the parameters of OP Stack chains, facts of chains and the prices of coins, and adds the routes and members of the fee market.
fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    let keys: CostKeys = assembly.config.section();
    let store = assembly.store.clone();
    let state = CostState {
        fees: DataFees::new(&store, &keys),
        prices: UsdPrices::new(&store, &keys),
        transfers: PerChain::new(&store, |_| Mutex::default()),
        memory: assembly.memory.clone(),
        store,
    };
    let metrics = assembly.metrics.set::<CostMetrics>();
    let nodes = ReadNodes::shared(assembly);
    for (chain, upstreams) in state.store.chains().iter().zip(&nodes) {
        let config = chain.config();
        let known_kind = keys.data_fee(config);
        if known_kind != Some(DataFeeKind::Off) {
            let facts = FactsReader {
                chain: chain.clone(),
                upstreams: Arc::clone(upstreams),
                state: state.clone(),
                reads_kind: known_kind.is_none(),
            };
            assembly.add_task(async { match facts.run().await {} });
        }
        if known_kind.is_none_or(DataFeeKind::has_attributes) {
            let counters = chain_counters(&metrics.data_fee_reads_total, &config.key);
            let upstreams = Arc::clone(upstreams);
            let reader = read_attributes(chain.clone(), upstreams, state.fees.clone(), counters);
            assembly.add_task(async { match reader.await {} });
        }
        let Some(feed) = keys.usd_feed(config) else { continue };
        let key = feed.chain.as_ref().unwrap_or(&config.key);
        let mut with_nodes = state.store.chains().iter().zip(&nodes);
        let Some((at, upstreams)) = with_nodes.find(|(at, _)| at.config().key == *key) else {
            continue;
        };
        let reader = FeedReader {
            chain: chain.clone(),
            feed: feed.clone(),
            at: (at.clone(), Arc::clone(upstreams)),
            prices: state.prices.clone(),
            counters: chain_counters(&metrics.usd_price_reads_total, &config.key),
            log: LogOnChange::default(),
        };
        assembly.add_task(async { match reader.run().await {} });
    }
    let of_gauges = state.clone();
    assembly.metrics.on_scrape(move |_| metrics.update(&of_gauges));
    let of_market = state.clone();
    assembly.routes.market_members.add(move |chain, _| MarketMembers::new(chain, &of_market));
    let routes = with_schemas::<Schemas, _>()
        .routes(routes!(routes::get_cost, routes::post_cost))
        .routes(routes!(cheapest::list_cheapest));
    assembly.routes.timed.push(routes.with_state(state));
    assembly.routes.costly.extend([routes::COST_PATH, cheapest::PATH]);
    Ok(())
}

#[derive(OpenApi)]
#[openapi(components(schemas(MarketMembers)))]
struct Schemas;
