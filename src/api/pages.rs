//! The web pages, compiled in with all that they need.
//!
//! They ask this service and nobody else, which their Content-Security-Policy holds them to; nothing in
//! them is written as HTML at run time.

use axum::Router;
use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use crate::etag;

/// A file and the path it is served at.
struct File {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

impl File {
    const fn html(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "text/html; charset=utf-8", text }
    }

    const fn css(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "text/css; charset=utf-8", text }
    }

    const fn js(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "text/javascript; charset=utf-8", text }
    }
}

/// The form at `/verify`. It hashes with noble-hashes, whose files are as their authors publish them.
const VERIFY: [File; 8] = [
    File::html("/verify", include_str!("../pages/verify.html")),
    File::css("/verify/style.css", include_str!("../pages/verify/style.css")),
    File::js("/verify/page.js", include_str!("../pages/verify/page.js")),
    File::js("/verify/files.js", include_str!("../pages/verify/files.js")),
    File::js("/verify/submit.js", include_str!("../pages/verify/submit.js")),
    File::js("/verify/noble/sha3.js", include_str!("../pages/verify/noble/sha3.js")),
    File::js("/verify/noble/_u64.js", include_str!("../pages/verify/noble/_u64.js")),
    File::js("/verify/noble/utils.js", include_str!("../pages/verify/noble/utils.js")),
];

const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             require-trusted-types-for 'script'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    // Asked for each time and sent when it has changed: a new version shows at once.
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// The form for contract verification.
pub(super) fn verify() -> Router {
    let to_page = || async { Redirect::permanent("../verify") };
    VERIFY.iter().fold(Router::new(), with_file).route("/verify/", get(to_page))
}

fn with_file(routes: Router, file: &'static File) -> Router {
    let tag = etag::of(file.text.as_bytes());
    let answer = move |request: HeaderMap| async move { answer(file, &tag, &request) };
    routes.route(file.path, get(answer))
}

fn answer(file: &File, tag: &HeaderValue, request: &HeaderMap) -> Response {
    let mut response = if etag::is_named(tag, request) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let content_type = HeaderValue::from_static(file.content_type);
        ([(header::CONTENT_TYPE, content_type)], Body::from(file.text)).into_response()
    };
    let headers = response.headers_mut();
    headers.extend(HEADERS);
    headers.insert(header::ETAG, tag.clone());
    response
}
