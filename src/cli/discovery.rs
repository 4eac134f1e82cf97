//! `serve --rpc-url`: the chains that the nodes serve.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::config::{Upstream, UpstreamUrl};
use crate::nodes::{StatelessNodeClient, parse_quantity};

/// Time for a node to start, which may be started together with the service.
const DEADLINE: Duration = Duration::from_secs(15);
/// Time after which the service starts without the nodes that have not answered, if another has.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time after which the command prints which nodes it waits for.
const NOTICE_AFTER: Duration = Duration::from_millis(500);
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Result of asking the nodes.
#[derive(Debug, Default)]
pub(super) struct FoundChains {
    /// Chains in ascending order of chain id, with their URLs in the given order.
    pub(super) chains: Vec<(u64, Vec<UpstreamUrl>)>,
    /// Sentences about the nodes that gave no chain id.
    pub(super) notes: Vec<String>,
}

/// Asks each node for its chain id. Writes what it waits for to standard error. Nodes that have not answered after 3 s are
/// left out if another one has.
///
/// # Errors
///
/// Fails if no node gives a valid chain id within 15 s. The error names nodes by their
/// position.
pub(super) fn find_chains(
    urls: &[UpstreamUrl],
    upstream: &Upstream,
) -> anyhow::Result<FoundChains> {
    if urls.is_empty() {
        return Ok(FoundChains::default());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answers = runtime.context("cannot start the runtime")?.block_on(ask(urls, upstream));
    if answers.iter().all(Result::is_err) {
        let failed = answers.into_iter().enumerate().filter_map(|(index, answer)| {
            let error = answer.err()?;
            Some(format!("cannot read the chain id from {}: {error:#}", name(urls, index)))
        });
        bail!(failed.collect::<Vec<_>>().join("\n"));
    }
    let mut chains: BTreeMap<u64, Vec<UpstreamUrl>> = BTreeMap::new();
    let mut notes = Vec::new();
    for (index, (answer, url)) in answers.into_iter().zip(urls).enumerate() {
        match answer {
            Ok(chain_id) => chains.entry(chain_id).or_default().push(url.clone()),
            Err(error) => notes.push(format!(
                "cannot read the chain id from {}: {error:#}; the service runs without it",
                name(urls, index)
            )),
        }
    }
    Ok(FoundChains { chains: chains.into_iter().collect(), notes })
}

/// Returns the name of a node in messages. Its URL may contain a key.
fn name(urls: &[UpstreamUrl], index: usize) -> String {
    match urls.len() {
        1 => "the node of --rpc-url".to_owned(),
        _ => format!("the node of --rpc-url number {}", index.saturating_add(1)),
    }
}

/// Returns the chain id of each node, or why it is unknown.
async fn ask(urls: &[UpstreamUrl], upstream: &Upstream) -> Vec<anyhow::Result<u64>> {
    let start = Instant::now();
    let mut answers: Vec<Option<anyhow::Result<u64>>> = urls.iter().map(|_| None).collect();
    let failures: Vec<_> = urls.iter().map(|_| Cell::new(None)).collect();
    let mut asked: FuturesUnordered<_> = urls
        .iter()
        .zip(&failures)
        .enumerate()
        .map(async |(index, (url, failure))| {
            (index, wait_for_chain_id(url, upstream, start, failure).await)
        })
        .collect();
    let mut notice = std::pin::pin!(sleep_until(start + NOTICE_AFTER));
    let mut is_told = false;
    loop {
        let is_any_known = answers.iter().flatten().any(Result::is_ok);
        tokio::select! {
            answer = asked.next() => match answer {
                Some((index, answer)) => {
                    if let Some(slot) = answers.get_mut(index) {
                        *slot = Some(answer);
                    }
                }
                None => break,
            },
            () = &mut notice, if !is_told => {
                is_told = true;
                tell(urls, &answers);
            }
            () = sleep_until(start + PATIENCE), if is_any_known => break,
        }
    }
    let silent = || anyhow::anyhow!("no response within {} s", PATIENCE.as_secs());
    let unanswered = |failure: &Cell<Option<_>>| Err(failure.take().unwrap_or_else(silent));
    answers
        .into_iter()
        .zip(&failures)
        .map(|(answer, failure)| answer.unwrap_or_else(|| unanswered(failure)))
        .collect()
}

/// Writes what the command waits for to standard error, because the log begins later.
fn tell(urls: &[UpstreamUrl], answers: &[Option<anyhow::Result<u64>>]) {
    let waiting = answers.iter().enumerate().filter(|(_, answer)| answer.is_none());
    let names: Vec<String> = waiting.map(|(index, _)| name(urls, index)).collect();
    let (names, seconds) = (names.join(", "), DEADLINE.as_secs());
    // A closed standard error is no reason to end.
    let _ = writeln!(
        std::io::stderr(),
        "waiting for the chain id (eth_chainId) of {names}, at most {seconds} s"
    );
}

/// Asks until the node answers or the deadline is over. Keeps why the last attempt has failed.
async fn wait_for_chain_id(
    url: &UpstreamUrl,
    upstream: &Upstream,
    start: Instant,
    failure: &Cell<Option<anyhow::Error>>,
) -> anyhow::Result<u64> {
    let node = StatelessNodeClient::new(url.clone(), upstream);
    let node = node.context("cannot set up the HTTP client")?;
    let deadline = start + DEADLINE;
    loop {
        match timeout_at(deadline, read_chain_id(&node)).await {
            Ok(Ok(chain_id)) => return Ok(chain_id),
            Ok(Err(error)) if Instant::now() + RETRY_INTERVAL >= deadline => return Err(error),
            Ok(Err(error)) => {
                failure.set(Some(error));
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            Err(_) => bail!("no response within {} s", DEADLINE.as_secs()),
        }
    }
}

async fn read_chain_id(node: &StatelessNodeClient) -> anyhow::Result<u64> {
    let result = node.call("eth_chainId", &json!([])).await?;
    let chain_id = parse_quantity(result.get()).ok().and_then(|id| u64::try_from(id).ok());
    chain_id.context("the response to eth_chainId is not a chain id")
}
