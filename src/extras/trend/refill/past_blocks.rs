//! Reads of old blocks from the nodes of one chain.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::extras::reads::{Call, ReadNodes};
use crate::fees::FeeHistory;
use crate::nodes::{FeeHistoryRequest, NodeResponse, ReadError, parse_quantity};

/// Deadline of a call, over all upstreams.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// Number of times that a call is made until one succeeds.
const ATTEMPTS: u32 = 8;

/// Longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Reader of old blocks. Its calls are reads: polls come before them, and they are counted in the read budget.
#[derive(Debug)]
pub(crate) struct PastBlocks {
    pub(crate) upstreams: Arc<ReadNodes>,
    pub(crate) request: FeeHistoryRequest,
    /// Wait after a failed call. It doubles with each failure.
    pub(crate) retry_wait: Duration,
    /// Indices of the upstreams that contradicted known blocks. They are not called again.
    pub(crate) rejected: Vec<usize>,
}

/// Reason why old blocks could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefillError {
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("the node does not return the header of its own head")]
    NoHead,
    #[error("the block times differ from the clock of this machine")]
    Clock,
    #[error("the node does not return the fee history of older blocks")]
    NoHistory,
    #[error("the fee history of older blocks contradicts the known blocks")]
    Contradiction,
}

#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    timestamp: &'a RawValue,
}

impl PastBlocks {
    /// Requests the time of a block; `None`: the node does not have it.
    pub(crate) async fn time(&self, number: u64) -> Result<Option<u64>, RefillError> {
        Ok(self.time_with_source(number).await?.map(|(_, time)| time))
    }

    /// Like [`time`](Self::time), after the index of the upstream.
    pub(crate) async fn time_with_source(
        &self,
        number: u64,
    ) -> Result<Option<(usize, u64)>, RefillError> {
        let params = format!("[\"{number:#x}\",false]");
        let Some((upstream, json)) = self.call("eth_getBlockByNumber", params).await? else {
            return Ok(None);
        };
        let header: Option<Header<'_>> = serde_json::from_str(json.get()).unwrap_or_default();
        let time = header.and_then(|header| parse_quantity(header.timestamp.get()).ok());
        Ok(time.and_then(|time| Some((upstream, time.try_into().ok()?))))
    }

    /// Requests the `count` blocks up to `newest`. Returns them after the index of the upstream; `None`: the node refuses,
    /// or returns other blocks. It may return fewer.
    pub(crate) async fn history(
        &self,
        newest: u64,
        count: usize,
    ) -> Result<Option<(usize, FeeHistory)>, RefillError> {
        let request = FeeHistoryRequest {
            block_count: count,
            newest_block: Some(newest),
            ..self.request.clone()
        };
        let reply = match self
            .call("eth_feeHistory", self.upstreams.upstreams.fee_history_params(&request))
            .await
        {
            Err(RefillError::Read(ReadError::TooLarge | ReadError::TimedOut)) => None,
            reply => reply?,
        };
        let parsed = reply.and_then(|(index, json)| Some((index, request.parse(&json).ok()?)));
        Ok(parsed.filter(|(_, history)| history.newest_block() == newest))
    }

    /// Rejects an upstream whose blocks cannot be those of the chain, so that the next one is called.
    ///
    /// # Errors
    ///
    /// Returns [`RefillError::Contradiction`] if there is no other one.
    pub(crate) fn reject(&mut self, upstream: usize, chain: &str) -> Result<(), RefillError> {
        let message = "old blocks of an upstream contradict known ones and are not used";
        tracing::warn!(chain, upstream, "{message}");
        self.rejected.push(upstream);
        let has_other = self.upstreams.for_reads.iter().any(|index| !self.rejected.contains(index));
        has_other.then_some(()).ok_or(RefillError::Contradiction)
    }

    /// Calls a method until there is a response. Returns it after the index of the upstream; `None`: the node's own error.
    async fn call(
        &self,
        method: &str,
        params: String,
    ) -> Result<Option<(usize, Box<RawValue>)>, RefillError> {
        let Ok(params) = RawValue::from_string(params) else { return Ok(None) };
        let call = Call { method, params: &params, is_retryable: true, client: None };
        let mut wait = self.retry_wait;
        let mut attempt = 1;
        loop {
            let deadline = Instant::now() + CALL_TIMEOUT;
            match self.upstreams.read_except(&self.rejected, call, deadline).await {
                Ok((index, NodeResponse::Result(json))) => {
                    return Ok(serde_json::from_slice(&json).ok().map(|json| (index, json)));
                }
                Ok((_, NodeResponse::Error(_))) => return Ok(None),
                Err(error @ (ReadError::Unsupported | ReadError::TooLarge)) => {
                    return Err(error.into());
                }
                // The budget refills by itself.
                Err(ReadError::BudgetExhausted(exhausted)) => {
                    tokio::time::sleep(exhausted.wait.max(wait)).await;
                }
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
