//! Middleware of every response's body: `If-None-Match`, compression, the memory budget, and small frames.
//!
//! A response with an entity tag becomes 304 here, after its other headers are complete, so that both have the same.
//!
//! A body is compressed at once and whole, so that no state of an encoder waits for a client that does not read. Bodies
//! of unknown length pass unchanged: events, and what an upstream streams.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::response::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures_util::stream::{self, StreamExt};
use tokio::sync::Semaphore;

use super::chunked_body::{Charged, ChunkedBody};
use super::client_limits::ClientHandle;
use super::conditional::{gzip_tag, matches_tag};
use super::problem::{PassThroughError, Problem};
use crate::observe::memory_budget::{MemoryBudget, Reservation};

/// Memory budget of bodies, and the permit to compress a long one.
#[derive(Debug, Clone)]
pub(crate) struct BodyLimits {
    memory: MemoryBudget,
    long_encoders: Arc<Semaphore>,
}

/// Response extension that marks a body of this service in compressed form.
#[derive(Debug, Clone, Copy)]
struct Compressed;

/// A shorter body is not compressed.
const MIN_COMPRESSED_BYTES: usize = 1024;

/// A longer body takes too long for a serving thread.
const MAX_INLINE_BYTES: usize = 128 * 1024;

impl BodyLimits {
    pub(crate) fn new(memory: &MemoryBudget) -> Self {
        Self { memory: memory.clone(), long_encoders: Arc::new(Semaphore::new(1)) }
    }

    /// Compresses a body with gzip. `None`: another long body is being compressed, so this one is sent as it is.
    async fn compress(&self, chunks: Vec<Bytes>, length: usize) -> Option<Vec<u8>> {
        if length <= MAX_INLINE_BYTES {
            return Some(gzip(&chunks, Compression::fast()));
        }
        let permit = Arc::clone(&self.long_encoders).try_acquire_owned().ok()?;
        let compress = move || {
            let _permit = permit;
            gzip(&chunks, Compression::fast())
        };
        tokio::task::spawn_blocking(compress).await.ok()
    }
}

