//! `gas-suggestion price`: what gas costs now, for people.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::{Map, Value, json};

use super::discovery::{self, NodeUrls};
use crate::api::fee_market::FeeMarketBody;
use crate::assembly::{CommandContext, CommandError, UrlArgument};
use crate::config::{Chain, Config, Overrides, UpstreamUrl};
use crate::fees::gwei::rounded_gwei;
use crate::fees::{self, CALIBRATED_BLOCKS, ChainParameters};
use crate::nodes::{ChainUpstreams, FeeHistoryRequest, JsonRpcClient};
use crate::observe::http_client;
use crate::store::{Accepted, ChainStore};

/// The service that is asked unless an argument names another one.
const LOCAL_SERVICE: &str = "http://localhost:8080";

/// Time between two looks of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// Longest time for a response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Longest response of a service that is read.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// Arguments of the command.
#[derive(Debug, Args)]
pub(super) struct PriceArgs {
    /// A running service; default: `http://localhost:8080`
    #[arg(long, value_name = "URL", conflicts_with = "rpc_url")]
    url: Option<UrlArgument>,
    /// A node, which is asked without a service, or @FILE with its URL; default without --url: those of `GAS_RPC_URL`
    #[arg(long, value_name = "URL")]
    rpc_url: Option<UrlArgument>,
    /// Print JSON: the objects of `/v1/{chain}/fee-market`, and `chain`, `chain_id` and `reason` of a chain without a price
    #[arg(long)]
    json: bool,
    /// Look every 5 s
    #[arg(long)]
    watch: bool,
    /// Key or id of a chain; default: all
    chain: Option<String>,
}

/// Where the prices come from.
enum Source {
    Service { url: UpstreamUrl, client: reqwest::Client },
    Nodes(Box<Config>),
}

/// Prints the prices, once or until the process is ended.
///
/// # Errors
///
/// Fails if the service or the node does not answer, does not know the chain, or has no price of a chain.
pub(super) fn run(arguments: &PriceArgs, context: &CommandContext<'_>) -> Result<(), CommandError> {
    let source = Source::new(arguments, context)?;
    Ok(print_prices(arguments, &source)?)
}

