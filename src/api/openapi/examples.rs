//! Examples, made by the code that answers: of a chain whose last blocks were these.

use serde_json::{Value, json};
use utoipa::openapi::path::Operation;
use utoipa::openapi::{Components, OpenApi, RefOr};

use crate::api::delegation::transaction;
use crate::api::delegation::unsigned::Transaction;
use crate::api::described::problems;
use crate::api::described::schemas::{DELEGATE, VAULT};
use crate::api::{chains, history, market};
use crate::book::{Book, Chain, Reading};
use crate::config::{self, Config};
use crate::delegation::Prepared;
use crate::fees::{self, Block, FeeHistory, Rewards};

const OLDEST_BLOCK: u64 = 43_447_681;
const GWEI: u128 = 1_000_000_000;
/// How many blocks the example of a fee history has.
const FEW: usize = 2;
/// When the data was read, in the example of a market.
const OBSERVED_AT: &str = "2026-11-20T17:31:34.123Z";

/// Writes the examples into the document.
pub(super) fn write(document: &mut OpenApi, config: &Config) {
    let Some(first) = config.chains.first() else { return };
    let (book, mut publishers) = Book::new(std::slice::from_ref(first));
    if let (Some(publisher), Some(history)) = (publishers.first_mut(), blocks(first))
        && let Ok(market) = fees::price(&history, &first.pricing)
    {
        publisher.publish(&history, market);
    }
    for chain in book.chains() {
        let components = document.components.get_or_insert_with(Components::new);
        components.examples = problems::examples(chain);
        of_chain(document, chain);
        if let Ok(reading) = chain.read() {
            of_reading(document, config, chain, &reading);
        }
    }
    of_others(document);
}

/// As many blocks as the window has.
fn blocks(chain: &config::Chain) -> Option<FeeHistory> {
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

/// What the chain answers whether it was read or not.
fn of_chain(document: &mut OpenApi, chain: &Chain) {
    let id = chain.config().chain_id;
    answers(document, "/v1/chains", json!([chains::Entry::of(chain)]));
    asks(document, "/rpc/{chain}", json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId" }));
    let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": format!("{id:#x}") });
    answers(document, "/rpc/{chain}", answer);
}

fn of_reading(document: &mut OpenApi, config: &Config, chain: &Chain, reading: &Reading) {
    let quote = &reading.observation.quote;
    let suggestion: Value = serde_json::from_slice(quote.body()).expect("a quote is JSON");
    answers(document, "/v1/{chain}/gas-suggestion", suggestion.clone());
    answers(document, "/v1/gas-suggestions", json!([suggestion]));
    let tag = quote.etag().to_str().unwrap_or_default().trim_matches('"');
    let id = format!("{}-{tag}", quote.newest_block());
    let data = String::from_utf8_lossy(quote.body());
    let event = |id| json!({ "event": "gas-suggestion", "id": id, "data": data });
    answers(
        document,
        "/v1/gas-suggestions/stream",
        event(format!("{}-{id}", chain.config().chain_id)),
    );
    answers(document, "/v1/{chain}/gas-suggestion/stream", event(id));
    let mut market = json!(market::FeeMarket::of(chain, reading));
    if let Some(observed_at) = market.get_mut("observed_at") {
        *observed_at = json!(OBSERVED_AT);
    }
    answers(document, "/v1/{chain}/fee-market", market);
    if let Ok((_, excerpt)) = chain.read_blocks(FEW) {
        let history = json!(history::FeeHistory::of(chain, &excerpt));
        answers(document, "/v1/{chain}/fee-history", history);
    }
    let request = json!({ "from": VAULT, "to": DELEGATE, "action": "delegate_all" });
    if let Ok((from, grant)) = transaction::read(request.to_string().as_bytes()) {
        let registry = config.delegation.registry_address;
        let prepared = Prepared { registry, calldata: grant.calldata(), gas: 136_000 };
        let chain_id = chain.config().chain_id;
        let transaction = Transaction::of(chain_id, from, &prepared, quote.suggestion());
        asks(document, "/v1/{chain}/delegations/transactions", request);
        answers(document, "/v1/{chain}/delegations/transactions", json!(transaction));
    }
}

/// What is the same of every chain.
fn of_others(document: &mut OpenApi) {
    let no_rights = format!("0x{}", "0".repeat(64));
    let delegation = json!({
        "type": "ALL", "from": VAULT, "to": DELEGATE, "contract": null, "tokenId": null,
        "rights": no_rights, "amount": null,
    });
    answers(document, "/registry/v2/{address}", json!([delegation]));
    for scope in ["all", "contract", "erc721"] {
        answers(document, &format!("/registry/v2/check/{scope}"), json!(true));
    }
    for scope in ["erc20", "erc1155"] {
        answers(document, &format!("/registry/v2/check/{scope}"), json!("1000000000000000000"));
    }
    answers(document, "/livez", json!({ "status": "live" }));
    answers(document, "/readyz", json!({ "status": "ready" }));
}

/// Writes what the operation at `path` answers when all is well.
fn answers(document: &mut OpenApi, path: &str, example: Value) {
    let response = operation(document, path)
        .and_then(|operation| operation.responses.responses.get_mut("200"));
    let Some(RefOr::T(response)) = response else { return };
    if let Some(RefOr::T(content)) = response.content.values_mut().next() {
        content.example = Some(example);
    }
}

/// Writes what the operation at `path` may be asked.
fn asks(document: &mut OpenApi, path: &str, example: Value) {
    let body = operation(document, path).and_then(|operation| operation.request_body.as_mut());
    let Some(RefOr::T(body)) = body else { return };
    if let Some(RefOr::T(content)) = body.content.values_mut().next() {
        content.example = Some(example);
    }
}

/// The only operation at `path`; `None`: it is switched off.
fn operation<'a>(document: &'a mut OpenApi, path: &str) -> Option<&'a mut Operation> {
    let item = document.paths.paths.get_mut(path)?;
    item.get.as_mut().or(item.post.as_mut())
}
