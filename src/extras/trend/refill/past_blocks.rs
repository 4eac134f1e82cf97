//! Reads of old blocks from the nodes of one chain. They are reads of the service: polls come before them, and they are
//! counted in the read budget.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{FIRST_BLOCK, HistoryRefill};
use crate::extras::reads::{Call, CallOrigin, NodeResponse};
use crate::extras::trend::observation::DatedBlock;
use crate::fees::plausibility;
use crate::fees::{ChainParameters, FeeHistory};
use crate::nodes::{FeeHistoryRequest, ReadError, parse_quantity};

/// Deadline of a call, over all upstreams.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// Number of times that a call is made until one succeeds.
const ATTEMPTS: u32 = 8;

/// Shortest wait after a failed call. It doubles with each failure.
const MIN_WAIT: Duration = Duration::from_millis(200);

/// Longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_mins(1);

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

impl HistoryRefill {
    /// Requests the `count` blocks up to the known block `above`. Returns them after the first one that has as many blocks
    /// before it as its tip depends on, the `overlap`; `None`: there is no such block, or the node refuses, or returns other
    /// blocks. It may return fewer.
    pub(super) async fn read_below(
        &mut self,
        above: DatedBlock,
        count: usize,
        overlap: usize,
    ) -> Result<Option<(FeeHistory, DatedBlock)>, RefillError> {
        let request = FeeHistoryRequest {
            block_count: count,
            newest_block: Some(above.number),
            ..FeeHistoryRequest::new(&self.pricing)
        };
        let known = (above.number, above.base_fee);
        let newest = self.chain.newest_snapshot();
        let parameters = newest.map(|newest| newest.market.chain_parameters);
        let parameters = parameters.unwrap_or_else(|| ChainParameters::from_pricing(&self.pricing));
        loop {
            let params = self.upstreams.upstreams.fee_history_params(&request);
            let parse = |json: Box<RawValue>| request.parse(&json).ok();
            let read = match self.call("eth_feeHistory", params, parse).await {
                Err(RefillError::Read(ReadError::TooLarge | ReadError::TimedOut)) => None,
                read => read?,
            };
            let read = read.filter(|(_, history)| history.newest_block() == above.number);
            let Some((upstream, history)) = read else { return Ok(None) };
            if !plausibility::is_plausible_past(&history, known, &self.pricing, &parameters) {
                self.reject(upstream)?;
                continue;
            }
            let number = match history.oldest_block() {
                0 => FIRST_BLOCK,
                oldest => oldest.saturating_add(u64::try_from(overlap).unwrap_or(u64::MAX)),
            };
            let block = history.block(number).filter(|_| number < above.number);
            let Some(base_fee) = block.map(|block| block.base_fee) else { return Ok(None) };
            let Some((upstream, time)) = self.time(number).await? else { return Ok(None) };
            if time <= above.time {
                return Ok(Some((history, DatedBlock { number, base_fee, time })));
            }
            self.reject(upstream)?;
        }
    }

    /// Requests the time of a block. Returns it after the index of the upstream; `None`: the node does not have it.
    pub(super) async fn time(&self, number: u64) -> Result<Option<(usize, u64)>, RefillError> {
        let parse = |header: Value| {
            let time = header.get("timestamp")?.to_string();
            parse_quantity(&time).ok()?.try_into().ok()
        };
        self.call("eth_getBlockByNumber", format!("[\"{number:#x}\",false]"), parse).await
    }

    /// Rejects an upstream whose blocks cannot be those of the chain, so that the next one is called.
    ///
    /// # Errors
    ///
    /// Returns [`RefillError::Contradiction`] if there is no other one.
    fn reject(&mut self, upstream: usize) -> Result<(), RefillError> {
        let chain = self.chain.config().key.as_str();
        let message = "old blocks of an upstream contradict known ones and are not used";
        tracing::warn!(chain, upstream, "{message}");
        self.rejected.push(upstream);
        let has_other = self.upstreams.for_reads.iter().any(|index| !self.rejected.contains(index));
        has_other.then_some(()).ok_or(RefillError::Contradiction)
    }

    /// Calls a method until there is a response. Returns what `parse` makes of it after the index of the upstream; `None`:
    /// nothing, or the node's own error.
    async fn call<J: DeserializeOwned, T>(
        &self,
        method: &str,
        params: String,
        parse: impl Fn(J) -> Option<T>,
    ) -> Result<Option<(usize, T)>, RefillError> {
        let Ok(params) = RawValue::from_string(params) else { return Ok(None) };
        let call = Call {
            method,
            params: &params,
            is_retryable: true,
            origin: CallOrigin::Service { can_wait: true },
        };
        let mut wait = MIN_WAIT.max(self.pause);
        let mut attempt = 1;
        loop {
            let deadline = Instant::now() + CALL_TIMEOUT;
            match self.upstreams.read_except(&self.rejected, call, deadline).await {
                Ok((index, NodeResponse::Result(json))) => {
                    let parsed = serde_json::from_slice(&json).ok().and_then(&parse);
                    return Ok(parsed.map(|parsed| (index, parsed)));
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
