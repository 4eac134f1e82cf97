//! The web pages and their resources, compiled into the binary.
//!
//! No script of this service builds HTML from text.

mod script;

use axum::Router;
use axum::extract::{OriginalUri, State};
use axum::http::header::LINK;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use bytes::Bytes;
use utoipa_axum::router::OpenApiRouter;

use crate::api::routes::routes;
use crate::assembly::{Assembly, Extra};
use crate::config::Chain;
use crate::extras::static_files::{StaticFile, page_response, serve_files};
use script::Module;

pub(crate) const EXTRA: Extra = Extra { name: "pages", sections: &[], command: None, join };

/// Page of the form for contract verification, relative to the dashboard.
const FORM: &str = "verify";

/// Part of the dashboard with the prices of a week.
const WEEK: &str = "week";

/// Adds the dashboard and the page with the document. The dashboard links to the pages of other extras.
fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    let chains = &assembly.config.chains;
    let base_path = &assembly.config.server.base_path;
    let page = DashboardPage::new(
        base_path,
        &assembly.routes.links,
        assembly.config.has_recorded_chains,
        chains,
    );
    let described = OpenApiRouter::new().routes(routes!(dashboard)).routes(routes!(docs));
    let routes = &mut assembly.routes;
    routes.timed.push(described.with_state(page.clone()));
    routes.hidden.push(assets());
    let root = format!("{base_path}/");
    if root != "/" {
        routes.at_root.push(Router::new().route(&root, get(dashboard)).with_state(page));
    }
    Ok(())
}

const DASHBOARD: &str = include_str!("pages/dashboard.html");

/// Place of the badges in the page for browsers without JavaScript.
const BADGES: &str = "<!-- badges -->";

/// Blocks on a chart, if every chain keeps that many.
const CHART_BLOCKS: usize = 60;

const HIDDEN_DEMO_NOTICE: &str = "id=\"demo\" hidden>";
const SHOWN_DEMO_NOTICE: &str = "id=\"demo\">";

const HIDDEN_FORM_LINK: &str = "<a href=\"verify\" hidden>";
const SHOWN_FORM_LINK: &str = "<a href=\"verify\">";

const DOM: &str = include_str!("pages/dashboard/dom.js");

/// Modules of the dashboard, which its page loads as one.
const MODULES: [Module; 27] = [
    ("amounts.js", include_str!("pages/dashboard/amounts.js")),
    ("cards.js", include_str!("pages/dashboard/cards.js")),
    ("chain.js", include_str!("pages/dashboard/chain.js")),
    ("copy.js", include_str!("pages/dashboard/copy.js")),
    ("costs.js", include_str!("pages/dashboard/costs.js")),
    ("details.js", include_str!("pages/dashboard/details.js")),
    ("dom.js", DOM),
    ("favicon.js", include_str!("pages/dashboard/favicon.js")),
    ("format.js", include_str!("pages/dashboard/format.js")),
    ("heatmap.js", include_str!("pages/dashboard/heatmap.js")),
    ("history.js", include_str!("pages/dashboard/history.js")),
    ("live.js", include_str!("pages/dashboard/live.js")),
    ("notify.js", include_str!("pages/dashboard/notify.js")),
    ("overview.js", include_str!("pages/dashboard/overview.js")),
    ("page.js", include_str!("pages/dashboard/page.js")),
    ("points.js", include_str!("pages/dashboard/points.js")),
    ("price-chart.js", include_str!("pages/dashboard/price-chart.js")),
    ("score.js", include_str!("pages/dashboard/score.js")),
    ("snippets.js", include_str!("pages/dashboard/snippets.js")),
    ("sorting.js", include_str!("pages/dashboard/sorting.js")),
    ("sparkline.js", include_str!("pages/dashboard/sparkline.js")),
    ("spend.js", include_str!("pages/dashboard/spend.js")),
    ("state.js", include_str!("pages/dashboard/state.js")),
    ("store.js", include_str!("pages/dashboard/store.js")),
    ("tiers.js", include_str!("pages/dashboard/tiers.js")),
    ("trend.js", include_str!("pages/dashboard/trend.js")),
    ("view.js", include_str!("pages/dashboard/view.js")),
];

