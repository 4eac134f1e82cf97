//! JSON form of costs. Amounts are wei as decimal strings.

use serde::Serialize;
use utoipa::ToSchema;

use super::chain_keys::DataFeeKind;
use super::data_fee::{DataFeeKindName, DataFeeReason, ReadAttributes};
use super::dollars::CoinPrice;
use super::sum::{Cost, DataFeeAmounts, Order, TierCost};
use super::usd_feed::UsdPrice;
use crate::fees::Tiers;
use crate::fees::Wei;
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
    data_fee: Option<DataFeeBody>,
    /// `null` without blobs.
    #[schema(required)]
    blob_fee: Option<ExpectedAndMax>,
    tiers: CostTiers,
    /// Why `data_fee` is `null`; `old` beside a fee: `max_send` is `null`, because the parameters are more than 60 s old.
    #[schema(required)]
    data_fee_reason: Option<DataFeeReason>,
    /// The costs in dollars; `null`: the price of the coin or the data fee is not known.
    #[schema(required)]
    usd: Option<UsdCosts>,
}

/// Fee for the data of a transaction, in wei.
#[derive(Serialize, ToSchema)]
#[schema(as = DataFee)]
struct DataFeeBody {
    #[schema(value_type = DataFeeKindName)]
    kind: DataFeeKind,
    /// False: a bound that the exact fee never exceeds; with `included`, the tip that a transaction needs grows with its
    /// data.
    exact: bool,
    fee: Wei,
    /// With room for two full blocks of the chain below.
    max: Wei,
    operator_fee: ExpectedAndMax,
    /// Block of the chain below that the parameters come from.
    #[schema(required)]
    l1_block: Option<u64>,
    /// Time at which they were read.
    #[schema(required, format = DateTime)]
    observed_at: Option<String>,
}

/// Amounts in wei.
#[derive(Serialize, ToSchema)]
struct ExpectedAndMax {
    expected: Wei,
    max: Wei,
}

/// Costs with the fees of each tier.
#[derive(Serialize, ToSchema)]
struct CostTiers {
    low: TierCostBody,
    medium: TierCostBody,
    high: TierCostBody,
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

/// Fees of a tier, and what the transaction costs with them in wei.
#[derive(Serialize, ToSchema)]
#[schema(as = TierCost)]
struct TierCostBody {
    max_priority_fee_per_gas: Wei,
    max_fee_per_gas: Wei,
    /// Cost in the next block. `null` without a data fee.
    #[schema(required)]
    expected: Option<Wei>,
    /// Amount that a node demands of the sender's balance besides the value. `null` without a data fee.
    #[schema(required)]
    max: Option<Wei>,
    /// The balance less `max`. `null` without a balance.
    #[schema(required)]
    max_send: Option<Wei>,
}

impl<'a> CostBody<'a> {
    pub(super) fn new(
        chain: &'a StoredChain,
        current: &ServableSnapshot,
        order: &Order,
        cost: &Cost,
        price: Option<&UsdPrice>,
    ) -> Self {
        let config = chain.config();
        let old = cost.is_data_fee_old.then_some(DataFeeReason::Old);
        let Tiers { low, medium, high } = cost.tiers.map(TierCostBody::from);
        Self {
            chain_name: config.name(),
            chain_id: config.chain_id,
            currency: config.currency.as_deref(),
            newest_block: current.snapshot.newest_block,
            gas: Wei(order.gas.into()),
            bytes: order.size.bytes(),
            data_fee: cost.data_fee.as_ref().ok().map(DataFeeBody::new),
            blob_fee: cost.blob_fee.map(|fee| ExpectedAndMax::new(fee.expected, fee.max)),
            tiers: CostTiers { low, medium, high },
            data_fee_reason: cost.data_fee.err().or(old),
            usd: price.and_then(|price| UsdCosts::new(&cost.tiers, price.price)),
        }
    }
}

impl UsdCosts {
    /// Converts the costs. `None`: one of them is not known.
    fn new(tiers: &Tiers<TierCost>, price: CoinPrice) -> Option<Self> {
        let Tiers { low, medium, high } = tiers.try_map(|tier| {
            let expected = price.dollars(tier.expected?).rounded();
            Some(UsdCost { expected, max: price.dollars(tier.max?).rounded() })
        })?;
        Some(Self { low, medium, high })
    }
}

impl DataFeeBody {
    fn new(fee: &DataFeeAmounts) -> Self {
        Self {
            kind: fee.kind,
            exact: fee.is_exact,
            fee: Wei(fee.fee),
            max: Wei(fee.max),
            operator_fee: ExpectedAndMax::new(fee.operator_fee, fee.operator_fee),
            l1_block: fee.read.map(|read| read.attributes.l1_block),
            observed_at: fee.read.as_ref().map(ReadAttributes::observed_at),
        }
    }
}

impl ExpectedAndMax {
    fn new(expected: u128, max: u128) -> Self {
        Self { expected: Wei(expected), max: Wei(max) }
    }
}

impl From<TierCost> for TierCostBody {
    fn from(cost: TierCost) -> Self {
        Self {
            max_priority_fee_per_gas: Wei(cost.tier.max_priority_fee_per_gas),
            max_fee_per_gas: Wei(cost.tier.max_fee_per_gas),
            expected: cost.expected.map(Wei),
            max: cost.max.map(Wei),
            max_send: cost.max_send.map(Wei),
        }
    }
}
