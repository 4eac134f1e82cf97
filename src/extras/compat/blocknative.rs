//! Blocknative's block prices and list of chains.

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use super::content::DocumentContent;
use super::documents::{Document, Documents, json};
use super::gwei::GweiNumber;
use super::lenient_query::LenientQuery;
use super::{Format, TAG};
use crate::api::extractors::charge_for_list;
use crate::api::freshness::revalidated_json;
use crate::api::routes::routes;
use crate::config::Chain;
use crate::fees::{SinglePrices, Tier};
use crate::http::client_limits::ClientHandle;
use crate::http::problem::Problem;
use crate::http::query::invalid_parameter;

/// Blocknative's block prices. It demands the share of blocks that would include each price.
pub(crate) const FORMAT: Format = Format {
    others: || {
        OpenApiRouter::new().routes(routes!(blocknative_prices)).routes(routes!(blocknative_chains))
    },
    ..Format::new("blocknative")
};

/// Path of the list of chains.
pub(super) const CHAINS_PATH: &str = "/chains";

pub(super) static PRICES: Document =
    Document { name: "blocknative", render: |content| Some(json(&BlockPrices::new(content)?)) };

/// Prices of the next block.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BlocknativePrices)]
pub(crate) struct BlockPrices<'a> {
    /// The chain's key.
    system: &'a str,
    /// The chain's name.
    network: &'a str,
    /// `gwei`.
    unit: &'static str,
    /// Price of the first level. The service sees no transaction pool.
    max_price: GweiNumber,
    current_block_number: u64,
    /// Milliseconds from the first sight of the newest block to the read that the prices come from. `Age` counts from
    /// there.
    ms_since_last_block: u32,
    /// The next block alone.
    #[serde(rename = "blockPrices")]
    blocks: [BlockPrice; 1],
}

/// Prices of one block.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BlocknativeBlock)]
struct BlockPrice {
    block_number: u64,
    /// Always 0, because the service sees no transaction pool.
    estimated_transaction_count: u32,
    base_fee_per_gas: GweiNumber,
    /// Fees for the next block at 99, 95, 90, 80 and 70 %. Before 200 blocks are known, the high, the medium and the low
    /// tier, in descending order of confidence.
    #[schema(min_items = 3, max_items = 5)]
    estimated_prices: Vec<EstimatedPrice>,
}

/// Fees of one level.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BlocknativeLevel)]
struct EstimatedPrice {
    /// Percentage of cases in which the next block includes the fees. Before 200 blocks are known, the percentage of the
    /// newest blocks, at most 20, at which the fees were enough: a count, at most 99.
    #[schema(minimum = 1, maximum = 99)]
    confidence: usize,
    /// Price per gas for a transaction without a separate tip.
    price: GweiNumber,
    /// The tip.
    max_priority_fee_per_gas: GweiNumber,
    max_fee_per_gas: GweiNumber,
}

impl<'a> BlockPrices<'a> {
    /// Returns the prices; `None`: no block had rewards, so there is nothing to count.
    pub(crate) fn new(content: &DocumentContent<'a>) -> Option<Self> {
        let levels = match &content.next_block {
            Some(fees) => levels(content, fees),
            None => levels_of_tiers(content)?,
        };
        let highest = levels.first()?;
        Some(Self {
            system: &content.chain.key,
            network: content.chain.name(),
            unit: "gwei",
            max_price: highest.price,
            current_block_number: content.newest_block,
            ms_since_last_block: u32::try_from(content.head_age.as_millis()).unwrap_or(u32::MAX),
            blocks: [BlockPrice {
                block_number: content.newest_block.saturating_add(1),
                estimated_transaction_count: 0,
                base_fee_per_gas: GweiNumber(content.next_base_fee()),
                estimated_prices: levels,
            }],
        })
    }
}

