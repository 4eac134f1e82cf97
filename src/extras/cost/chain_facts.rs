//! Facts about costs that a chain itself tells: how it charges for data, and the gas of a transfer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::hex;
use serde_json::json;
use tokio::time::Instant;

use super::chain_keys::DataFeeKind;
use super::reader::{L1_BLOCK, call};
use super::routes::{CostState, MAX_GAS};
use crate::extras::reads::ReadNodes;
use crate::nodes::{ReadError, parse_hex};
use crate::store::StoredChain;

/// Time between two reads.
const INTERVAL: Duration = Duration::from_hours(1);

/// Time until a read is repeated to which no node replied.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// Contracts whose code tells how a chain charges for data: `L1Block` of the OP Stack, and `ArbSys` of Arbitrum.
const CONTRACTS: [(&str, DataFeeKind); 2] = [
    (L1_BLOCK, DataFeeKind::OpStack),
    ("0x0000000000000000000000000000000000000064", DataFeeKind::Included),
];

/// An account without code, on every chain.
const RECIPIENT: &str = "0x000000000000000000000000000000000000dEaD";

/// Reader of a chain's facts.
#[derive(Debug)]
pub(super) struct FactsReader {
    pub(super) chain: StoredChain,
    pub(super) upstreams: Arc<ReadNodes>,
    pub(super) state: CostState,
    /// True if neither the configuration nor a preset says how the chain charges for data.
    pub(super) reads_kind: bool,
}

impl FactsReader {
    /// Reads for ever, from the chain's first data on. Dropping the future ends a pending call.
    pub(super) async fn run(self) -> Infallible {
        self.chain.first_data().await;
        loop {
            let started = Instant::now();
            let wait = if self.read().await.is_ok() { INTERVAL } else { RETRY_AFTER };
            tokio::time::sleep_until(started + wait).await;
        }
    }

    /// Reads all facts. What the node does not tell keeps its value.
    async fn read(&self) -> Result<(), ReadError> {
        if self.reads_kind
            && let Some(kind) = self.data_fee().await?
            && self.state.fees.record_kind(&self.chain, kind)
        {
            let (chain, data_fee): (_, &str) = (self.chain.config().key.as_str(), kind.into());
            tracing::info!(chain, data_fee, "the chain's code tells its data fee");
        }
        let gas = self.transfer_gas().await?;
        if gas.is_some() {
            *self.state.transfers.get(&self.chain).lock() = gas;
        }
        Ok(())
    }

    /// Returns how the chain charges for data; `None`: its code does not tell.
    async fn data_fee(&self) -> Result<Option<DataFeeKind>, ReadError> {
        for (address, kind) in CONTRACTS {
            let params = json!([address, "latest"]);
            let code: Option<String> = call(&self.upstreams, "eth_getCode", params).await?;
            let code = code.and_then(|code| hex::decode(code).ok());
            if code.is_some_and(|code| !code.is_empty()) {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }

    /// Returns the gas of a transfer by an account that has a balance: the one that got the fees of a block.
    async fn transfer_gas(&self) -> Result<Option<u64>, ReadError> {
        let snapshot = self.chain.servable_snapshot().ok();
        let header = snapshot.and_then(|current| current.snapshot.block.told_header);
        // Without a sender, nodes take the zero address.
        let sender = header.and_then(|header| header.fee_recipient).unwrap_or_default();
        let transfer = json!({ "from": format!("{sender:#x}"), "to": RECIPIENT, "value": "0x1" });
        let params = json!([transfer]);
        let gas: Option<String> = call(&self.upstreams, "eth_estimateGas", params).await?;
        Ok(gas.and_then(|gas| parse_hex(&gas)).filter(|gas| (1..=MAX_GAS).contains(gas)))
    }
}
