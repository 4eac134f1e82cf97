//! Announcements of new blocks over a WebSocket (`eth_subscribe`, `newHeads`).
//!
//! An announcement only triggers a poll. Its block number is not trusted, and a missing announcement changes nothing.
//!
//! The URLs are tried in order of preference, for ever, 0.5 to 60 s apart. After a connection that announced a block
//! the first URL is tried again, otherwise the next one.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use prometheus_client::metrics::gauge::Gauge;
use reqwest::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{StatusCode, Upgraded};
use ring::digest;
use ring::rand::{Random, SystemRandom};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use super::{jitter, quantity, with_causes};
use crate::config::{self, NodeUrl, Upstream, WebSocketScheme};
use crate::observe::http_client;
use crate::observe::log_on_change::LogOnChange;
use crate::observe::metrics::{ChainLabels, Counter, Metrics};
use crate::observe::redaction::Redactor;

/// Subscription to one chain's announcements.
#[derive(Debug)]
pub struct NewHeadsSubscription {
    chain: String,
    urls: Vec<NodeUrl<WebSocketScheme>>,
    http: reqwest::Client,
    /// The connection is closed after this time without a new block.
    head_timeout: Duration,
    head_sender: watch::Sender<u64>,
    up_gauge: Gauge,
    announcement_counter: Counter,
    outcome_log: LogOnChange,
    redactor: Redactor,
}

