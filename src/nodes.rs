//! Typed JSON-RPC calls to nodes: lenient on the wire, strict in the result.
//!
//! The caller sets one deadline around the future; dropping the future ends the call. Bodies have a size limit.
//! Redirects are off, and URLs come from the configuration alone. The text of an [`Error`] never contains a URL.
//!
//! Reads, beside the polls, are made elsewhere: [`ServiceReads`]. They share the endpoints, and heed what polls learn of a
//! node. A poll never waits for a read: they use separate connections, and polls know nothing of failed reads.

mod body_snippet;
pub(crate) mod chain_upstreams;
pub(crate) mod circuit_breaker;
pub(crate) mod content_encoding;
mod error;
pub(crate) mod fee_history;
mod header_watch;
pub(crate) mod jitter;
pub(crate) mod new_heads;
pub(crate) mod newest_header;
pub(crate) mod node_breaker;
pub(crate) mod node_endpoint;
pub(crate) mod node_transport;
pub(crate) mod plan_pause;
pub(crate) mod poll_deadline;
pub(crate) mod pooled_client;
pub(crate) mod quantity;
pub(crate) mod reply;
pub(crate) mod service_reads;
pub(crate) mod stateless_node_client;
pub(crate) mod upstream_node;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use body_snippet::body_snippet;
pub use chain_upstreams::{Candidate, ChainUpstreams};
use content_encoding::ContentEncoding;
pub use error::Error;
pub(crate) use error::with_causes;
pub use fee_history::{FeeHistoryRequest, MalformedFeeHistory};
pub use new_heads::NewHeadsSubscription;
use node_endpoint::NodeEndpoint;
use node_transport::NodeClient;
pub use node_transport::NodeTransport;
use pooled_client::PooledClient;
pub(crate) use pooled_client::Repeat;
pub(crate) use quantity::parse_hex;
pub use quantity::{QuantityError, parse as parse_quantity};
pub use reply::{HttpStatus, parse_reply};
pub use service_reads::{Exhausted, ReadError, ServiceReads};
pub use stateless_node_client::StatelessNodeClient;
pub(crate) use upstream_node::NodeState;
pub use upstream_node::UpstreamNode;

use crate::config::{self, Config, NodeUrl};

use crate::observe::http_client;
use crate::observe::memory_budget::{MemoryBudget, ReservedBuffer};
use crate::observe::redaction::Redactor;
use crate::observe::traces::Span;

/// HTTP client of all calls, with one connection pool for polls and one for reads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct JsonRpcClient {
    http: NodeClient,
    /// Client of reads.
    read_http: NodeClient,
    /// True if the start of a reply may be logged: no RPC URL may contain a secret.
    logs_reply_bodies: bool,
    /// Redacts the URLs of all chains, because a node may know the URL of another.
    redactor: Arc<Redactor>,
}

/// Limit of a reply's body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit<'a> {
    pub(crate) max_bytes: usize,
    /// Budget that the bytes are charged to, if any.
    pub(crate) memory: Option<&'a MemoryBudget>,
}

impl BodyLimit<'_> {
    /// Returns an empty body.
    fn buffer(self) -> ReservedBuffer {
        // Replies to polls are not charged. There are few, and clients must not make them fail.
        let unlimited = MemoryBudget::new(usize::MAX);
        ReservedBuffer::new(self.max_bytes, self.memory.unwrap_or(&unlimited))
    }

    /// Appends a chunk to a body, unless that is too large then.
    fn append(self, body: &mut ReservedBuffer, chunk: &[u8]) -> Result<(), Error> {
        if body.len().saturating_add(chunk.len()) > self.max_bytes {
            return Err(Error::TooLarge(self.max_bytes));
        }
        Ok(body.try_extend(chunk)?)
    }
}

impl JsonRpcClient {
    /// Replies to polls are far smaller: a fee history of 1,024 blocks is about 100 KiB.
    pub(crate) const POLL_BODY_LIMIT: BodyLimit<'static> =
        BodyLimit { max_bytes: 256 * 1024, memory: None };
    /// A header comes with the hashes of its block's transactions: 69 bytes for each.
    pub(crate) const HEADER_BODY_LIMIT: BodyLimit<'static> =
        BodyLimit { max_bytes: 2 * 1024 * 1024, memory: None };
    const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

