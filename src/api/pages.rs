//! The web pages, compiled in with all that they need.
//!
//! They ask this service and nobody else, which their Content-Security-Policy holds them to; nothing in
//! them is written as HTML at run time.

use axum::Router;
use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get};

use super::described::{
    DashboardPage, DocumentPage, FormPage, IfNoneMatch, OfEveryRoute, PageNotModified, tag,
};
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

const DASHBOARD: File = File::html("/", include_str!("../pages/dashboard.html"));

/// What the dashboard loads; the form has its palette from there too.
const DASHBOARD_PARTS: [File; 8] = [
    File::css("/base.css", include_str!("../pages/base.css")),
    File::css("/dashboard/style.css", include_str!("../pages/dashboard/style.css")),
    File::js("/dashboard/page.js", include_str!("../pages/dashboard/page.js")),
    File::js("/dashboard/card.js", include_str!("../pages/dashboard/card.js")),
    File::js("/dashboard/copy.js", include_str!("../pages/dashboard/copy.js")),
    File::js("/dashboard/live.js", include_str!("../pages/dashboard/live.js")),
    File::js("/dashboard/state.js", include_str!("../pages/dashboard/state.js")),
    File::js("/dashboard/words.js", include_str!("../pages/dashboard/words.js")),
];

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

/// The page at `/docs`, which shows the document at `/openapi.json`.
const DOCS: [File; 8] = [
    File::html("/docs", include_str!("../pages/docs.html")),
    File::css("/docs/style.css", include_str!("../pages/docs/style.css")),
    File::js("/docs/page.js", include_str!("../pages/docs/page.js")),
    File::js("/docs/document.js", include_str!("../pages/docs/document.js")),
    File::js("/docs/element.js", include_str!("../pages/docs/element.js")),
    File::js("/docs/schema.js", include_str!("../pages/docs/schema.js")),
    File::js("/docs/operation.js", include_str!("../pages/docs/operation.js")),
    File::js("/docs/attempt.js", include_str!("../pages/docs/attempt.js")),
];

/// What a page may show pictures of.
#[derive(Clone, Copy)]
enum Images {
    /// What is written in the page itself, as its empty icon is.
    Own,
    /// Those of this service too.
    Served,
}

const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    // Asked for each time and sent when it has changed: a new version shows at once.
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// The dashboard
///
/// It has to be served at a path with a slash at its end: what it loads is named relative to that.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "showDashboard",
    tag = tag::PAGES,
    params(IfNoneMatch),
    responses(OfEveryRoute, DashboardPage, PageNotModified)
)]
pub(super) fn dashboard() -> MethodRouter {
    serve(&DASHBOARD, Images::Served)
}

/// From `base_path`, which is not empty, to the dashboard below it.
pub(super) fn to_dashboard(base_path: &str) -> MethodRouter {
    // Relative, as a proxy may know this path by another name.
    let name = base_path.rsplit('/').next().unwrap_or_default();
    let page = format!("{name}/");
    get(async move || Redirect::permanent(&page))
}

/// All that the dashboard loads.
pub(super) fn dashboard_parts() -> Router {
    DASHBOARD_PARTS.iter().fold(Router::new(), |routes, file| with(routes, file, Images::Served))
}

/// The form for contract verification
///
/// It needs the dashboard's palette.
#[utoipa::path(
    get,
    path = "/verify",
    operation_id = "showVerificationForm",
    tag = tag::PAGES,
    params(IfNoneMatch),
    responses(OfEveryRoute, FormPage, PageNotModified)
)]
pub(super) fn verify() -> Router {
    let to_page = || async { Redirect::permanent("../verify") };
    let routes = VERIFY.iter().fold(Router::new(), |routes, file| with(routes, file, Images::Own));
    routes.route("/verify/", get(to_page))
}

/// This document for people
#[utoipa::path(
    get,
    path = "/docs",
    operation_id = "showDocument",
    tag = tag::PAGES,
    params(IfNoneMatch),
    responses(OfEveryRoute, DocumentPage, PageNotModified)
)]
pub(super) fn docs() -> Router {
    let to_page = || async { Redirect::permanent("../docs") };
    let routes = DOCS.iter().fold(Router::new(), |routes, file| with(routes, file, Images::Served));
    routes.route("/docs/", get(to_page))
}

fn with(routes: Router, file: &'static File, images: Images) -> Router {
    routes.route(file.path, serve(file, images))
}

fn serve(file: &'static File, images: Images) -> MethodRouter {
    let tag = etag::of(file.text.as_bytes());
    get(move |request: HeaderMap| async move { answer(file, images, &tag, &request) })
}

fn answer(file: &File, images: Images, tag: &HeaderValue, request: &HeaderMap) -> Response {
    let mut response = if etag::is_named(tag, request) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let content_type = HeaderValue::from_static(file.content_type);
        ([(header::CONTENT_TYPE, content_type)], Body::from(file.text)).into_response()
    };
    let headers = response.headers_mut();
    headers.extend(HEADERS);
    headers.insert(header::CONTENT_SECURITY_POLICY, images.policy());
    headers.insert(header::ETAG, tag.clone());
    response
}

impl Images {
    /// The policy of a page with such pictures.
    fn policy(self) -> HeaderValue {
        let sources = match self {
            Self::Own => "data:",
            Self::Served => "'self' data:",
        };
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src {sources}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             require-trusted-types-for 'script'"
        );
        HeaderValue::try_from(policy).expect("letters and punctuation are a header value")
    }
}
