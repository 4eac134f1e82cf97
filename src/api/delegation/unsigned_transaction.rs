//! Unsigned transactions in the format of wallets.

use alloy_primitives::{Address, hex};
use serde::Serialize;
use utoipa::ToSchema;

use crate::delegation::PreparedTransaction;
use crate::fees::{PricingType, Suggestion};

/// An unsigned transaction in the format of `eth_sendTransaction`, with quantities in hex.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Transaction)]
pub(in crate::api) struct UnsignedTransaction {
    #[schema(pattern = "^0x[1-9a-f][0-9a-f]*$")]
    chain_id: String,
    /// The vault.
    #[schema(pattern = "^0x[0-9a-fA-F]{40}$")]
    from: String,
    /// The registry.
    #[schema(pattern = "^0x[0-9a-fA-F]{40}$")]
    to: String,
    #[schema(pattern = "^0x([0-9a-f]{2})*$")]
    data: String,
    #[schema(pattern = "^0x0$")]
    value: &'static str,
    /// `0x0` under legacy pricing.
    #[schema(pattern = "^0x[02]$")]
    r#type: &'static str,
    #[schema(pattern = "^0x[1-9a-f][0-9a-f]*$")]
    gas: String,
    #[serde(flatten)]
    fees: TransactionFees,
}

/// Fees of the medium tier.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = TransactionFees)]
enum TransactionFees {
    #[serde(rename_all = "camelCase")]
    Eip1559 {
        #[schema(pattern = "^0x(0|[1-9a-f][0-9a-f]*)$")]
        max_fee_per_gas: String,
        #[schema(pattern = "^0x(0|[1-9a-f][0-9a-f]*)$")]
        max_priority_fee_per_gas: String,
    },
    #[serde(rename_all = "camelCase")]
    Legacy {
        #[schema(pattern = "^0x(0|[1-9a-f][0-9a-f]*)$")]
        gas_price: String,
    },
}

impl UnsignedTransaction {
    /// Builds the transaction that `from` signs on the chain with this id.
    pub(in crate::api) fn new(
        chain_id: u64,
        from: Address,
        prepared: &PreparedTransaction,
        suggestion: &Suggestion,
    ) -> Self {
        let (r#type, fees) = TransactionFees::type_and_fees(suggestion);
        Self {
            chain_id: hex_quantity(chain_id),
            from: from.to_string(),
            to: prepared.registry.to_string(),
            data: hex::encode_prefixed(&prepared.calldata),
            value: "0x0",
            r#type,
            gas: hex_quantity(prepared.gas),
            fees,
        }
    }
}

impl TransactionFees {
    /// Returns the transaction type (EIP-2718) and the fees.
    fn type_and_fees(suggestion: &Suggestion) -> (&'static str, Self) {
        let medium = suggestion.medium;
        let max_fee_per_gas = hex_quantity(medium.max_fee_per_gas);
        match suggestion.pricing_type {
            PricingType::Eip1559 => {
                let max_priority_fee_per_gas = hex_quantity(medium.max_priority_fee_per_gas);
                ("0x2", Self::Eip1559 { max_fee_per_gas, max_priority_fee_per_gas })
            }
            // Under legacy pricing both amounts of a tier are the gas price.
            PricingType::Legacy => ("0x0", Self::Legacy { gas_price: max_fee_per_gas }),
        }
    }
}

fn hex_quantity(number: impl Into<u128>) -> String {
    format!("{:#x}", number.into())
}