/// Returns the levels of the next block, the highest probability first. The price of the highest one holds for as many
/// blocks as that of the high tier.
fn levels(content: &DocumentContent, fees: &[(u8, Tier)]) -> Vec<EstimatedPrice> {
    const LOWEST: u8 = 70;
    const HIGHEST: u8 = 99;
    let next_base_fee = content.next_base_fee();
    let level = |(percent, fees): (u8, Tier)| {
        let tip = fees.max_priority_fee_per_gas;
        let tiers = content.tiers().into_array();
        let tier = tiers.iter().find(|tier| tier.max_priority_fee_per_gas == tip);
        let doubled = next_base_fee.saturating_mul(2).saturating_add(tip);
        let max_fee_per_gas = tier.map_or(doubled, |tier| tier.max_fee_per_gas);
        let fees = Tier { max_priority_fee_per_gas: tip, max_fee_per_gas };
        let SinglePrices { soon, later, .. } = content.prices;
        let bound = if percent == HIGHEST { later } else { soon };
        EstimatedPrice::new(percent.into(), fees, fees.price_at(next_base_fee).max(bound))
    };
    fees.iter().rev().copied().filter(|(percent, _)| *percent >= LOWEST).map(level).collect()
}

/// Returns the tiers, the highest one first; `None`: no block had rewards, so there is nothing to count.
fn levels_of_tiers(content: &DocumentContent) -> Option<Vec<EstimatedPrice>> {
    let level = |(fees, price)| Some(EstimatedPrice::new(content.confidence(fees)?, fees, price));
    let tiers = content.tiers().zip(content.prices.tiers).into_array();
    tiers.into_iter().rev().map(level).collect()
}

impl EstimatedPrice {
    fn new(confidence: usize, fees: Tier, price: u128) -> Self {
        Self {
            confidence,
            price: GweiNumber(price),
            max_priority_fee_per_gas: GweiNumber(fees.max_priority_fee_per_gas),
            max_fee_per_gas: GweiNumber(fees.max_fee_per_gas),
        }
    }
}

/// A chain with block prices.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BlocknativeChain)]
struct SupportedChain<'a> {
    chain_id: u64,
    /// The chain's key.
    system: &'a str,
    /// The chain's name.
    network: &'a str,
}

impl<'a> SupportedChain<'a> {
    fn new(chain: &'a Chain) -> Self {
        Self { chain_id: chain.chain_id, system: &chain.key, network: chain.name() }
    }
}

/// Parameters that Blocknative's clients send. Others are ignored.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct BlocknativeQuery {
    /// The chain's id. Default: the lowest configured one.
    #[param(nullable = false)]
    chainid: Option<String>,
    #[param(ignore)]
    system: Option<String>,
    #[param(ignore)]
    network: Option<String>,
}

/// Prices of the next block in Blocknative's format
///
/// Always the same levels, whatever levels the request names.
#[utoipa::path(
    get,
    path = "/gasprices/blockprices",
    operation_id = "getBlocknativePrices",
    tag = TAG,
    params(BlocknativeQuery),
    responses(
        (status = 200, description = "The prices.", body = BlockPrices,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
async fn blocknative_prices(
    State(documents): State<Documents>,
    LenientQuery(query): LenientQuery<BlocknativeQuery>,
) -> Result<Response, Problem> {
    if query.chainid.is_none() {
        for (name, value) in [("system", query.system), ("network", query.network)] {
            if value.is_some() {
                return Err(invalid_parameter(name, "names no chain here; use `chainid`"));
            }
        }
    }
    documents.respond(documents.chain_or_lowest(query.chainid)?, &PRICES)
}

/// Configured chains in Blocknative's format
#[utoipa::path(
    get,
    path = CHAINS_PATH,
    operation_id = "getBlocknativeChains",
    tag = TAG,
    responses(
        (status = 200, description = "The chains, in ascending order of chain id.",
            body = Vec<SupportedChain>, headers(("ETag"), ("Cache-Control"))),
    )
)]
async fn blocknative_chains(
    State(documents): State<Documents>,
    client: ClientHandle,
) -> Result<Response, Problem> {
    const CHAINS_PER_REQUEST: usize = 32;
    charge_for_list(&client, documents.store.chains().len(), CHAINS_PER_REQUEST)?;
    let chains = documents.store.chains().iter().map(|chain| SupportedChain::new(chain.config()));
    Ok(revalidated_json(&chains.collect::<Vec<_>>()))
}
