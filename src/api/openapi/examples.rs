//! Examples of responses, produced by the code of the routes from fixed blocks.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, RefOr};

use super::schemas::{DELEGATE, VAULT};
use crate::api::callers_fee::PendingFee;
use crate::api::route_table::RouteTable;
use crate::api::{callers_fee, chains, fee_history, fee_market};
use crate::config::{Chain, Config};
use crate::extras::compat::{Document, SupportedChain};
use crate::extras::delegation::routes::transaction;
use crate::extras::delegation::routes::unsigned_transaction::UnsignedTransaction;
use crate::extras::delegation::{LookupError, PreparedTransaction};
use crate::extras::score::routes as score;
use crate::extras::trend::routes as fee_trend;
use crate::extras::trend::{FeeTrend, Level, MAX_DAYS, Observation, Period, PriceLevel};
use crate::extras::verification::proxy::ProxyError;
use crate::fees::{self, Block, ChainParameters, FeeHistory, Rewards};
use crate::http::problem::{Problem, ProblemCode};
use crate::store::{Accepted, BlockWindow, ChainStore, ServableSnapshot, StoredChain, Unavailable};

const OLDEST_BLOCK: u64 = 43_447_681;
const GWEI: u128 = 1_000_000_000;
/// Number of blocks in the example of a fee history.
const EXAMPLE_BLOCKS: usize = 2;
/// Time of observation in the example of a fee market.
const OBSERVED_AT: &str = "2026-11-20T17:31:34.123Z";

/// Routes of other services' formats, with one of their documents each.
const DOCUMENTS: [(&str, Document); 9] = [
    ("/networks/{chain_id}/suggestedGasFees", Document::MetamaskFees),
    ("/v3/{key}/networks/{chain_id}/suggestedGasFees", Document::MetamaskFees),
    ("/networks/{chain_id}/gasPrices", Document::MetamaskPrices),
    ("/api", Document::EtherscanOracle),
    ("/compat/safe/{chain_id}", Document::Safe),
    ("/gasprices/blockprices", Document::Blocknative),
    ("/compat/rrelayer/{chain_id}", Document::Rrelayer),
    ("/compat/polygon/{chain_id}/v2", Document::Polygon),
    ("/compat/flat/{chain_id}", Document::Flat),
];

