//! Body of an upstream's response on its way to the client.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::InFlightPermit;
use crate::memory_budget::{MemoryBudget, MemoryExhausted};
use crate::metrics::Counter;

/// Body of an upstream's response.
///
/// A short body is complete before any of it is sent. A longer one may still break off, which resets the client's
/// connection, so that a part is not mistaken for the whole.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    buffered: VecDeque<Bytes>,
    /// Bytes received before any was sent.
    received: usize,
    /// `None`: no more data, or truncated and already counted.
    rest: Option<reqwest::Body>,
    /// Bytes not sent yet; `None` if unknown.
    remaining_length: Option<u64>,
    /// Bytes that may still arrive before the limit.
    remaining_limit: u64,
    deadline: Pin<Box<Sleep>>,
    truncated: Counter,
    _in_flight: InFlightPermit,
}

/// Reason why a body ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the upstream closed the connection")]
    ConnectionLost,
    #[error("the upstream did not finish before the deadline")]
    Timeout,
    #[error("the upstream's response is too large")]
    TooLarge,
    #[error(transparent)]
    NoMemory(#[from] MemoryExhausted),
}

impl UpstreamBody {
    /// A body below this size is sent once it is complete.
    const BUFFER_BYTES: usize = 16 * 1024;
    /// No useful response is that large.
    const MAX_BYTES: u64 = 256 * 1024 * 1024;

    /// Creates an empty body that must be complete by `deadline`.
    pub(super) fn new(deadline: Instant, in_flight: InFlightPermit, truncated: Counter) -> Self {
        Self {
            buffered: VecDeque::new(),
            received: 0,
            rest: None,
            remaining_length: Some(0),
            remaining_limit: Self::MAX_BYTES,
            deadline: Box::pin(sleep_until(deadline)),
            truncated,
            _in_flight: in_flight,
        }
    }

    /// Marks the response as bodyless, so that no `Content-Length` is sent.
    pub(super) fn set_bodyless(&mut self) {
        self.remaining_length = None;
    }

    pub(super) fn fits_in_buffer(&self) -> bool {
        self.received < Self::BUFFER_BYTES
    }

    pub(super) fn append(&mut self, chunk: Bytes) {
        self.remaining_length =
            self.remaining_length.map(|length| length.saturating_add(len_u64(&chunk)));
        self.received = self.received.saturating_add(chunk.len());
        self.buffered.push_back(chunk);
    }

    /// Reads the whole body of at most `max_bytes` bytes. They are charged to `memory` until their last slice is
    /// dropped.
    ///
    /// # Errors
    ///
    /// Returns why the body is incomplete.
    pub(crate) async fn collect(
        mut self,
        max_bytes: usize,
        memory: &MemoryBudget,
    ) -> Result<Bytes, BodyError> {
        let mut reservation = memory.reservation();
        let mut body = Vec::new();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut self).poll_frame(context)).await {
            // The frames contain data only.
            let chunk = frame?.into_data().unwrap_or_default();
            if body.len().saturating_add(chunk.len()) > max_bytes {
                return Err(BodyError::TooLarge);
            }
            reservation.try_grow(chunk.len())?;
            body.extend_from_slice(&chunk);
        }
        Ok(reservation.into_bytes(body))
    }

    /// Sets the rest of the body, after the part that is buffered.
    pub(super) fn set_rest(&mut self, rest: reqwest::Response) {
        let rest = reqwest::Body::from(rest);
        let rest_length = rest.size_hint().exact();
        self.remaining_length =
            self.remaining_length.zip(rest_length).map(|(here, more)| here.saturating_add(more));
        self.rest = Some(rest);
    }

    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        if self.deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(BodyError::Timeout)));
        }
        match ready!(Pin::new(rest).poll_frame(context)) {
            None => Poll::Ready(None),
            Some(Err(_)) => Poll::Ready(Some(Err(BodyError::ConnectionLost))),
            // Trailers are dropped, because no allow-list covers them.
            Some(Ok(frame)) => Poll::Ready(frame.into_data().ok().map(Ok)),
        }
    }
}

fn len_u64(chunk: &Bytes) -> u64 {
    u64::try_from(chunk.len()).unwrap_or(u64::MAX)
}

impl Drop for UpstreamBody {
    fn drop(&mut self) {
        if self.rest.is_some() && self.deadline.deadline() <= Instant::now() {
            self.truncated.increment();
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let next = match this.buffered.pop_front() {
            Some(chunk) => Some(Ok(chunk)),
            None => ready!(this.poll_rest(context)),
        };
        let next = match next {
            Some(Ok(chunk)) if len_u64(&chunk) > this.remaining_limit => {
                Some(Err(BodyError::TooLarge))
            }
            next => next,
        };
        Poll::Ready(match next {
            Some(Ok(chunk)) => {
                this.remaining_limit = this.remaining_limit.saturating_sub(len_u64(&chunk));
                this.remaining_length =
                    this.remaining_length.map(|length| length.saturating_sub(len_u64(&chunk)));
                Some(Ok(Frame::data(chunk)))
            }
            Some(Err(error)) => {
                this.truncated.increment();
                this.rest = None;
                Some(Err(error))
            }
            None => {
                this.rest = None;
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.buffered.is_empty() && self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining_length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
