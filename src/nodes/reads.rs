//! Reads for clients: one call, forwarded to the first node that can answer it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::value::RawValue;

use super::read_budget::Exhausted;
use super::read_health::ReadHealth;
use super::{ChainUpstreams, Error, NodeResponse, UpstreamNode};
use crate::observe::clock;
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::redaction::RedactError;

/// A call as the client sent it, without its id.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The method's name.
    pub method: &'a str,
    /// A JSON array, or an object for methods that are not validated.
    pub params: &'a RawValue,
    /// True if the call may be repeated at another node when its outcome is unknown.
    pub is_retryable: bool,
    /// Client of whose share of a node's budget the call is taken. `None`: the service itself makes the call.
    pub client: Option<IpAddr>,
}

/// Reason why no node answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No response before the deadline.
    #[error("no upstream responded in time")]
    TimedOut,
    /// All available nodes limit the rate. A retry can succeed after this time.
    #[error("the upstreams are rate limiting; retry later")]
    RateLimited(Duration),
    /// The reads, or those of this client, have used up their budget of every available node.
    #[error("{0}")]
    BudgetExhausted(Exhausted),
    /// The response exceeds the size limit.
    #[error("the response is too large; request less")]
    TooLarge,
    /// The memory budget is exhausted.
    #[error("too many large responses in flight; retry later")]
    NoMemory,
    /// No node has the method.
    #[error("the upstreams do not support the method")]
    Unsupported,
    /// No node is available, or none returned a usable response.
    #[error("no upstream returned a usable response")]
    Unavailable,
}

impl ChainUpstreams {
    /// Calls the upstreams in order until one responds. The next one is called when one fails, and also after a while
    /// without a response, while the slow call continues. The wait is `HEDGE_DELAY`, or an equal share of the time left
    /// if that is shorter. So the last node is called in time however many are silent, and a slow one can still answer.
    /// A call that is not retryable moves on only if the node did not process it.
    ///
    /// A node's own error about the call is a response. Its bytes are charged to `memory`. Dropping the future ends the
    /// call.
    ///
    /// # Errors
    ///
    /// Error of the last upstream that failed; a missing method only if all allowed upstreams lack it. It contains no
    /// text of a node.
    pub(crate) async fn read(
        &self,
        call: Call<'_>,
        deadline: Instant,
        memory: &MemoryBudget,
    ) -> Result<NodeResponse, ReadError> {
        Ok(self.read_except(&[], call, deadline, memory).await?.1)
    }

    /// Makes a read of the service itself: no client's share is used. `params` is a JSON array. Returns the `result`, or
    /// `None` for a node's own error. Ends within `timeout`.
    ///
    /// # Errors
    ///
    /// Like [`read`](Self::read).
    pub(crate) async fn read_for_service(
        &self,
        method: &str,
        params: String,
        timeout: Duration,
        memory: &MemoryBudget,
    ) -> Result<Option<Bytes>, ReadError> {
        let params = RawValue::from_string(params).map_err(|_| ReadError::Unavailable)?;
        let call = Call { method, params: &params, is_retryable: true, client: None };
        match self.read(call, Instant::now() + timeout, memory).await? {
            NodeResponse::Result(result) => Ok(Some(result)),
            NodeResponse::Error(_) => Ok(None),
        }
    }

    /// Returns true if there is an upstream for reads besides the `rejected` ones.
    pub(crate) fn has_reader_except(&self, rejected: &[usize]) -> bool {
        self.for_reads().any(|(index, _)| !rejected.contains(&index))
    }

    /// Like [`read`](Self::read), but never calls the upstreams with the `rejected` indices. Returns the index of the one
    /// that responded, and its response.
    pub(crate) async fn read_except(
        &self,
        rejected: &[usize],
        call: Call<'_>,
        deadline: Instant,
        memory: &MemoryBudget,
    ) -> Result<(usize, NodeResponse), ReadError> {
        let (candidates, skip_error) = self.read_candidates(rejected, &call, clock::now());
        let mut candidates = candidates.into_iter();
        let time_share = deadline.saturating_duration_since(Instant::now())
            / u32::try_from(candidates.len()).unwrap_or(u32::MAX).max(1);
        let hedge_delay = time_share.min(ReadHealth::HEDGE_DELAY);
        let mut pending = InFlightAttempts { upstreams: self, started: Vec::new() };
        let mut in_flight = FuturesUnordered::new();
        let mut last_error = skip_error;
        loop {
            if let Some((index, upstream)) = candidates.next() {
                pending.started.push((index, clock::now()));
                let call_future = upstream.read(call, memory);
                in_flight.push(async move { (index, call_future.await) });
            }
            let is_last = candidates.len() == 0 || !call.is_retryable;
            let wake_at =
                if is_last { deadline } else { deadline.min(Instant::now() + hedge_delay) };
            let (index, reply) =
                match tokio::time::timeout_at(wake_at.into(), in_flight.next()).await {
                    Ok(Some(answered)) => answered,
                    Ok(None) => return Err(last_error.unwrap_or(ReadError::Unavailable)),
                    Err(_) if Instant::now() >= deadline => {
                        pending.abandon_all("timeout");
                        return Err(ReadError::TimedOut);
                    }
                    Err(_) => continue,
                };
            pending.started.retain(|(pending_index, _)| *pending_index != index);
            let reason = reply.as_ref().map_or_else(Error::reason, |_| "ok");
            self.count_read(index, reason);
            match reply {
                Ok(answer) => {
                    pending.abandon_all("superseded");
                    return Ok((index, self.redact_error(answer, memory)?));
                }
                Err(error) => {
                    tracing::debug!(
                        chain = self.chain(),
                        upstream = index,
                        reason,
                        %error,
                        "upstream read failed"
                    );
                    let failure = ReadError::from_error(&error);
                    if !error.allows_failover(call.is_retryable) {
                        return Err(failure);
                    }
                    last_error = Some(match last_error {
                        // A missing method at this node says nothing about a node that failed otherwise.
                        Some(other) if failure == ReadError::Unsupported => other,
                        _ => failure,
                    });
                }
            }
        }
    }

