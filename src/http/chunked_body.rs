//! A body whose bytes are complete and may be shared, handed out in small frames.
//!
//! hyper copies a frame for each connection. A whole body would take its size again for each client that does not read.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::observe::memory_budget::Reservation;

/// Body in frames of at most [`MAX_FRAME_BYTES`](Self::MAX_FRAME_BYTES).
#[derive(Debug)]
pub(crate) struct ChunkedBody {
    chunks: VecDeque<Bytes>,
    _reservation: Option<Reservation>,
}

/// Marks a response whose body is already charged to the memory budget, or is shared by all clients, and comes in small
/// frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charged;

impl ChunkedBody {
    pub(crate) const MAX_FRAME_BYTES: usize = 16 * 1024;

    /// Creates a body of `chunks`, which holds `reservation` until it is dropped.
    pub(crate) fn new(chunks: VecDeque<Bytes>, reservation: Option<Reservation>) -> Self {
        Self { chunks, _reservation: reservation }
    }
}

impl From<Bytes> for ChunkedBody {
    fn from(bytes: Bytes) -> Self {
        let chunks = if bytes.is_empty() { VecDeque::new() } else { [bytes].into() };
        Self::new(chunks, None)
    }
}

impl hyper::body::Body for ChunkedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = self.chunks.front_mut().map(|chunk| {
            let length = chunk.len().min(Self::MAX_FRAME_BYTES);
            chunk.split_to(length)
        });
        if self.chunks.front().is_some_and(Bytes::is_empty) {
            self.chunks.pop_front();
        }
        Poll::Ready(frame.map(|frame| Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let remaining: usize = self.chunks.iter().map(Bytes::len).sum();
        u64::try_from(remaining).map_or_else(|_| SizeHint::default(), SizeHint::with_exact)
    }
}
