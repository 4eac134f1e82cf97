//! Errors of calls to nodes.

use std::time::Duration;

use super::MalformedFeeHistory;
use crate::observe::http_client;
use crate::observe::memory_budget::MemoryExhausted;

/// Error of the HTTP client, without the URL.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Error of a call.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Error {
    /// No complete reply before the deadline.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// No connection: refused, unknown host, or TLS failure.
    #[error("cannot connect")]
    Unreachable(#[source] Cause),
    /// The connection failed during the call.
    #[error("the connection failed")]
    Transport(#[source] Cause),
    /// The body exceeds the limit of this many bytes.
    #[error("the body is larger than {} KiB", .0 / 1024)]
    TooLarge(usize),
    /// The memory budget is exhausted, which is not the node's fault.
    #[error(transparent)]
    NoMemory(#[from] MemoryExhausted),
    /// The body is compressed in another way than `gzip` or `deflate`, or is not what it says.
    #[error("the body has a content encoding that cannot be decoded")]
    UnexpectedEncoding,
    /// An HTTP error status without a JSON-RPC body.
    #[error("HTTP status {0}: {1}")]
    #[strum(serialize = "http_status")]
    Status(u16, String),
    /// HTTP status 401 or 403. The message is the node's own, or the beginning of the body.
    #[error("HTTP status {0}: the node refuses the key, or needs one: {1}")]
    #[strum(serialize = "http_status")]
    Refused(u16, String),
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    /// The node limits the rate. Holds the time to wait, if the node states it.
    #[error("the node is rate limiting")]
    RateLimited(Option<Duration>),
    /// The node does not have the method.
    #[error("the node does not support the method")]
    Unsupported,
    /// The node has not yet seen the requested block.
    #[error("the node does not have the block yet")]
    BeyondHead,
    /// JSON, but not a valid reply to this call.
    #[error("invalid reply: {0}")]
    InvalidReply(&'static str),
    /// The node's own error, with its code if it has one, and the beginning of its message without secrets of URLs.
    #[error("the node returned error {code}: {message}", code = .0.map_or("without a code".into(), |code| code.to_string()), message = .1)]
    #[strum(serialize = "node_error")]
    Node(Option<i64>, String),
    /// The node serves another chain than the configured one.
    #[error("the node serves chain {found}, not {expected}")]
    WrongChain {
        /// The configured chain id.
        expected: u64,
        /// The node's chain id.
        found: u128,
    },
    /// The fee history is malformed.
    #[error(transparent)]
    FeeHistory(#[from] MalformedFeeHistory),
}

impl Error {
    /// JSON-RPC: invalid parameters.
    const INVALID_PARAMS: i64 = -32602;

    /// Label of the error, from a closed list.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::FeeHistory(malformed) => malformed.into(),
            error => error.into(),
        }
    }

    /// Returns true if the URL or its key is wrong, which no repetition mends.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Unreachable(cause) => cause.is::<SpeaksNoTls>(),
            Self::Refused(..) => true,
            _ => false,
        }
    }

    /// Returns true if the node rejects the parameters.
    #[must_use]
    pub fn is_invalid_params(&self) -> bool {
        matches!(self, Self::Node(Some(Self::INVALID_PARAMS), _))
    }
}

impl From<reqwest::Error> for Error {
    fn from(error: reqwest::Error) -> Self {
        // The URL may contain a key.
        let error = error.without_url();
        if http_client::speaks_no_tls(&error) {
            Self::Unreachable(SpeaksNoTls.into())
        } else if error.is_connect() {
            Self::Unreachable(error.into())
        } else {
            Self::Transport(error.into())
        }
    }
}

/// The server at an `https://` URL answers in the clear.
#[derive(Debug, thiserror::Error)]
#[error("{}", http_client::SPEAKS_NO_TLS)]
struct SpeaksNoTls;

/// Formats an error with its causes on one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
