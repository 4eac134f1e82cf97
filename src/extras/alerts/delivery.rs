//! Sends webhooks.

use std::convert::Infallible;
use std::time::Duration;

use alloy_primitives::hex;
use enum_map::EnumMap;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Client, StatusCode};
use ring::hmac;
use tokio::sync::watch;
use tokio::time::Instant;

use super::message::AlertMessage;
use super::metrics::WebhookOutcome;
use super::section::Alert;
use crate::config::UpstreamUrl;
use crate::config::secret::Secret;
use crate::observe::metrics::Counter;

/// Longest time for a response.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which a failed request is repeated.
const RETRIES_FOR: Duration = Duration::from_mins(10);

/// Pause after the first failure. Each further one is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

const SIGNATURE: &str = "x-signature-256";

/// Sender of one alert's webhooks.
#[derive(Debug)]
pub(super) struct Delivery {
    /// Has the newest message that is to be sent.
    pub(super) inbox: watch::Receiver<Option<AlertMessage>>,
    pub(super) client: Client,
    pub(super) url: UpstreamUrl,
    pub(super) alert: Alert,
    pub(super) counters: EnumMap<WebhookOutcome, Counter>,
}

impl Delivery {
    /// Sends each message, for ever. Dropping the future gives up the pending one.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            // The sender lives as long as the watcher, which never ends.
            if self.inbox.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let message = self.inbox.borrow_and_update().clone();
            if let Some(message) = message {
                self.deliver(&message).await;
            }
        }
    }

    /// Sends a message until it is taken, a newer one replaces it, or ten minutes are over.
    async fn deliver(&mut self, message: &AlertMessage) {
        let body = message.body(self.alert.format);
        let (alert, state) = (self.alert.name(), <&str>::from(message.state));
        let deadline = Instant::now() + RETRIES_FOR;
        let mut pause = FIRST_PAUSE;
        loop {
            let problem = match self.post(&body).await {
                Ok(()) => {
                    self.counters[WebhookOutcome::Delivered].increment();
                    tracing::info!(alert, state, "the webhook was delivered");
                    return;
                }
                Err(problem) => problem,
            };
            if Instant::now() + pause > deadline {
                self.counters[WebhookOutcome::Failed].increment();
                let message = "the webhook was not delivered in 10 minutes";
                tracing::warn!(alert, state, problem, "{message}");
                return;
            }
            if pause == FIRST_PAUSE {
                let message = "the webhook failed; it is repeated for 10 minutes";
                tracing::warn!(alert, state, problem, "{message}");
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = self.inbox.changed() => {
                    if changed.is_ok() {
                        self.counters[WebhookOutcome::Replaced].increment();
                        self.inbox.mark_changed();
                        return;
                    }
                }
            }
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    /// Sends a body once. The problem does not tell the URL.
    async fn post(&self, body: &[u8]) -> Result<(), String> {
        let mut request = self
            .client
            .post(self.url.expose().clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(body.to_vec());
        if let Some(secret) = self.alert.secret() {
            request = request.header(SIGNATURE, sign(secret, body));
        }
        match request.send().await.map(|response| response.status()) {
            Ok(status) if status.is_success() => Ok(()),
            Ok(status) => Err(format!("status {}", StatusCode::as_u16(&status))),
            Err(error) if error.is_timeout() => Err("time-out".to_owned()),
            Err(error) if error.is_connect() => Err("cannot connect".to_owned()),
            Err(_) => Err("no response".to_owned()),
        }
    }
}

/// Signs a body by HMAC-SHA256.
fn sign(secret: &Secret, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
    format!("sha256={}", hex::encode(hmac::sign(&key, body)))
}
