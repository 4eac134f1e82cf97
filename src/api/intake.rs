//! Reads a request's body within its limits.

use std::error::Error;

use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use bytes::Bytes;
use futures_util::StreamExt;
use tower_http::timeout::TimeoutError;

use super::problem::{Code, Problem};
use crate::memory::Memory;

/// The whole body of at most `most` bytes, charged to `memory` as it comes until the last part of
/// it is gone: what is announced, but not sent, takes nothing.
pub(super) async fn read(request: Request, most: usize, memory: &Memory) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    if parts.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let detail = "the body must not have a Content-Encoding";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    let too_large =
        || Problem::new(Code::PayloadTooLarge, format!("the body may have {most} bytes"));
    // Not the body's own word: the layer that gives it a deadline does not pass that on.
    let announced = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let announced = announced.and_then(|length| length.parse::<u64>().ok()).unwrap_or_default();
    if usize::try_from(announced).map_or(true, |announced| announced > most) {
        return Err(too_large());
    }
    let mut hold = memory.hold();
    let mut bytes = Vec::new();
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| of_body(&error))?;
        if bytes.len().saturating_add(chunk.len()) > most {
            return Err(too_large());
        }
        hold.add(chunk.len()).map_err(|_| Problem::overloaded())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(hold.over(bytes))
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
