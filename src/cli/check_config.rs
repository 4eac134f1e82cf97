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
use crate::nodes as upstream;
use crate::nodes::{ChainUpstreams, FeeHistoryRequest, JsonRpcClient, UpstreamNode};
use crate::observe::traces;

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
        let urls = match chain.rpc_urls.len() {
            1 => "1 RPC URL".into(),
            count => format!("{count} RPC URLs"),
        };
        let reads = match chain.upstream_urls().len().saturating_sub(chain.rpc_urls.len()) {
            0 => String::new(),
            count => format!(", {count} more for reads"),
        };
        let preset = match chain.preset {
            Some(preset) => format!("preset {preset}"),
            None => "no preset".into(),
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {} (id {}, {preset}, {urls}{reads})", chain.key, chain.chain_id);
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
    let count = results.len();
    let mut failed: usize = 0;
    for result in results {
        let line = result.unwrap_or_else(|problem| {
            failed = failed.saturating_add(1);
            problem
        });
        super::print(&line)?;
    }
    match failed {
        0 => Ok(()),
        failed => bail!("{failed} of {count} upstreams cannot be used"),
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
    match reply {
        Ok(history) => match describe(&history, chain) {
            Ok(found) => Ok(format!("{name}: chain id {}, {found}", chain.chain_id)),
            Err(problem) => Err(format!("{name}: FAILED: {problem}")),
        },
        Err(error) => Err(format!("{name}: FAILED: {}", error_chain(&error))),
    }
}

/// Formats an error with its causes on one line.
fn error_chain(error: &upstream::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn describe(history: &FeeHistory, chain: &Chain) -> Result<String, String> {
    let parameters = fees::ChainParameters::from_pricing(&chain.pricing);
    let market = fees::price(history, &[], &chain.pricing, &parameters)
        .map_err(|error| error.to_string())?;
    let newest = history.newest_block();
    let base_fee = history.newest_known_base_fee();
    let tip = market.suggestion.tiers.medium.max_priority_fee_per_gas;
    Ok(format!(
        "{} blocks up to {newest}, base fee {} gwei, medium tip {} gwei by the network's rule",
        history.blocks().len(),
        rounded_gwei(base_fee),
        rounded_gwei(tip)
    ))
}
