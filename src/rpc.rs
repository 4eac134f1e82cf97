//! Typed JSON-RPC calls to the nodes: lenient on the wire, strict in what comes out.
//!
//! A call has one deadline, set by the caller around the future (dropping it ends the call), and a
//! cap on the bytes it reads. Redirects are off and URLs come from the configuration alone. Nothing
//! in an [`Error`]'s text shows a URL.
//!
//! Polls and reads share what is known of the nodes. A poll never waits for a read: they have
//! connections of their own, and no read that fails, whoever made it fail, counts against a node in
//! the order of the polls.

mod excerpt;
mod fee_history;
mod health;
mod inquiry;
mod new_heads;
mod quantity;
mod read;
mod read_record;
mod reply;
mod upstream;
mod upstreams;

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

pub use excerpt::Excerpt;
pub use fee_history::{FeeHistoryRequest, Malformed};
pub use health::{Condition, Standing};
pub(crate) use inquiry::Inquiry;
pub use new_heads::NewHeads;
pub(crate) use quantity::{NotAQuantity, parse as parse_quantity};
pub use read::{Call, Unanswered};
pub use reply::{Answer, read_reply};
pub use upstream::Upstream;
pub use upstreams::{Candidate, Upstreams};

use crate::config::{Config, UpstreamUrl};
use crate::memory::{Exhausted, Memory};
use crate::outbound;
use crate::traces::Span;
use health::Penalty;

/// The HTTP side of all calls: one pool of connections for polls, one for reads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    polls: reqwest::Client,
    reads: reqwest::Client,
    /// Whether the beginning of a reply may be logged.
    shows_replies: bool,
}

/// One node of a chain.
#[derive(Debug, Clone)]
struct Node {
    url: UpstreamUrl,
    /// The chain that it has to serve.
    chain_id: u64,
    /// In the chain's configuration.
    place: usize,
}

/// What is taken of a reply.
#[derive(Debug, Clone, Copy)]
struct Cap<'a> {
    bytes: usize,
    /// Where those bytes are charged, if anywhere.
    memory: Option<&'a Memory>,
}

impl Client {
    /// No answer to a call that a poll makes is near this size: a fee history of 1,024 blocks is
    /// about 100 KiB.
    const POLL: Cap<'static> = Cap { bytes: 256 * 1024, memory: None };
    /// About what providers' limits on logs come to: 10,000 of them.
    const MAX_READ_BYTES: usize = 10 * 1024 * 1024;
    const MAX_IDLE: Duration = Duration::from_secs(30);