    fn redact_error(
        &self,
        response: NodeResponse,
        memory: &MemoryBudget,
    ) -> Result<NodeResponse, ReadError> {
        match response {
            NodeResponse::Result(_) => Ok(response),
            NodeResponse::Error(error) => {
                Ok(NodeResponse::Error(self.redactor().redact_json(&error, memory)?))
            }
        }
    }

    /// Nodes to try for `call`, best first: by availability, then by whether they lately lacked the method. Also
    /// returns why the others were skipped.
    fn read_candidates(
        &self,
        rejected: &[usize],
        call: &Call<'_>,
        now: Instant,
    ) -> (Vec<(usize, &UpstreamNode)>, Option<ReadError>) {
        let mut skip_error = None;
        let mut order = Vec::new();
        for (index, upstream) in self.for_reads() {
            if rejected.contains(&index) {
                continue;
            }
            match upstream.try_admit_read(call.client, now) {
                Ok(availability) => {
                    order.push((
                        availability,
                        upstream.lacks_method(call.method, now),
                        (index, upstream),
                    ));
                }
                Err(why) => {
                    if let ReadError::BudgetExhausted(exhausted) = why {
                        self.count_read(index, Error::BudgetExhausted(exhausted).reason());
                    }
                    skip_error = Some(skip_error.map_or(why, |other: ReadError| other.or(why)));
                }
            }
        }
        // A stable sort keeps the order of preference among equals.
        order.sort_by_key(|(availability, lacks, _)| (*availability, *lacks));
        (order.into_iter().map(|(_, _, upstream)| upstream).collect(), skip_error)
    }
}

/// Upstreams with a pending call, and when each was called.
struct InFlightAttempts<'a> {
    upstreams: &'a ChainUpstreams,
    started: Vec<(usize, Instant)>,
}

impl InFlightAttempts<'_> {
    fn abandon_all(&mut self, reason: &'static str) {
        for (index, since) in self.started.drain(..) {
            self.upstreams.count_read(index, reason);
            if let Some(upstream) = self.upstreams.get(index) {
                upstream.record_read_timeout(since);
            }
        }
    }
}

impl Drop for InFlightAttempts<'_> {
    /// Records the pending calls as abandoned: the client may have disconnected because the node was silent.
    fn drop(&mut self) {
        self.abandon_all("cancelled");
    }
}

impl ReadError {
    /// Time to wait if the node names none.
    const USUAL_WAIT: Duration = Duration::from_secs(1);

    /// Returns the reason for two skipped nodes: the shortest known wait, if any.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::BudgetExhausted(one), Self::BudgetExhausted(other)) => {
                Self::BudgetExhausted(if other.wait < one.wait { other } else { one })
            }
            (Self::BudgetExhausted(_), _) => self,
            _ => other,
        }
    }

    fn from_error(error: &Error) -> Self {
        match error {
            Error::RateLimited(wait) => Self::RateLimited(wait.unwrap_or(Self::USUAL_WAIT)),
            Error::BudgetExhausted(exhausted) => Self::BudgetExhausted(*exhausted),
            Error::TooLarge(_) => Self::TooLarge,
            Error::NoMemory(_) => Self::NoMemory,
            Error::Unsupported => Self::Unsupported,
            _ => Self::Unavailable,
        }
    }
}

impl From<RedactError> for ReadError {
    fn from(why: RedactError) -> Self {
        match why {
            RedactError::TooLarge => Self::TooLarge,
            RedactError::Unparsable => Self::Unavailable,
            RedactError::NoMemory(_) => Self::NoMemory,
        }
    }
}

impl Error {
    /// Returns true if the next upstream may succeed after this error.
    fn allows_failover(&self, is_retryable: bool) -> bool {
        match self {
            Self::TooLarge(_) | Self::NoMemory(_) => false,
            // The node did not process the call.
            Self::Unreachable(_)
            | Self::RateLimited(_)
            | Self::BudgetExhausted(_)
            | Self::Unsupported
            | Self::WrongChain { .. }
            | Self::ChainUnverified => true,
            _ => is_retryable,
        }
    }
}