    /// Creates both pools, without connections, for the nodes in `config`.
    ///
    /// # Errors
    ///
    /// Fails if the TLS backend cannot start.
    pub fn new(config: &Config) -> Result<Self, reqwest::Error> {
        let max_idle = max_idle_connections(config);
        let build_client = || {
            PooledClient::new(&config.upstream, |builder| {
                builder.pool_idle_timeout(Self::POOL_IDLE_TIMEOUT).pool_max_idle_per_host(max_idle)
            })
        };
        let (poll_http, read_http) = (build_client()?, build_client()?);
        let (poll_http, read_http) = (NodeClient::Http(poll_http), NodeClient::Http(read_http));
        Ok(Self::with_clients(config, poll_http, read_http))
    }

    /// Creates a client for the nodes in `config` whose calls `transport` carries.
    #[must_use]
    pub fn simulated(config: &Config, transport: &Arc<dyn NodeTransport>) -> Self {
        let client = NodeClient::Simulated(Arc::clone(transport));
        Self::with_clients(config, client.clone(), client)
    }

    fn with_clients(config: &Config, http: NodeClient, read_http: NodeClient) -> Self {
        let mut urls = config.chains.iter().flat_map(config::Chain::upstream_urls);
        let logs_reply_bodies = !urls.any(NodeUrl::may_contain_secret);
        let chains = &config.chains;
        let urls = chains.iter().flat_map(config::Chain::upstream_urls);
        let sockets = chains.iter().flat_map(|chain| &chain.ws_urls);
        let secrets = urls.flat_map(NodeUrl::secrets).chain(sockets.flat_map(NodeUrl::secrets));
        let redactor = Arc::new(Redactor::new(secrets.chain(config.upstream.secrets())));
        Self { http, read_http, logs_reply_bodies, redactor }
    }

    /// Returns the client for reads, which has connections of its own.
    fn for_reads(&self) -> Self {
        Self { http: self.read_http.clone(), ..self.clone() }
    }

    /// Calls `method` at `node` for a poll and returns the `result`.
    async fn call_for_poll(
        &self,
        node: &NodeEndpoint,
        method: &str,
        params: &serde_json::Value,
        limit: BodyLimit<'_>,
    ) -> Result<Box<RawValue>, Error> {
        let parse = |body: &Bytes, status: HttpStatus, id| parse_reply(body, status, id);
        self.call(node, method, params, Some(node.repeat()), limit, parse).await
    }

    /// Makes one call, which may be sent once more by `repeat`. `parse` gets the reply's body, its status and the call's id.
    async fn call<P: Serialize + ?Sized, T>(
        &self,
        node: &NodeEndpoint,
        method: &str,
        params: &P,
        repeat: Option<Repeat<'_>>,
        limit: BodyLimit<'_>,
        parse: impl Fn(&Bytes, HttpStatus, u64) -> Result<T, Error>,
    ) -> Result<T, Error> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let request = reply::Request::new(id, method, params);
        let mut span = Span::for_rpc_call(method, node.chain_id, node.index);
        let outcome =
            self.send(node, &request, repeat, limit, |body, status| parse(body, status, id)).await;
        match &outcome {
            Ok(_) => span.record_success(),
            Err(error) => span.record_failure(error.reason()),
        }
        outcome
    }

    async fn send<T>(
        &self,
        node: &NodeEndpoint,
        request: &(impl Serialize + ?Sized),
        repeat: Option<Repeat<'_>>,
        limit: BodyLimit<'_>,
        parse: impl Fn(&Bytes, HttpStatus) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (url, headers) = (node.url.url().expose(), node.url.headers());
        let response = self.http.post(url, headers, request, repeat).await?;
        let code = response.status().as_u16();
        let retry_after = http_client::retry_after(response.headers());
        let status = HttpStatus { code, asks_to_wait: retry_after.is_some() };
        let encoding = ContentEncoding::from_headers(response.headers());
        let body = read_body(response, limit).await;
        let body = body.and_then(|body| encoding.decode(body, limit));
        let (outcome, body) = match body {
            Ok(body) => (parse(&body, status), body),
            Err(error) => (Err(error), Bytes::new()),
        };
        let snippet = || body_snippet(&body, self.logs_reply_bodies);
        outcome.map_err(|error| match error {
            // The status decides, whatever the size or encoding of the body.
            _ if status.is_rate_limit() => Error::RateLimited(retry_after),
            Error::RateLimited(_) => Error::RateLimited(retry_after),
            Error::Status(..) if is_refusal(code) => Error::Refused(code, snippet()),
            Error::Status(status, _) => Error::Status(status, snippet()),
            Error::Node(..) if is_refusal(code) => Error::Refused(code, self.error_message(&body)),
            Error::NotJson(_) if encoding == ContentEncoding::Unknown => Error::UnexpectedEncoding,
            Error::NotJson(_) => Error::NotJson(snippet()),
            Error::Node(code, _) => Error::Node(code, self.error_message(&body)),
            error => error,
        })
    }

    /// Returns the beginning of the message of the error in this reply, without secrets of URLs.
    fn error_message(&self, body: &[u8]) -> String {
        let message = reply::error_message(body).unwrap_or_default();
        body_snippet(self.redactor.redact_text(&message).as_bytes(), true)
    }
}

