//! Request bodies that are forwarded, within their limits.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::TRANSFER_ENCODING;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use sync_wrapper::SyncWrapper;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::http::problem::{Problem, ProblemCode};
use crate::http::request_body::{body_read_problem, check_content_length, too_large};

/// Request body that is forwarded. It ends with an error where it exceeds its limit or cannot be read, and with its
/// request: otherwise a client that continues to send after the response would keep the upstream connection open.
#[derive(Debug)]
pub(crate) struct RequestBody {
    body: SyncWrapper<Body>,
    max_bytes: usize,
    received: usize,
    /// `None`: the body is chunked.
    content_length: Option<u64>,
    pub(super) upload: Arc<Upload>,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// Progress of an upload, for the request that it belongs to.
#[derive(Debug, Default)]
pub(super) struct Upload {
    problem: OnceLock<Problem>,
    is_waiting_for_client: AtomicBool,
    pub(super) cancel: CancellationToken,
}

/// Error of a request body that ended early. Its [`Upload`] keeps the reason.
#[derive(Debug, thiserror::Error)]
#[error("the request body was aborted")]
pub(crate) struct RequestBodyAborted;

impl TryFrom<(Request, usize)> for RequestBody {
    type Error = Problem;

    /// Returns the body of the request, limited to so many bytes.
    fn try_from((request, max_bytes): (Request, usize)) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let content_length = check_content_length(&parts.headers, max_bytes)?;
        let is_chunked = parts.headers.contains_key(TRANSFER_ENCODING);
        let upload = Arc::<Upload>::default();
        Ok(Self {
            body: SyncWrapper::new(body),
            max_bytes,
            received: 0,
            content_length: (!is_chunked).then(|| content_length.unwrap_or_default()),
            cancelled: Box::pin(upload.cancel.clone().cancelled_owned()),
            upload,
        })
    }
}

impl RequestBody {
    /// Returns the bytes of `Content-Length` that have not arrived yet.
    fn remaining(&self) -> Option<u64> {
        let received = u64::try_from(self.received).unwrap_or(u64::MAX);
        self.content_length.map(|length| length.saturating_sub(received))
    }

    fn accept_chunk(&mut self, chunk: Bytes) -> Result<Frame<Bytes>, Problem> {
        self.received = self.received.saturating_add(chunk.len());
        if self.received > self.max_bytes {
            return Err(too_large(self.max_bytes));
        }
        Ok(Frame::data(chunk))
    }
}

impl Upload {
    /// Returns the reason why the body was cut off, if it was.
    pub(super) fn problem(&self) -> Option<Problem> {
        self.problem.get().cloned()
    }

    /// Returns the problem of a request that timed out while the upstream waited for more of the body.
    pub(super) fn timeout_problem(&self) -> Option<Problem> {
        let is_waiting = self.is_waiting_for_client.load(Ordering::Relaxed);
        is_waiting.then(|| Problem::new(ProblemCode::RequestTimeout, "the request body timed out"))
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyAborted;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyAborted>>> {
        let this = self.get_mut();
        if this.cancelled.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(RequestBodyAborted)));
        }
        let frame = Pin::new(this.body.get_mut()).poll_frame(context);
        this.upload.is_waiting_for_client.store(frame.is_pending(), Ordering::Relaxed);
        let frame = ready!(frame);
        // Trailers are not forwarded, because no allow-list covers them.
        let chunk = frame.and_then(|frame| frame.map(|frame| frame.into_data().ok()).transpose());
        let frame = chunk.map(|chunk| {
            let chunk = chunk.map_err(|error| body_read_problem(&error));
            chunk.and_then(|chunk| this.accept_chunk(chunk))
        });
        Poll::Ready(frame.map(|frame| {
            frame.map_err(|problem| {
                this.upload.problem.get_or_init(|| problem);
                RequestBodyAborted
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
