//! Middleware of every response's body: `If-None-Match`, compression, the memory budget, and small frames.
//!
//! A response with an entity tag becomes 304 here, after its other headers are complete, so that both have the same.
//!
//! A body is compressed at once and whole: the state of an encoder, 270 KiB, must not wait for a client that does not read.
//! So tower-http's layer, which compresses as the client reads, has no place here. Bodies of unknown length pass unchanged:
//! events, and what an upstream streams.

use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::response::Parts;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use futures_util::stream::TryStreamExt;
use tokio::sync::Semaphore;

use super::chunked_body::{Charged, ChunkedBody};
use super::client_limits::ClientHandle;
use super::compression::{accepts_gzip, gzip, is_compressible};
use super::conditional::{conditions, gzip_tag, is_not_modified, not_modified};
use super::problem::Problem;
use crate::observe::memory_budget::{MemoryBudget, Reservation};

/// Memory budget of bodies, and the permit to compress a long one.
#[derive(Debug, Clone)]
pub(crate) struct BodyLimits {
    memory: MemoryBudget,
    long_encoders: Arc<Semaphore>,
}

/// A shorter body is not compressed.
const MIN_COMPRESSED_BYTES: usize = 1024;

/// A longer body takes too long for a serving thread.
const MAX_INLINE_BYTES: usize = 128 * 1024;

impl BodyLimits {
    pub(crate) fn new(memory: &MemoryBudget) -> Self {
        Self { memory: memory.clone(), long_encoders: Arc::new(Semaphore::new(1)) }
    }

    /// Compresses a body. A long one is sent as it is while another one is being compressed: then returns `None`.
    async fn compress(&self, chunks: &[Bytes], length: usize) -> Option<Vec<u8>> {
        if length <= MAX_INLINE_BYTES {
            return Some(gzip(chunks, Compression::fast()));
        }
        let permit = Arc::clone(&self.long_encoders).try_acquire_owned().ok()?;
        let chunks = chunks.to_vec();
        let compressed = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            gzip(&chunks, Compression::fast())
        });
        compressed.await.ok()
    }

    /// Returns the body of this length in small frames, which are charged to the memory budget.
    async fn hold(
        &self,
        parts: &mut Parts,
        body: Body,
        length: usize,
        should_compress: bool,
    ) -> Result<Body, Problem> {
        // Bodies of known length cannot fail, but for those of an upstream.
        let chunks = body.into_data_stream().try_collect::<Vec<_>>().await;
        let chunks = chunks.map_err(|_| Problem::overloaded())?;
        let compressed = if should_compress { self.compress(&chunks, length).await } else { None };
        if let Some(bytes) = compressed {
            drop(chunks);
            parts.headers.remove(header::CONTENT_LENGTH);
            parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            mark_tag(&mut parts.headers);
            return Ok(Body::new(ChunkedBody::from(self.memory.try_hold(bytes)?)));
        }
        let mut reservation = self.memory.reservation();
        reservation.try_grow(if is_charged(parts) { 0 } else { length })?;
        Ok(Body::new(ChunkedBody::new(chunks.into(), Some(reservation))))
    }
}

