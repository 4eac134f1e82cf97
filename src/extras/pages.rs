//! The web pages and their resources, compiled into the binary.
//!
//! The pages load resources from this service only, which their Content-Security-Policy enforces. No script of this
//! service builds HTML from text. Resources are compressed once, pages on each request.

use std::io::Read;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::{OriginalUri, State};
use axum::http::HeaderName;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use flate2::Compression;
use flate2::read::{GzDecoder, GzEncoder};

use crate::api::etag;
use crate::api::openapi::components::{CommonErrors, IfNoneMatch, PageNotModified};
use crate::http::chunked_body::{Charged, ChunkedBody};
use crate::http::response_body::accepts_gzip;

/// A file and the path it is served at.
struct StaticFile {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

impl StaticFile {
    const fn css(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "text/css; charset=utf-8", text }
    }

    const fn js(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "text/javascript; charset=utf-8", text }
    }

    const fn svg(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "image/svg+xml", text }
    }
}

const HTML: &str = "text/html; charset=utf-8";

const DASHBOARD: &str = include_str!("pages/dashboard.html");

const HIDDEN_FORM_LINK: &str = "<a href=\"verify\" hidden>";
const SHOWN_FORM_LINK: &str = "<a href=\"verify\">";

/// Resources of the dashboard. The other pages use its palette and its icon too.
const DASHBOARD_ASSETS: [StaticFile; 27] = [
    StaticFile::css("/base.css", include_str!("pages/base.css")),
    StaticFile::css("/dashboard/style.css", include_str!("pages/dashboard/style.css")),
    StaticFile::js("/dashboard/amounts.js", include_str!("pages/dashboard/amounts.js")),
    StaticFile::js("/dashboard/chain.js", include_str!("pages/dashboard/chain.js")),
    StaticFile::js("/dashboard/copy.js", include_str!("pages/dashboard/copy.js")),
    StaticFile::js("/dashboard/details.js", include_str!("pages/dashboard/details.js")),
    StaticFile::js("/dashboard/dom.js", include_str!("pages/dashboard/dom.js")),
    StaticFile::js("/dashboard/favicon.js", include_str!("pages/dashboard/favicon.js")),
    StaticFile::js("/dashboard/format.js", include_str!("pages/dashboard/format.js")),
    StaticFile::js("/dashboard/heatmap.js", include_str!("pages/dashboard/heatmap.js")),
    StaticFile::js("/dashboard/history.js", include_str!("pages/dashboard/history.js")),
    StaticFile::js("/dashboard/live.js", include_str!("pages/dashboard/live.js")),
    StaticFile::js("/dashboard/notify.js", include_str!("pages/dashboard/notify.js")),
    StaticFile::js("/dashboard/overview.js", include_str!("pages/dashboard/overview.js")),
    StaticFile::js("/dashboard/page.js", include_str!("pages/dashboard/page.js")),
    StaticFile::js("/dashboard/points.js", include_str!("pages/dashboard/points.js")),
    StaticFile::js("/dashboard/price-chart.js", include_str!("pages/dashboard/price-chart.js")),
    StaticFile::js("/dashboard/score.js", include_str!("pages/dashboard/score.js")),
    StaticFile::js("/dashboard/snippets.js", include_str!("pages/dashboard/snippets.js")),
    StaticFile::js("/dashboard/sparkline.js", include_str!("pages/dashboard/sparkline.js")),
    StaticFile::js("/dashboard/state.js", include_str!("pages/dashboard/state.js")),
    StaticFile::js("/dashboard/trend.js", include_str!("pages/dashboard/trend.js")),
    StaticFile::js("/dashboard/view.js", include_str!("pages/dashboard/view.js")),
    StaticFile::css(
        "/dashboard/uplot/uPlot.min.css",
        include_str!("pages/dashboard/uplot/uPlot.min.css"),
    ),
    StaticFile::js(
        "/dashboard/uplot/uPlot.esm.js",
        include_str!("pages/dashboard/uplot/uPlot.esm.js"),
    ),
    // A component for pages of other origins, which the dashboard itself does not load.
    StaticFile::js("/gas-suggestion.js", include_str!("pages/gas-suggestion.js")),
    StaticFile::svg("/favicon.svg", include_str!("pages/favicon.svg")),
];

const VERIFICATION_FORM: &str = include_str!("pages/verify.html");

