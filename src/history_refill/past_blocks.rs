//! Reads of old blocks from the nodes of one chain.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fees::FeeHistory;
use crate::memory_budget::MemoryBudget;
use crate::upstream::{
    Call, ChainUpstreams, FeeHistoryRequest, NodeResponse, ReadError, parse_quantity,
};

/// Deadline of a call, over all upstreams.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// Number of times that a call is made until one succeeds.
const ATTEMPTS: u32 = 8;

/// Longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Reader of old blocks. Its calls are reads: polls come before them, and they are counted in the read budget.
#[derive(Debug)]
pub(super) struct PastBlocks {
    pub(super) upstreams: Arc<ChainUpstreams>,
    /// Replies are charged to it.
    pub(super) memory: MemoryBudget,
    pub(super) request: FeeHistoryRequest,
    /// Wait after a failed call. It doubles with each failure.
    pub(super) retry_wait: Duration,
}

/// A mined block and its time in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DatedBlock {
    pub(super) number: u64,
    pub(super) time: u64,
}

/// Reason why old blocks could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum RefillError {
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("the node does not return the header of its own head")]
    NoHead,
    #[error("the block times differ from the clock of this machine")]
    Clock,
    #[error("the node does not return the fee history of older blocks")]
    NoHistory,
}

#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    timestamp: &'a RawValue,
}

impl PastBlocks {
    /// Requests the time of a block; `None`: the node does not have it.
    pub(super) async fn time(&self, number: u64) -> Result<Option<u64>, RefillError> {
        let params = format!("[\"{number:#x}\",false]");
        let Some(json) = self.call("eth_getBlockByNumber", params).await? else { return Ok(None) };
        let header: Option<Header<'_>> = serde_json::from_str(json.get()).unwrap_or_default();
        Ok(header.and_then(|header| parse_quantity(header.timestamp.get()).ok()?.try_into().ok()))
    }

    /// Requests the `count` blocks up to `newest`; `None`: the node refuses, or returns other blocks. It may return fewer.
    pub(super) async fn history(
        &self,
        newest: u64,
        count: usize,
    ) -> Result<Option<FeeHistory>, RefillError> {
        let request = self.request.up_to(newest, count);
        let json =
            match self.call("eth_feeHistory", self.upstreams.fee_history_params(&request)).await {
                Err(RefillError::Read(ReadError::TooLarge | ReadError::TimedOut)) => None,
                reply => reply?,
            };
        let history = json.and_then(|json| request.parse(&json).ok());
        Ok(history.filter(|history| history.newest_block() == newest))
    }

    /// Finds the first block that is not before the second `time`, at or below `head`. A block that the node does not
    /// have counts as older.
    pub(super) async fn first_from(
        &self,
        time: u64,
        head: DatedBlock,
        block_time: Duration,
    ) -> Result<DatedBlock, RefillError> {
        let mut last = head;
        let mut step = head.time.saturating_sub(time).saturating_mul(1000);
        step = step.checked_div(u64::try_from(block_time.as_millis()).unwrap_or(1)).unwrap_or(0);
        // Blocks below this one are older than `time`.
        let mut low = loop {
            let number = last.number.saturating_sub(step.max(1));
            match self.time(number).await? {
                Some(found) if found >= time => last = DatedBlock { number, time: found },
                _ => break number.saturating_add(1),
            }
            if number == 0 {
                break 0;
            }
            step = step.saturating_mul(2);
        };
        while low < last.number {
            let number = low + (last.number - low) / 2;
            match self.time(number).await? {
                Some(found) if found >= time => last = DatedBlock { number, time: found },
                _ => low = number + 1,
            }
        }
        Ok(last)
    }

    /// Finds the first block from `first` to `head` whose fee history the node returns with the `before` blocks before
    /// it; `None`: it returns none.
    pub(super) async fn first_with_history(
        &self,
        first: u64,
        head: u64,
        before: usize,
    ) -> Result<Option<u64>, RefillError> {
        let (mut low, mut known) = (first, None);
        let mut probe = first;
        loop {
            let history = self.history(probe, before.saturating_add(1)).await?;
            let has_all = |history: FeeHistory| {
                history.oldest_block() == 0 || history.blocks().len() > before
            };
            if history.is_some_and(has_all) {
                known = Some(probe);
            } else {
                low = probe + 1;
            }
            let high = known.unwrap_or(head);
            if low >= high {
                return Ok(known);
            }
            probe = low + (high - low) / 2;
        }
    }

    /// Calls a method until there is a response. Returns `None` for the node's own error.
    async fn call(
        &self,
        method: &str,
        params: String,
    ) -> Result<Option<Box<RawValue>>, RefillError> {
        let Ok(params) = RawValue::from_string(params) else { return Ok(None) };
        let call = Call { method, params: &params, is_retryable: true };
        let mut wait = self.retry_wait;
        let mut attempt = 1;
        loop {
            let deadline = Instant::now() + CALL_TIMEOUT;
            match self.upstreams.read(call, deadline, &self.memory).await {
                Ok(NodeResponse::Result(json)) => return Ok(serde_json::from_slice(&json).ok()),
                Ok(NodeResponse::Error(_)) => return Ok(None),
                Err(error @ (ReadError::Unsupported | ReadError::TooLarge)) => {
                    return Err(error.into());
                }
                // The budget refills by itself.
                Err(ReadError::BudgetExhausted(left)) => tokio::time::sleep(left.max(wait)).await,
                Err(error) if attempt == ATTEMPTS => return Err(error.into()),
                Err(_) => {
                    attempt += 1;
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(MAX_WAIT);
                }
            }
        }
    }
}
