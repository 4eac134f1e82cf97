//! Examples of responses, produced by the code of the routes from fixed blocks.

use serde_json::{Value, json};
use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, RefOr};

use crate::api::public_routes::PublicRoutes;
use crate::api::route_table::RouteTable;
use crate::api::{chains, fee_history, fee_market};
use crate::config::{Chain, Config};
use crate::fees::{self, Block, ChainParameters, FeeHistory, Rewards};
use crate::store::{Accepted, ChainStore, ServableSnapshot, StoredChain};

const OLDEST_BLOCK: u64 = 43_447_681;
const GWEI: u128 = 1_000_000_000;
/// Number of blocks in the example of a fee history.
const EXAMPLE_BLOCKS: usize = 2;
const CHAIN: &str = "[chains.ethereum]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1\"]";
/// Time of observation in the example of a fee market.
const OBSERVED_AT: &str = "2026-11-20T17:31:34.123Z";

/// The chain of the examples.
#[derive(Debug)]
pub(crate) struct ExampleChain<'a> {
    /// The chain, after both replies were published.
    pub(crate) chain: &'a StoredChain,
    /// The snapshot that may be served.
    pub(crate) current: &'a ServableSnapshot,
    /// The two replies, and their markets. The second one grades the suggestion of the first.
    pub(crate) replies: &'a [(FeeHistory, fees::Market)],
}

/// Writes the examples into the document.
pub(crate) fn write_examples(document: &mut OpenApi, others: &PublicRoutes) {
    let config = Config::from_toml(CHAIN, &[]).expect("the example is a valid configuration");
    let (store, mut publishers) = ChainStore::new(&config.chains);
    let reply = |oldest_block| {
        let chain = config.chains.first()?;
        let parameters = ChainParameters::without_header(&chain.pricing);
        let history = example_fee_history(chain, oldest_block)?;
        let market = fees::price(&history, &[], &chain.pricing, &parameters).ok()?;
        Some((history, market))
    };
    let replies: Vec<_> = [OLDEST_BLOCK - 1, OLDEST_BLOCK].into_iter().filter_map(reply).collect();
    for publisher in &mut publishers {
        for (history, market) in &replies {
            publisher.publish(Accepted::now(history, market.clone()));
        }
    }
    for chain in store.chains() {
        write_chain_examples(document, chain);
        if let Ok(current) = &chain.servable_snapshot() {
            write_snapshot_examples(document, chain, current, others);
            let example = ExampleChain { chain, current, replies: &replies };
            for write in &others.examples {
                write(document, &example);
            }
        }
    }
}

/// Builds a history as long as the chain's window.
fn example_fee_history(chain: &Chain, oldest_block: u64) -> Option<FeeHistory> {
    let columns = chain.pricing.tier_columns();
    let mut amounts = [0; Rewards::MAX_COLUMNS];
    for (column, amount) in [(Some(columns.medium), 20 * GWEI), (columns.high, 24 * GWEI)] {
        if let Some(reward) = column.and_then(|column| amounts.get_mut(column)) {
            *reward = amount;
        }
    }
    let block = |gas_used_ratio| Block {
        base_fee: GWEI,
        gas_used_ratio: Some(gas_used_ratio),
        rewards: Some(Rewards::new(&amounts)),
    };
    let mut blocks = vec![block(0.25); chain.pricing.window_blocks.get()];
    *blocks.last_mut()? = block(0.5);
    FeeHistory::new(oldest_block, blocks, Some(GWEI))
}

/// Writes examples that depend on the chain's data.
fn write_chain_examples(document: &mut OpenApi, chain: &StoredChain) {
    let routes = RouteTable::new(document, "", &PublicRoutes::default());
    set_response_example(document, "/v1", json!(routes.body()));
    let mut summary = json!(chains::ChainSummary::for_chain(chain));
    for name in ["newest_block_at", "observed_at"] {
        if let Some(time) = summary.get_mut(name).filter(|time| time.is_string()) {
            *time = json!(OBSERVED_AT);
        }
    }
    set_response_example(document, "/v1/chains", json!([summary]));
}

/// Writes examples that depend on the chain's prices. Returns the fee market.
fn write_snapshot_examples(
    document: &mut OpenApi,
    chain: &StoredChain,
    current: &ServableSnapshot,
    others: &PublicRoutes,
) {
    let snapshot = &current.snapshot;
    let suggestion: Value = serde_json::from_slice(&snapshot.body).expect("a suggestion is JSON");
    set_response_example(document, "/v1/{chain}/gas-suggestion", suggestion.clone());
    set_response_example(document, "/v1/gas-suggestions", json!([suggestion]));
    let tag = snapshot.etag.to_str().unwrap_or_default().trim_matches('"');
    let id = format!("{}-{tag}", snapshot.newest_block);
    let data = String::from_utf8_lossy(&snapshot.body);
    let event = |id| json!({ "event": "gas-suggestion", "id": id, "data": data });
    set_response_example(
        document,
        "/v1/gas-suggestions/stream",
        event(format!("{}-{id}", chain.config().chain_id)),
    );
    set_response_example(document, "/v1/{chain}/gas-suggestion/stream", event(id));
    let members = others.market_members.example();
    let mut market = json!(fee_market::FeeMarketBody::new(chain, current, members));
    if let Some(observed_at) = market.get_mut("observed_at") {
        *observed_at = json!(OBSERVED_AT);
    }
    set_response_example(document, "/v1/fee-markets", json!([market]));
    set_response_example(document, "/v1/{chain}/fee-market", market);
    if let Ok((_, window)) = chain.snapshot_with_blocks(EXAMPLE_BLOCKS) {
        let history = json!(fee_history::FeeHistoryBody::from_window(chain, &window));
        set_response_example(document, "/v1/{chain}/fee-history", history);
    }
}

/// Sets the example response of the operations at `path`.
pub(crate) fn set_response_example(document: &mut OpenApi, path: &str, example: Value) {
    for (operation, example) in operations(document, path).zip(std::iter::repeat(example)) {
        let response = operation.responses.responses.get_mut("200");
        let Some(RefOr::T(response)) = response else { continue };
        if let Some(RefOr::T(content)) = response.content.values_mut().next() {
            content.example = Some(example);
        }
    }
}

/// Sets the example request of the operations at `path` that take one.
pub(crate) fn set_request_example(document: &mut OpenApi, path: &str, example: Value) {
    for (operation, example) in operations(document, path).zip(std::iter::repeat(example)) {
        let Some(RefOr::T(body)) = operation.request_body.as_mut() else { continue };
        if let Some(RefOr::T(content)) = body.content.values_mut().next() {
            content.example = Some(example);
        }
    }
}

/// Returns the operations at `path`; none if it is disabled.
fn operations<'a>(
    document: &'a mut OpenApi,
    path: &str,
) -> impl Iterator<Item = &'a mut Operation> + use<'a> {
    let item = document.paths.paths.get_mut(path);
    item.into_iter().flat_map(|item| item.get.as_mut().into_iter().chain(item.post.as_mut()))
}
