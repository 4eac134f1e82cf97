//! The service with every feature enabled, its node and its verification upstream.

use std::collections::HashMap;

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::anvil::Anvil;
use crate::registry;
use crate::test_server::{TestServer, serve};

#[derive(Debug)]
pub(crate) struct Harness {
    pub(crate) service: TestServer,
    _node: Anvil,
}

impl Harness {
    pub(crate) async fn start() -> Self {
        let node = Anvil::start(&[]);
        registry::install_code(&node, &registry::deployed_code()).await;
        // Fees for a horizon need 200 blocks.
        node.call("anvil_mine", json!(["0x100"])).await;
        let upstream = start_upstream().await;
        let service = TestServer::with_config(&config(&node.url(), &upstream)).await;
        service.wait_for_ok("/v1/ronin/fees").await;
        Self { service, _node: node }
    }
}

/// Starts a verification upstream with exactly the documented routes, and returns its URL. It responds with 400 to
/// malformed path parameters.
async fn start_upstream() -> String {
    const PREFIX: &str = "/verification";
    let unreachable = "http://127.0.0.1:9";
    let document = super::document(&config(unreachable, unreachable));
    let mut routes = Router::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let Some(rest) = path.strip_prefix(PREFIX) else { continue };
        let route_path = if rest.is_empty() { "/" } else { rest };
        let route = if item["get"].is_null() { post(respond) } else { get(respond) };
        // Like Express, the upstream responds with 404 to any other method.
        routes = routes.route(route_path, route.fallback(async || StatusCode::NOT_FOUND));
    }
    format!("http://{}", serve(routes).await.0)
}

async fn respond(
    Path(segments): Path<HashMap<String, String>>,
    // The body is read, because an early response resets the connection of a client that is still sending.
    _body: Bytes,
) -> (StatusCode, Json<Value>) {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_good = |(name, text): (&String, &String)| match name.as_str() {
        "address" => text.len() == 42 && text.strip_prefix("0x").is_some_and(is_hex),
        "chainId" => !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()),
        "verificationId" => {
            text.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && text.split('-').all(is_hex)
        }
        name => panic!("unexpected segment {name}"),
    };
    let status =
        if segments.iter().all(is_good) { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    (status, Json(json!({})))
}

/// Returns a configuration with a chain at `node`, every feature enabled and no client limits.
fn config(node: &str, verification: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ndrain_delay = \"0s\"\n\
         [limits]\nrequests_per_second_per_client = 0\nmax_connections_per_client = 0\nmax_streams = 0\n\
         [verification]\nurl = \"{verification}\"\n[delegation]\nsource = \"chain\"\n{}pricing.ask_interval = 10\n",
        registry::chain("ronin", 2020, node)
    )
}
