//! The body of an upstream's answer on its way to the client.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use metrics::Counter;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Exchange;
use crate::memory::{Exhausted, Memory};

/// What there is of an answer, and where the rest of it comes from.
///
/// A short one is known to be whole before any of it is sent. A longer one may still break off, which
/// ends the client's connection: it must not take a part for the whole.
#[derive(Debug)]
pub(crate) struct Answer {
    beginning: VecDeque<Bytes>,
    /// How many bytes of it have come before any was sent.
    received: usize,
    /// `None`: there is no more, or it was cut and that is counted.
    rest: Option<reqwest::Body>,
    /// Of what is not sent yet; `None`: nobody knows.
    length: Option<u64>,
    /// How many bytes more there may be.
    left: u64,
    deadline: Pin<Box<Sleep>>,
    cut: Counter,
    _exchange: Exchange,
}

/// Why an answer ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Cut {
    #[error("the upstream broke off")]
    Broken,
    #[error("the upstream did not end before the deadline")]
    Late,
    #[error("the upstream's answer is too large")]
    TooLarge,
    #[error(transparent)]
    NoMemory(#[from] Exhausted),
}

impl Answer {
    /// An answer below this is sent when all of it is there.
    const SHORT: usize = 16 * 1024;
    /// No answer of use is near this size.
    const MAX_BYTES: u64 = 256 * 1024 * 1024;

    /// Nothing yet; all of it has to come before the `deadline`.
    pub(super) fn new(deadline: Instant, exchange: Exchange, cut: Counter) -> Self {
        Self {
            beginning: VecDeque::new(),
            received: 0,
            rest: None,
            length: Some(0),
            left: Self::MAX_BYTES,
            deadline: Box::pin(sleep_until(deadline)),
            cut,
            _exchange: exchange,
        }
    }

    /// There is no body, so nothing says how long it would be.
    pub(super) fn has_no_body(&mut self) {
        self.length = None;
    }

    pub(super) fn is_short(&self) -> bool {
        self.received < Self::SHORT
    }

    /// When it ends, whole or not. A client that does not take it keeps the answer from seeing to
    /// that: nobody asks for more of it then.
    pub(crate) fn deadline(&self) -> std::time::Instant {
        self.deadline.deadline().into_std()
    }

    pub(super) fn append(&mut self, chunk: Bytes) {
        self.length = self.length.map(|length| length.saturating_add(count(&chunk)));
        self.received = self.received.saturating_add(chunk.len());
        self.beginning.push_back(chunk);
    }

    /// The whole of it, of at most `most` bytes, which are held in `memory` until the last part of them
    /// is gone.
    ///
    /// # Errors
    ///
    /// Why there is no whole.
    pub(crate) async fn collect(mut self, most: usize, memory: &Memory) -> Result<Bytes, Cut> {
        let mut hold = memory.hold();
        let mut body = Vec::new();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut self).poll_frame(context)).await {
            // Its frames have data alone.
            let chunk = frame?.into_data().unwrap_or_default();
            if body.len().saturating_add(chunk.len()) > most {
                return Err(Cut::TooLarge);
            }
            hold.add(chunk.len())?;
            body.extend_from_slice(&chunk);
        }
        Ok(hold.over(body))
    }

    /// What comes after what is there already.
    pub(super) fn continue_with(&mut self, rest: reqwest::Response) {
        let rest = reqwest::Body::from(rest);
        let of_rest = rest.size_hint().exact();
        self.length = self.length.zip(of_rest).map(|(here, more)| here.saturating_add(more));
        self.rest = Some(rest);
    }

    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        if self.deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(Cut::Late)));
        }
        match ready!(Pin::new(rest).poll_frame(context)) {
            None => Poll::Ready(None),
            Some(Err(_)) => Poll::Ready(Some(Err(Cut::Broken))),
            // Trailers are headers that nobody has allowed.
            Some(Ok(frame)) => Poll::Ready(frame.into_data().ok().map(Ok)),
        }
    }
}

fn count(chunk: &Bytes) -> u64 {
    u64::try_from(chunk.len()).unwrap_or(u64::MAX)
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.rest.is_some() && self.deadline.deadline() <= Instant::now() {
            self.cut.increment(1);
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = self.get_mut();
        let next = match this.beginning.pop_front() {
            Some(chunk) => Some(Ok(chunk)),
            None => ready!(this.poll_rest(context)),
        };
        let next = match next {
            Some(Ok(chunk)) if count(&chunk) > this.left => Some(Err(Cut::TooLarge)),
            next => next,
        };
        Poll::Ready(match next {
            Some(Ok(chunk)) => {
                this.left = this.left.saturating_sub(count(&chunk));
                this.length = this.length.map(|length| length.saturating_sub(count(&chunk)));
                Some(Ok(Frame::data(chunk)))
            }
            Some(Err(cut)) => {
                this.cut.increment(1);
                this.rest = None;
                Some(Err(cut))
            }
            None => {
                this.rest = None;
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.beginning.is_empty() && self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
