//! Request bodies that are forwarded, within their limits.

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

use crate::extras::proxy::RequestBodyAborted;
use crate::http::problem::Problem;
use crate::http::request_body::{body_read_problem, check_content_length, too_large};

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
