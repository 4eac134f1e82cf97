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
use crate::http::static_body::StaticBody;
use crate::store::etag;

/// A file and the path it is served at.
pub(crate) struct StaticFile {
    pub(crate) path: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) bytes: Bytes,
}

impl StaticFile {
    pub(crate) const fn css(path: &'static str, text: &'static str) -> Self {
        Self::text(path, "text/css; charset=utf-8", text)
    }

    pub(crate) const fn js(path: &'static str, text: &'static str) -> Self {
        Self::text(path, "text/javascript; charset=utf-8", text)
    }

    pub(crate) const fn text(
        path: &'static str,
        content_type: &'static str,
        text: &'static str,
    ) -> Self {
        Self { path, content_type, bytes: Bytes::from_static(text.as_bytes()) }
    }
}

const HTML: &str = "text/html; charset=utf-8";

/// Headers of pages and resources. The policy admits scripts, styles and data of this service, and images of it and in `data:`
/// URLs.
const PAGE_HEADERS: [(HeaderName, HeaderValue); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        ),
    ),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    // Browsers revalidate every time, so a new version shows at once.
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// Serves files.
pub(crate) fn serve_files(files: impl IntoIterator<Item = StaticFile>) -> Router {
    files.into_iter().fold(Router::new(), |routes, file| {
        let asset = Arc::new(Asset {
            content_type: file.content_type,
            etag: etag::for_body(&file.bytes),
            body: StaticBody::new(file.bytes),
        });
        let serve = async move |request: HeaderMap| asset.response(&request);
        routes.route(file.path, get(serve))
    })
}

/// A resource of a page.
struct Asset {
    content_type: &'static str,
    body: StaticBody,
    etag: HeaderValue,
}

impl Asset {
    fn response(&self, request: &HeaderMap) -> Response {
        let response = self.body.response(request);
        with_page_headers(response, &self.etag, self.content_type)
    }
}

/// Returns the response with a page.
pub(crate) fn page_response(html: Bytes) -> Response {
    let etag = etag::for_body(&html);
    let length = [(header::CONTENT_LENGTH, html.len())];
    let body = Body::new(ChunkedBody::from(html));
    with_page_headers((length, Extension(Charged), body).into_response(), &etag, HTML)
}

fn with_page_headers(
    mut response: Response,
    tag: &HeaderValue,
    content_type: &'static str,
) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.extend(PAGE_HEADERS);
    headers.insert(header::ETAG, tag.clone());
    response
}
