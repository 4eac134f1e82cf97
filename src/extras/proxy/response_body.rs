//! Body of an upstream's response on its way to the client.
//!
//! A short body is complete before any of it is sent. A longer one may still break off, which resets the client's
//! connection, so that a part is not mistaken for the whole.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tokio::time::{Instant, timeout_at};

use super::{InFlightPermit, ProxyError};
use crate::observe::metrics::Counter;

/// Body of an upstream's response.
pub(crate) type UpstreamBody = UnsyncBoxBody<Bytes, ProxyError>;

/// A body from this size on is streamed.
pub(crate) const MAX_BUFFERED_BYTES: usize = 16 * 1024;

/// No useful response is that large.
pub(crate) const MAX_STREAMED_BYTES: usize = 256 * 1024 * 1024;

/// The part of a response that has not been received yet.
#[derive(Debug)]
pub(crate) struct Rest {
    pub(super) response: reqwest::Response,
    pub(super) deadline: Instant,
    /// Bytes that may still arrive.
    pub(super) remaining: usize,
    /// Counts a truncated body; `None`: the body has ended.
    pub(super) truncated: Option<Counter>,
    pub(super) _in_flight: InFlightPermit,
}

/// Returns the body of a response that has none. Its length is unknown, so that no `Content-Length` is derived from it.
pub(crate) fn absent() -> UpstreamBody {
    StreamBody::new(stream::empty()).boxed_unsync()
}

/// Returns a body that has arrived completely.
pub(crate) fn complete(chunks: &[Bytes]) -> UpstreamBody {
    Full::new(Bytes::from(chunks.concat())).map_err(|never| match never {}).boxed_unsync()
}

/// Returns the body that begins with `chunks` and goes on with `rest`.
pub(crate) fn streamed(chunks: Vec<Bytes>, rest: Rest) -> UpstreamBody {
    let rest = stream::try_unfold(rest, async |mut rest| {
        Ok(rest.next_chunk().await?.map(|chunk| (chunk, rest)))
    });
    let chunks = stream::iter(chunks).map(Ok).chain(rest);
    StreamBody::new(chunks.map(|chunk| chunk.map(Frame::data))).boxed_unsync()
}

impl Rest {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, ProxyError> {
        // A chunk that is there already would win against the deadline.
        let is_overdue = Instant::now() >= self.deadline;
        // Trailers are dropped, because no allow-list covers them.
        let chunk = match timeout_at(self.deadline, self.response.chunk()).await {
            Ok(Ok(Some(_))) if is_overdue => Err(ProxyError::Timeout),
            Err(_) => Err(ProxyError::Timeout),
            Ok(Err(_)) => Err(ProxyError::ConnectionLost),
            Ok(Ok(chunk)) => Ok(chunk),
        };
        let chunk = chunk.and_then(|chunk| {
            let length = chunk.as_ref().map_or(0, Bytes::len);
            self.remaining =
                self.remaining.checked_sub(length).ok_or(ProxyError::InvalidResponse)?;
            Ok(chunk)
        });
        match chunk {
            Ok(Some(_)) => {}
            Ok(None) => self.truncated = None,
            Err(_) => _ = self.truncated.take().map(|truncated| truncated.increment()),
        }
        chunk
    }
}

impl Drop for Rest {
    /// Counts a body as truncated whose client was too slow for the deadline.
    fn drop(&mut self) {
        if let Some(truncated) = self.truncated.take().filter(|_| self.deadline <= Instant::now()) {
            truncated.increment();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Semaphore;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::http::client_limits::{ClientHandle, SlotKind};

    async fn collect(body: UpstreamBody) -> Result<Bytes, ProxyError> {
        Ok(body.collect().await?.to_bytes())
    }

    /// Returns the rest of a body, and its counter of truncated bodies.
    fn rest(text: &'static str, deadline: Instant) -> (Rest, Counter) {
        let in_flight = InFlightPermit {
            _permit: Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap(),
            _client_permit: ClientHandle::default().acquire(SlotKind::Forwarded, 1).unwrap(),
            _cancel_body: CancellationToken::new().drop_guard(),
        };
        let truncated = Counter::default();
        let rest = Rest {
            response: axum::http::Response::new(text).into(),
            deadline,
            remaining: MAX_STREAMED_BYTES,
            truncated: Some(truncated.clone()),
            _in_flight: in_flight,
        };
        (rest, truncated)
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_mins(1)
    }

    #[tokio::test]
    async fn a_body_above_the_limit_breaks_off_and_is_counted() {
        for (limit, expected, count) in
            [(5, Ok(Bytes::from("12345")), 0), (4, Err(ProxyError::InvalidResponse), 1)]
        {
            let (mut rest, truncated) = rest("12345", later());
            rest.remaining = limit;
            let streamed = streamed(Vec::new(), rest);
            assert_eq!(collect(streamed).await, expected);
            assert_eq!(truncated.get(), count);
        }
    }

    #[tokio::test]
    async fn a_body_breaks_off_at_its_deadline_even_if_more_of_it_is_there() {
        let (rest, truncated) = rest("12345", Instant::now());
        let collected = collect(streamed(Vec::new(), rest)).await;
        assert_eq!((collected, truncated.get()), (Err(ProxyError::Timeout), 1));
    }

    #[tokio::test]
    async fn a_body_dropped_after_its_deadline_counts_as_truncated() {
        for (deadline, count) in [(Instant::now(), 1), (later(), 0)] {
            let (rest, truncated) = rest("12345", deadline);
            drop(streamed(Vec::new(), rest));
            assert_eq!(truncated.get(), count);
        }
    }
}
