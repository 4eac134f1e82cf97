//! Facts about a chain that are read once at the start.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::nodes::{ServiceReads, newest_header};
use crate::store::Publisher;

/// Deadline of a call, over all upstreams.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Reads a header from about a thousand blocks before the first one that the polls bring, so that the block time is known
/// soon after the start. If no node returns it, the headers to come tell the block time two minutes later.
pub(crate) async fn read(publisher: Publisher, reads: Arc<dyn ServiceReads>) -> Infallible {
    const BLOCKS: u64 = 1000;
    const LEAST_SECONDS: u64 = 150;
    let chain = publisher.chain();
    // The block time of a chain that mines on demand is not measured.
    if chain.config().stall_after(chain.block_time()).is_none() {
        return std::future::pending().await;
    }
    let mut latest = chain.subscribe();
    let newest = latest
        .wait_for(|latest| {
            latest.snapshot.as_ref().is_some_and(|it| it.block.told_header.is_some())
        })
        .await
        .ok()
        .and_then(|latest| latest.snapshot.as_ref()?.block.told_header);
    let block_time = u64::try_from(chain.block_time().as_millis()).unwrap_or(u64::MAX);
    let blocks = (LEAST_SECONDS * 1000).checked_div(block_time).unwrap_or_default().max(BLOCKS);
    // The time of the first blocks says nothing.
    let older = newest.and_then(|newest| newest.number.checked_sub(blocks)).filter(|it| *it > 0);
    if let Some(older) = older {
        let params = json!([format!("{older:#x}"), false]).to_string();
        let read = reads.read_for_service("eth_getBlockByNumber", params, TIMEOUT).await;
        if let Ok(Some(json)) = read
            && let Some(header) = newest_header::parse(&json, Duration::ZERO)
            && header.number == older
        {
            publisher.add_older_header(header.number, header.unix_seconds);
        }
    }
    std::future::pending().await
}