/// Reason why there are no announcements.
#[derive(Debug, thiserror::Error)]
enum SubscriptionError {
    #[error("the connection failed")]
    Http(#[source] reqwest::Error),
    #[error("the upgrade response has HTTP status {0}, not 101")]
    NotUpgraded(u16),
    #[error("the upgrade response does not match the request")]
    HandshakeMismatch,
    #[error("the connection failed")]
    Protocol(#[from] tungstenite::Error),
    #[error("no response in time")]
    SubscribeTimeout,
    #[error("no block announced within the time limit")]
    HeadTimeout,
    #[error("the node closed the connection")]
    Closed,
    #[error("the node rejected the subscription: {0}")]
    SubscriptionRejected(String),
}

impl SubscriptionError {
    /// Label of the error, from a closed list.
    fn reason(&self) -> &'static str {
        match self {
            Self::Http(_) | Self::Protocol(_) => "connection",
            Self::NotUpgraded(_) | Self::HandshakeMismatch => "no_websocket",
            Self::SubscribeTimeout | Self::HeadTimeout => "timeout",
            Self::Closed => "closed",
            Self::SubscriptionRejected(_) => "refused",
        }
    }
}

impl NewHeadsSubscription {
    const SUBSCRIBE: &str =
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#;
    const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);
    /// A header has about 2 KiB.
    const MAX_MESSAGE_BYTES: usize = 256 * 1024;
    /// Size from which the write buffer is flushed, and its limit. The service sends only a subscription and pongs.
    const WRITE_BUFFER_BYTES: [usize; 2] = [4 * 1024, 16 * 1024];
    const MIN_HEAD_TIMEOUT: Duration = Duration::from_secs(30);
    /// First and longest delay between two attempts. Jitter adds up to as much again.
    const RECONNECT_DELAYS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];

    /// Creates the subscription of `chain`. The receiver has the number of the last announced block; 0: none yet.
    /// `None`: the chain has no WebSocket URLs.
    ///
    /// # Errors
    ///
    /// Fails if the TLS backend cannot start.
    pub fn new(
        chain: &config::Chain,
        upstream: &Upstream,
        metrics: &Metrics,
    ) -> Result<Option<(Self, watch::Receiver<u64>)>, reqwest::Error> {
        if chain.ws_urls.is_empty() {
            return Ok(None);
        }
        let (head_sender, head_receiver) = watch::channel(0);
        let labels = ChainLabels { chain: chain.key.clone() };
        let secrets = chain.ws_urls.iter().flat_map(NodeUrl::secrets);
        let listener = Self {
            chain: chain.key.clone(),
            urls: chain.ws_urls.clone(),
            http: http_client::builder(upstream)?.http1_only().pool_max_idle_per_host(0).build()?,
            head_timeout: chain.block_time.saturating_mul(10).max(Self::MIN_HEAD_TIMEOUT),
            head_sender,
            up_gauge: metrics.new_heads_up.get_or_create_owned(&labels),
            announcement_counter: metrics.new_heads_total.get_or_create_owned(&labels),
            outcome_log: LogOnChange::default(),
            redactor: Redactor::new(secrets.chain(upstream.secrets())),
        };
        Ok(Some((listener, head_receiver)))
    }

    /// Receives announcements and reconnects for ever. Dropping the future stops it.
    pub async fn run(self) -> Infallible {
        let [initial_delay, max_delay] = Self::RECONNECT_DELAYS;
        let mut delay = initial_delay;
        let mut attempts = self.urls.iter().enumerate().cycle();
        loop {
            let Some((index, url)) = attempts.next() else {
                std::future::pending::<()>().await;
                continue;
            };
            let started = Instant::now();
            let mut newest = 0;
            let Err(failure) = self.listen(url, index, &mut newest).await;
            self.up_gauge.set(0);
            self.log_failure(index, &failure);
            if newest > 0 {
                attempts = self.urls.iter().enumerate().cycle();
            }
            // A connection that ends early does not reset the delay.
            if newest > 0 && started.elapsed() > max_delay {
                delay = initial_delay;
            }
            tokio::time::sleep(delay + jitter::random_up_to(delay)).await;
            delay = (delay * 2).min(max_delay);
        }
    }

    /// Receives announcements at `url` until the connection fails. `newest` becomes the highest announced number.
    async fn listen(
        &self,
        url: &NodeUrl<WebSocketScheme>,
        index: usize,
        newest: &mut u64,
    ) -> Result<Infallible, SubscriptionError> {
        let subscribe = async {
            let mut socket = self.connect(url).await?;
            socket.send(Message::text(Self::SUBSCRIBE)).await?;
            let subscription = await_subscription_id(&mut socket).await?;
            Ok::<_, SubscriptionError>((socket, subscription))
        };
        let subscribed = timeout(Self::SUBSCRIBE_TIMEOUT, subscribe).await;
        let (mut socket, subscription) =
            subscribed.map_err(|_| SubscriptionError::SubscribeTimeout)??;
        self.up_gauge.set(1);
        if self.outcome_log.changed_to(Ok(())) {
            tracing::info!(
                chain = self.chain,
                websocket = index,
                "block announcements established"
            );
        }
        // Other messages, such as pings, do not extend the deadline: the subscription may be dead all the same.
        let mut deadline = tokio::time::Instant::now() + self.head_timeout;
        loop {
            let message = timeout_at(deadline, socket.next())
                .await
                .map_err(|_| SubscriptionError::HeadTimeout)?;
            let message = message.ok_or(SubscriptionError::Closed)??;
            let Message::Text(text) = message else { continue };
            let Some(number) = parse_new_head(&text, &subscription) else { continue };
            self.announcement_counter.increment();
            if number > *newest {
                *newest = number;
                deadline = tokio::time::Instant::now() + self.head_timeout;
            }
            self.head_sender.send_replace(number);
        }
    }

    /// Connects with the settings of every other request: the same TLS, proxy and no redirects.
    async fn connect(
        &self,
        url: &NodeUrl<WebSocketScheme>,
    ) -> Result<WebSocketStream<Upgraded>, SubscriptionError> {
        let nonce = ring::rand::generate(&SystemRandom::new());
        let key = STANDARD.encode(nonce.map_or([0; 16], Random::expose));
        let request = self
            .http
            .get(url.url().upgrade_url())
            .headers(url.headers().clone())
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let http = |error: reqwest::Error| SubscriptionError::Http(error.without_url());
        let response = request.send().await.map_err(http)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(SubscriptionError::NotUpgraded(response.status().as_u16()));
        }
        let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accept.is_none_or(|accept| accept != accepted(&key).as_str()) {
            return Err(SubscriptionError::HandshakeMismatch);
        }
        let stream = response.upgrade().await.map_err(http)?;
        let limits = WebSocketConfig::default()
            .max_message_size(Some(Self::MAX_MESSAGE_BYTES))
            .max_frame_size(Some(Self::MAX_MESSAGE_BYTES))
            .write_buffer_size(Self::WRITE_BUFFER_BYTES[0])
            .max_write_buffer_size(Self::WRITE_BUFFER_BYTES[1]);
        Ok(WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await)
    }

    fn log_failure(&self, index: usize, failure: &SubscriptionError) {
        let reason = failure.reason();
        if self.outcome_log.changed_to(Err(reason)) {
            let error = self.redactor.redact_text(&with_causes(failure));
            let chain = self.chain.as_str();
            tracing::warn!(
                chain,
                websocket = index,
                reason,
                error,
                "block announcements lost; polling on schedule"
            );
        }
    }
}

