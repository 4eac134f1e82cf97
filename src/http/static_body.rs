//! Bodies that are the same for all clients: pages, their resources, and the document of the API.

use std::slice;
use std::sync::{Arc, OnceLock};

use axum::Extension;
use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;

use super::chunked_body::{Charged, ChunkedBody};
use super::compression::{accepts_gzip, gzip};

/// Bytes that are the same for all clients, compressed and not. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct StaticBody {
    plain: Bytes,
    /// It is made when a client first asks for it.
    compressed: Arc<OnceLock<Bytes>>,
}

impl StaticBody {
    pub(crate) fn new(plain: Bytes) -> Self {
        Self { plain, compressed: Arc::default() }
    }

    /// Returns a response with the form of the body that `request` accepts.
    pub(crate) fn response(&self, request: &HeaderMap) -> Response {
        let is_compressed = accepts_gzip(request);
        let plain = slice::from_ref(&self.plain);
        let compress = || gzip(plain, Compression::best()).into();
        let bytes = if is_compressed { self.compressed.get_or_init(compress) } else { &self.plain };
        let headers = [
            (header::CONTENT_LENGTH, bytes.len().into()),
            (header::VARY, HeaderValue::from_static("accept-encoding")),
        ];
        let body = Body::new(ChunkedBody::from(bytes.clone()));
        let mut response = (headers, Extension(Charged), body).into_response();
        if is_compressed {
            let coding = HeaderValue::from_static("gzip");
            response.headers_mut().insert(header::CONTENT_ENCODING, coding);
        }
        response
    }
}