/// Resources of the form. It hashes with noble-hashes, whose files are unchanged copies of the published ones.
const FORM_ASSETS: [StaticFile; 7] = [
    StaticFile::css("/verify/style.css", include_str!("pages/verify/style.css")),
    StaticFile::js("/verify/page.js", include_str!("pages/verify/page.js")),
    StaticFile::js("/verify/files.js", include_str!("pages/verify/files.js")),
    StaticFile::js("/verify/submit.js", include_str!("pages/verify/submit.js")),
    StaticFile::js("/verify/noble/sha3.js", include_str!("pages/verify/noble/sha3.js")),
    StaticFile::js("/verify/noble/_u64.js", include_str!("pages/verify/noble/_u64.js")),
    StaticFile::js("/verify/noble/utils.js", include_str!("pages/verify/noble/utils.js")),
];

/// The page that shows the document at `/openapi.json`.
const DOCS: &str = include_str!("pages/docs.html");

/// The page's own resources. Swagger UI, which the script starts, comes from the crate `utoipa-swagger-ui`.
const DOCS_ASSETS: [StaticFile; 2] = [
    StaticFile::js("/docs/initializer.js", include_str!("pages/docs/initializer.js")),
    StaticFile::css("/docs/style.css", include_str!("pages/docs/style.css")),
];

/// Policy of what a page may load besides scripts, styles and data of this service.
#[derive(Clone, Copy)]
enum ContentPolicy {
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
pub(crate) async fn dashboard(
    State(page): State<DashboardPage>,
    OriginalUri(uri): OriginalUri,
) -> Response {
    match uri.path().rsplit_once('/') {
        // The base path without its slash. The redirect is relative, because a proxy may serve this path under another
        // name.
        Some((_, name)) if !name.is_empty() => {
            Redirect::permanent(&format!("{name}/")).into_response()
        }
        _ => page_response(page.html, ContentPolicy::OwnImages),
    }
}

/// The dashboard's page, with a link to the form for contract verification if the service has one.
#[derive(Clone)]
pub(crate) struct DashboardPage {
    html: Bytes,
}

impl DashboardPage {
    pub(crate) fn new(has_form: bool) -> Self {
        let html = if has_form {
            DASHBOARD.replace(HIDDEN_FORM_LINK, SHOWN_FORM_LINK).into()
        } else {
            Bytes::from_static(DASHBOARD.as_bytes())
        };
        Self { html }
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
pub(crate) async fn verification_form() -> Response {
    page_response(Bytes::from_static(VERIFICATION_FORM.as_bytes()), ContentPolicy::OwnImages)
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
pub(crate) async fn docs() -> Response {
    page_response(Bytes::from_static(DOCS.as_bytes()), ContentPolicy::SwaggerUi)
}

/// Serves the resources of the dashboard and of the page that shows the document.
pub(crate) fn assets() -> Router {
    let to_docs = || async { Redirect::permanent("../docs") };
    serve_files(&DASHBOARD_ASSETS, ContentPolicy::OwnImages)
        .merge(serve_files(&DOCS_ASSETS, ContentPolicy::SwaggerUi))
        .merge(swagger_ui("swagger-ui.css", "text/css; charset=utf-8"))
        .merge(swagger_ui("swagger-ui-bundle.js", "text/javascript; charset=utf-8"))
        .route("/docs/", get(to_docs))
}

/// Serves the resources of the form for contract verification.
pub(crate) fn form_assets() -> Router {
    let to_form = || async { Redirect::permanent("../verify") };
    serve_files(&FORM_ASSETS, ContentPolicy::OwnImages).route("/verify/", get(to_form))
}

fn serve_files(
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

/// Serves a file of Swagger UI, which the crate has compressed.
fn swagger_ui(name: &str, content_type: &'static str) -> Router {
    let config = utoipa_swagger_ui::Config::new([""]);
    let file = utoipa_swagger_ui::serve(name, Arc::new(config)).ok().flatten();
    let file = file.filter(|file| file.gzpipped).expect("the crate has this file, compressed");
    Asset::new(content_type, file.bytes.into_owned().into(), ContentPolicy::SwaggerUi)
        .serve_at(&format!("/docs/{name}"))
}

/// A compressed resource of a page.
struct Asset {
    content_type: &'static str,
    gzip: Bytes,
    /// For clients that do not accept gzip, once there was one.
    plain: OnceLock<Bytes>,
    etag: HeaderValue,
    content_policy: ContentPolicy,
}

impl Asset {
    fn new(content_type: &'static str, gzip: Bytes, content_policy: ContentPolicy) -> Self {
        Self {
            content_type,
            etag: etag::for_body(&gzip),
            gzip,
            plain: OnceLock::new(),
            content_policy,
        }
    }

    fn serve_at(self, path: &str) -> Router {
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
        }
        response
    }
}

fn page_response(html: Bytes, content_policy: ContentPolicy) -> Response {
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