    /// Two pools without connections, for the nodes that `config` names.
    ///
    /// # Errors
    ///
    /// When the TLS backend cannot start.
    pub fn new(config: &Config) -> Result<Self, reqwest::Error> {
        // As many as may be in use, so that a burst does not have to connect again and again.
        let max_idle = config.rpc.max_in_flight.get();
        let pool = || {
            outbound::http()
                .pool_idle_timeout(Self::MAX_IDLE)
                .pool_max_idle_per_host(max_idle)
                .build()
        };
        let mut urls = config.chains.iter().flat_map(|chain| &chain.rpc_urls);
        let shows_replies = !urls.any(UpstreamUrl::may_hold_a_secret);
        // Each reads the system's certificates, for which the first poll would have to wait twice.
        let (polls, reads) = std::thread::scope(|scope| {
            let reads = scope.spawn(pool);
            (pool(), reads.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        Ok(Self { polls: polls?, reads: reads?, shows_replies })
    }

    /// Calls `method` at `url` for a poll and gives its `result`.
    async fn call(
        &self,
        node: &Node,
        method: &str,
        params: &serde_json::Value,
    ) -> Result<Box<RawValue>, Error> {
        let read = |body: &Bytes, status, id| read_reply(body, status, id);
        self.exchange(&self.polls, node, method, params, Self::POLL, read).await
    }

    /// Asks for the chain id on behalf of reads.
    async fn chain_id(&self, node: &Node) -> Result<Box<RawValue>, Error> {
        let read = |body: &Bytes, status, id| read_reply(body, status, id);
        let params = serde_json::Value::Array(Vec::new());
        self.exchange(&self.reads, node, "eth_chainId", &params, Self::POLL, read).await
    }

    /// Passes a read on and gives what the node says to it; what that takes is held in `memory`.
    async fn read(&self, node: &Node, call: Call<'_>, memory: &Memory) -> Result<Answer, Error> {
        let cap = Cap { bytes: Self::MAX_READ_BYTES, memory: Some(memory) };
        self.exchange(&self.reads, node, call.method, call.params, cap, reply::read_answer).await
    }

    /// One call, from its request to what `read` makes of the reply's body and status and the call's
    /// id.
    async fn exchange<P: Serialize + ?Sized, T>(
        &self,
        http: &reqwest::Client,
        node: &Node,
        method: &str,
        params: &P,
        cap: Cap<'_>,
        read: impl Fn(&Bytes, u16, u64) -> Result<T, Error>,
    ) -> Result<T, Error> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let request = reply::Request::new(id, method, params);
        let mut span = Span::of_call(method, node.chain_id, node.place);
        let outcome =
            self.send(http, node, &request, cap, |body, status| read(body, status, id)).await;
        match &outcome {
            Ok(_) => span.succeeded(),
            Err(error) => span.failed(error.reason()),
        }
        outcome
    }

    async fn send<T>(
        &self,
        http: &reqwest::Client,
        node: &Node,
        request: &(impl Serialize + ?Sized),
        cap: Cap<'_>,
        read: impl Fn(&Bytes, u16) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let response = http.post(node.url.expose().clone()).json(request).send().await?;
        let status = response.status().as_u16();
        let retry_after = outbound::retry_after(response.headers());
        let body = if outbound::is_encoded(response.headers()) {
            Err(Error::Encoded)
        } else {
            read_body(response, cap).await
        };
        let (outcome, body) = match body {
            Ok(body) => (read(&body, status), body),
            Err(error) => (Err(error), Bytes::new()),
        };
        let excerpt = || Excerpt::of(&body, self.shows_replies);
        outcome.map_err(|error| match error {
            // Whatever else is wrong with it, such as its size or its encoding.
            _ if status == reply::TOO_MANY_REQUESTS => Error::RateLimited(retry_after),
            Error::RateLimited(_) => Error::RateLimited(retry_after),
            Error::Status(status, _) => Error::Status(status, excerpt()),
            Error::NotJson(_) => Error::NotJson(excerpt()),
            error => error,
        })
    }
}

/// The whole body; where its bytes are charged, they are held until the last part of it is gone.
async fn read_body(mut response: reqwest::Response, cap: Cap<'_>) -> Result<Bytes, Error> {
    let mut body = Vec::new();
    let mut hold = cap.memory.map(Memory::hold);
    while let Some(chunk) = response.chunk().await? {
        if body.len().saturating_add(chunk.len()) > cap.bytes {
            return Err(Error::TooLarge(cap.bytes));
        }
        if let Some(hold) = &mut hold {
            hold.add(chunk.len())?;
        }
        body.extend_from_slice(&chunk);
    }
    body.shrink_to_fit();
    Ok(match hold {
        Some(hold) => hold.over(body),
        None => body.into(),
    })
}

/// Why a call gave nothing to believe.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No whole answer came before the deadline.
    #[error("no answer within the deadline")]
    Timeout,
    /// No connection could be made: refused, no such host, TLS.
    #[error("cannot connect")]
    Unreachable(#[source] reqwest::Error),
    /// The connection failed under way.
    #[error("the connection failed")]
    Transport(#[source] reqwest::Error),
    /// The body is over the cap of so many bytes.
    #[error("the body is larger than {} KiB", .0 / 1024)]
    TooLarge(usize),
    /// There is no memory for the body, which is not the node's fault.
    #[error(transparent)]
    NoMemory(#[from] Exhausted),
    /// The body is compressed, which was not asked for.
    #[error("the body has a content encoding that was not asked for")]
    Encoded,
    /// An HTTP status that is no success, without a JSON-RPC body.
    #[error("HTTP status {0}: {1}")]
    Status(u16, Excerpt),
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(Excerpt),
    /// The node is over its limit, and for how long where it says so.
    #[error("the node limits the rate of calls")]
    RateLimited(Option<Duration>),
    /// The node does not have the method.
    #[error("the node does not support the method")]
    Unsupported,
    /// The node has not seen the block yet that it was asked for.
    #[error("the node does not have the block yet")]
    BeyondHead,
    /// JSON, but not the answer to this call.
    #[error("not an answer to the call: {0}")]
    InvalidReply(&'static str),
    /// The node's own error, by its code where it has one.
    #[error("the node answers error {}", .0.map_or("without a code".into(), |code| code.to_string()))]
    Node(Option<i64>),
    /// The node serves another chain than the configured one.
    #[error("the node serves chain {found}, not {expected}")]
    WrongChain {
        /// The configured chain id.
        expected: u64,
        /// The node's.
        found: u128,
    },
    /// Another read has just failed to find out which chain the node serves.
    #[error("it is not known which chain the node serves")]
    Unchecked,
    /// The fee history cannot be believed.
    #[error(transparent)]
    FeeHistory(#[from] Malformed),
}

impl Error {
    /// JSON-RPC: the parameters are wrong.
    const INVALID_PARAMS: i64 = -32602;

    /// The kind of failure, from a closed list.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unreachable(_) => "unreachable",
            Self::Transport(_) => "transport",
            Self::TooLarge(_) => "too_large",
            Self::NoMemory(_) => "no_memory",
            Self::Encoded => "encoded",
            Self::Status(..) => "http_status",
            Self::NotJson(_) => "not_json",
            Self::RateLimited(_) => "rate_limited",
            Self::Unsupported => "unsupported",
            Self::BeyondHead => "beyond_head",
            Self::InvalidReply(_) => "invalid_reply",
            Self::Node(_) => "node_error",
            Self::WrongChain { .. } => "wrong_chain",
            Self::Unchecked => "unchecked",
            Self::FeeHistory(malformed) => malformed.reason(),
        }
    }

    /// Whether the node finds fault with the parameters.
    pub(crate) fn is_about_parameters(&self) -> bool {
        matches!(self, Self::Node(Some(Self::INVALID_PARAMS)))
    }

    fn penalty(&self) -> Penalty {
        match self {
            Self::BeyondHead | Self::NoMemory(_) | Self::Unchecked => Penalty::None,
            Self::Timeout => Penalty::LongRest,
            Self::RateLimited(retry_after) => Penalty::CoolDown(*retry_after),
            Self::WrongChain { .. } => Penalty::Quarantine,
            Self::Unsupported => Penalty::Unsupported,
            _ => Penalty::Rest,
        }
    }
}

impl From<reqwest::Error> for Error {
    fn from(error: reqwest::Error) -> Self {
        // The URL may carry a key.
        let error = error.without_url();
        if error.is_connect() { Self::Unreachable(error) } else { Self::Transport(error) }
    }
}
