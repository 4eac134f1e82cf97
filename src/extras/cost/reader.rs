//! Reads the L1 attributes of an OP Stack chain: the first transaction of its newest block.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::hex;
use enum_map::EnumMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::chain_keys::DataFeeKind;
use super::data_fee::{DataFees, L1_BLOCK_TIME};
use super::metrics::AttributesOutcome;
use super::op_stack::Attributes;
use crate::extras::reads::ReadNodes;
use crate::nodes::{ReadError, ServiceReads, parse_hex};
use crate::observe::clock;
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::Counter;
use crate::store::StoredChain;

/// Time until a read is repeated whose values are [kept aside](super::confirmed).
pub(super) const CONFIRM_AFTER: Duration = Duration::from_secs(1);

/// Deadline of a call, over all upstreams.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Type of a deposit, and the contract that takes the attributes (OP Stack specification, "Deposits" and "Predeploys").
const DEPOSIT_TYPE: &str = "0x7e";
pub(super) const L1_BLOCK: &str = "0x4200000000000000000000000000000000000015";

/// The contract of Mantle whose first slot has the token ratio (`rollup_cost.go` of mantle-xyz/op-geth).
const GAS_ORACLE: &str = "0x420000000000000000000000000000000000000F";

/// The members of a transaction that say whether it has the attributes.
#[derive(Deserialize)]
struct FirstTransaction {
    r#type: Option<String>,
    to: Option<String>,
    input: Option<String>,
}

/// Reads the attributes of a chain for ever, from its first data on and while they tell its data fee, once in a block time
/// of Ethereum, because they change with its blocks. Dropping the future ends a pending read.
pub(super) async fn read_attributes(
    chain: StoredChain,
    upstreams: Arc<ReadNodes>,
    fees: DataFees,
    counters: EnumMap<AttributesOutcome, Counter>,
) -> Infallible {
    let key = chain.config().key.as_str();
    let log = LogOnChange::default();
    log.changed_to(Ok(()));
    chain.first_data().await;
    loop {
        fees.wait_for_attributes(&chain).await;
        let started = Instant::now();
        let read_at = clock::now();
        let (outcome, is_soon) = match read(&upstreams).await {
            None => {
                if log.changed_to(Err("failed")) {
                    tracing::info!(chain = key, "cannot read the L1 attributes");
                }
                (AttributesOutcome::Failed, false)
            }
            Some(Some(attributes)) => {
                if log.changed_to(Ok(())) {
                    tracing::info!(chain = key, "the L1 attributes are read again");
                }
                (AttributesOutcome::Ok, fees.record(&chain, Some(attributes), read_at))
            }
            Some(None) => {
                if log.changed_to(Err("unknown")) {
                    let message =
                        "the L1 attributes are not those of a known fork; the data fee is unknown";
                    tracing::warn!(chain = key, "{message}");
                }
                (AttributesOutcome::Unknown, fees.record(&chain, None, read_at))
            }
        };
        counters[outcome].increment();
        let wait = if is_soon { CONFIRM_AFTER } else { L1_BLOCK_TIME };
        tokio::time::sleep_until((started + wait).into()).await;
    }
}

/// Reads the attributes. Returns `None` if no upstream returned them, `Some(None)` if they are not those of a known fork.
async fn read(upstreams: &ReadNodes) -> Option<Option<Attributes>> {
    let method = "eth_getTransactionByBlockNumberAndIndex";
    let transaction = call(upstreams, method, json!(["latest", "0x0"])).await;
    let transaction: FirstTransaction = transaction.ok()??;
    let attributes = transaction.attributes();
    let Some(mantle) = attributes.filter(|read| read.kind() == DataFeeKind::Mantle) else {
        return Some(attributes);
    };
    let slot = json!([GAS_ORACLE, "0x0", "latest"]);
    let token_ratio = call::<String>(upstreams, "eth_getStorageAt", slot).await.ok()??;
    let token_ratio = parse_hex(&token_ratio)?;
    Some(Some(Attributes { token_ratio, ..mantle }))
}

/// Calls a method through the nodes of a chain. Returns its result; `None`: the node refused, or returned something else.
pub(super) async fn call<T: DeserializeOwned>(
    upstreams: &ReadNodes,
    method: &str,
    params: Value,
) -> Result<Option<T>, ReadError> {
    match upstreams.read_for_service(method, params.to_string(), CALL_TIMEOUT).await {
        Ok(result) => Ok(result.and_then(|result| serde_json::from_slice(&result).ok())),
        Err(ReadError::Unsupported) => Ok(None),
        Err(error) => Err(error),
    }
}

impl FirstTransaction {
    /// Returns the attributes; `None`: it has none of a known fork.
    fn attributes(&self) -> Option<Attributes> {
        let is_same = |value: &Option<String>, expected: &str| {
            value.as_ref()?.eq_ignore_ascii_case(expected).then_some(())
        };
        is_same(&self.r#type, DEPOSIT_TYPE)?;
        is_same(&self.to, L1_BLOCK)?;
        Attributes::parse(&hex::decode(self.input.as_ref()?).ok()?)
    }
}
