//! Pages and their resources, compiled into the binary.
//!
//! Pages load resources from this service only, which their Content-Security-Policy enforces. Resources are compressed
//! once, pages on each request.

use std::io::Read;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::http::HeaderName;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use flate2::Compression;
use flate2::read::{GzDecoder, GzEncoder};

use crate::http::chunked_body::{Charged, ChunkedBody};
use crate::http::response_body::{Compressed, accepts_gzip};
use crate::store::etag;

/// A file and the path it is served at.
pub(crate) struct StaticFile {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

impl StaticFile {
    pub(crate) const fn css(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "text/css; charset=utf-8", text }
    }

    pub(crate) const fn js(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "text/javascript; charset=utf-8", text }
    }

    pub(crate) const fn svg(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "image/svg+xml", text }
    }
}

const HTML: &str = "text/html; charset=utf-8";

/// Policy of what a page may load besides scripts, styles and data of this service.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ContentPolicy {
    /// Images of this service, and in `data:` URLs.
    OwnImages,
    /// Also what Swagger UI builds itself: styles, and images and markup from responses.
    SwaggerUi,
}

const PAGE_HEADERS: [(HeaderName, HeaderValue); 3] = [
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    // Browsers revalidate every time, so a new version shows at once.
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// Serves files, compressed once.
pub(crate) fn serve_files(
    files: impl IntoIterator<Item = &'static StaticFile>,
    content_policy: ContentPolicy,
) -> Router {
    files.into_iter().fold(Router::new(), |routes, file| {
        let mut gzip = Vec::new();
        GzEncoder::new(file.text.as_bytes(), Compression::best())
            .read_to_end(&mut gzip)
            .expect("memory can be read");
        let asset = Asset::new(file.content_type, gzip.into(), content_policy);
        routes.merge(asset.serve_at(file.path))
    })
}

/// A file that is compressed already, and the path it is served at.
pub(crate) struct CompressedFile {
    pub(crate) path: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) gzip: &'static [u8],
}

/// Serves compressed files.
pub(crate) fn serve_compressed(
    files: &'static [CompressedFile],
    content_policy: ContentPolicy,
) -> Router {
    files.iter().fold(Router::new(), |routes, file| {
        let asset = Asset::new(file.content_type, Bytes::from_static(file.gzip), content_policy);
        routes.merge(asset.serve_at(file.path))
    })
}

/// A compressed resource of a page.
pub(crate) struct Asset {
    content_type: &'static str,
    gzip: Bytes,
    /// For clients that do not accept gzip, once there was one.
    plain: OnceLock<Bytes>,
    etag: HeaderValue,
    content_policy: ContentPolicy,
}

impl Asset {
    pub(crate) fn new(
        content_type: &'static str,
        gzip: Bytes,
        content_policy: ContentPolicy,
    ) -> Self {
        Self {
            content_type,
            etag: etag::for_body(&gzip),
            gzip,
            plain: OnceLock::new(),
            content_policy,
        }
    }

    pub(crate) fn serve_at(self, path: &str) -> Router {
        let asset = Arc::new(self);
        Router::new().route(path, get(async move |request: HeaderMap| asset.response(&request)))
    }

    fn response(&self, request: &HeaderMap) -> Response {
        let is_compressed = accepts_gzip(request);
        let decompress = || {
            let mut bytes = Vec::new();
            let read = GzDecoder::new(&*self.gzip).read_to_end(&mut bytes);
            read.expect("the resource is valid gzip");
            bytes.into()
        };
        let body = if is_compressed { &self.gzip } else { self.plain.get_or_init(decompress) };
        let mut response =
            response(&self.etag, self.content_type, body.clone(), self.content_policy);
        let headers = response.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if is_compressed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response.extensions_mut().insert(Compressed);
        }
        response
    }
}

/// Returns the response with a page.
pub(crate) fn page_response(html: Bytes, content_policy: ContentPolicy) -> Response {
    response(&etag::for_body(&html), HTML, html, content_policy)
}

fn response(
    tag: &HeaderValue,
    content_type: &'static str,
    body: Bytes,
    content_policy: ContentPolicy,
) -> Response {
    let content_type = HeaderValue::from_static(content_type);
    let headers =
        [(header::CONTENT_TYPE, content_type), (header::CONTENT_LENGTH, body.len().into())];
    let body = Body::from(ChunkedBody::from(body));
    let mut response = (headers, Extension(Charged), body).into_response();
    let headers = response.headers_mut();
    headers.extend(PAGE_HEADERS);
    headers.insert(header::CONTENT_SECURITY_POLICY, content_policy.header());
    headers.insert(header::ETAG, tag.clone());
    response
}

impl ContentPolicy {
    /// Returns the `Content-Security-Policy`.
    fn header(self) -> HeaderValue {
        let [styles, images, types] = match self {
            Self::OwnImages => ["", "'self' data:", "; require-trusted-types-for 'script'"],
            Self::SwaggerUi => [" 'unsafe-inline'", "'self' data: blob:", ""],
        };
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self'{styles}; connect-src 'self'; \
             img-src {images}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'{types}"
        );
        HeaderValue::try_from(policy).expect("letters and punctuation are a header value")
    }
}
