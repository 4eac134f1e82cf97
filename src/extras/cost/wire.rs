//! JSON form of costs. Amounts are wei as decimal strings.

use serde::Serialize;
use utoipa::ToSchema;

use super::data_fee::{DataFeeParameters, DataFeeReason};
use super::dollars::CoinPrice;
use super::routes::CostState;
use super::sum::{Cost, DataFeeAmounts, ExpectedAndMax, Order, TierCost};
use super::usd_feed::UsdPerCoin;
use crate::fees::{Tiers, Wei};
use crate::store::{ServableSnapshot, StoredChain};

/// Cost of a transaction in all.
#[derive(Serialize, ToSchema)]
#[schema(as = Cost)]
pub(super) struct CostBody<'a> {
    chain_name: &'a str,
    chain_id: u64,
    /// Symbol of the coin that pays; `null` if it is not configured.
    #[schema(required)]
    currency: Option<&'a str>,
    newest_block: u64,
    /// Gas limit.
    gas: Wei,
    /// Size of the signed transaction.
    bytes: u64,
    /// Fee that the transaction pays beside its gas; `null`: unknown, see `data_fee_reason`.
    #[schema(required)]
    data_fee: Option<DataFeeAmounts>,
    /// `null` without blobs.
    #[schema(required)]
    blob_fee: Option<ExpectedAndMax>,
    /// Time in seconds for which the max fees cover the base fee with the probability. Absent without `hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hold_seconds: Option<u64>,
    /// Number of past rises of the base fee over that time. Absent without `hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    estimated_from: Option<usize>,
    tiers: CostTiers,
    /// Why `data_fee` is `null`; `old` beside a fee: `max_send` is `null`, because the parameters are more than 60 s old.
    #[schema(required)]
    data_fee_reason: Option<DataFeeReason>,
    /// The costs in dollars; `null`: the price of the coin or the data fee is not known.
    #[schema(required)]
    usd: Option<UsdCosts>,
}

/// Members of the fee market.
#[derive(Serialize, ToSchema)]
#[schema(as = FeeMarket)]
pub(super) struct MarketMembers {
    /// Fee that a transaction pays beside its gas; `null`: unknown, see `data_fee_reason`.
    #[schema(required)]
    data_fee: Option<DataFeeParameters>,
    /// Why `data_fee` is `null`.
    #[schema(required)]
    data_fee_reason: Option<DataFeeReason>,
    /// Price of the chain's coin in dollars; `null`: there is no feed, or its answer is too old.
    #[schema(required)]
    usd_per_coin: Option<UsdPerCoin>,
    /// Gas of a transfer, as the node estimates it; `null`: there is no estimate, and 21,000 is usual.
    #[schema(required)]
    transfer_gas: Option<Wei>,
}

/// Costs with the fees of each tier.
#[derive(Serialize, ToSchema)]
struct CostTiers {
    low: TierCost,
    medium: TierCost,
    high: TierCost,
}

/// Costs of each tier in dollars.
#[derive(Serialize, ToSchema)]
struct UsdCosts {
    low: UsdCost,
    medium: UsdCost,
    high: UsdCost,
}

/// Amounts in dollars: decimal numbers with at most four significant digits.
#[derive(Serialize, ToSchema)]
#[schema(as = UsdCost)]
struct UsdCost {
    #[schema(pattern = r"^[0-9]+(\.[0-9]+)?$")]
    expected: String,
    #[schema(pattern = r"^[0-9]+(\.[0-9]+)?$")]
    max: String,
}

impl<'a> CostBody<'a> {
    pub(super) fn new(
        chain: &'a StoredChain,
        current: &ServableSnapshot,
        order: &Order,
        cost: Cost,
        price: Option<CoinPrice>,
    ) -> Self {
        let config = chain.config();
        let Tiers { low, medium, high } = cost.tiers;
        Self {
            chain_name: config.name(),
            chain_id: config.chain_id,
            currency: config.currency.as_deref(),
            newest_block: current.snapshot.newest_block,
            gas: Wei(order.gas.into()),
            bytes: order.bytes,
            data_fee: cost.data_fee,
            blob_fee: cost.blob_fee,
            hold_seconds: cost.held.map(|held| held.time.as_secs()),
            estimated_from: cost.held.map(|held| held.rises),
            tiers: CostTiers { low, medium, high },
            data_fee_reason: cost.data_fee_reason,
            usd: price.and_then(|price| UsdCosts::new(&cost.tiers, price)),
        }
    }
}

impl MarketMembers {
    pub(super) fn new(chain: &StoredChain, state: &CostState) -> Self {
        let fee = state.fees.current(chain);
        let transfer_gas = *state.transfers.get(chain).lock();
        Self {
            data_fee: fee.as_ref().ok().map(DataFeeParameters::new),
            data_fee_reason: fee.err(),
            usd_per_coin: state.prices.current(chain).as_ref().map(UsdPerCoin::new),
            transfer_gas: transfer_gas.map(|gas| Wei(gas.into())),
        }
    }
}

impl UsdCosts {
    /// Converts the costs. `None`: one of them is not known.
    fn new(tiers: &Tiers<TierCost>, price: CoinPrice) -> Option<Self> {
        let Tiers { low, medium, high } = tiers.try_map(|tier| {
            let expected = price.dollars(tier.expected?.0).rounded();
            Some(UsdCost { expected, max: price.dollars(tier.max?.0).rounded() })
        })?;
        Some(Self { low, medium, high })
    }
}
