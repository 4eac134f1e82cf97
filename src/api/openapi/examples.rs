//! Examples of responses, produced by the code of the routes from fixed blocks.

use serde_json::{Value, json};
use utoipa::openapi::path::Operation;
use utoipa::openapi::{Components, OpenApi, RefOr};

use crate::api::delegation::transaction;
use crate::api::delegation::unsigned_transaction::UnsignedTransaction;
use crate::api::openapi_components::problems;
use crate::api::openapi_components::schemas::{DELEGATE, VAULT};
use crate::api::{chains, fee_history, fee_market};
use crate::config::{self, Config};
use crate::delegation::PreparedTransaction;
use crate::fees::{self, Block, FeeHistory, Rewards};
use crate::store::{ChainStore, ServableSnapshot, StoredChain};

const OLDEST_BLOCK: u64 = 43_447_681;
const GWEI: u128 = 1_000_000_000;
/// Number of blocks in the example of a fee history.
const EXAMPLE_BLOCKS: usize = 2;
/// Time of observation in the example of a fee market.
const OBSERVED_AT: &str = "2026-11-20T17:31:34.123Z";

/// Writes the examples into the document.
pub(super) fn write_examples(document: &mut OpenApi, config: &Config) {
    let Some(first) = config.chains.first() else { return };
    let (store, mut publishers) = ChainStore::new(std::slice::from_ref(first));
    if let (Some(publisher), Some(history)) = (publishers.first_mut(), example_fee_history(first))
        && let Ok(market) = fees::price(&history, &first.pricing)
    {
        publisher.publish(&history, market);
    }
    for chain in store.chains() {
        let components = document.components.get_or_insert_with(Components::new);
        components.examples = problems::examples(chain);
        write_chain_examples(document, chain);
        if let Ok(reading) = chain.servable_snapshot() {
            write_snapshot_examples(document, config, chain, &reading);
        }
    }
    write_static_examples(document);
}

/// Builds a history as long as the chain's window.
fn example_fee_history(chain: &config::Chain) -> Option<FeeHistory> {
    let has_high = chain.pricing.percentiles().has_high();
    let rewards = Rewards { medium: 20 * GWEI, high: has_high.then_some(24 * GWEI) };
    let block = |gas_used_ratio| Block {
        base_fee: GWEI,
        gas_used_ratio: Some(gas_used_ratio),
        rewards: Some(rewards),
    };
    let mut blocks = vec![block(0.25); chain.pricing.window_blocks.get()];
    *blocks.last_mut()? = block(0.5);
    FeeHistory::new(OLDEST_BLOCK, blocks, Some(GWEI))
}

/// Writes examples that depend on the chain's data.
fn write_chain_examples(document: &mut OpenApi, chain: &StoredChain) {
    let id = chain.config().chain_id;
    set_response_example(document, "/v1/chains", json!([chains::ChainSummary::for_chain(chain)]));
    set_request_example(
        document,
        "/rpc/{chain}",
        json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId" }),
    );
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": format!("{id:#x}") });
    set_response_example(document, "/rpc/{chain}", response);
}

fn write_snapshot_examples(
    document: &mut OpenApi,
    config: &Config,
    chain: &StoredChain,
    current: &ServableSnapshot,
) {
    let snapshot = &current.snapshot;
    let suggestion: Value = serde_json::from_slice(&snapshot.body).expect("a quote is JSON");
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
    let mut market = json!(fee_market::FeeMarketBody::from_snapshot(chain, current));
    if let Some(observed_at) = market.get_mut("observed_at") {
        *observed_at = json!(OBSERVED_AT);
    }
    set_response_example(document, "/v1/{chain}/fee-market", market);
    if let Ok((_, window)) = chain.snapshot_with_blocks(EXAMPLE_BLOCKS) {
        let history = json!(fee_history::FeeHistoryBody::from_window(chain, &window));
        set_response_example(document, "/v1/{chain}/fee-history", history);
    }
    let request = json!({ "from": VAULT, "to": DELEGATE, "action": "delegate_all" });
    if let Ok((from, change)) = transaction::parse_request(request.to_string().as_bytes()) {
        let registry = config.delegation.registry_address;
        let prepared = PreparedTransaction { registry, calldata: change.calldata(), gas: 136_000 };
        let chain_id = chain.config().chain_id;
        let transaction =
            UnsignedTransaction::new(chain_id, from, &prepared, &snapshot.market.suggestion);
        set_request_example(document, "/v1/{chain}/delegations/transactions", request);
        set_response_example(document, "/v1/{chain}/delegations/transactions", json!(transaction));
    }
}

/// Writes examples that are the same for every chain.
fn write_static_examples(document: &mut OpenApi) {
    let no_rights = format!("0x{}", "0".repeat(64));
    let delegation = json!({
        "type": "ALL", "from": VAULT, "to": DELEGATE, "contract": null, "tokenId": null,
        "rights": no_rights, "amount": null,
    });
    set_response_example(document, "/registry/v2/{address}", json!([delegation]));
    for scope in ["all", "contract", "erc721"] {
        set_response_example(document, &format!("/registry/v2/check/{scope}"), json!(true));
    }
    for scope in ["erc20", "erc1155"] {
        set_response_example(
            document,
            &format!("/registry/v2/check/{scope}"),
            json!("1000000000000000000"),
        );
    }
    set_response_example(document, "/livez", json!({ "status": "live" }));
    set_response_example(document, "/readyz", json!({ "status": "ready" }));
}

/// Sets the example response of the operation at `path`.
fn set_response_example(document: &mut OpenApi, path: &str, example: Value) {
    let response = operation(document, path)
        .and_then(|operation| operation.responses.responses.get_mut("200"));
    let Some(RefOr::T(response)) = response else { return };
    if let Some(RefOr::T(content)) = response.content.values_mut().next() {
        content.example = Some(example);
    }
}

/// Sets the example request of the operation at `path`.
fn set_request_example(document: &mut OpenApi, path: &str, example: Value) {
    let body = operation(document, path).and_then(|operation| operation.request_body.as_mut());
    let Some(RefOr::T(body)) = body else { return };
    if let Some(RefOr::T(content)) = body.content.values_mut().next() {
        content.example = Some(example);
    }
}

/// Returns the only operation at `path`; `None`: disabled.
fn operation<'a>(document: &'a mut OpenApi, path: &str) -> Option<&'a mut Operation> {
    let item = document.paths.paths.get_mut(path)?;
    item.get.as_mut().or(item.post.as_mut())
}
