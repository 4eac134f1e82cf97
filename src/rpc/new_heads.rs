//! What nodes announce over a WebSocket: that there is a new block (`eth_subscribe`, `newHeads`).
//!
//! An announcement is a reason to poll at once and nothing else: no number in it is believed, and one that does
//! not come changes nothing. The URLs are tried in order of preference, for ever.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use metrics::{Counter, Gauge};
use reqwest::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{StatusCode, Upgraded};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::{timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use super::quantity;
use crate::blank::Blanks;
use crate::config::{self, WebSocketUrl};
use crate::jitter;
use crate::metrics::Metrics;
use crate::news::News;
use crate::outbound;

/// The announcements of one chain.
#[derive(Debug)]
pub struct NewHeads {
    chain: String,
    urls: Vec<WebSocketUrl>,
    http: reqwest::Client,
    /// Longer without a new block than this, and the connection is given up.
    silence: Duration,
    tell: watch::Sender<u64>,
    up: Gauge,
    announcements: Counter,
    news: News,
    blanks: Blanks,
}

/// Why there are no announcements.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the connection failed")]
    Http(#[source] reqwest::Error),
    #[error("the answer to the upgrade is HTTP status {0}, not 101")]
    NotUpgraded(u16),
    #[error("the answer to the upgrade does not belong to the request")]
    Mismatched,
    #[error("the connection failed")]
    Protocol(#[from] tungstenite::Error),
    #[error("there was no answer in time")]
    Late,
    #[error("no new block was announced for too long")]
    Silent,
    #[error("the node closed the connection")]
    Closed,
    #[error("the node refuses the subscription: {0}")]
    Refused(String),
}

/// Any message: the answer to the subscription, or an announcement.
#[derive(Debug, Deserialize)]
struct Said<'a> {
    #[serde(default)]
    id: Option<u64>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
    #[serde(default, borrow)]
    params: Option<Announcement<'a>>,
}

#[derive(Debug, Deserialize)]
struct Announcement<'a> {
    #[serde(borrow)]
    subscription: &'a RawValue,
    #[serde(borrow)]
    result: Head<'a>,
}

#[derive(Debug, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    number: &'a RawValue,
}

impl Failure {
    /// The kind, from a closed list.
    fn reason(&self) -> &'static str {
        match self {
            Self::Http(_) | Self::Protocol(_) => "connection",
            Self::NotUpgraded(_) | Self::Mismatched => "no_websocket",
            Self::Late | Self::Silent => "silent",
            Self::Closed => "closed",
            Self::Refused(_) => "refused",
        }
    }
}

