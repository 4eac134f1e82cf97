//! Pages and their resources, compiled into the binary.
//!
//! Pages load resources from this service only, which their Content-Security-Policy enforces. Resources are compressed
//! when they are first asked for, pages on each request.

use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderName;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;

use crate::http::chunked_body::{Charged, ChunkedBody};
use crate::http::response_body::StaticBody;
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

/// Serves files.
pub(crate) fn serve_files(
    files: impl IntoIterator<Item = &'static StaticFile>,
    content_policy: ContentPolicy,
) -> Router {
    files.into_iter().fold(Router::new(), |routes, file| {
        let body = StaticBody::new(Bytes::from_static(file.text.as_bytes()));
        let asset = Asset::new(file.content_type, body, content_policy);
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
        let body = StaticBody::from_gzip(Bytes::from_static(file.gzip));
        let asset = Asset::new(file.content_type, body, content_policy);
        routes.merge(asset.serve_at(file.path))
    })
}

/// A resource of a page.
struct Asset {
    content_type: &'static str,
    body: StaticBody,
    etag: HeaderValue,
    content_policy: ContentPolicy,
}

impl Asset {
    fn new(content_type: &'static str, body: StaticBody, content_policy: ContentPolicy) -> Self {
        Self { content_type, etag: etag::for_body(body.given()), body, content_policy }
    }

    fn serve_at(self, path: &str) -> Router {
        let asset = Arc::new(self);
        Router::new().route(path, get(async move |request: HeaderMap| asset.response(&request)))
    }

    fn response(&self, request: &HeaderMap) -> Response {
        let response = self.body.response(request);
        with_page_headers(response, &self.etag, self.content_type, self.content_policy)
    }
}

/// Returns the response with a page.
pub(crate) fn page_response(html: Bytes, content_policy: ContentPolicy) -> Response {
    let etag = etag::for_body(&html);
    let length = [(header::CONTENT_LENGTH, html.len())];
    let body = Body::from(ChunkedBody::from(html));
    with_page_headers(
        (length, Extension(Charged), body).into_response(),
        &etag,
        HTML,
        content_policy,
    )
}

fn with_page_headers(
    mut response: Response,
    tag: &HeaderValue,
    content_type: &'static str,
    content_policy: ContentPolicy,
) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
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
