//! Reads request bodies within their limits, whole or as a stream.

use std::error::Error;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use bytes::Bytes;
use futures_util::StreamExt;
use hyper::body::{Frame, SizeHint};
use sync_wrapper::SyncWrapper;
use tower_http::timeout::TimeoutError;

use super::problem::{Problem, ProblemCode};
use crate::observe::memory_budget::{MemoryBudget, ReservedBuffer};

/// Reads a whole body of at most `max_bytes` bytes. Received bytes are charged to `memory` until the last slice of the
/// body is dropped; announced bytes are not.
pub(crate) async fn read_body(
    request: Request,
    max_bytes: usize,
    memory: &MemoryBudget,
) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    if parts.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Problem::unsupported_encoding());
    }
    check_content_length(&parts.headers, max_bytes)?;
    let mut bytes = ReservedBuffer::new(max_bytes, memory);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| body_read_problem(&error))?;
        if bytes.len().saturating_add(chunk.len()) > max_bytes {
            return Err(too_large(max_bytes));
        }
        bytes.try_extend(&chunk).map_err(|_| Problem::overloaded())?;
    }
    Ok(bytes.into_bytes())
}

/// Request body that is forwarded. It ends with an error where it exceeds its limit or cannot be read. Its
/// [`UploadStatus`] keeps the reason.
#[derive(Debug)]
pub(crate) struct LimitedBody {
    body: SyncWrapper<Body>,
    max_bytes: usize,
    /// Bytes that may still arrive before the limit.
    remaining: usize,
    /// Bytes of `Content-Length` that have not arrived yet. `None`: the body is chunked.
    content_length_left: Option<u64>,
    status: UploadStatus,
}

/// Progress of an upload, for the handler that forwarded it.
#[derive(Debug, Clone, Default)]
pub(crate) struct UploadStatus {
    problem: Arc<OnceLock<Problem>>,
    is_waiting_for_client: Arc<AtomicBool>,
}

/// Error of a request body that ended early. Its owner knows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request body was aborted")]
pub(crate) struct RequestBodyAborted;

impl LimitedBody {
    /// Returns the body of `request`, limited to `max_bytes`, and the status of its upload.
    pub(crate) fn from_request(
        request: Request,
        max_bytes: usize,
    ) -> Result<(Self, UploadStatus), Problem> {
        let (parts, body) = request.into_parts();
        let content_length = check_content_length(&parts.headers, max_bytes)?;
        let is_chunked = parts.headers.contains_key(TRANSFER_ENCODING);
        let content_length_left =
            if is_chunked { None } else { Some(content_length.unwrap_or_default()) };
        let status = UploadStatus::default();
        let limited_body = Self {
            body: SyncWrapper::new(body),
            max_bytes,
            remaining: max_bytes,
            content_length_left,
            status: status.clone(),
        };
        Ok((limited_body, status))
    }

    fn accept_chunk(&mut self, chunk: Bytes) -> Result<Frame<Bytes>, Problem> {
        self.remaining =
            self.remaining.checked_sub(chunk.len()).ok_or_else(|| too_large(self.max_bytes))?;
        let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        self.content_length_left =
            self.content_length_left.map(|announced| announced.saturating_sub(length));
        Ok(Frame::data(chunk))
    }
}

impl UploadStatus {
    /// Returns the reason why the body was cut off, if it was.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.problem.get().cloned()
    }

    /// Returns true if the upload waits for the client: data is outstanding and the upstream reads it.
    pub(crate) fn is_waiting_for_client(&self) -> bool {
        self.is_waiting_for_client.load(Ordering::Relaxed)
    }
}

impl hyper::body::Body for LimitedBody {
    type Data = Bytes;
    type Error = RequestBodyAborted;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyAborted>>> {
        let this = self.get_mut();
        let frame = Pin::new(this.body.get_mut()).poll_frame(context);
        this.status.is_waiting_for_client.store(frame.is_pending(), Ordering::Relaxed);
        let frame = ready!(frame);
        // Trailers are not forwarded, because no allow-list covers them.
        let chunk = frame.and_then(|frame| frame.map(|frame| frame.into_data().ok()).transpose());
        let frame = chunk.map(|chunk| {
            chunk
                .map_err(|error| body_read_problem(&error))
                .and_then(|chunk| this.accept_chunk(chunk))
        });
        Poll::Ready(frame.map(|frame| {
            frame.map_err(|problem| {
                this.status.problem.get_or_init(|| problem);
                RequestBodyAborted
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.content_length_left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.content_length_left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Returns the `Content-Length`, if any, or an error if it exceeds `max_bytes`. The body's own size hint is not used:
/// the timeout layer hides it.
fn check_content_length(headers: &HeaderMap, max_bytes: usize) -> Result<Option<u64>, Problem> {
    let header = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let content_length = header.and_then(|length| length.parse::<u64>().ok());
    // A length beyond `usize` is too large.
    let fits = |length| usize::try_from(length).is_ok_and(|length| length <= max_bytes);
    if content_length.is_none_or(fits) { Ok(content_length) } else { Err(too_large(max_bytes)) }
}

fn too_large(max_bytes: usize) -> Problem {
    Problem::new(
        ProblemCode::PayloadTooLarge,
        format!("the body may have at most {max_bytes} bytes"),
    )
}

/// Returns the problem of a client that stopped sending or sent a malformed body.
fn body_read_problem(error: &axum::Error) -> Problem {
    let mut cause = error.source();
    while let Some(error) = cause.filter(|error| !error.is::<TimeoutError>()) {
        cause = error.source();
    }
    if cause.is_some() {
        Problem::new(ProblemCode::RequestTimeout, "the request body timed out")
    } else {
        Problem::new(ProblemCode::BadRequest, "the request body cannot be read")
    }
}
