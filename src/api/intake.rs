//! Takes a request's body within its limits: whole, or as it comes.

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

use super::problem::{Code, Problem};
use crate::memory::Memory;
use crate::proxy::Interrupted;

/// The whole body of at most `most` bytes, charged to `memory` as it comes until the last part of
/// it is gone: what is announced, but not sent, takes nothing.
pub(super) async fn read(request: Request, most: usize, memory: &Memory) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    if parts.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Problem::encoded_body());
    }
    check_announced(&parts.headers, most)?;
    let mut hold = memory.hold();
    let mut bytes = Vec::new();
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| of_body(&error))?;
        if bytes.len().saturating_add(chunk.len()) > most {
            return Err(too_large(most));
        }
        hold.add(chunk.len()).map_err(|_| Problem::overloaded())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(hold.over(bytes))
}

/// A body on its way to somebody else, which ends where it breaks a limit.
#[derive(Debug)]
pub(super) struct Upload {
    body: SyncWrapper<Body>,
    most: usize,
    /// What may still come.
    left: usize,
    /// What was announced and is still to come.
    announced: Option<u64>,
    progress: Progress,
}

/// How far an [`Upload`] has come, for whoever gave it away.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    problem: Arc<OnceLock<Problem>>,
    awaits_client: Arc<AtomicBool>,
}

impl Upload {
    /// The body of `request`, of at most `most` bytes, and what will be known of it.
    pub(super) fn of(request: Request, most: usize) -> Result<(Self, Progress), Problem> {
        let (parts, body) = request.into_parts();
        let announced = check_announced(&parts.headers, most)?;
        let is_chunked = parts.headers.contains_key(TRANSFER_ENCODING);
        let announced = if is_chunked { None } else { Some(announced.unwrap_or_default()) };
        let progress = Progress::default();
        let upload = Self {
            body: SyncWrapper::new(body),
            most,
            left: most,
            announced,
            progress: progress.clone(),
        };
        Ok((upload, progress))
    }

    fn take(&mut self, chunk: Bytes) -> Result<Frame<Bytes>, Problem> {
        self.left = self.left.checked_sub(chunk.len()).ok_or_else(|| too_large(self.most))?;
        let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        self.announced = self.announced.map(|announced| announced.saturating_sub(length));
        Ok(Frame::data(chunk))
    }
}

impl Progress {
    /// What broke the body off.
    pub(super) fn problem(&self) -> Option<Problem> {
        self.problem.get().cloned()
    }

    /// Whether the client is what it waits for: not when there is no more to come, and not when
    /// nobody takes what there is.
    pub(super) fn awaits_client(&self) -> bool {
        self.awaits_client.load(Ordering::Relaxed)
    }
}

impl hyper::body::Body for Upload {
    type Data = Bytes;
    type Error = Interrupted;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Interrupted>>> {
        let this = self.get_mut();
        let frame = Pin::new(this.body.get_mut()).poll_frame(context);
        this.progress.awaits_client.store(frame.is_pending(), Ordering::Relaxed);
        let frame = ready!(frame);
        // Trailers are headers that nobody has allowed.
        let chunk = frame.and_then(|frame| frame.map(|frame| frame.into_data().ok()).transpose());
        let frame = chunk
            .map(|chunk| chunk.map_err(|error| of_body(&error)).and_then(|chunk| this.take(chunk)));
        Poll::Ready(frame.map(|frame| {
            frame.map_err(|problem| {
                this.progress.problem.get_or_init(|| problem);
                Interrupted
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.announced == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.announced.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// The length that the headers announce, if any. Not the body's own word: the layer that gives it a
/// deadline does not pass that on.
fn check_announced(headers: &HeaderMap, most: usize) -> Result<Option<u64>, Problem> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let announced = announced.and_then(|length| length.parse::<u64>().ok());
    match announced.map(usize::try_from) {
        Some(Ok(length)) if length > most => Err(too_large(most)),
        Some(Err(_)) => Err(too_large(most)),
        _ => Ok(announced),
    }
}

fn too_large(most: usize) -> Problem {
    Problem::new(Code::PayloadTooLarge, format!("the body may have {most} bytes"))
}

/// The client stopped sending, or sent what is no body.
fn of_body(error: &axum::Error) -> Problem {
    let mut cause = error.source();
    while let Some(error) = cause.filter(|error| !error.is::<TimeoutError>()) {
        cause = error.source();
    }
    if cause.is_some() {
        Problem::new(Code::RequestTimeout, "the request body took too long")
    } else {
        Problem::new(Code::BadRequest, "the request body cannot be read")
    }
}
