//! `GET /v1/cheapest`.

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::dollars::Dollars;
use super::routes::{CostState, valid_gas};
use super::sum::{Cost, Order};
use crate::api::extractors::charge_for_list;
use crate::api::freshness::{list_response, tagged_json};
use crate::api::render_cache::json_bytes;
use crate::fees::Wei;
use crate::http::client_limits::ClientHandle;
use crate::http::problem::Problem;
use crate::http::query::ValidQuery;

pub(super) const PATH: &str = "/v1/cheapest";

/// Gas of a transfer on most chains.
const USUAL_TRANSFER_GAS: u64 = 21_000;

/// How much gas is compared.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CheapestQuery {
    /// Gas of the transaction, from 1 to 4,294,967,295; absent: that of a transfer on each chain.
    #[param(value_type = Option<Wei>, nullable = false, example = "100000")]
    gas: Option<u64>,
}

/// Cost of some gas on a chain.
#[derive(Serialize, ToSchema)]
struct CheapestChain<'a> {
    /// Key of the chain.
    chain: &'a str,
    chain_name: &'a str,
    /// With the medium fees, in wei of the chain's coin.
    expected: Wei,
    /// The same in dollars, with at most four significant digits; `null`: the price of the coin is not known.
    #[schema(required)]
    usd: Option<String>,
    stale: bool,
    /// The same in dollars, in full.
    #[serde(skip)]
    dollars: Option<Dollars>,
}

/// The chains by what some gas or a transfer costs now, the cheapest first
///
/// In the order of dollars, then those whose coin has no known price, by their amounts. Chains whose cost is not known are
/// left out.
#[utoipa::path(
    get,
    path = "/v1/cheapest",
    operation_id = "listCheapestChains",
    tag = "Gas",
    params(CheapestQuery),
    responses(
        (status = 200, description = "The chains.", body = Vec<CheapestChain>,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Stale"))),
    )
)]
pub(super) async fn list_cheapest(
    State(state): State<CostState>,
    ValidQuery(query): ValidQuery<CheapestQuery>,
    client: ClientHandle,
) -> Result<Response, Problem> {
    const CHAINS_PER_REQUEST: usize = 16;
    charge_for_list(&client, state.store.chains().len(), CHAINS_PER_REQUEST)?;
    let asked = query.gas.map(valid_gas).transpose()?;
    let available = state.store.servable_snapshots();
    let mut listed: Vec<_> = available
        .iter()
        .filter_map(|(chain, current)| {
            let gas = asked.or_else(|| *state.transfers.get(chain).lock());
            let order = Order::new(gas.unwrap_or(USUAL_TRANSFER_GAS), Order::TRANSFER_BYTES);
            let (market, fee) = (&current.snapshot.market, state.fees.current(chain));
            let expected = Cost::new(&order, market, None, fee).tiers.medium.expected?;
            let price = state.prices.current(chain);
            let dollars = price.map(|price| price.price.dollars(expected.0));
            let cost = CheapestChain {
                chain: &chain.config().key,
                chain_name: chain.config().name(),
                expected,
                usd: dollars.map(Dollars::rounded),
                stale: current.is_stale(),
                dollars,
            };
            Some((cost, (*chain, current)))
        })
        .collect();
    listed.sort_by_key(|(cost, _)| (cost.dollars.is_none(), cost.dollars, cost.expected.0));
    let (costs, chains): (Vec<_>, Vec<_>) = listed.into_iter().unzip();
    // Chains that are left out do not make the list older.
    Ok(list_response(chains.into_iter(), tagged_json(json_bytes(&costs))))
}
