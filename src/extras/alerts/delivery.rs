//! Sends webhooks.

use std::convert::Infallible;
use std::time::Duration;

use alloy_primitives::hex;
use enum_map::EnumMap;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Client, StatusCode};
use sha2::Sha256;
use tokio::sync::watch;
use tokio::time::Instant;

use super::message::AlertMessage;
use super::metrics::WebhookOutcome;
use super::section::{Alert, Format};
use crate::config::UpstreamUrl;
use crate::observe::metrics::Counter;

/// Longest time for a response.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which a failed request is repeated.
const RETRIES_FOR: Duration = Duration::from_mins(10);

/// Pause after the first failure. Each further one is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

const SIGNATURE: &str = "x-signature-256";

/// The newest message that is to be sent.
#[derive(Debug)]
pub(super) struct Outbox(watch::Sender<Option<AlertMessage>>);

/// Sender of one alert's webhooks.
#[derive(Debug)]
pub(super) struct Delivery {
    inbox: watch::Receiver<Option<AlertMessage>>,
    client: Client,
    url: UpstreamUrl,
    format: Format,
    signer: Option<Signer>,
    counters: EnumMap<WebhookOutcome, Counter>,
    /// Name of the alert in the log.
    alert: String,
}

/// Signs bodies by HMAC-SHA256.
#[derive(Clone)]
struct Signer(Hmac<Sha256>);

impl Outbox {
    /// Replaces a message that was not delivered yet.
    pub(super) fn send(&self, message: AlertMessage) {
        self.0.send_replace(Some(message));
    }
}

impl Delivery {
    pub(super) fn new(
        alert: &Alert,
        url: &UpstreamUrl,
        client: Client,
        counters: EnumMap<WebhookOutcome, Counter>,
    ) -> (Self, Outbox) {
        let (sender, inbox) = watch::channel(None);
        let signer = alert.secret().and_then(|secret| Signer::new(secret.expose().as_bytes()));
        let (url, format, alert) = (url.clone(), alert.format, alert.name());
        (Self { inbox, client, url, format, signer, counters, alert }, Outbox(sender))
    }

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
        let body = message.body(self.format);
        let (alert, state) = (self.alert.as_str(), message.state.name());
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
                tracing::warn!(
                    alert,
                    state,
                    problem,
                    "the webhook was not delivered in 10 minutes"
                );
                return;
            }
            if pause == FIRST_PAUSE {
                tracing::warn!(
                    alert,
                    state,
                    problem,
                    "the webhook failed; it is repeated for 10 minutes"
                );
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
        if let Some(signer) = &self.signer {
            request = request.header(SIGNATURE, signer.sign(body));
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

impl Signer {
    fn new(secret: &[u8]) -> Option<Self> {
        // HMAC takes a key of any length.
        Hmac::new_from_slice(secret).ok().map(Self)
    }

    fn sign(&self, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(body);
        format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Signer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn the_signature_is_that_of_the_test_vector() {
        let signer = Signer::new(b"Jefe").unwrap();
        let expected = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(signer.sign(b"what do ya want for nothing?"), expected);
    }
}