/// Returns what a WebSocket server says to this key (RFC 6455, section 1.3).
fn accepted(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// Waits for the subscription id.
async fn await_subscription_id(
    socket: &mut WebSocketStream<Upgraded>,
) -> Result<Value, SubscriptionError> {
    loop {
        let message = socket.next().await.ok_or(SubscriptionError::Closed)??;
        let Message::Text(text) = message else { continue };
        let message: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(error) = message.get("error").filter(|error| !error.is_null()) {
            let error = error.to_string().chars().take(200).collect();
            return Err(SubscriptionError::SubscriptionRejected(error));
        }
        let subscription = message.get("result").filter(|result| !result.is_null());
        if let Some(subscription) = subscription.filter(|_| message.get("id") == Some(&1.into())) {
            return Ok(subscription.clone());
        }
    }
}

/// Returns the announced block number. `None`: not an announcement.
fn parse_new_head(text: &str, subscription: &Value) -> Option<u64> {
    let message: Value = serde_json::from_str(text).ok()?;
    let params = message.get("params")?;
    let number = params.get("result")?.get("number")?.to_string();
    let number = u64::try_from(quantity::parse(&number).ok()?).ok()?;
    (params.get("subscription")? == subscription).then_some(number)
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::config::Config;

    /// Accepts a connection and confirms its subscription.
    async fn accept(listener: &TcpListener) -> WebSocketStream<TcpStream> {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        socket.next().await.unwrap().unwrap();
        let confirmation = r#"{"jsonrpc":"2.0","id":1,"result":"0x1f"}"#;
        socket.send(Message::text(confirmation)).await.unwrap();
        socket
    }

    #[tokio::test]
    async fn a_subscription_without_announcements_is_replaced_by_the_next_url() {
        let bind = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listeners = [bind().await, bind().await];
        let [silent, next] =
            listeners.each_ref().map(|it| format!("ws://{}", it.local_addr().unwrap()));
        let text = format!(
            "[chains.a]\nchain_id = 7\nrpc_urls = [\"http://127.0.0.1:9\"]\nblock_time = \"1s\"\n\
             ws_urls = [{silent:?}, {next:?}]"
        );
        let config = Config::from_toml(&text, &[]).unwrap();
        let (chain, metrics) = (&config.chains[0], Metrics::new());
        let created = NewHeadsSubscription::new(chain, &config.upstream, &metrics);
        let (mut subscription, _heads) = created.unwrap().unwrap();
        assert_eq!(subscription.head_timeout, Duration::from_secs(30));
        subscription.head_timeout = Duration::from_millis(200);
        let [silent, next] = listeners;
        let nodes = async {
            let mut socket = accept(&silent).await;
            let mut pings = 0;
            // Pings do not extend the deadline.
            while socket.send(Message::Ping(vec![].into())).await.is_ok()
                && matches!(socket.next().await, Some(Ok(Message::Pong(_))))
            {
                pings += 1;
            }
            assert!(pings > 1, "{pings}");
            accept(&next).await;
        };
        tokio::select! {
            never = subscription.run() => match never {},
            replaced = timeout(Duration::from_secs(20), nodes) => replaced.unwrap(),
        }
    }

    #[test]
    fn only_valid_head_notifications_are_parsed() {
        let text = r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x1f","result":
            {"number":"0x1b4","hash":"0x00","logsBloom":"0x00","unknown":[{}]}}}"#;
        assert_eq!(parse_new_head(text, &"0x1f".into()), Some(436));
        assert_eq!(parse_new_head(text, &"0x1e".into()), None);
        for invalid in ["", "{}", "[]", "null", "{\"params\":{}}", "{\"params\":null}", "\u{0}"] {
            assert_eq!(parse_new_head(invalid, &"0x1f".into()), None, "{invalid}");
        }
        assert_eq!(parse_new_head(&text.replace("\"0x1b4\"", "7"), &"0x1f".into()), Some(7));
        for number in ["\"\"", "\"0x\"", "null", "{}", "\"0x1ffffffffffffffff\"", "\"-1\""] {
            let odd = text.replace("\"0x1b4\"", number);
            assert_eq!(parse_new_head(&odd, &"0x1f".into()), None, "{odd}");
        }
    }
}
