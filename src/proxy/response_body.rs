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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Semaphore;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::client_limits::{ClientHandle, LongRequestKind};

    const MEMORY: usize = 1024 * 1024;

    /// Returns a body whose rest is `text`, and its counter of truncated bodies.
    fn body(text: &'static str, deadline: Instant) -> (UpstreamBody, Counter) {
        let in_flight = InFlightPermit {
            _permit: Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap(),
            _client_permit: ClientHandle::default().acquire(LongRequestKind::Forwarded, 1).unwrap(),
            _cancel_body: CancellationToken::new().drop_guard(),
        };
        let truncated = Counter::default();
        let mut body = UpstreamBody::new(deadline, in_flight, truncated.clone());
        body.set_rest(axum::http::Response::new(text).into());
        (body, truncated)
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_mins(1)
    }

    #[tokio::test]
    async fn a_body_is_collected_up_to_the_given_size() {
        let memory = MemoryBudget::new(MEMORY);
        let collect = async |max_bytes| body("12345", later()).0.collect(max_bytes, &memory).await;
        assert_eq!(collect(5).await, Ok(Bytes::from("12345")));
        assert_eq!(collect(4).await, Err(BodyError::TooLarge));
    }

    #[tokio::test]
    async fn a_body_above_the_limit_breaks_off_and_is_counted() {
        for (limit, expected, count) in
            [(5, Ok(Bytes::from("12345")), 0), (4, Err(BodyError::TooLarge), 1)]
        {
            let (mut body, truncated) = body("12345", later());
            body.remaining_limit = limit;
            assert_eq!(body.collect(MEMORY, &MemoryBudget::new(MEMORY)).await, expected);
            assert_eq!(truncated.get(), count);
        }
    }

    #[tokio::test]
    async fn a_body_dropped_after_its_deadline_counts_as_truncated() {
        for (deadline, count) in [(Instant::now(), 1), (later(), 0)] {
            let (body, truncated) = body("12345", deadline);
            drop(body);
            assert_eq!(truncated.get(), count);
        }
    }
}