/// Drops the body of the response if the client has it, in either form: each has a tag of its own. Else charges the client
/// for its size, compresses it if the client accepts that, charges it to the memory budget unless it is charged already, and
/// splits it into small frames. Responds 503 if the budget is exhausted.
pub(crate) async fn limit_body(
    State(limits): State<BodyLimits>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let accepts_gzip = accepts_gzip(request.headers());
    let client = ClientHandle::from_request(&request);
    let conditions = conditions(&request);
    let (mut parts, body) = next.run(request).await.into_parts();
    let is_not_modified = is_not_modified(&parts, &conditions);
    if is_charged(&parts) && parts.headers.contains_key(header::CONTENT_ENCODING) {
        mark_tag(&mut parts.headers);
    }
    let exact = body.size_hint().exact();
    let length = exact
        .and_then(|length| usize::try_from(length).ok())
        .filter(|length| *length > MIN_COMPRESSED_BYTES);
    let is_compressible = length.is_some() && is_compressible(&parts.headers);
    let should_compress = is_compressible && accepts_gzip;
    if is_compressible {
        parts.headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    if is_not_modified {
        if should_compress {
            mark_tag(&mut parts.headers);
        }
        return Ok(not_modified(parts));
    }
    let Some(length) = length else { return Ok(Response::from_parts(parts, body)) };
    client.charge_response(length);
    if !should_compress && (is_charged(&parts) || length <= Reservation::FREE_BYTES) {
        return Ok(Response::from_parts(parts, body));
    }
    let body = limits.hold(&mut parts, body, length, should_compress).await?;
    Ok(Response::from_parts(parts, body))
}

/// Returns true if the body is charged to the memory budget already, or is shared by all clients.
fn is_charged(response: &Parts) -> bool {
    response.extensions.get::<Charged>().is_some()
}

/// Changes the entity tag, if there is one, to that of the compressed form.
fn mark_tag(headers: &mut HeaderMap) {
    if let Some(tag) = headers.get(header::ETAG).and_then(gzip_tag) {
        headers.insert(header::ETAG, tag);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use axum::Router;
    use axum::http::Request;
    use axum::response::IntoResponse;
    use axum::routing::get;
    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;
    use crate::http::static_body::StaticBody;

    /// Returns the status and the frames of a response whose handler makes `body`.
    async fn frames(memory: &MemoryBudget, body: &'static str, gzip: bool) -> (u16, Vec<Bytes>) {
        let layer = axum::middleware::from_fn_with_state(BodyLimits::new(memory), limit_body);
        let app = Router::new().route("/", get(move || async move { body })).layer(layer);
        let encoding = if gzip { "gzip;q=0.5" } else { "br, gzip;q=0" };
        let request = Request::get("/").header("accept-encoding", encoding);
        let response = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.headers().contains_key("content-encoding"), gzip);
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let mut frames = Vec::new();
        while let Some(frame) = body.frame().await {
            frames.push(frame.unwrap().into_data().unwrap());
        }
        (status, frames)
    }

    #[tokio::test]
    async fn bodies_arrive_in_small_frames_compressed_or_not() {
        let memory = MemoryBudget::new(1024 * 1024);
        let text = &*(0..60_000).map(|number| number.to_string()).collect::<String>().leak();
        for text in [text, &text[..100_000]] {
            let (_, plain) = frames(&memory, text, false).await;
            assert!(plain.iter().all(|frame| frame.len() <= ChunkedBody::MAX_FRAME_BYTES));
            assert_eq!(plain.concat(), text.as_bytes());
            let (_, compressed) = frames(&memory, text, true).await;
            assert!(compressed.iter().all(|frame| frame.len() <= ChunkedBody::MAX_FRAME_BYTES));
            let mut decompressed = String::new();
            GzDecoder::new(&*compressed.concat()).read_to_string(&mut decompressed).unwrap();
            assert_eq!(decompressed, text);
        }
    }

    #[tokio::test]
    async fn each_form_of_a_body_has_a_tag_of_its_own() {
        let body = Bytes::from("x".repeat(2 * MIN_COMPRESSED_BYTES));
        let fixed = StaticBody::new(body.clone());
        let tagged = |mut response: Response| {
            response.headers_mut().insert(header::ETAG, HeaderValue::from_static("\"a\""));
            response
        };
        let stored = move |headers: HeaderMap| async move { tagged(fixed.response(&headers)) };
        let built = move || async move { tagged(body.into_response()) };
        let limits = BodyLimits::new(&MemoryBudget::new(1024 * 1024));
        let layer = axum::middleware::from_fn_with_state(limits, limit_body);
        let app =
            Router::new().route("/stored", get(stored)).route("/built", get(built)).layer(layer);
        for path in ["/stored", "/built"] {
            for (encoding, condition, expected) in [
                ("identity", "", (200, "\"a\"")),
                ("gzip", "", (200, "\"a-gzip\"")),
                ("identity", "\"a\"", (304, "\"a\"")),
                ("gzip", "\"b\", W/\"a-gzip\"", (304, "\"a-gzip\"")),
                ("gzip", "\"a\"", (304, "\"a-gzip\"")),
                ("gzip", "\"a-gzip-gzip\"", (200, "\"a-gzip\"")),
            ] {
                let request = Request::get(path)
                    .header("accept-encoding", encoding)
                    .header("if-none-match", condition);
                let request = request.body(Body::empty()).unwrap();
                let response = app.clone().oneshot(request).await.unwrap();
                let tag = response.headers()[header::ETAG].to_str().unwrap();
                assert_eq!((response.status().as_u16(), tag), expected, "{path} {encoding}");
            }
        }
    }

    #[tokio::test]
    async fn body_over_the_memory_budget_gets_503() {
        let memory = MemoryBudget::new(1000);
        let text = &*"x".repeat(Reservation::FREE_BYTES + 1001).leak();
        let (status, _) = frames(&memory, text, false).await;
        assert_eq!(status, 503);
        assert_eq!(frames(&memory, &text[1..], false).await.0, 200);
    }
}