/// Reads the whole body. A charged body is released when its last slice is dropped.
async fn read_body(mut response: reqwest::Response, limit: BodyLimit<'_>) -> Result<Bytes, Error> {
    let mut body = limit.buffer();
    while let Some(chunk) = response.chunk().await? {
        limit.append(&mut body, &chunk)?;
    }
    Ok(body.into_bytes())
}

/// Returns true if this HTTP status says that the key is wrong or missing.
fn is_refusal(status: u16) -> bool {
    matches!(status, 401 | 403)
}

/// Returns the number of connections to a host that may be kept: as many as may be in use, so that a burst reuses them.
/// A chain polls each node once at a time, and reads its newest header beside. The nodes of many chains may be one gateway.
fn max_idle_connections(config: &Config) -> usize {
    const POLLS: usize = 2;
    let mut nodes_by_host: HashMap<_, usize> = HashMap::new();
    for url in config.chains.iter().flat_map(config::Chain::upstream_urls) {
        *nodes_by_host.entry(url.url().expose().origin()).or_default() += 1;
    }
    let of_a_node = config.needs().node_connections.max(POLLS);
    of_a_node.saturating_mul(nodes_by_host.into_values().max().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_behind_one_gateway_keep_a_connection_each() {
        let max_idle = |urls: &[&str]| {
            let chain = |(id, url): (usize, &&str)| {
                format!("[chains.c{id}]\nchain_id = {}\nrpc_urls = [\"{url}\"]\n", id + 1)
            };
            let toml: String = urls.iter().enumerate().map(chain).collect();
            max_idle_connections(&Config::from_toml(&toml, &[]).unwrap())
        };
        assert_eq!(max_idle(&["https://a/1", "https://b/2", "https://c/3"]), 2);
        assert_eq!(max_idle(&["https://a/1", "https://b/2", "https://a/3"]), 4);
        assert_eq!(max_idle(&["https://a/1", "https://a:443/2", "http://a/3", "https://a:8/4"]), 4);
    }

    #[test]
    fn a_nodes_error_message_is_short_and_hides_secrets_of_urls() {
        let toml = "[chains.a]\nchain_id = 1\nrpc_urls = [\"https://node/v3/c4n4ry-0123456789\"]\n\
                    read_urls = [\"https://reads/v3/c4n4ry-abcdef\"]";
        let client = JsonRpcClient::new(&Config::from_toml(toml, &[]).unwrap()).unwrap();
        let message = |json: &str| {
            let reply = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{json}}}"#);
            client.error_message(reply.as_bytes())
        };
        assert_eq!(
            message(r#"{"code":-32000,"message":"eth_feeHistory is disabled"}"#),
            "eth_feeHistory is disabled"
        );
        let redacted = message(r#"{"code":1,"message":"no project c4n4ry-0123456789 \n"}"#);
        assert!(redacted.starts_with("no project *") && redacted.ends_with(" \\n"), "{redacted}");
        assert!(!redacted.contains("c4n4ry"));
        let of_reads = message(r#"{"code":1,"message":"no project c4n4ry-abcdef"}"#);
        assert!(!of_reads.contains("c4n4ry"), "{of_reads}");
        let toml = toml.replace("/v3/c4n4ry-0123456789", "");
        let client = JsonRpcClient::new(&Config::from_toml(&toml, &[]).unwrap()).unwrap();
        assert!(!client.logs_reply_bodies);
        let long = format!(r#"{{"code":1,"message":"{}"}}"#, "long ".repeat(1000));
        assert_eq!(message(&long).len(), 128);
        assert_eq!(message(r#""slow down""#), "slow down");
        for without in [r#"{"code":1}"#, r#"{"message":1}"#, "null"] {
            assert_eq!(message(without), "(empty)");
        }
    }
}