/// Resources of the dashboard. The other pages use its palette and its icon too.
const DASHBOARD_ASSETS: [StaticFile; 7] = [
    StaticFile::css("/base.css", include_str!("pages/base.css")),
    StaticFile::css("/dashboard/style.css", include_str!("pages/dashboard/style.css")),
    StaticFile::js("/dashboard/dom.js", DOM),
    StaticFile::css(
        "/dashboard/uplot/uPlot.min.css",
        include_str!("pages/dashboard/uplot/uPlot.min.css"),
    ),
    StaticFile::js(
        "/dashboard/uplot/uPlot.esm.js",
        include_str!("pages/dashboard/uplot/uPlot.esm.js"),
    ),
    StaticFile::text("/llms.txt", "text/plain; charset=utf-8", include_str!("pages/llms.txt")),
    StaticFile::text("/favicon.svg", "image/svg+xml", include_str!("pages/favicon.svg")),
];

/// The page that shows the document at `/openapi.json`.
const DOCS: &str = include_str!("pages/docs.html");

/// Resources of that page. It uses those of the dashboard too.
const DOCS_ASSETS: [StaticFile; 2] = [
    StaticFile::js("/docs/page.js", include_str!("pages/docs/page.js")),
    StaticFile::css("/docs/style.css", include_str!("pages/docs/style.css")),
];

/// Dashboard
///
/// Its path ends with a slash, because it loads its resources by relative URLs.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "showDashboard",
    tag = "Pages",
    responses(
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
        _ => ([(LINK, page.link)], page_response(page.html)).into_response(),
    }
}

/// The dashboard's page, with a link to the form for contract verification if the service has one. For browsers without
/// JavaScript it has the badge of each chain, an image with the current price.
#[derive(Clone)]
pub(crate) struct DashboardPage {
    html: Bytes,
    /// Names the OpenAPI document, for programs (RFC 8631).
    link: String,
}

impl DashboardPage {
    pub(crate) fn new(base_path: &str, links: &[&str], is_demo: bool, chains: &[Chain]) -> Self {
        // Keys need no escaping in HTML and URLs.
        let badge = |Chain { key, .. }: &Chain| {
            format!("<img src=\"v1/{key}/badge.svg?label={key}\" alt=\"Gas price of {key}\">")
        };
        let badges: Vec<_> = chains.iter().map(badge).collect();
        let kept = chains.iter().map(|chain| chain.history_blocks.get()).min();
        let blocks = kept.unwrap_or(CHART_BLOCKS).min(CHART_BLOCKS);
        let week = if links.contains(&WEEK) { " data-week" } else { "" };
        let html = DASHBOARD.replace(BADGES, &badges.join("\n"));
        let html = html.replace("data-blocks=\"60\"", &format!("data-blocks=\"{blocks}\"{week}"));
        let html = if links.contains(&FORM) {
            html.replace(HIDDEN_FORM_LINK, SHOWN_FORM_LINK)
        } else {
            html
        };
        let html = if is_demo { html.replace(HIDDEN_DEMO_NOTICE, SHOWN_DEMO_NOTICE) } else { html };
        let link = format!("<{base_path}/openapi.json>; rel=\"service-desc\"");
        Self { html: html.into(), link }
    }
}

/// This document as a web page
#[utoipa::path(
    get,
    path = "/docs",
    operation_id = "showDocument",
    tag = "Pages",
    responses(
        (status = 200, description = "The page.", content_type = "text/html", body = String,
            headers(("ETag"), ("Cache-Control"), ("Content-Security-Policy"))),
    )
)]
pub(crate) async fn docs() -> Response {
    page_response(Bytes::from_static(DOCS.as_bytes()))
}

/// Serves the resources of the dashboard and of the page that shows the document.
pub(crate) fn assets() -> Router {
    let to_docs = || async { Redirect::permanent("../docs") };
    let bytes = script::join("page.js", &MODULES).into();
    let script = StaticFile { bytes, ..StaticFile::js("/dashboard/page.js", "") };
    let files = DASHBOARD_ASSETS.into_iter().chain(DOCS_ASSETS).chain([script]);
    serve_files(files).route("/docs/", get(to_docs))
}
