//! Reads request bodies within their limits.

use std::error::Error;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use bytes::Bytes;
use futures_util::StreamExt;
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
        let detail = "request bodies must not have a Content-Encoding";
        return Err(Problem::new(ProblemCode::UnsupportedMediaType, detail));
    }
    check_content_length(&parts.headers, max_bytes)?;
    let mut bytes = ReservedBuffer::new(max_bytes, memory);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| body_read_problem(&error))?;
        if bytes.len().saturating_add(chunk.len()) > max_bytes {
            return Err(too_large(max_bytes));
        }
        bytes.try_extend(&chunk)?;
    }
    Ok(bytes.into_bytes())
}

/// Returns the `Content-Length`, if any, or an error if it exceeds `max_bytes`. The body's own size hint is not used:
/// the timeout layer hides it.
pub(crate) fn check_content_length(
    headers: &HeaderMap,
    max_bytes: usize,
) -> Result<Option<u64>, Problem> {
    let header = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let content_length = header.and_then(|length| length.parse::<u64>().ok());
    match content_length.map(usize::try_from) {
        None => Ok(None),
        Some(Ok(length)) if length <= max_bytes => Ok(content_length),
        // A length beyond `usize` is too large.
        Some(_) => Err(too_large(max_bytes)),
    }
}

pub(crate) fn too_large(max_bytes: usize) -> Problem {
    Problem::new(
        ProblemCode::PayloadTooLarge,
        format!("the body may have at most {max_bytes} bytes"),
    )
}

/// Returns the problem of a client that stopped sending or sent a malformed body.
pub(crate) fn body_read_problem(error: &axum::Error) -> Problem {
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
