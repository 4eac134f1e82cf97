//! `If-None-Match` (RFC 9110, section 13.1.2).

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::Request;
use axum::http::response::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;

use super::problem::PassThroughError;

/// Returns the values of `If-None-Match`, which applies to GET and HEAD alone.
pub(super) fn conditions(request: &Request) -> Vec<HeaderValue> {
    match *request.method() {
        Method::GET | Method::HEAD => {
            request.headers().get_all(header::IF_NONE_MATCH).iter().cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// Returns true if the client has this response, compressed or not. An upstream decides by itself about its own.
pub(super) fn is_not_modified(response: &Parts, conditions: &[HeaderValue]) -> bool {
    !conditions.is_empty()
        && response.status == StatusCode::OK
        && response.extensions.get::<PassThroughError>().is_none()
        && response.headers.get(header::ETAG).is_some_and(|tag| {
            matches_tag(tag, conditions)
                || gzip_tag(tag).is_some_and(|tag| matches_tag(&tag, conditions))
        })
}

/// Returns the response without its body and what describes that.
pub(super) fn not_modified(mut response: Parts) -> Response {
    response.status = StatusCode::NOT_MODIFIED;
    for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING] {
        response.headers.remove(name);
    }
    // An empty body would get a `Content-Length` of 0, which caches take for that of the 200.
    let body = Body::from_stream(stream::empty::<Result<Bytes, Infallible>>());
    Response::from_parts(response, body)
}

/// Returns the strong tag of the gzip form of a body with the strong `tag`; `None` if that is weak or malformed. The bytes of
/// both forms differ (RFC 9110, section 8.8.3.3).
pub(super) fn gzip_tag(tag: &HeaderValue) -> Option<HeaderValue> {
    let inner = tag.as_bytes().strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    HeaderValue::from_bytes(&[b"\"", inner, b"-gzip\""].concat()).ok()
}

/// Returns true if one of the values of `If-None-Match` contains `tag`, as a strong or a weak tag. Malformed entries are
/// ignored.
pub(crate) fn matches_tag<'a>(
    tag: &HeaderValue,
    conditions: impl IntoIterator<Item = &'a HeaderValue>,
) -> bool {
    conditions.into_iter().any(|condition| {
        let condition = condition.as_bytes();
        // Splitting at commas is safe: another server's tag may contain a comma, but no part of it has the quotes of a
        // whole tag.
        let mut entries = condition.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        condition == b"*"
            || entries.any(|entry| entry.strip_prefix(b"W/").unwrap_or(entry) == tag.as_bytes())
    })
}
