//! `GET /v1/{chain}/fee-market` and `GET /v1/fee-markets`.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::freshness::{list_response, rfc3339, snapshot_response, tagged_json};
use super::problems;
use super::render_cache::json_bytes;
use super::routes::MarketMembers;
use crate::api::extractors::{ChainParam, charge_for_list};
use crate::fees::plausibility::Doubt;
use crate::fees::{
    AverageReward, BlobBaseFees, ChainParameters, DenominatorSource, FloorsAboveMarket,
    FloorsApplied, FullBlocksCovered, GasUsedRatios, PricingType, RewardPercentiles, Strategy,
    Tier, Tiers, Trend, Wei, percentile_numbers,
};
use crate::http::client_limits::ClientHandle;
use crate::http::problem::Problem;
use crate::store::wire::SuggestionBody;
use crate::store::{ChainStore, ServableSnapshot, StoredChain, Unavailable};

/// How a suggestion was calculated.
#[derive(Serialize, ToSchema)]
#[schema(as = FeeMarket)]
pub(crate) struct FeeMarketBody<'a> {
    chain_name: &'a str,
    chain_id: u64,
    r#type: PricingType,
    newest_block: u64,
    /// Time at which the data was read from a node.
    #[schema(format = DateTime)]
    observed_at: String,
    /// The same as `X-Stale`.
    stale: bool,
    window: AveragingWindow,
    average_base_fee_per_gas: Wei,
    /// `null` if the node did not return it.
    #[schema(required)]
    next_base_fee_per_gas: Option<Wei>,
    /// One per percentile; `null` if no block had a usable reward.
    average_reward_per_gas: Vec<Option<Wei>>,
    floors_applied: FloorsApplied,
    gas_used_ratio: GasUsedRatios,
    base_fee_trend: Trend,
    suggestion: SuggestionBody<'a>,
    covers_full_blocks: FullBlocksCovered,
    strategy: Strategy,
    /// Symbol of the coin that pays for gas; `null` if it is not configured.
    #[schema(required)]
    currency: Option<&'a str>,
    /// Price per gas of a transaction in the next block: its base fee and the tip, at most the max fee.
    expected_price_per_gas: ExpectedPrices,
    floors_above_market: FloorsAboveMarket,
    chain_parameters: ChainParametersBody,
    /// Reasons to doubt a value of the window, as in `X-Doubt`; empty: there is none.
    doubts: &'a [Doubt],
    /// Base fee per blob gas; `null`: unknown, or the chain has no blobs.
    #[schema(required)]
    blob_base_fee_per_gas: Option<BlobBaseFees>,
    /// Fees for a transaction that can wait. They are not above those of the suggestion's medium tier.
    low: Tier,
    /// Members of extras, which describe them.
    #[serde(flatten)]
    #[schema(ignore)]
    others: Map<String, Value>,
}

/// Expected prices per gas of the tiers, under the base fee of the next block, or of the newest one if that is unknown.
#[derive(Serialize, ToSchema)]
#[schema(as = ExpectedPrices)]
struct ExpectedPrices {
    /// For a transaction that can wait: with a tip that is enough for 80 % of the blocks, or under `network` with the lowest
    /// reward above 0 of the window's blocks.
    low: Wei,
    medium: Wei,
    high: Wei,
}

/// How the chain moves its base fee.
#[derive(Serialize, ToSchema)]
#[schema(as = ChainParameters)]
struct ChainParametersBody {
    /// A full block raises the base fee by 1/n of it; `null` if the source is. An OP Stack chain's own n is its
    /// denominator divided by its elasticity less 1.
    #[schema(required, pattern = "^[1-9][0-9]*$")]
    base_fee_change_denominator: Option<String>,
    /// An empty block lowers the base fee by 1/n of it; `null` if the source is.
    #[schema(required, pattern = "^[1-9][0-9]*$")]
    empty_block_denominator: Option<String>,
    /// Lowest base fee of the chain: that of its headers, else the configured floor, else that of the last blocks; `null` if
    /// none is known.
    #[schema(required)]
    minimum_base_fee: Option<Wei>,
    /// Source of the denominators; `null`: how the chain moves its base fee is not known.
    #[schema(required)]
    source: Option<DenominatorSource>,
    /// Why the source is `null`: the configuration and the headers name no rule, and not one alone explains the last blocks.
    #[schema(required)]
    reason: Option<UnknownRule>,
}

/// Reason for which the denominators are `null`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum UnknownRule {
    /// No source knows them.
    Unknown,
}

/// The blocks that were averaged.
#[derive(Serialize, ToSchema)]
#[schema(as = AveragingWindow)]
struct AveragingWindow {
    oldest_block: u64,
    /// Number of blocks.
    blocks: usize,
    #[schema(value_type = Vec<f64>)]
    reward_percentiles: Vec<serde_json::Number>,
}