#[tokio::main(flavor = "current_thread")]
async fn print_prices(arguments: &PriceArgs, source: &Source) -> anyhow::Result<()> {
    let chain = arguments.chain.as_deref();
    let mut markets = Ok(source.markets(chain).await?);
    loop {
        match markets {
            Ok(markets) => {
                let shown = if arguments.json { markets.to_string() } else { table(&markets) };
                // A reader that has closed the pipe wants no more.
                if !super::print_to_reader(&shown)? {
                    return Ok(());
                }
                if !arguments.watch {
                    return check_complete(&markets);
                }
            }
            // The service may come back.
            Err(error) => super::print_error(&format!("{error:#}")),
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
        markets = source.markets(chain).await;
    }
}

/// Fails if a chain has no price.
fn check_complete(markets: &Value) -> anyhow::Result<()> {
    let all = as_list(markets);
    match all.iter().filter(|market| is_without_price(market)).count() {
        0 => Ok(()),
        missing => bail!("{missing} of {} chains without a price", all.len()),
    }
}

fn as_list(markets: &Value) -> &[Value] {
    markets.as_array().map_or(std::slice::from_ref(markets), Vec::as_slice)
}

fn is_without_price(market: &Value) -> bool {
    market.get("expected_price_per_gas").is_none()
}

impl Source {
    fn new(arguments: &PriceArgs, context: &CommandContext<'_>) -> Result<Self, CommandError> {
        let nodes = match arguments.url {
            Some(_) => None,
            None => NodeUrls::read(arguments.rpc_url.as_slice())?,
        };
        if let Some(nodes) = nodes {
            let config = discovery::load(context, &nodes, Overrides::default())?;
            return Ok(Self::Nodes(Box::new(config)));
        }
        let url = match &arguments.url {
            Some(url) => url.get("--url")?,
            None => LOCAL_SERVICE.parse().map_err(|problem: &str| anyhow!(problem))?,
        };
        let client = http_client::direct(TIMEOUT).context("cannot set up the HTTP client")?;
        Ok(Self::Service { url, client })
    }

    /// Returns the fee market of the chain, or those of all chains as an array.
    async fn markets(&self, chain: Option<&str>) -> anyhow::Result<Value> {
        match self {
            Self::Service { url, client } => {
                if let Some(chain) = chain {
                    return ask_service(client, url, &["v1", chain, "fee-market"]).await;
                }
                let markets = ask_service(client, url, &["v1", "fee-markets"]).await?;
                let chains = ask_service(client, url, &["v1", "chains"]).await?;
                Ok(with_missing(as_list(&markets), as_list(&chains)))
            }
            Self::Nodes(config) => {
                if let Some(name) = chain {
                    let is_named =
                        |known: &&Chain| name == known.key || name == known.chain_id.to_string();
                    let known = config.chains.iter().find(is_named);
                    return ask_node(config, known.context("the nodes serve other chains")?).await;
                }
                let mut markets = Vec::new();
                for known in &config.chains {
                    let market = ask_node(config, known).await;
                    markets.push(market.unwrap_or_else(|error| {
                        missing(&json!(known.key), &json!(known.chain_id), &format!("{error:#}"))
                    }));
                }
                Ok(json!(markets))
            }
        }
    }
}

async fn ask_service(
    client: &reqwest::Client,
    url: &UpstreamUrl,
    path: &[&str],
) -> anyhow::Result<Value> {
    let mut url = url.expose().clone();
    {
        let segments = url.path_segments_mut();
        let mut segments = segments.map_err(|()| anyhow!("--url must be the URL of a service"))?;
        segments.pop_if_empty().extend(path);
    }
    // The error of the library would show the URL, which may contain a password.
    let no_response = "no response from the service; --url names another one, --rpc-url a node";
    let sent = client.get(url).send().await.map_err(reqwest::Error::without_url);
    let mut response = sent.context(no_response)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
        if body.len().saturating_add(chunk.len()) > MAX_RESPONSE_BYTES {
            bail!("the response of the service is too long");
        }
        body.extend_from_slice(&chunk);
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status.is_success() && (body.is_array() || body.is_object()) {
        return Ok(body);
    }
    match body.get("detail").and_then(Value::as_str) {
        Some(detail) => bail!("the service answers {status}: {detail}"),
        None => bail!("this is no gas-suggestion service: it answers {status}"),
    }
}

/// Returns an object for each chain: its fee market, or why there is none.
fn with_missing(markets: &[Value], chains: &[Value]) -> Value {
    let member = |chain: &Value, name: &str| chain.get(name).cloned().unwrap_or_default();
    let all = chains.iter().map(|chain| {
        let chain_id = member(chain, "chain_id");
        let market = markets.iter().find(|market| member(market, "chain_id") == chain_id);
        let without = || {
            let reason = match chain.get("reason").and_then(Value::as_str) {
                Some("old_data") => format!("no new data since {}", text(chain, "/observed_at")),
                _ => "no data yet".to_owned(),
            };
            missing(&member(chain, "chain"), &chain_id, &reason)
        };
        market.cloned().unwrap_or_else(without)
    });
    all.collect()
}

/// Returns the object of a chain without a price.
fn missing(chain: &Value, chain_id: &Value, reason: &str) -> Value {
    json!({ "chain": chain, "chain_id": chain_id, "reason": reason })
}

/// Returns a text without characters that could control the terminal, since a stranger's service may send it.
fn text(value: &Value, pointer: &str) -> String {
    let text = value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    text.chars().filter(|character| !character.is_control()).collect()
}

/// Asks the node for a fee history, its newest block's time and the asks of its blocks, and prices it as the service does.
async fn ask_node(config: &Config, chain: &Chain) -> anyhow::Result<Value> {
    let client = JsonRpcClient::new(config).context("cannot set up the HTTP client")?;
    let upstreams = ChainUpstreams::for_chains(&client, std::slice::from_ref(chain));
    let node = upstreams.first().and_then(|upstreams| upstreams.all().next());
    let node = node.context("the node serves no chain")?;
    let request = FeeHistoryRequest::new(&chain.pricing);
    let history = node.fee_history(&request, TIMEOUT).await.context("cannot read the fees")?;
    let parameters = ChainParameters::from_pricing(&chain.pricing);
    let market = fees::price(&history, &[], &chain.pricing, &parameters)?;
    let (store, mut publishers) = ChainStore::new(std::slice::from_ref(chain));
    let asks = match chain.reading_interval(chain.block_time) {
        Some(_) => {
            let request = FeeHistoryRequest::for_asks(history.newest_block(), CALIBRATED_BLOCKS);
            node.fee_history(&request, TIMEOUT).await.ok()
        }
        None => None,
    };
    for publisher in &mut publishers {
        let accepted = Accepted::now(&history, market.clone());
        let head = node.head().for_reply(history.newest_block(), chain.block_time);
        let accepted = Accepted { head, ..accepted };
        publisher.publish(accepted.clone());
        if let Some(asks) = &asks {
            publisher.add_reading(asks);
            publisher.publish(accepted);
        }
    }
    let stored = store.chains().first().context("the node serves no chain")?;
    let current = stored.servable_snapshot().map_err(|_| anyhow!("there is no data"))?;
    Ok(json!(FeeMarketBody::new(stored, &current, Map::new())))
}

/// Formats fee markets as a table.
fn table(markets: &Value) -> String {
    let all = as_list(markets);
    let heading = ["CHAIN", "LOW", "MEDIUM", "HIGH", "", "BLOCK"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(heading).chain(all.iter().map(row)).collect();
    let width = |column: usize| {
        let lengths = rows.iter().filter_map(|row| row.get(column));
        lengths.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:width$}  ", width = width(column));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.trim_end().to_owned()
}

/// Returns the cells of a fee market: the name, the expected prices in gwei, their unit, and the newest block; for a chain
/// without a price its key, and the reason in place of the unit.
fn row(market: &Value) -> [String; 6] {
    let text = |pointer: &str| text(market, pointer);
    if is_without_price(market) {
        let none = || "\u{2013}".to_owned();
        return [text("/chain"), none(), none(), none(), text("/reason"), String::new()];
    }
    let [low, medium, high] = ["low", "medium", "high"].map(|tier| {
        let wei = text(&format!("/expected_price_per_gas/{tier}")).parse();
        wei.map_or_else(|_| "?".to_owned(), rounded_gwei)
    });
    let medium = match text("/level").as_str() {
        level @ ("low" | "high") => format!("{medium} ({level})"),
        _ => medium,
    };
    let is_stale = market.get("stale").and_then(Value::as_bool) == Some(true);
    let unit = if is_stale { "gwei, stale" } else { "gwei" };
    let block = market.get("newest_block").and_then(Value::as_u64);
    let block = block.map_or_else(String::new, |block| block.to_string());
    [text("/chain_name"), low, medium, high, unit.to_owned(), block]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_chain() {
        let market = |name: &str, medium: &str, stale: bool, level: Option<&str>| {
            json!({
                "chain_name": name, "stale": stale, "level": level, "newest_block": 1000,
                "expected_price_per_gas": { "low": "1", "medium": medium, "high": "43123456789" },
            })
        };
        let all = json!([
            market("ethereum", "21000000000", false, Some("high")),
            market("b\u{1b}[2Jase", "7", true, None),
        ]);
        let expected = "\
CHAIN     LOW          MEDIUM       HIGH                BLOCK
ethereum  0.000000001  21 (high)    43.12  gwei         1000
b[2Jase   0.000000001  0.000000007  43.12  gwei, stale  1000";
        assert_eq!(table(&all), expected);
        let market = json!({ "expected_price_per_gas": {} });
        assert!(table(&market).ends_with("?    ?       ?     gwei"));
    }

    #[test]
    fn a_chain_without_a_price_has_a_row_with_the_reason() {
        let price = json!({ "low": "1000000000", "medium": "2000000000", "high": "3000000000" });
        let market = json!({ "chain_id": 1, "chain_name": "One", "expected_price_per_gas": price });
        let chain = |name: &str, id: u64, reason: Option<&str>| json!({ "chain": name, "chain_id": id, "reason": reason, "observed_at": "10:52" });
        let chains = [
            chain("one", 1, None),
            chain("b", 2, Some("old_data")),
            chain("c", 3, Some("no_data")),
        ];
        let all = with_missing(std::slice::from_ref(&market), &chains);
        let expected = "\
CHAIN  LOW  MEDIUM  HIGH                           BLOCK
One    1    2       3     gwei
b      –    –       –     no new data since 10:52
c      –    –       –     no data yet";
        assert_eq!(table(&all), expected);
        let second = json!({ "chain": "b", "chain_id": 2, "reason": "no new data since 10:52" });
        assert_eq!(all[1], second);
        let missing = check_complete(&all).unwrap_err().to_string();
        assert_eq!(missing, "2 of 3 chains without a price");
        assert!(check_complete(&json!([market])).is_ok());
    }
}
