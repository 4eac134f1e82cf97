//! Reads the newest blocks of a chain from one node, in several calls if needed.

use anyhow::{Context, ensure};
use gas_suggestion::config::{Upstream, UpstreamUrl};
use gas_suggestion::fees::percentile_numbers;
use gas_suggestion::nodes::{Error, StatelessNodeClient};
use serde_json::{Value, json};

use crate::estimators::Estimator;
use crate::fee_history;
use crate::measures::REALISED_PERCENTILE;
use crate::recording::Recording;

/// Maximum number of blocks: about a day and a half with a block every two seconds.
pub const MAX_BLOCKS: usize = 65_536;

/// Limit of blocks per call at most nodes.
const BLOCKS_PER_CALL: usize = 1024;

/// Maximum number of calls, for a node that returns few blocks per call.
const MAX_CALLS: usize = 256;

/// Reads the node's newest `count` blocks with all percentiles that `estimators` and the measures need, or fewer if the
/// chain has fewer. Calls `advance` with the number of blocks that each call added.
///
/// # Errors
///
/// Never returns a part of the blocks. The text of an error never contains the node's URL.
pub async fn fetch_recording(
    url: UpstreamUrl,
    upstream: &Upstream,
    count: usize,
    estimators: &[Estimator],
    landing_percentile: f64,
    advance: impl Fn(usize),
) -> anyhow::Result<Recording> {
    let node = StatelessNodeClient::new(url, upstream).context("cannot set up the HTTP client")?;
    let needed = estimators.iter().flat_map(|estimator| estimator.percentiles.iter().copied());
    let mut percentiles: Vec<f64> =
        needed.chain([landing_percentile, REALISED_PERCENTILE]).collect();
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup();

    // Newest part first.
    let mut parts: Vec<Recording> = Vec::new();
    let (mut missing, mut newest) = (count, None);
    // A few nodes accept the block count only as a JSON integer.
    let mut sends_integer_count = false;
    while missing > 0 {
        ensure!(
            parts.len() < MAX_CALLS,
            "{MAX_CALLS} calls of eth_feeHistory returned only {} blocks; request fewer with --blocks",
            count - missing
        );
        let requested = missing.min(BLOCKS_PER_CALL);
        let call = match newest {
            Some(newest) => format!("eth_feeHistory of {requested} blocks up to {newest}"),
            None => format!("eth_feeHistory of the newest {requested} blocks"),
        };
        let block = newest.map_or("latest".into(), |newest| format!("{newest:#x}"));
        let params = |count: Value| json!([count, block, percentile_numbers(percentiles.clone())]);
        let (hex, integer) = (params(format!("{requested:#x}").into()), params(requested.into()));
        let mut reply =
            node.call("eth_feeHistory", if sends_integer_count { &integer } else { &hex }).await;
        if !sends_integer_count && reply.as_ref().is_err_and(Error::is_invalid_params) {
            sends_integer_count = true;
            reply = node.call("eth_feeHistory", &integer).await;
        }
        let reply = reply.with_context(|| format!("{call} failed"))?;
        let part = fee_history::parse(reply.get(), Some(&percentiles));
        let mut part = part.with_context(|| format!("the response to {call} is unusable"))?;
        let surplus = part.blocks.len().saturating_sub(requested);
        part.blocks.drain(..surplus);
        part.oldest_block += surplus as u64;
        let after = part.oldest_block + part.blocks.len() as u64;
        let is_contiguous = newest.is_none_or(|newest| after == newest + 1);
        ensure!(is_contiguous, "{call} returned other blocks");
        missing -= part.blocks.len();
        advance(part.blocks.len());
        newest = part.oldest_block.checked_sub(1);
        parts.push(part);
        if newest.is_none() {
            break;
        }
    }
    let oldest_block = parts.last().map(|part| part.oldest_block).unwrap_or_default();
    if parts.iter().all(|part| part.percentiles.is_empty()) {
        percentiles.clear();
    }
    let blocks = parts.into_iter().rev().flat_map(|part| part.blocks).collect();
    Ok(Recording { name: "the node's newest blocks".into(), oldest_block, percentiles, blocks })
}
