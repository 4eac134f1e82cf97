//! The service with everything switched on and everybody that it asks: what is documented can be answered.

use std::collections::HashMap;

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use gas_suggestion::config::Config;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::anvil::Anvil;
use crate::registry;
use crate::service::Service;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) service: Service,
    _node: Anvil,
    _upstream: Upstream,
}

impl World {
    pub(crate) async fn start() -> Self {
        let node = Anvil::start(0, &[]);
        registry::put(&node, registry::runtime().await).await;
        let upstream = Upstream::start().await;
        let service = Service::with_config(&config(&node.url(), &upstream.url)).await;
        service.wait_for("/readyz", |answer| answer.status == 200).await;
        Self { service, _node: node, _upstream: upstream }
    }
}

/// An upstream with exactly the documented routes of contract verification, which wants addresses, ids of
/// chains and ids of verifications in their places.
#[derive(Debug)]
struct Upstream {
    url: String,
    task: JoinHandle<()>,
}

impl Upstream {
    async fn start() -> Self {
        const BELOW: &str = "/verification";
        let nobody = "http://127.0.0.1:9";
        let config = Config::from_toml(&config(nobody, nobody)).unwrap();
        let document = gas_suggestion::api::document(&config).unwrap();
        let document: Value = serde_json::from_str(&document).unwrap();
        let mut routes = Router::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            let Some(below) = path.strip_prefix(BELOW).filter(|below| !below.is_empty()) else {
                continue;
            };
            let route = if item["get"].is_null() { post(answer) } else { get(answer) };
            // As Express says of another method.
            routes = routes.route(below, route.fallback(async || StatusCode::NOT_FOUND));
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
        Self { url, task }
    }
}

async fn answer(
    Path(segments): Path<HashMap<String, String>>,
    // Whoever answers sooner resets the connection of a client that is still sending.
    _whole: Bytes,
) -> (StatusCode, Json<Value>) {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_good = |(name, text): (&String, &String)| match name.as_str() {
        "address" => text.len() == 42 && text.starts_with("0x") && is_hex(&text[2..]),
        "chainId" => !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()),
        "verificationId" => {
            let parts: Vec<_> = text.split('-').collect();
            parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
                && parts.iter().all(|part| is_hex(part))
        }
        name => panic!("{name} is a segment that nobody expects"),
    };
    let status =
        if segments.iter().all(is_good) { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    (status, Json(json!({})))
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A chain at `node` with everything switched on, and nobody limited.
fn config(node: &str, verification: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n\
         [limits]\nrequests_per_second_per_client = 0\nmax_connections_per_client = 0\nmax_streams = 0\n\
         [verification]\nurl = \"{verification}\"\n[delegation]\nsource = \"chain\"\n{}",
        registry::chain("ronin", 2020, node)
    )
}
