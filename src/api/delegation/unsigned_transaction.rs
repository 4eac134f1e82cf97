//! Unsigned transactions in the format of wallets.

use alloy_primitives::{Address, hex};
use serde::Serialize;
use utoipa::ToSchema;

use crate::delegation::PreparedTransaction;
use crate::fees::{PricingType, Suggestion};

/// An unsigned transaction in the format of `eth_sendTransaction`, with quantities in hex and the fees of the medium
/// tier: either the two fees, or the gas price.
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
    /// Transaction type (EIP-2718): `0x0` under legacy pricing.
    #[schema(pattern = "^0x[02]$")]
    r#type: &'static str,
    #[schema(pattern = "^0x[1-9a-f][0-9a-f]*$")]
    gas: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^0x(0|[1-9a-f][0-9a-f]*)$")]
    max_fee_per_gas: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^0x(0|[1-9a-f][0-9a-f]*)$")]
    max_priority_fee_per_gas: Option<String>,
    /// Under legacy pricing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^0x(0|[1-9a-f][0-9a-f]*)$")]
    gas_price: Option<String>,
}

impl UnsignedTransaction {
    /// Builds the transaction that `from` signs on the chain with this id.
    pub(in crate::api) fn new(
        chain_id: u64,
        from: Address,
        prepared: &PreparedTransaction,
        suggestion: &Suggestion,
    ) -> Self {
        let is_legacy = suggestion.pricing_type == PricingType::Legacy;
        let medium = suggestion.medium;
        // Under legacy pricing both amounts of a tier are the gas price.
        let fee = |is_used: bool, amount: u128| is_used.then(|| hex_quantity(amount));
        Self {
            chain_id: hex_quantity(chain_id),
            from: from.to_string(),
            to: prepared.registry.to_string(),
            data: hex::encode_prefixed(&prepared.calldata),
            value: "0x0",
            r#type: if is_legacy { "0x0" } else { "0x2" },
            gas: hex_quantity(prepared.gas),
            max_fee_per_gas: fee(!is_legacy, medium.max_fee_per_gas),
            max_priority_fee_per_gas: fee(!is_legacy, medium.max_priority_fee_per_gas),
            gas_price: fee(is_legacy, medium.max_fee_per_gas),
        }
    }
}

fn hex_quantity(number: impl Into<u128>) -> String {
    format!("{:#x}", number.into())
}
