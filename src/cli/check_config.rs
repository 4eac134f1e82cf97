//! `gas-suggestion check-config`.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::FutureExt;
use futures_util::future::join_all;

use crate::assembly::{CommandContext, CommandError};
use crate::config::{Chain, Config, Overrides};
use crate::fees::gwei::rounded_gwei;
use crate::fees::{self, FeeHistory};
use crate::nodes::{ChainUpstreams, FeeHistoryRequest, JsonRpcClient, UpstreamNode};
use crate::observe::traces;
use crate::server::describe as describe_chain;

/// Checks the configuration and the files that it names. Prints what is configured; with `print`, the effective
/// configuration. With `online`, asks every node and every other service that is configured.
///
/// # Errors
///
/// Fails if the configuration is wrong, or if a node or a service fails.
pub(super) fn run(
    context: &CommandContext<'_>,
    print: bool,
    online: bool,
) -> Result<(), CommandError> {
    let (file, sections) = (context.file, context.sections);
    let (config, effective) = Config::load_and_print(file, &Overrides::default(), sections)?;
    let notes = config.check_files().map_err(|all| CommandError::Arguments(all.join("\n")))?;
    let shown = if print { effective } else { summary(&config, &notes) };
    super::print(shown.trim_end())?;
    if online { Ok(check_upstreams(&config)?) } else { Ok(()) }
}

fn summary(config: &Config, notes: &[String]) -> String {
    let mut text = String::from("The configuration is valid. Chains:");
    for chain in &config.chains {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {}", describe_chain(chain));
    }
    for note in config.notes.iter().chain(notes) {
        let _ = write!(text, "\nNote: {note}");
    }
    text
}

/// Asks every node for its chain id and a fee history, and every other service for a response, all at once. Prints what each says.
#[tokio::main(flavor = "current_thread")]
async fn check_upstreams(config: &Config) -> anyhow::Result<()> {
    let client = JsonRpcClient::new(config).context("cannot set up the HTTP client")?;
    let upstreams = ChainUpstreams::for_chains(&client, &config.chains);
    let nodes = config.chains.iter().zip(&upstreams).flat_map(|(chain, upstreams)| {
        upstreams.all().enumerate().map(move |(index, node)| check_node(chain, index, node))
    });
    let collector = config.tracing.otlp_endpoint.iter().map(|endpoint| {
        ("tracing.otlp_endpoint".to_owned(), traces::check_collector(endpoint).boxed())
    });
    let services = config.service_checks().chain(collector).map(async |(key, finding)| {
        let found = finding.await.map(|found| format!("{key}: {found}"));
        found.map_err(|reason| format!("{key}: FAILED: {reason}"))
    });
    let (mut results, services) = tokio::join!(join_all(nodes), join_all(services));
    results.extend(services);
    for result in &results {
        let (Ok(line) | Err(line)) = result;
        super::print(line)?;
    }
    match results.iter().filter(|result| result.is_err()).count() {
        0 => Ok(()),
        failed => bail!("{failed} of {} upstreams cannot be used", results.len()),
    }
}

/// Returns a line about the node with this index in the chain's URLs.
async fn check_node(chain: &Chain, index: usize, node: &UpstreamNode) -> Result<String, String> {
    const DEADLINE: Duration = Duration::from_secs(10);
    let name = if index < chain.rpc_urls.len() {
        format!("chains.{}.rpc_urls[{index}]", chain.key)
    } else {
        // A URL that is in both lists is among the first.
        let url = chain.upstream_urls().get(index).copied();
        let position = chain.read_urls.iter().position(|read| Some(read) == url);
        format!("chains.{}.read_urls[{}]", chain.key, position.unwrap_or_default())
    };
    let reply = node.fee_history(&FeeHistoryRequest::new(&chain.pricing), DEADLINE).await;
    let found = reply.map_err(anyhow::Error::from).and_then(|history| describe(&history, chain));
    match found {
        Ok(found) => Ok(format!("{name}: chain id {}, {found}", chain.chain_id)),
        Err(error) => Err(format!("{name}: FAILED: {error:#}")),
    }
}

fn describe(history: &FeeHistory, chain: &Chain) -> anyhow::Result<String> {
    let parameters = fees::ChainParameters::from_pricing(&chain.pricing);
    let market = fees::price(history, &[], &chain.pricing, &parameters)?;
    let base_fee = rounded_gwei(history.newest_known_base_fee());
    let tip = rounded_gwei(market.suggestion.tiers.medium.max_priority_fee_per_gas);
    let (count, newest) = (history.blocks().len(), history.newest_block());
    Ok(format!(
        "{count} blocks up to {newest}, base fee {base_fee} gwei, medium tip {tip} gwei by the network's rule"
    ))
}
