//! Unsigned transactions in the format of wallets.

use alloy_primitives::{Address, hex};
use serde::Serialize;
use utoipa::ToSchema;

use crate::extras::delegation::PreparedTransaction;
use crate::fees::{PricingType, Suggestion};

/// An unsigned transaction in the format of `eth_sendTransaction`, with quantities in hex.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Transaction)]
pub(crate) enum UnsignedTransaction {
    Eip1559(Eip1559Transaction),
    Legacy(LegacyTransaction),
}

/// A transaction with the fees of the medium tier.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Eip1559Transaction)]
pub(crate) struct Eip1559Transaction {
    #[serde(flatten)]
    call: ContractCall,
    #[schema(pattern = "^0x(0|[1-9a-f][0-9a-f]*)$")]
    max_fee_per_gas: String,
    #[schema(pattern = "^0x(0|[1-9a-f][0-9a-f]*)$")]
    max_priority_fee_per_gas: String,
}

/// A transaction with the gas price of the medium tier.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LegacyTransaction)]
pub(crate) struct LegacyTransaction {
    #[serde(flatten)]
    call: ContractCall,
    #[schema(pattern = "^0x(0|[1-9a-f][0-9a-f]*)$")]
    gas_price: String,
}

/// A transaction without its fees.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ContractCall)]
struct ContractCall {
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
    /// Transaction type (EIP-2718): `0x0` under legacy pricing.
    #[schema(pattern = "^0x[02]$")]
    r#type: &'static str,
    #[schema(pattern = "^0x[1-9a-f][0-9a-f]*$")]
    gas: String,
}

impl UnsignedTransaction {
    /// Builds the transaction that `from` signs on the chain with this id.
    pub(crate) fn new(
        chain_id: u64,
        from: Address,
        prepared: &PreparedTransaction,
        suggestion: &Suggestion,
    ) -> Self {
        let call = |r#type| ContractCall {
            chain_id: hex_quantity(chain_id),
            from: from.to_string(),
            to: prepared.registry.to_string(),
            data: hex::encode_prefixed(&prepared.calldata),
            value: "0x0",
            r#type,
            gas: hex_quantity(prepared.gas),
        };
        let medium = suggestion.tiers.medium;
        let max_fee_per_gas = hex_quantity(medium.max_fee_per_gas);
        match suggestion.pricing_type {
            PricingType::Eip1559 => Self::Eip1559(Eip1559Transaction {
                call: call("0x2"),
                max_fee_per_gas,
                max_priority_fee_per_gas: hex_quantity(medium.max_priority_fee_per_gas),
            }),
            // Under legacy pricing both amounts of a tier are the gas price.
            PricingType::Legacy => {
                Self::Legacy(LegacyTransaction { call: call("0x0"), gas_price: max_fee_per_gas })
            }
        }
    }
}

fn hex_quantity(number: impl Into<u128>) -> String {
    format!("{:#x}", number.into())
}
