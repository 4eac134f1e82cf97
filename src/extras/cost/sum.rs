//! The sum of all that a transaction pays. Amounts are wei, in JSON as decimal strings.

use serde::Serialize;
use utoipa::ToSchema;

use super::chain_keys::DataFeeKind;
use super::data_fee::{DataFee, DataFeeKindName, DataFeeReason, ReadAttributes};
use super::op_stack::longest_fast_lz;
use crate::fees::{HeldBaseFee, Market, Tiers, Wei};
use crate::observe::clock;

/// Gas of one blob (EIP-4844).
const GAS_PER_BLOB: u128 = 131_072;

/// A transaction, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    /// Gas limit.
    pub(crate) gas: u64,
    /// Size of the signed transaction.
    pub(crate) bytes: u64,
    /// Its FastLZ length, or one that it does not exceed.
    pub(crate) fast_lz: u64,
    /// True if `fast_lz` is exact.
    pub(crate) is_exact: bool,
    /// Wei of the sender.
    pub(crate) balance: Option<u128>,
    pub(crate) blobs: u64,
}

/// Fee for the data of a transaction, in wei.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DataFee)]
pub(crate) struct DataFeeAmounts {
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
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) struct ExpectedAndMax {
    expected: Wei,
    max: Wei,
}

/// Fees of a tier, and what the transaction costs with them in wei.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) struct TierCost {
    max_priority_fee_per_gas: Wei,
    max_fee_per_gas: Wei,
    /// Cost in the next block. `null` without a data fee.
    #[schema(required)]
    pub(crate) expected: Option<Wei>,
    /// Amount that a node demands of the sender's balance besides the value. `null` without a data fee.
    #[schema(required)]
    pub(crate) max: Option<Wei>,
    /// The balance less `max`. `null` without a balance.
    #[schema(required)]
    max_send: Option<Wei>,
}

/// All costs of a transaction.
#[derive(Debug)]
pub(crate) struct Cost {
    /// `None`: not known, or more than 128 bits.
    pub(crate) data_fee: Option<DataFeeAmounts>,
    /// Why the data fee is not known, or too old to send everything by it.
    pub(crate) data_fee_reason: Option<DataFeeReason>,
    /// `None`: there are no blobs, or their fee is not known or exceeds 128 bits.
    pub(crate) blob_fee: Option<ExpectedAndMax>,
    pub(crate) tiers: Tiers<TierCost>,
    /// Base fee that the max fees cover; `None`: that of the tiers.
    pub(crate) held: Option<HeldBaseFee>,
}

impl Order {
    /// Bytes of a signed transfer.
    pub(crate) const TRANSFER_BYTES: u64 = 120;

    /// Creates an order of this gas limit, of which nothing else but the size is known.
    pub(crate) fn new(gas: u64, bytes: u64) -> Self {
        let fast_lz = longest_fast_lz(bytes);
        Self { gas, bytes, fast_lz, is_exact: false, balance: None, blobs: 0 }
    }
}

impl Cost {
    /// Adds up what the transaction pays. Max fees that leave more room than `held` become lower. `data_fee` is that of the
    /// chain.
    pub(crate) fn new(
        order: &Order,
        market: &Market,
        held: Option<HeldBaseFee>,
        data_fee: Result<DataFee, DataFeeReason>,
    ) -> Self {
        let is_old = matches!(data_fee, Ok(DataFee::OpStack(read))
            if clock::elapsed(read.read_at) > ReadAttributes::MAX_AGE_TO_SEND);
        let data_fee =
            data_fee.and_then(|fee| DataFeeAmounts::new(&fee, order).ok_or(DataFeeReason::Unknown));
        let old = is_old.then_some(DataFeeReason::Old);
        let data_fee_reason = data_fee.as_ref().err().copied().or(old);
        let data_fee = data_fee.ok();
        let blob_fee = blob_fee(order.blobs, market.blob_base_fees.map(|fees| fees.next));
        let sum = |price: u128, data_fee: Wei, operator_fee: Wei, blob_fee: Option<Wei>| {
            let sum = u128::from(order.gas).checked_mul(price)?.checked_add(data_fee.0)?;
            let blob_fee = blob_fee.map_or(0, |Wei(fee)| fee);
            sum.checked_add(operator_fee.0)?.checked_add(blob_fee).map(Wei)
        };
        let amounts = data_fee.as_ref().filter(|_| blob_fee.is_some() || order.blobs == 0);
        let tiers = market.suggestion.tiers.map(|tier| {
            let held = held.map(|held| held.with_tip(tier.max_priority_fee_per_gas));
            let lower = held.filter(|held| held.max_fee_per_gas < tier.max_fee_per_gas);
            let tier = lower.unwrap_or(tier);
            let expected = amounts.and_then(|fee| {
                let price = tier.price_at(market.newest_known_base_fee);
                sum(price, fee.fee, fee.operator_fee.expected, blob_fee.map(|fee| fee.expected))
            });
            let max = amounts.and_then(|fee| {
                sum(tier.max_fee_per_gas, fee.max, fee.operator_fee.max, blob_fee.map(|it| it.max))
            });
            let max_send = max.zip(order.balance).filter(|_| !is_old);
            TierCost {
                max_priority_fee_per_gas: Wei(tier.max_priority_fee_per_gas),
                max_fee_per_gas: Wei(tier.max_fee_per_gas),
                expected,
                max,
                max_send: max_send.map(|(max, balance)| Wei(balance.saturating_sub(max.0))),
            }
        });
        Self { data_fee, data_fee_reason, blob_fee, tiers, held }
    }
}