/// How the suggestion of one chain was calculated
#[utoipa::path(
    get,
    path = "/v1/{chain}/fee-market",
    operation_id = "getFeeMarket",
    tag = "Gas",
    params(ChainParam),
    responses(
        (status = 200, description = "The fee market.", body = FeeMarketBody,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(crate) async fn get_fee_market(
    State(members): State<MarketMembers>,
    ChainParam(chain): ChainParam,
) -> Result<Response, Problem> {
    let (current, others) = snapshot_with_members(&chain, &members)
        .map_err(|reason| problems::unavailable(&chain, reason))?;
    let body = FeeMarketBody::new(&chain, &current, others);
    Ok(snapshot_response(&chain, &current, tagged_json(json_bytes(&body))))
}

/// How the suggestions of all chains were calculated
///
/// Chains without data that may be served are omitted.
#[utoipa::path(
    get,
    path = "/v1/fee-markets",
    operation_id = "getFeeMarkets",
    tag = "Gas",
    responses(
        (status = 200,
            description = "One fee market for each chain that has a suggestion, in ascending order of chain id.",
            body = Vec<FeeMarketBody>,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Stale"))),
    )
)]
pub(crate) async fn list_fee_markets(
    State(store): State<ChainStore>,
    State(members): State<MarketMembers>,
    client: ClientHandle,
) -> Result<Response, Problem> {
    const CHAINS_PER_REQUEST: usize = 4;
    charge_for_list(&client, store.chains().len(), CHAINS_PER_REQUEST)?;
    let chains = store.chains().iter();
    let available: Vec<_> = chains
        .filter_map(|chain| Some((chain, snapshot_with_members(chain, &members).ok()?)))
        .collect();
    let markets: Vec<_> = available
        .iter()
        .map(|(chain, (current, others))| FeeMarketBody::new(chain, current, others.clone()))
        .collect();
    let listed = available.iter().map(|(chain, (current, _))| (*chain, current));
    Ok(list_response(listed, tagged_json(json_bytes(&markets))))
}

/// Returns the servable snapshot with the members of extras that belong to it.
pub(crate) fn snapshot_with_members(
    chain: &StoredChain,
    members: &MarketMembers,
) -> Result<(ServableSnapshot, Map<String, Value>), Unavailable> {
    chain.read_together(|_| {
        let current = chain.servable_snapshot()?;
        let others = members.for_snapshot(chain, &current);
        Ok((current, others))
    })
}

impl<'a> FeeMarketBody<'a> {
    pub(crate) fn new(
        chain: &'a StoredChain,
        current: &'a ServableSnapshot,
        others: Map<String, Value>,
    ) -> Self {
        let config = chain.config();
        let snapshot = &current.snapshot;
        let market = &snapshot.market;
        let percentiles = config.pricing.percentiles();
        let Tiers { low, medium, high } =
            market.suggestion.tiers.map(|tier| Wei(tier.price_at(market.newest_known_base_fee)));
        Self {
            chain_name: config.name(),
            chain_id: config.chain_id,
            r#type: market.suggestion.pricing_type,
            newest_block: snapshot.newest_block,
            observed_at: rfc3339(snapshot.observed_time),
            stale: current.is_stale(),
            window: AveragingWindow {
                oldest_block: snapshot.oldest_block,
                blocks: snapshot.block_count,
                reward_percentiles: percentile_numbers(percentiles.iter()),
            },
            average_base_fee_per_gas: Wei(market.average_base_fee),
            next_base_fee_per_gas: market.next_base_fee.map(Wei),
            average_reward_per_gas: per_percentile(market.average_reward, percentiles),
            floors_applied: market.floors_applied,
            gas_used_ratio: market.gas_used_ratio,
            base_fee_trend: market.base_fee_trend,
            suggestion: SuggestionBody::new(config.name(), &market.suggestion),
            covers_full_blocks: market.covers_full_blocks,
            strategy: market.strategy,
            currency: config.currency.as_deref(),
            expected_price_per_gas: ExpectedPrices { low, medium, high },
            floors_above_market: market.floors_above_market,
            chain_parameters: (&market.chain_parameters).into(),
            doubts: &snapshot.doubts,
            blob_base_fee_per_gas: market.blob_base_fees,
            low: market.suggestion.tiers.low,
            others,
        }
    }
}

impl From<&ChainParameters> for ChainParametersBody {
    fn from(parameters: &ChainParameters) -> Self {
        let denominators = parameters.denominators;
        Self {
            base_fee_change_denominator: denominators.map(|both| both.full_block.to_string()),
            empty_block_denominator: denominators.map(|both| both.empty_block.to_string()),
            minimum_base_fee: parameters.minimum_base_fee.map(Wei),
            source: denominators.map(|both| both.source),
            reason: denominators.is_none().then_some(UnknownRule::Unknown),
        }
    }
}

/// Returns one entry per percentile; `None` if no block had a usable reward.
fn per_percentile(
    average: Option<AverageReward>,
    percentiles: RewardPercentiles,
) -> Vec<Option<Wei>> {
    let medium_reward = average.map(|rewards| Wei(rewards.medium));
    let high_reward = average.and_then(|rewards| rewards.high).map(Wei);
    if percentiles.has_high() { vec![medium_reward, high_reward] } else { vec![medium_reward] }
}
