//! Reads the newest blocks of a chain from one node, in several calls if needed.

use std::fmt;

use serde_json::{Value, json};

use super::estimators::Estimator;
use super::fee_history::{self, FeeHistoryPart};
use super::measures::REALISED_PERCENTILE;
use super::recording::Recording;
use super::recording_error::RecordingError;
use crate::config::{Upstream, UpstreamUrl};
use crate::fees::percentile_numbers;
use crate::nodes::{Error, StatelessNodeClient};

/// Maximum number of blocks: about a day and a half with a block every two seconds.
pub const MAX_BLOCKS: usize = 65_536;

/// Limit of blocks per call at most nodes.
const BLOCKS_PER_CALL: usize = 1024;

/// Maximum number of calls, for a node that returns few blocks per call.
const MAX_CALLS: usize = 256;

/// Reason why a node's blocks cannot be read. Its text never contains the node's URL.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client")]
    Http(#[source] reqwest::Error),
    /// A call failed.
    #[error("eth_feeHistory of {0} failed")]
    Call(RequestedBlocks, #[source] Error),
    /// The response is not a fee history.
    #[error("the response to eth_feeHistory of {0} is unusable")]
    InvalidReply(RequestedBlocks, #[source] RecordingError),
    /// The reply contains no blocks, or other blocks than requested.
    #[error("eth_feeHistory of {0} returned other blocks")]
    UnexpectedBlocks(RequestedBlocks),
    /// The node returns too few blocks per call.
    #[error(
        "{MAX_CALLS} calls of eth_feeHistory returned only {0} blocks; request fewer with --blocks"
    )]
    TooManyCalls(usize),
}

/// Range of one call.
#[derive(Debug, Clone, Copy)]
pub struct RequestedBlocks {
    count: usize,
    /// `None`: the newest.
    newest: Option<u64>,
}

impl fmt::Display for RequestedBlocks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.newest {
            Some(newest) => write!(out, "{} blocks up to {newest}", self.count),
            None => write!(out, "the newest {} blocks", self.count),
        }
    }
}

/// Returns the percentiles that `estimators` and the measures need, in ascending order.
fn needed_percentiles(estimators: &[Estimator], landing_percentile: f64) -> Vec<f64> {
    let needed = estimators.iter().flat_map(|estimator| estimator.percentiles.iter().copied());
    let mut all: Vec<_> = needed.chain([landing_percentile, REALISED_PERCENTILE]).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// Reads the node's newest `count` blocks with all needed percentiles, or fewer if the chain has fewer. Calls `advance`
/// with the number of blocks that each call added.
///
/// # Errors
///
/// Returns [`FetchError`]; never a part of the blocks.
pub async fn fetch_recording(
    url: UpstreamUrl,
    upstream: &Upstream,
    count: usize,
    estimators: &[Estimator],
    landing_percentile: f64,
    mut advance: impl FnMut(usize),
) -> Result<Recording, FetchError> {
    let node = StatelessNodeClient::new(url, upstream).map_err(FetchError::Http)?;
    let percentiles = needed_percentiles(estimators, landing_percentile);
    let mut client = NodeClient { node, percentiles, sends_integer_count: false };
    // Newest part first.
    let mut parts: Vec<FeeHistoryPart> = Vec::new();
    let (mut missing, mut newest, mut calls) = (count, None, 0_usize);
    while missing > 0 {
        if calls >= MAX_CALLS {
            return Err(FetchError::TooManyCalls(count.saturating_sub(missing)));
        }
        calls = calls.saturating_add(1);
        let requested = RequestedBlocks { count: missing.min(BLOCKS_PER_CALL), newest };
        let mut part = client.fetch_part(requested).await?;
        let surplus = part.blocks.len().saturating_sub(requested.count);
        part.blocks.drain(..surplus);
        let oldest = part.oldest_block.saturating_add(u64::try_from(surplus).unwrap_or(u64::MAX));
        part.oldest_block = oldest;
        let after = oldest.checked_add(u64::try_from(part.blocks.len()).unwrap_or(u64::MAX));
        let is_contiguous = newest.is_none_or(|newest| after == u64::checked_add(newest, 1));
        if !is_contiguous || part.blocks.is_empty() {
            return Err(FetchError::UnexpectedBlocks(requested));
        }
        missing = missing.saturating_sub(part.blocks.len());
        advance(part.blocks.len());
        parts.push(part);
        match oldest.checked_sub(1) {
            Some(before) => newest = Some(before),
            None => break,
        }
    }
    Ok(client.into_recording(parts))
}

struct NodeClient {
    node: StatelessNodeClient,
    percentiles: Vec<f64>,
    /// A few nodes accept the block count only as a JSON integer.
    sends_integer_count: bool,
}

impl NodeClient {
    async fn fetch_part(
        &mut self,
        requested: RequestedBlocks,
    ) -> Result<FeeHistoryPart, FetchError> {
        let call_error = |error| FetchError::Call(requested, error);
        let reply = match self.call(requested).await {
            Err(error) if error.is_invalid_params() && !self.sends_integer_count => {
                self.sends_integer_count = true;
                self.call(requested).await.map_err(|_| call_error(error))?
            }
            answer => answer.map_err(call_error)?,
        };
        fee_history::parse(&reply, Some(&self.percentiles))
            .map_err(|error| FetchError::InvalidReply(requested, error))
    }

    async fn call(&self, requested: RequestedBlocks) -> Result<String, Error> {
        let count = if self.sends_integer_count {
            Value::from(requested.count)
        } else {
            format!("{:#x}", requested.count).into()
        };
        let newest = requested.newest.map_or("latest".into(), |newest| format!("{newest:#x}"));
        let percentiles = percentile_numbers(self.percentiles.iter().copied());
        let params = json!([count, newest, percentiles]);
        let reply = self.node.call("eth_feeHistory", &params).await?;
        Ok(reply.get().to_owned())
    }

    /// Joins the parts, which are in order from the newest to the oldest.
    fn into_recording(self, parts: Vec<FeeHistoryPart>) -> Recording {
        let oldest_block = parts.last().map(|part| part.oldest_block).unwrap_or_default();
        let has_tips = parts.iter().any(|part| !part.percentiles.is_empty());
        let blocks = parts.into_iter().rev().flat_map(|part| part.blocks).collect();
        let percentiles = if has_tips { self.percentiles } else { Vec::new() };
        Recording { name: "the node's newest blocks".into(), oldest_block, percentiles, blocks }
    }
}
