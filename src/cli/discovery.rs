//! `serve --rpc-url`, or `GAS_RPC_URL`: the chains that the nodes serve.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::assembly::{CommandContext, CommandError, UrlArgument};
use crate::config::{Config, Overrides, URL_VARIABLE, Upstream, UpstreamUrl};
use crate::nodes::{Error, StatelessNodeClient, parse_quantity};

/// Time for a node to start, which may be started together with the service.
const DEADLINE: Duration = Duration::from_secs(15);
/// Time after which the service starts without the nodes that have not answered, if another has.
const PATIENCE: Duration = Duration::from_secs(3);
/// Least time after which the command prints which nodes it waits for. By then most failures are known.
const NOTICE_AFTER: Duration = Duration::from_millis(500);
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// URLs of nodes.
#[derive(Debug)]
pub(super) struct NodeUrls {
    /// The argument or variable that has them.
    pub(super) source: &'static str,
    urls: Vec<UpstreamUrl>,
}

impl NodeUrls {
    /// Returns those of `--rpc-url`, else those of `GAS_RPC_URL`; `None`: there are none.
    ///
    /// # Errors
    ///
    /// Fails if one is not a URL, or its file cannot be read.
    pub(super) fn read(arguments: &[UrlArgument]) -> Result<Option<Self>, CommandError> {
        let variable = std::env::var_os(URL_VARIABLE).unwrap_or_default();
        let variable = variable.to_string_lossy();
        let listed = variable.split(',').filter(|url| !url.trim().is_empty());
        let (source, all) = match arguments {
            // The quotes of an environment file may be part of the value.
            [] => {
                let urls = listed.map(|url| url.trim().trim_matches(['"', '\'']));
                (URL_VARIABLE, urls.filter_map(|url| url.parse().ok()).collect())
            }
            all => ("--rpc-url", all.to_vec()),
        };
        let urls: Result<Vec<_>, _> = all.iter().map(|url| url.get(source)).collect();
        Ok(Some(Self { source, urls: urls? }).filter(|nodes| !nodes.urls.is_empty()))
    }
}

/// A node of the command line.
struct AskedNode<'a> {
    /// Name in messages. The URL may contain a key.
    name: String,
    url: &'a UpstreamUrl,
    client: StatelessNodeClient,
    /// The chain id, or why the last attempt has failed; `None` before the first response.
    answer: RefCell<Option<Result<u64, String>>>,
}

/// URLs of each chain in the given order, and sentences about the nodes that gave no chain id.
type Found = (BTreeMap<u64, Vec<UpstreamUrl>>, Vec<String>);

/// Reads the configuration with the chains of these nodes in place of others. Notes name the nodes that do not answer.
pub(super) fn load(
    context: &CommandContext<'_>,
    nodes: &NodeUrls,
    mut overrides: Overrides,
) -> Result<Config, CommandError> {
    // The chain ids are not known yet.
    overrides.chains = vec![(0, nodes.urls.clone())];
    overrides.chains_from = nodes.source;
    let upstream = Config::upstream(context.file, &overrides, context.sections)?;
    let (found, left_out) = find_chains(nodes, &upstream)?;
    overrides.chains = found.into_iter().collect();
    let mut config = context.load(&overrides)?;
    config.notes.extend(left_out);
    Ok(config)
}

/// Asks each node for its chain id. Writes what it waits for to standard error. Nodes that have not answered after 3 s are left out if
/// another one has. One whose URL or key is wrong is not waited for.
///
/// # Errors
///
/// Fails if no node gives a valid chain id within 15 s. The error names nodes by their position.
fn find_chains(nodes: &NodeUrls, upstream: &Upstream) -> anyhow::Result<Found> {
    let NodeUrls { source, urls } = nodes;
    let clients = urls.iter().enumerate().map(|(index, url)| {
        let name = match urls.len() {
            1 => format!("the node of {source}"),
            _ => format!("the node of {source} number {}", index + 1),
        };
        let client = StatelessNodeClient::new(url.clone(), upstream);
        let client = client.context("cannot set up the HTTP client")?;
        Ok(AskedNode { name, url, client, answer: RefCell::default() })
    });
    let nodes = clients.collect::<anyhow::Result<Vec<_>>>()?;
    let waited = ask_all(&nodes);
    let mut chains: BTreeMap<u64, Vec<UpstreamUrl>> = BTreeMap::new();
    let mut failures = Vec::new();
    for AskedNode { name, url, answer, .. } in nodes {
        let reason = match answer.into_inner() {
            Some(Ok(chain_id)) => {
                chains.entry(chain_id).or_default().push(url.clone());
                continue;
            }
            Some(Err(reason)) => reason,
            None => format!("no response within {} s", waited.as_secs()),
        };
        failures.push(format!("cannot read the chain id from {name}: {reason}"));
    }
    if chains.is_empty() {
        bail!(failures.join("\n"));
    }
    let left_out = failures.iter().map(|failure| format!("{failure}; the service runs without it"));
    Ok((chains, left_out.collect()))
}

/// Asks all nodes until each has answered, or the time is over. Returns the time that it took.
#[tokio::main(flavor = "current_thread")]
async fn ask_all(nodes: &[AskedNode<'_>]) -> Duration {
    let start = Instant::now();
    let time_out = async {
        let mut is_noticed = false;
        loop {
            sleep(RETRY_INTERVAL).await;
            let waited = start.elapsed();
            let are_known = nodes.iter().all(|node| node.answer.borrow().is_some());
            let is_late = waited >= PATIENCE / 2 || are_known && waited >= NOTICE_AFTER;
            if is_late && !is_noticed {
                is_noticed = true;
                tell(nodes);
            }
            let suffices = nodes.iter().any(AskedNode::has_answered);
            if waited >= DEADLINE || waited >= PATIENCE && suffices {
                return;
            }
        }
    };
    tokio::select! {
        _ = join_all(nodes.iter().map(AskedNode::ask)) => {}
        () = time_out => {}
    }
    start.elapsed()
}

/// Writes what the command waits for to standard error, because the log begins later.
fn tell(nodes: &[AskedNode<'_>]) {
    let waiting = nodes.iter().filter(|node| !node.has_answered());
    let names = waiting.map(|AskedNode { name, answer, .. }| match &*answer.borrow() {
        Some(Err(reason)) => format!("{name} ({reason})"),
        _ => name.clone(),
    });
    let (names, seconds) = (names.collect::<Vec<_>>().join(", "), DEADLINE.as_secs());
    // A closed standard error is no reason to end.
    let _ = writeln!(
        std::io::stderr(),
        "waiting for the chain id (eth_chainId) of {names}, at most {seconds} s"
    );
}

impl AskedNode<'_> {
    fn has_answered(&self) -> bool {
        matches!(*self.answer.borrow(), Some(Ok(_)))
    }

    /// Asks until the node answers, or the next attempt would fail too.
    async fn ask(&self) {
        loop {
            let reply = self.client.call("eth_chainId", &json!([])).await;
            let is_lasting = reply.as_ref().is_err_and(Error::is_lasting);
            let answer = match reply {
                Ok(id) => parse_quantity(id.get())
                    .ok()
                    .and_then(|id| u64::try_from(id).ok())
                    .ok_or_else(|| "the response to eth_chainId is not a chain id".to_owned()),
                Err(error) => Err(format!("{:#}", anyhow::Error::from(error))),
            };
            let is_final = is_lasting || answer.is_ok();
            self.answer.replace(Some(answer));
            if is_final {
                return;
            }
            sleep(RETRY_INTERVAL).await;
        }
    }
}