impl NewHeads {
    const SUBSCRIBE: &str =
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#;
    const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
    /// A header is about 2 KiB.
    const MAX_MESSAGE_BYTES: usize = 256 * 1024;
    /// There is little to say: a subscription, and what answers pings. Nobody has to take that.
    const WRITE_BUFFER_BYTES: [usize; 2] = [4 * 1024, 16 * 1024];
    const LEAST_SILENCE: Duration = Duration::from_secs(30);
    /// Between two attempts at first, and at most.
    const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];

    /// What listens for `chain`, and the number of the newest block that was announced; 0: none. `None`: the
    /// chain has no WebSockets.
    ///
    /// # Errors
    ///
    /// When the TLS backend cannot start.
    pub fn new(
        chain: &config::Chain,
        metrics: &Metrics,
    ) -> Result<Option<(Self, watch::Receiver<u64>)>, reqwest::Error> {
        if chain.ws_urls.is_empty() {
            return Ok(None);
        }
        let (tell, announced) = watch::channel(0);
        let up = metrics.new_heads_up(&chain.key);
        up.set(0);
        let listener = Self {
            chain: chain.key.clone(),
            urls: chain.ws_urls.clone(),
            http: outbound::http().http1_only().pool_max_idle_per_host(0).build()?,
            silence: chain.block_time.saturating_mul(10).max(Self::LEAST_SILENCE),
            tell,
            up,
            announcements: metrics.new_heads(&chain.key),
            news: News::default(),
            blanks: Blanks::of(chain.ws_urls.iter().flat_map(WebSocketUrl::secrets)),
        };
        Ok(Some((listener, announced)))
    }

    /// Listens, and connects again whenever a connection ends, for ever. Dropping the future is how it stops.
    pub async fn run(self) -> Infallible {
        let [first, most] = Self::PAUSES;
        let mut pause = first;
        let mut attempts = self.urls.iter().enumerate().cycle();
        loop {
            let Some((place, url)) = attempts.next() else {
                std::future::pending::<()>().await;
                continue;
            };
            let began = Instant::now();
            let mut newest = 0;
            let Err(failure) = self.listen(url, place, &mut newest).await;
            self.up.set(0);
            self.tell_of(place, &failure);
            if newest > 0 {
                attempts = self.urls.iter().enumerate().cycle();
            }
            // One that never lasts is not tried again and again without a pause.
            if newest > 0 && began.elapsed() > most {
                pause = first;
            }
            tokio::time::sleep(pause + jitter::up_to(pause)).await;
            pause = (pause * 2).min(most);
        }
    }

    /// Listens at `url` until that fails; `newest` becomes the highest number that was announced.
    async fn listen(
        &self,
        url: &WebSocketUrl,
        place: usize,
        newest: &mut u64,
    ) -> Result<Infallible, Failure> {
        let subscribe = async {
            let mut socket = self.connect(url).await?;
            socket.send(Message::text(Self::SUBSCRIBE)).await?;
            let subscription = subscription(&mut socket).await?;
            Ok::<_, Failure>((socket, subscription))
        };
        let subscribed = timeout(Self::CONNECT_DEADLINE, subscribe).await;
        let (mut socket, subscription) = subscribed.map_err(|_| Failure::Late)??;
        self.up.set(1);
        if self.news.is(Ok(())) {
            tracing::info!(chain = self.chain, websocket = place, "new blocks are announced");
        }
        // Whatever else is said, such as pings: a subscription can be dead all the same.
        let mut deadline = tokio::time::Instant::now() + self.silence;
        loop {
            let message = timeout_at(deadline, socket.next()).await.map_err(|_| Failure::Silent)?;
            let message = message.ok_or(Failure::Closed)??;
            let Message::Text(text) = message else { continue };
            let Some(number) = announced(&text, &subscription) else { continue };
            self.announcements.increment(1);
            if number > *newest {
                *newest = number;
                deadline = tokio::time::Instant::now() + self.silence;
            }
            self.tell.send_replace(number);
        }
    }

    /// Connects as every other request does: the same TLS, no redirects, no proxies.
    async fn connect(&self, url: &WebSocketUrl) -> Result<WebSocketStream<Upgraded>, Failure> {
        let key = generate_key();
        let request = self
            .http
            .get(url.expose())
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let http = |error: reqwest::Error| Failure::Http(error.without_url());
        let response = request.send().await.map_err(http)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(Failure::NotUpgraded(response.status().as_u16()));
        }
        let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accept
            .is_none_or(|accept| accept.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes())
        {
            return Err(Failure::Mismatched);
        }
        let stream = response.upgrade().await.map_err(http)?;
        let limits = WebSocketConfig::default()
            .max_message_size(Some(Self::MAX_MESSAGE_BYTES))
            .max_frame_size(Some(Self::MAX_MESSAGE_BYTES))
            .write_buffer_size(Self::WRITE_BUFFER_BYTES[0])
            .max_write_buffer_size(Self::WRITE_BUFFER_BYTES[1]);
        Ok(WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await)
    }

    fn tell_of(&self, place: usize, failure: &Failure) {
        let reason = failure.reason();
        if self.news.is(Err(reason)) {
            let causes =
                std::iter::successors(std::error::Error::source(failure), |error| error.source());
            let error = causes.fold(failure.to_string(), |text, cause| format!("{text}: {cause}"));
            let error = self.blanks.in_text(&error);
            let chain = self.chain.as_str();
            tracing::warn!(
                chain,
                websocket = place,
                reason,
                error,
                "new blocks are not announced; polls go on by themselves"
            );
        }
    }
}

/// The node's name for the subscription, as it writes it.
async fn subscription(socket: &mut WebSocketStream<Upgraded>) -> Result<String, Failure> {
    loop {
        let message = socket.next().await.ok_or(Failure::Closed)??;
        let Message::Text(text) = message else { continue };
        let Ok(said) = serde_json::from_str::<Said<'_>>(&text) else { continue };
        match (said.result, said.error) {
            (Some(name), None) if said.id == Some(1) => return Ok(name.get().to_owned()),
            (_, Some(error)) => {
                return Err(Failure::Refused(error.get().chars().take(200).collect()));
            }
            _ => {}
        }
    }
}

/// The number of the block that is announced; `None`: it is no announcement.
fn announced(text: &str, subscription: &str) -> Option<u64> {
    let said: Said<'_> = serde_json::from_str(text).ok()?;
    let Announcement { subscription: name, result } = said.params?;
    let number = u64::try_from(quantity::parse(result.number.get()).ok()?).ok()?;
    (name.get() == subscription).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_are_told_from_all_else() {
        let text = r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x1f","result":
            {"number":"0x1b4","hash":"0x00","logsBloom":"0x00","unknown":[{}]}}}"#;
        assert_eq!(announced(text, "\"0x1f\""), Some(436));
        assert_eq!(announced(text, "\"0x1e\""), None);
        for odd in ["", "{}", "[]", "null", "{\"params\":{}}", "{\"params\":null}", "\u{0}"] {
            assert_eq!(announced(odd, "\"0x1f\""), None, "{odd}");
        }
        assert_eq!(announced(&text.replace("\"0x1b4\"", "7"), "\"0x1f\""), Some(7));
        for number in ["\"\"", "\"0x\"", "null", "{}", "\"0x1ffffffffffffffff\"", "\"-1\""] {
            let odd = text.replace("\"0x1b4\"", number);
            assert_eq!(announced(&odd, "\"0x1f\""), None, "{odd}");
        }
    }
}