impl DataFeeAmounts {
    /// Returns the fee of a transaction; `None`: it exceeds 128 bits.
    fn new(fee: &DataFee, order: &Order) -> Option<Self> {
        let read = match *fee {
            DataFee::OpStack(read) => read,
            DataFee::Zero { kind, is_exact: exact } => {
                return Some(Self {
                    kind,
                    exact,
                    fee: Wei(0),
                    max: Wei(0),
                    operator_fee: ExpectedAndMax { expected: Wei(0), max: Wei(0) },
                    l1_block: None,
                    observed_at: None,
                });
            }
        };
        let fee = read.attributes.l1_fee(order.fast_lz)?;
        let room = fee.checked_mul(3)?.div_ceil(10);
        let operator_fee = Wei(read.attributes.operator_fee(order.gas)?);
        Some(Self {
            kind: read.attributes.kind(),
            exact: order.is_exact,
            fee: Wei(fee),
            max: Wei(fee.checked_add(room)?),
            operator_fee: ExpectedAndMax { expected: operator_fee, max: operator_fee },
            l1_block: Some(read.attributes.l1_block),
            observed_at: Some(read.observed_at()),
        })
    }
}

/// Returns the fee of so many blobs; `None`: there are none, or the fee is not known or exceeds 128 bits.
fn blob_fee(blobs: u64, next_blob_base_fee: Option<u128>) -> Option<ExpectedAndMax> {
    let gas = u128::from(blobs).checked_mul(GAS_PER_BLOB).filter(|gas| *gas > 0)?;
    let expected = gas.checked_mul(next_blob_base_fee?)?;
    Some(ExpectedAndMax { expected: Wei(expected), max: Wei(expected.checked_mul(2)?) })
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use proptest::prelude::*;

    use super::*;
    use crate::extras::cost::op_stack::{Attributes, Rule};
    use crate::fees::tests::{history_of, market, without_floors};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// A node demands value + gas limit × max fee + data fee + operator fee of the balance (op-geth, `buyGas` and
        /// `TotalTxCost`), with the parameters of the moment. Two full blocks of Ethereum raise them by at most
        /// 1.125² = 1.265625.
        #[test]
        fn a_node_accepts_everything_that_can_be_sent(
            rule in prop_oneof![Just(Rule::Fjord), Just(Rule::Isthmus), Just(Rule::Jovian)],
            scalars in (0_u32..10_000_000, 0_u32..10_000_000),
            l1_fees in (0_u128..1_000_000_000_000, 0_u128..1_000_000_000_000),
            operator in (0_u32..10_000, 0_u64..1_000_000_000_000),
            rise in 0_u128..=265_625,
            gas in 21_000_u64..60_000_000,
            balance in 0_u128..10_u128.pow(21),
            prices in (0_u128..10_u128.pow(12), 0_u128..10_u128.pow(12)),
            bytes in proptest::collection::vec(any::<u8>(), 1..600),
        ) {
            let attributes = Attributes {
                rule,
                base_fee_scalar: scalars.0,
                blob_base_fee_scalar: scalars.1,
                l1_block: 1,
                l1_base_fee: l1_fees.0,
                l1_blob_base_fee: l1_fees.1,
                operator_fee_scalar: operator.0,
                operator_fee_constant: operator.1,
                token_ratio: 1,
            };
            let read_at = Instant::now();
            let read = ReadAttributes { attributes, read_at, read_time: SystemTime::now() };
            let fast_lz = u64::from(op_alloy_flz::flz_compress_len(&bytes));
            let length = u64::try_from(bytes.len()).unwrap();
            let raised = |fee: u128| fee * (1_000_000 + rise) / 1_000_000;
            let later = Attributes {
                l1_base_fee: raised(l1_fees.0),
                l1_blob_base_fee: raised(l1_fees.1),
                ..attributes
            };
            let l1_fee = later.l1_fee(fast_lz).unwrap();
            let operator_fee = later.operator_fee(gas).unwrap();
            let bound = Order { balance: Some(balance), ..Order::new(gas, length) };
            for order in [Order { fast_lz, is_exact: true, ..bound }, bound] {
                let history = history_of(100, &[prices.0; 20], Some([prices.1, 0]));
                let market = market(&history, &without_floors());
                let cost = Cost::new(&order, &market, None, Ok(DataFee::OpStack(read)));
                for tier in cost.tiers.into_array() {
                    let (Wei(max), Wei(value)) = (tier.max.unwrap(), tier.max_send.unwrap());
                    let gas_cost = u128::from(gas) * tier.max_fee_per_gas.0;
                    let demanded = value + gas_cost + l1_fee + operator_fee;
                    prop_assert_eq!(value, balance.saturating_sub(max));
                    prop_assert!(value == 0 || demanded <= balance, "{} > {}", demanded, balance);
                }
            }
        }
    }
}
