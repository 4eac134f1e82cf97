//! A receiver of webhooks that records them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::test_server::serve;

/// A receiver on a free loopback port, until the end of the test.
#[derive(Debug)]
pub(crate) struct WebhookReceiver {
    address: SocketAddr,
    state: Arc<Mutex<Received>>,
}

#[derive(Debug, Default)]
struct Received {
    webhooks: Vec<Webhook>,
    /// Number of requests that get status 500 from now on.
    refused: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Webhook {
    pub(crate) headers: HeaderMap,
    pub(crate) uri: String,
    pub(crate) body: Vec<u8>,
    pub(crate) was_refused: bool,
    pub(crate) at: Instant,
}

impl Webhook {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl WebhookReceiver {
    pub(crate) async fn start() -> Self {
        let state = Arc::<Mutex<Received>>::default();
        let app = Router::new().fallback(receive).with_state(Arc::clone(&state));
        let (address, _) = serve(app).await;
        Self { address, state }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Refuses so many requests from now on.
    pub(crate) fn refuse(&self, count: usize) {
        self.state.lock().unwrap().refused = count;
    }

    /// Returns all requests so far.
    pub(crate) fn webhooks(&self) -> Vec<Webhook> {
        self.state.lock().unwrap().webhooks.clone()
    }

    /// Returns the states that were taken.
    pub(crate) fn taken_states(&self) -> Vec<String> {
        let taken = self.webhooks().into_iter().filter(|webhook| !webhook.was_refused);
        taken.map(|webhook| webhook.json()["state"].as_str().unwrap().to_owned()).collect()
    }
}

async fn receive(State(state): State<Arc<Mutex<Received>>>, request: Request) -> StatusCode {
    let (headers, uri) = (request.headers().clone(), request.uri().to_string());
    let body = to_bytes(request.into_body(), 1 << 20).await.unwrap().to_vec();
    let mut state = state.lock().unwrap();
    let was_refused = state.refused > 0;
    state.refused = state.refused.saturating_sub(1);
    state.webhooks.push(Webhook { headers, uri, body, was_refused, at: Instant::now() });
    if was_refused { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::NO_CONTENT }
}
