//! `serve --rpc-url`: the chains that the nodes serve.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use crate::config::UpstreamUrl;
use crate::nodes::{StatelessNodeClient, parse_quantity};

/// Time for a node to start, which may be started together with the service.
const DEADLINE: Duration = Duration::from_secs(15);
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Asks each node for its chain id. Returns the chains in ascending order of chain id, with their URLs in the given order.
///
/// # Errors
///
/// Fails if a node gives no valid chain id within 15 s. The error names the node by its position.
pub(super) fn find_chains(urls: &[UpstreamUrl]) -> anyhow::Result<Vec<(u64, Vec<UpstreamUrl>)>> {
    if urls.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let chain_ids = runtime.context("cannot start the runtime")?.block_on(chain_ids(urls));
    let mut chains: BTreeMap<u64, Vec<UpstreamUrl>> = BTreeMap::new();
    for (index, (chain_id, url)) in chain_ids.into_iter().zip(urls).enumerate() {
        let position = index.saturating_add(1);
        let chain_id = chain_id.with_context(|| match urls.len() {
            1 => "cannot read the chain id from the node of --rpc-url".to_owned(),
            _ => format!("cannot read the chain id from the node of --rpc-url number {position}"),
        })?;
        chains.entry(chain_id).or_default().push(url.clone());
    }
    Ok(chains.into_iter().collect())
}

async fn chain_ids(urls: &[UpstreamUrl]) -> Vec<anyhow::Result<u64>> {
    join_all(urls.iter().map(wait_for_chain_id)).await
}

/// Asks until the node answers or the deadline is over.
async fn wait_for_chain_id(url: &UpstreamUrl) -> anyhow::Result<u64> {
    let node = StatelessNodeClient::new(url.clone()).context("cannot set up the HTTP client")?;
    let deadline = Instant::now() + DEADLINE;
    loop {
        let reply = tokio::time::timeout_at(deadline, read_chain_id(&node)).await;
        match reply {
            Ok(Ok(chain_id)) => return Ok(chain_id),
            Ok(Err(error)) if Instant::now() + RETRY_INTERVAL >= deadline => return Err(error),
            Ok(Err(_)) => tokio::time::sleep(RETRY_INTERVAL).await,
            Err(_) => bail!("no response within {} s", DEADLINE.as_secs()),
        }
    }
}

async fn read_chain_id(node: &StatelessNodeClient) -> anyhow::Result<u64> {
    let result = node.call("eth_chainId", &json!([])).await?;
    let chain_id = parse_quantity(result.get()).ok().and_then(|id| u64::try_from(id).ok());
    chain_id.context("the response to eth_chainId is not a chain id")
}
