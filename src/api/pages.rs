//! The web pages and their resources, compiled into the binary.
//!
//! The pages load resources from this service only, which their Content-Security-Policy enforces. No script builds HTML
//! from text.

use axum::Router;
use axum::body::Body;
use axum::extract::OriginalUri;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use super::openapi::components::{CommonErrors, IfNoneMatch, PageNotModified};
use crate::etag;

/// A file and the path it is served at.
struct StaticFile {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

impl StaticFile {
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

const DASHBOARD: StaticFile = StaticFile::html("/", include_str!("../pages/dashboard.html"));

/// Resources of the dashboard. The form uses its palette too.
const DASHBOARD_ASSETS: [StaticFile; 8] = [
    StaticFile::css("/base.css", include_str!("../pages/base.css")),
    StaticFile::css("/dashboard/style.css", include_str!("../pages/dashboard/style.css")),
    StaticFile::js("/dashboard/page.js", include_str!("../pages/dashboard/page.js")),
    StaticFile::js("/dashboard/card.js", include_str!("../pages/dashboard/card.js")),
    StaticFile::js("/dashboard/copy.js", include_str!("../pages/dashboard/copy.js")),
    StaticFile::js("/dashboard/format.js", include_str!("../pages/dashboard/format.js")),
    StaticFile::js("/dashboard/live.js", include_str!("../pages/dashboard/live.js")),
    StaticFile::js("/dashboard/state.js", include_str!("../pages/dashboard/state.js")),
];

const VERIFICATION_FORM: StaticFile =
    StaticFile::html("/verify", include_str!("../pages/verify.html"));

/// Resources of the form. It hashes with noble-hashes, whose files are unchanged copies of the published ones.
const FORM_ASSETS: [StaticFile; 7] = [
    StaticFile::css("/verify/style.css", include_str!("../pages/verify/style.css")),
    StaticFile::js("/verify/page.js", include_str!("../pages/verify/page.js")),
    StaticFile::js("/verify/files.js", include_str!("../pages/verify/files.js")),
    StaticFile::js("/verify/submit.js", include_str!("../pages/verify/submit.js")),
    StaticFile::js("/verify/noble/sha3.js", include_str!("../pages/verify/noble/sha3.js")),
    StaticFile::js("/verify/noble/_u64.js", include_str!("../pages/verify/noble/_u64.js")),
    StaticFile::js("/verify/noble/utils.js", include_str!("../pages/verify/noble/utils.js")),
];

/// The page that shows the document at `/openapi.json`.
const DOCS: StaticFile = StaticFile::html("/docs", include_str!("../pages/docs.html"));

const DOCS_ASSETS: [StaticFile; 7] = [
    StaticFile::css("/docs/style.css", include_str!("../pages/docs/style.css")),
    StaticFile::js("/docs/page.js", include_str!("../pages/docs/page.js")),
    StaticFile::js("/docs/document.js", include_str!("../pages/docs/document.js")),
    StaticFile::js("/docs/element.js", include_str!("../pages/docs/element.js")),
    StaticFile::js("/docs/schema.js", include_str!("../pages/docs/schema.js")),
    StaticFile::js("/docs/operation.js", include_str!("../pages/docs/operation.js")),
    StaticFile::js("/docs/request.js", include_str!("../pages/docs/request.js")),
];

/// Sources of images that a page may show.
#[derive(Clone, Copy)]
enum ImagePolicy {
    /// Only `data:` URLs in the page itself, such as its empty icon.
    DataOnly,
    /// Also images of this service.
    SameOrigin,
}

const PAGE_HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    // Browsers revalidate every time, so a new version shows at once.
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// Dashboard
///
/// Its path ends with a slash, because it loads its resources by relative URLs.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "showDashboard",
    tag = "Pages",
    params(IfNoneMatch),
    responses(
        CommonErrors, PageNotModified,
        (status = 200, description = "The dashboard.", content_type = "text/html", body = String,
            headers(("ETag"), ("Cache-Control"), ("Content-Security-Policy"))),
    )
)]
pub(super) async fn dashboard(OriginalUri(uri): OriginalUri, request: HeaderMap) -> Response {
    match uri.path().rsplit_once('/') {
        // The base path without its slash. The redirect is relative, because a proxy may serve this path under another
        // name.
        Some((_, name)) if !name.is_empty() => {
            Redirect::permanent(&format!("{name}/")).into_response()
        }
        _ => file_response(&DASHBOARD, ImagePolicy::SameOrigin, &request),
    }
}

/// Form for contract verification
///
/// It uses the dashboard's palette.
#[utoipa::path(
    get,
    path = "/verify",
    operation_id = "showVerificationForm",
    tag = "Pages",
    params(IfNoneMatch),
    responses(
        CommonErrors, PageNotModified,
        (status = 200, description = "The form.", content_type = "text/html", body = String,
            headers(("ETag"), ("Cache-Control"), ("Content-Security-Policy"))),
    )
)]
pub(super) async fn verification_form(request: HeaderMap) -> Response {
    file_response(&VERIFICATION_FORM, ImagePolicy::DataOnly, &request)
}

/// This document as a web page
#[utoipa::path(
    get,
    path = "/docs",
    operation_id = "showDocument",
    tag = "Pages",
    params(IfNoneMatch),
    responses(
        CommonErrors, PageNotModified,
        (status = 200, description = "The page.", content_type = "text/html", body = String,
            headers(("ETag"), ("Cache-Control"), ("Content-Security-Policy"))),
    )
)]
pub(super) async fn docs(request: HeaderMap) -> Response {
    file_response(&DOCS, ImagePolicy::SameOrigin, &request)
}

/// Serves the resources of the dashboard and of the page that shows the document.
pub(super) fn assets() -> Router {
    let to_docs = || async { Redirect::permanent("../docs") };
    serve_files(DASHBOARD_ASSETS.iter().chain(&DOCS_ASSETS), ImagePolicy::SameOrigin)
        .route("/docs/", get(to_docs))
}

/// Serves the resources of the form for contract verification.
pub(super) fn form_assets() -> Router {
    let to_form = || async { Redirect::permanent("../verify") };
    serve_files(&FORM_ASSETS, ImagePolicy::DataOnly).route("/verify/", get(to_form))
}

fn serve_files(
    files: impl IntoIterator<Item = &'static StaticFile>,
    image_policy: ImagePolicy,
) -> Router {
    files.into_iter().fold(Router::new(), |routes, file| {
        let serve = async move |request: HeaderMap| file_response(file, image_policy, &request);
        routes.route(file.path, get(serve))
    })
}

fn file_response(file: &StaticFile, image_policy: ImagePolicy, request: &HeaderMap) -> Response {
    let tag = etag::for_body(file.text.as_bytes());
    let mut response = if etag::matches(&tag, request) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let content_type = HeaderValue::from_static(file.content_type);
        ([(header::CONTENT_TYPE, content_type)], Body::from(file.text)).into_response()
    };
    let headers = response.headers_mut();
    headers.extend(PAGE_HEADERS);
    headers.insert(header::CONTENT_SECURITY_POLICY, image_policy.content_security_policy());
    headers.insert(header::ETAG, tag);
    response
}

impl ImagePolicy {
    /// Returns the policy of a page with these image sources.
    fn content_security_policy(self) -> HeaderValue {
        let sources = match self {
            Self::DataOnly => "data:",
            Self::SameOrigin => "'self' data:",
        };
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src {sources}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             require-trusted-types-for 'script'"
        );
        HeaderValue::try_from(policy).expect("letters and punctuation are a header value")
    }
}