/// Writes the examples into the document.
pub(crate) fn write_examples(document: &mut OpenApi, config: &Config, first: &Chain) {
    let (store, mut publishers) = ChainStore::new(std::slice::from_ref(first));
    if let Some(publisher) = publishers.first_mut() {
        let parameters = ChainParameters::without_header(&first.pricing);
        // The first suggestion is graded by the second block.
        for oldest_block in [OLDEST_BLOCK - 1, OLDEST_BLOCK] {
            if let Some(history) = example_fee_history(first, oldest_block)
                && let Ok(market) = fees::price(&history, &first.pricing, &parameters)
            {
                publisher.publish(Accepted::now(&history, market));
            }
        }
    }
    for chain in store.chains() {
        let components = document.components.get_or_insert_default();
        components.examples.extend(problem_examples(chain));
        write_chain_examples(document, chain);
        if let Ok(reading) = chain.servable_snapshot() {
            write_snapshot_examples(document, config, chain, &reading);
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

/// Builds the trend of one reply at a fixed time.
fn example_fee_trend(chain: &Chain) -> Option<Value> {
    /// 2026-11-20T17:35:00Z
    const MILLISECONDS: u64 = 1_795_196_100_000;
    let history = example_fee_history(chain, OLDEST_BLOCK)?;
    let window = |_| BlockWindow {
        newest_block: history.newest_block(),
        blocks: history.blocks().to_vec(),
        next_base_fee: history.next_base_fee(),
    };
    let parameters = ChainParameters::without_header(&chain.pricing);
    let mut trend = FeeTrend::new(MAX_DAYS);
    trend.record(&Observation {
        history: &history,
        market: Some(&fees::price(&history, &chain.pricing, &parameters).ok()?),
        pricing: &chain.pricing,
        newest_time: MILLISECONDS,
        block_time: 1000,
        known_blocks: &window,
    });
    let buckets = trend.buckets(Period::Day, MILLISECONDS / 1000);
    Some(json!(fee_trend::FeeTrendBody::new(chain, Period::Day, &buckets, Some(Level::Normal))))
}

/// Writes examples that depend on the chain's data.
fn write_chain_examples(document: &mut OpenApi, chain: &StoredChain) {
    let id = chain.config().chain_id;
    let routes = RouteTable::new(document, "");
    set_response_example(document, "/v1", json!(routes.body()));
    let mut summary = json!(chains::ChainSummary::for_chain(chain));
    for name in ["newest_block_at", "observed_at"] {
        if let Some(time) = summary.get_mut(name).filter(|time| time.is_string()) {
            *time = json!(OBSERVED_AT);
        }
    }
    set_response_example(document, "/v1/chains", json!([summary]));
    set_request_example(
        document,
        "/rpc/{chain}",
        json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId" }),
    );
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": format!("{id:#x}") });
    set_response_example(document, "/rpc/{chain}", response);
    let delegation = json!({
        "type": "ALL", "from": VAULT, "to": DELEGATE, "contract": null, "tokenId": null,
        "rights": format!("0x{}", "0".repeat(64)), "amount": null,
    });
    set_response_example(document, "/registry/v2/{address}", json!([delegation]));
}

fn write_snapshot_examples(
    document: &mut OpenApi,
    config: &Config,
    chain: &StoredChain,
    current: &ServableSnapshot,
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
    let level = PriceLevel { level: Level::Normal, deviation: Some(0.0) };
    let mut market = json!(fee_market::FeeMarketBody::new(chain, current, Some(level)));
    if let Some(observed_at) = market.get_mut("observed_at") {
        *observed_at = json!(OBSERVED_AT);
    }
    set_response_example(document, "/v1/fee-markets", json!([market]));
    set_response_example(document, "/v1/{chain}/fee-market", market);
    if let Ok((_, window)) = chain.snapshot_with_blocks(EXAMPLE_BLOCKS) {
        let history = json!(fee_history::FeeHistoryBody::from_window(chain, &window));
        set_response_example(document, "/v1/{chain}/fee-history", history);
        let market = &snapshot.market;
        let medium = market.suggestion.medium;
        let inclusion = callers_fee::InclusionBody::new(chain, market, &window.blocks, medium);
        set_response_example(document, "/v1/{chain}/inclusion", json!(inclusion));
        let pending = PendingFee::Capped(medium);
        let replacement = callers_fee::ReplacementBody::new(market, pending);
        set_response_example(document, "/v1/{chain}/replacement", json!(replacement));
    }
    for (path, id) in DOCUMENTS {
        let prepared = snapshot.documents.get(id);
        let body = prepared.and_then(|(json, _)| serde_json::from_slice(&json).ok());
        if let Some(body) = body {
            set_response_example(document, path, body);
        }
    }
    let chains = json!([SupportedChain::new(chain.config())]);
    set_response_example(document, "/chains", chains);
    let score = score::ScoreBody::new(chain.config(), snapshot.newest_block, &chain.score());
    set_response_example(document, "/v1/{chain}/score", json!(score));
    if let Some(trend) = example_fee_trend(chain.config()) {
        set_response_example(document, "/v1/{chain}/fee-trend", trend);
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

/// Returns an example per code, as the service sends it.
fn problem_examples(chain: &StoredChain) -> impl Iterator<Item = (String, RefOr<Example>)> {
    const REQUEST_ID: &str = "3f0c7a52b1d94e68-17";
    let upstream_problem = |failure| Problem::from_upstream(failure, "verification service");
    let problems = [
        Problem::from_status(StatusCode::BAD_REQUEST),
        Problem::new(ProblemCode::InvalidParameter, "`from` is required"),
        Problem::from_status(StatusCode::NOT_FOUND),
        Problem::unknown_chain("", None),
        Problem::from_status(StatusCode::METHOD_NOT_ALLOWED),
        Problem::from_status(StatusCode::REQUEST_TIMEOUT),
        Problem::from_status(StatusCode::PAYLOAD_TOO_LARGE),
        Problem::from_status(StatusCode::URI_TOO_LONG),
        Problem::unsupported_encoding(),
        Problem::misdirected(),
        Problem::from_status(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        Problem::from_status(StatusCode::INTERNAL_SERVER_ERROR),
        Problem::rate_limited(Duration::from_secs(1)),
        Problem::unavailable(chain, Unavailable::NoData),
        Problem::unavailable(chain, Unavailable::Expired),
        Problem::overloaded(),
        Problem::new(ProblemCode::NotReady, "no chain has been read yet"),
        upstream_problem(ProxyError::Unreachable),
        upstream_problem(ProxyError::InvalidResponse),
        LookupError::RegistryAbsent.into(),
        LookupError::TooManyDelegations.into(),
        upstream_problem(ProxyError::Timeout),
    ];
    problems.into_iter().filter_map(|problem| {
        let body: Value = serde_json::from_slice(&problem.body(REQUEST_ID, None)).ok()?;
        let code = body.get("code")?.as_str()?.to_owned();
        Some((code, ExampleBuilder::new().value(Some(body)).into()))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::Config;
    use crate::store::ChainStore;

    #[test]
    fn every_problem_code_has_an_example() {
        let toml = "[chains.a]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:1\"]";
        let (store, _) = ChainStore::new(&Config::from_toml(toml).unwrap().chains);
        let examples: BTreeMap<_, _> = problem_examples(&store.chains()[0]).collect();
        let RefOr::T(utoipa::openapi::Schema::Object(codes)) =
            <ProblemCode as utoipa::PartialSchema>::schema()
        else {
            panic!("the codes are a list of values");
        };
        let mut codes: Vec<_> = codes.enum_values.unwrap();
        codes.sort_by_key(ToString::to_string);
        assert_eq!(examples.keys().map(|name| serde_json::json!(name)).collect::<Vec<_>>(), codes);
    }
}
