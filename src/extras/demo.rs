//! The chains of `gas-suggestion demo`: real recorded blocks, replayed in this process by JSON-RPC nodes on a loopback
//! port. The service polls them like any other node.

mod recording;
mod replay;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde_json::{Value, json};
use toml_edit::{DocumentMut, Item, TableLike};

use crate::assembly::{CommandContext, CommandError, Extra, ExtraCommand, ListenerArgs, Task};
use crate::config::{CHAINS, Config, ConfigErrors, Overrides, SectionKind};

pub use recording::{DemoRecording, InvalidRecording};
pub use replay::{BlockTiming, Replay};

const CHAINS_TOML: &str = include_str!("../../config/demo.toml");

/// Recorded chains by their key in `config/demo.toml`.
const RECORDINGS: [(&str, &[u8]); 2] = [
    ("base", include_bytes!("demo/recordings/base.json.gz")),
    ("ethereum", include_bytes!("demo/recordings/ethereum.json.gz")),
];

pub(crate) const EXTRA: Extra = Extra {
    name: "demo",
    sections: &[],
    command: Some(ExtraCommand { describe: || DemoArgs::augment_args(Command::new("demo")), run }),
    join: |_| Ok(()),
};

/// Run the service on recorded blocks of Ethereum and Base, on 127.0.0.1; needs no network
#[derive(Debug, Args)]
struct DemoArgs {
    /// Block time of the recorded chains, from 10ms to 1h
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_block_time)]
    block_time: Duration,
    /// How early or late a block may come, in percent of the block time, from 0 to 40
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=40))]
    jitter: u8,
    #[command(flatten)]
    listeners: ListenerArgs,
}

/// Starts the recorded chains, and runs the service on them. Nothing is shared or kept: other replicas, and later
/// starts, would take recorded data for live data.
fn run(
    arguments: &ArgMatches,
    context: &CommandContext<'_>,
) -> Result<(Config, Task), CommandError> {
    let arguments = DemoArgs::from_arg_matches(arguments).unwrap_or_else(|error| error.exit());
    let DemoArgs { block_time, jitter, listeners } = arguments;
    let default_listen = Some((Ipv4Addr::LOCALHOST, 8080).into());
    let overrides = Overrides { default_listen, ..listeners.overrides(Ipv4Addr::LOCALHOST) };
    let mut config = context.load(&overrides)?;
    let node = ReplayNode::bind(BlockTiming { block_time, jitter });
    let node = node.context("cannot start the recorded chains").map_err(CommandError::Runtime)?;
    let address = node.address().map_err(|error| CommandError::Runtime(error.into()))?;
    let recorded = chain_configs(address, block_time, context.sections);
    let recorded = recorded.map_err(CommandError::Configuration)?;
    config.chains = recorded.chains;
    config.sections.retain(|section| section.name != CHAINS);
    let of_chains = recorded.sections.into_iter().filter(|section| section.name == CHAINS);
    config.sections.extend(of_chains);
    config.origin = "recorded chains".into();
    // They are about the former chains.
    config.notes.clear();
    config.has_recorded_chains = true;
    Ok((config, Box::pin(async { Ok(node.run().await?) })))
}

fn parse_block_time(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let allowed = Duration::from_millis(10)..=Duration::from_hours(1);
    if allowed.contains(&duration) { Ok(duration) } else { Err("must be from 10ms to 1h".into()) }
}

/// Returns the configuration of the recorded chains, with nodes at `address`, this `block_time`, and these sections.
///
/// # Errors
///
/// Fails if a chain cannot have that block time.
///
/// # Panics
///
/// Panics if the built-in file is not TOML.
pub fn chain_configs(
    address: SocketAddr,
    block_time: Duration,
    sections: &[SectionKind],
) -> Result<Config, ConfigErrors> {
    /// Minimum `max_age` of a demo chain. With long block times it is five block times.
    const MIN_MAX_AGE: Duration = Duration::from_secs(30);
    let text = CHAINS_TOML.replace("127.0.0.1:0", &address.to_string());
    let mut document: DocumentMut = text.parse().expect("the built-in file is TOML");
    // A build without a feature does not know its keys.
    let chains = document.get_mut(CHAINS).and_then(Item::as_table_like_mut);
    for (_, chain) in chains.into_iter().flat_map(TableLike::iter_mut) {
        for key in ["json_rpc", "usd_feed"] {
            if !sections.iter().any(|section| section.keys.chain_keys.contains(&key)) {
                chain.as_table_like_mut().and_then(|chain| chain.remove(key));
            }
        }
    }
    let mut config = Config::from_toml(&document.to_string(), sections)?;
    for chain in &mut config.chains {
        chain.block_time = block_time;
        chain.max_age = block_time.saturating_mul(5).max(MIN_MAX_AGE);
    }
    Ok(config)
}

/// Nodes of all recorded chains behind one loopback port, one path each. The chains start when this is created, so a
/// block may be due before the first request.
#[derive(Debug)]
pub struct ReplayNode {
    listener: TcpListener,
    replays: Arc<BTreeMap<&'static str, Replay>>,
}

impl ReplayNode {
    /// Starts the chains and listens on a free loopback port.
    ///
    /// # Errors
    ///
    /// Fails if no port can be bound.
    pub fn bind(timing: BlockTiming) -> io::Result<Self> {
        let mut replays = BTreeMap::new();
        for (key, bytes) in RECORDINGS {
            let recording = DemoRecording::from_gzip(bytes).map_err(io::Error::other)?;
            replays.insert(key, Replay::start_now(recording, timing));
        }
        let replays = Arc::new(replays);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, replays })
    }

    /// Address of the node. The path of a chain is its key.
    ///
    /// # Errors
    ///
    /// Fails if the operating system does not return the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the listener fails.
    pub async fn run(self) -> io::Result<()> {
        let app = Router::new().route("/{chain}", post(handle_rpc)).with_state(self.replays);
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        axum::serve(listener, app).await
    }
}

async fn handle_rpc(
    State(replays): State<Arc<BTreeMap<&'static str, Replay>>>,
    Path(chain): Path<String>,
    body: String,
) -> Response {
    let Some(replay) = replays.get(chain.as_str()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let response = match serde_json::from_str(&body) {
        Ok(Value::Array(calls)) if !calls.is_empty() => {
            calls.iter().map(|call| handle_call(replay, call)).collect()
        }
        Ok(call) => handle_call(replay, &call),
        Err(_) => error_reply(&Value::Null, (-32700, "parse error")),
    };
    Json(response).into_response()
}

fn handle_call(replay: &Replay, call: &Value) -> Value {
    let id = call.get("id").unwrap_or(&Value::Null);
    let Some(method) = call.get("method").and_then(Value::as_str) else {
        return error_reply(id, (-32600, "invalid request"));
    };
    let params = call.get("params").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    match replay.call(method, params) {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(rpc_error) => error_reply(id, rpc_error),
    }
}

fn error_reply(id: &Value, (code, message): (i64, &str)) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests;
