//! The chains of `gas-suggestion demo`: real recorded blocks, replayed in this process by JSON-RPC nodes on a loopback
//! port. The service polls them like any other node.

mod recording;
mod replay;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::config::{self, Config, ConfigErrors};

pub use recording::{DemoRecording, InvalidRecording};
pub use replay::{BlockTiming, Replay};

const CHAINS_TOML: &str = include_str!("../../config/demo.toml");

/// Recorded chains by their key in `config/demo.toml`.
const RECORDINGS: [(&str, &[u8]); 2] = [
    ("base", include_bytes!("demo/recordings/base.json.gz")),
    ("ethereum", include_bytes!("demo/recordings/ethereum.json.gz")),
];

/// Returns the configuration of the recorded chains, with nodes at `address` and this `block_time`. Their quotes are
/// graded completely.
///
/// # Errors
///
/// Fails if a chain cannot have that block time.
pub fn chain_configs(
    address: SocketAddr,
    block_time: Duration,
) -> Result<Vec<config::Chain>, ConfigErrors> {
    /// Minimum `max_age` of a demo chain. With long block times it is five block times.
    const MIN_MAX_AGE: Duration = Duration::from_secs(30);
    let text = CHAINS_TOML.replace("127.0.0.1:0", &address.to_string());
    let mut chains = Config::from_toml(&text)?.chains;
    for chain in &mut chains {
        chain.block_time = block_time;
        chain.max_age = block_time.saturating_mul(5).max(MIN_MAX_AGE);
    }
    Ok(chains)
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
    pub async fn bind(timing: BlockTiming) -> io::Result<Self> {
        let mut replays = BTreeMap::new();
        for (key, bytes) in RECORDINGS {
            let recording = DemoRecording::from_gzip(bytes).map_err(io::Error::other)?;
            replays.insert(key, Replay::start_now(recording, timing));
        }
        let replays = Arc::new(replays);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
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
        axum::serve(self.listener, app).await
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