/// Drops the body of the response if the client has it, in either form: each has a tag of its own. Else charges the client
/// for its size, compresses it if the client accepts that, charges it to the memory budget unless it is charged already, and
/// splits it into small frames. Responds 503 if the budget is exhausted.
pub(crate) async fn limit_body(
    State(limits): State<BodyLimits>,
    request: Request,
    next: Next,
) -> Response {
    let accepts_gzip = accepts_gzip(request.headers());
    let client = ClientHandle::from_request(&request);
    let conditions = conditions(&request);
    let (mut parts, body) = next.run(request).await.into_parts();
    let is_not_modified = is_not_modified(&parts, &conditions);
    if parts.extensions.get::<Compressed>().is_some() {
        mark_tag(&mut parts.headers);
    }
    let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let Some(length) = length.filter(|length| *length > MIN_COMPRESSED_BYTES) else {
        if is_not_modified {
            return not_modified(parts);
        }
        return Response::from_parts(parts, body);
    };
    let is_charged = parts.extensions.get::<Charged>().is_some();
    let is_compressible = !parts.headers.contains_key(header::CONTENT_ENCODING)
        && is_compressible_type(&parts.headers);
    if is_compressible && !varies_by_encoding(&parts.headers) {
        parts.headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    let should_compress = is_compressible && accepts_gzip;
    if is_not_modified {
        if should_compress {
            mark_tag(&mut parts.headers);
        }
        return not_modified(parts);
    }
    client.charge_response(length);
    if !should_compress && (is_charged || length <= Reservation::FREE_BYTES) {
        return Response::from_parts(parts, body);
    }
    let mut chunks = Vec::new();
    let mut frames = body.into_data_stream();
    while let Some(chunk) = frames.next().await {
        // Bodies of known length cannot fail, but for those of an upstream.
        let Ok(chunk) = chunk else { return Problem::overloaded().into_response() };
        chunks.push(chunk);
    }
    drop(frames);
    if should_compress && let Some(bytes) = limits.compress(chunks.clone(), length).await {
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        mark_tag(&mut parts.headers);
        drop(chunks);
        return match limits.memory.try_hold(bytes) {
            Ok(bytes) => Response::from_parts(parts, ChunkedBody::from(bytes).into()),
            Err(_) => Problem::overloaded().into_response(),
        };
    }
    let mut reservation = limits.memory.reservation();
    if !is_charged && reservation.try_grow(length).is_err() {
        return Problem::overloaded().into_response();
    }
    let body = ChunkedBody::new(chunks.into(), Some(reservation));
    Response::from_parts(parts, Body::from(body))
}

/// Returns the values of `If-None-Match`, which applies to GET and HEAD alone.
fn conditions(request: &Request) -> Vec<HeaderValue> {
    match *request.method() {
        Method::GET | Method::HEAD => {
            request.headers().get_all(header::IF_NONE_MATCH).iter().cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// Returns true if the client has this response. An upstream decides by itself about its own.
fn is_not_modified(parts: &Parts, conditions: &[HeaderValue]) -> bool {
    parts.status == StatusCode::OK
        && parts.extensions.get::<PassThroughError>().is_none()
        && parts.headers.get(header::ETAG).is_some_and(|tag| {
            let of_gzip = || gzip_tag(tag).is_some_and(|tag| matches_tag(&tag, conditions.iter()));
            !conditions.is_empty() && (matches_tag(tag, conditions.iter()) || of_gzip())
        })
}

/// Changes the entity tag, if there is one, to that of the compressed form: its bytes are others (RFC 9110, section
/// 8.8.3.3).
fn mark_tag(headers: &mut HeaderMap) {
    if let Some(tag) = headers.get(header::ETAG).and_then(gzip_tag) {
        headers.insert(header::ETAG, tag);
    }
}

/// Returns the response without its body and what describes that.
fn not_modified(mut parts: Parts) -> Response {
    parts.status = StatusCode::NOT_MODIFIED;
    for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING] {
        parts.headers.remove(name);
    }
    // An empty body would get a `Content-Length` of 0, which caches take for that of the 200.
    Response::from_parts(parts, Body::from_stream(stream::empty::<Result<Bytes, Infallible>>()))
}

/// Returns the bytes of `chunks` as gzip.
fn gzip(chunks: &[Bytes], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    for chunk in chunks {
        encoder.write_all(chunk).expect("memory can be written");
    }
    encoder.finish().expect("memory can be written")
}

/// Bytes that are the same for all clients. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct StaticBody(Arc<Forms>);

/// Both forms of a body. The other one is made when a client first asks for it. A start does not wait for that.
#[derive(Debug)]
struct Forms {
    given: Bytes,
    is_given_compressed: bool,
    other: OnceLock<Bytes>,
}

impl StaticBody {
    /// Creates a body from one of its forms. The compressed one must be valid gzip.
    pub(crate) fn new(given: Bytes, is_given_compressed: bool) -> Self {
        Self(Arc::new(Forms { given, is_given_compressed, other: OnceLock::new() }))
    }

    /// Returns the bytes that it was created with.
    pub(crate) fn given(&self) -> &Bytes {
        let Self(forms) = self;
        &forms.given
    }

    fn form(&self, is_compressed: bool) -> &Bytes {
        let Forms { given, is_given_compressed, other } = &*self.0;
        if is_compressed == *is_given_compressed {
            return given;
        }
        other.get_or_init(|| {
            if is_compressed {
                return gzip(std::slice::from_ref(given), Compression::best()).into();
            }
            let mut plain = Vec::new();
            GzDecoder::new(&**given).read_to_end(&mut plain).expect("the body is valid gzip");
            plain.into()
        })
    }

    /// Returns a response with the form of the body that `request` accepts.
    pub(crate) fn response(&self, request: &HeaderMap) -> Response {
        let is_compressed = accepts_gzip(request);
        let bytes = self.form(is_compressed);
        let mut response = Body::from(ChunkedBody::from(bytes.clone())).into_response();
        response.extensions_mut().insert(Charged);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_LENGTH, bytes.len().into());
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if is_compressed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response.extensions_mut().insert(Compressed);
        }
        response
    }
}

/// Returns true unless the type is that of a compressed image or of events.
fn is_compressible_type(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default();
    let is_image = content_type.starts_with("image/") && !content_type.starts_with("image/svg+xml");
    !is_image && !content_type.starts_with("text/event-stream")
}

fn varies_by_encoding(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::VARY).iter().filter_map(|value| value.to_str().ok());
    let mut names = values.flat_map(|value| value.split(','));
    names.any(|name| name.trim().eq_ignore_ascii_case("accept-encoding"))
}

/// Returns true if `Accept-Encoding` lists gzip with a weight above 0.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let values = request.get_all(header::ACCEPT_ENCODING).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|entry| {
        let (coding, parameter) = entry.split_once(';').unwrap_or((entry, "q=1"));
        // An unreadable weight counts as 0.
        let weight =
            parameter.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
        let weight = weight.and_then(|(_, weight)| weight.trim().parse::<f32>().ok());
        coding.trim().eq_ignore_ascii_case("gzip") && weight.is_some_and(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use axum::Router;
    use axum::http::Request;
    use axum::routing::get;
    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

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
        let fixed = StaticBody::new(body.clone(), false);
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

    #[test]
    fn gzip_is_accepted_with_a_weight_above_zero() {
        for (encoding, expected) in [
            ("gzip", true),
            ("br, GZIP ; Q=0.1", true),
            ("gzip;q=1.0", true),
            ("gzip;Q=0", false),
            ("gzip; q = 0", false),
            ("gzip;q=none", false),
            ("br, *;q=0.5", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(
                header::ACCEPT_ENCODING,
                HeaderValue::from_static(encoding),
            )]);
            assert_eq!(accepts_gzip(&headers), expected, "{encoding}");
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
