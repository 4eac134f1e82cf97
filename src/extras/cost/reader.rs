//! Reads the L1 attributes of an OP Stack chain: the first transaction of its newest block.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::hex;
use enum_map::EnumMap;
use serde::Deserialize;

use super::data_fee::{DataFees, L1_BLOCK_TIME};
use super::metrics::AttributesOutcome;
use super::op_stack::Attributes;
use crate::extras::reads::ReadNodes;
use crate::nodes::ServiceReads;
use crate::observe::clock;
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::Counter;
use crate::store::StoredChain;

/// Time until a read is repeated whose values are [kept aside](super::confirmed).
pub(super) const CONFIRM_AFTER: Duration = Duration::from_secs(1);

/// Deadline of a read, over all upstreams.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Type of a deposit, and the contract that takes the attributes (OP Stack specification, "Deposits" and "Predeploys").
const DEPOSIT_TYPE: &str = "0x7e";
const L1_BLOCK: &str = "0x4200000000000000000000000000000000000015";

/// The members of a transaction that say whether it has the attributes.
#[derive(Deserialize)]
struct FirstTransaction {
    r#type: Option<String>,
    to: Option<String>,
    input: Option<String>,
}

/// Reads the attributes of a chain for ever, from its first data on, once in a block time of Ethereum, because they change
/// with its blocks. Dropping the future ends a pending read.
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
        let started = Instant::now();
        let read_at = clock::now();
        let transaction = first_transaction(&upstreams).await;
        let (outcome, is_soon) = match transaction.as_ref().map(FirstTransaction::attributes) {
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

/// Requests the first transaction of the newest block; `None`: no upstream returned one.
async fn first_transaction(upstreams: &ReadNodes) -> Option<FirstTransaction> {
    let method = "eth_getTransactionByBlockNumberAndIndex";
    let params = "[\"latest\",\"0x0\"]".to_owned();
    let read = upstreams.read_for_service(method, params, READ_TIMEOUT).await;
    serde_json::from_slice(&read.ok()??).ok()
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
