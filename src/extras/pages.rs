//! The web pages and their resources, compiled into the binary.
//!
//! No script of this service builds HTML from text.

use axum::Router;
use axum::extract::{OriginalUri, State};
use axum::http::header::LINK;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use bytes::Bytes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::assembly::{Assembly, Extra};
use crate::config::Chain;
use crate::extras::static_files::{StaticFile, page_response, serve_files};

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

/// Place of the preloads of all modules, which the browser would otherwise find one after another.
const MODULES: &str = "<!-- modules -->";

/// Place of the badges in the page for browsers without JavaScript.
const BADGES: &str = "<!-- badges -->";

/// Blocks on a chart, if every chain keeps that many.
const CHART_BLOCKS: usize = 60;

const HIDDEN_DEMO_NOTICE: &str = "id=\"demo\" hidden>";
const SHOWN_DEMO_NOTICE: &str = "id=\"demo\">";

const HIDDEN_FORM_LINK: &str = "<a href=\"verify\" hidden>";
const SHOWN_FORM_LINK: &str = "<a href=\"verify\">";

/// Resources of the dashboard. The other pages use its palette and its icon too.
const DASHBOARD_ASSETS: [StaticFile; 33] = [
    StaticFile::css("/base.css", include_str!("pages/base.css")),
    StaticFile::css("/dashboard/style.css", include_str!("pages/dashboard/style.css")),
    StaticFile::js("/dashboard/amounts.js", include_str!("pages/dashboard/amounts.js")),
    StaticFile::js("/dashboard/cards.js", include_str!("pages/dashboard/cards.js")),
    StaticFile::js("/dashboard/chain.js", include_str!("pages/dashboard/chain.js")),
    StaticFile::js("/dashboard/copy.js", include_str!("pages/dashboard/copy.js")),
    StaticFile::js("/dashboard/costs.js", include_str!("pages/dashboard/costs.js")),
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
    StaticFile::js("/dashboard/sorting.js", include_str!("pages/dashboard/sorting.js")),
    StaticFile::js("/dashboard/sparkline.js", include_str!("pages/dashboard/sparkline.js")),
    StaticFile::js("/dashboard/spend.js", include_str!("pages/dashboard/spend.js")),
    StaticFile::js("/dashboard/state.js", include_str!("pages/dashboard/state.js")),
    StaticFile::js("/dashboard/store.js", include_str!("pages/dashboard/store.js")),
    StaticFile::js("/dashboard/tiers.js", include_str!("pages/dashboard/tiers.js")),
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
        let modules = DASHBOARD_ASSETS.iter().filter_map(|file| {
            let path = file.path.strip_prefix('/')?;
            let is_module = file.content_type.starts_with("text/javascript");
            is_module.then(|| format!("<link rel=\"modulepreload\" href=\"{path}\">"))
        });
        let modules: Vec<_> = modules.collect();
        let html = DASHBOARD.replace(BADGES, &badges.join("\n"));
        let html = html.replace("data-blocks=\"60\"", &format!("data-blocks=\"{blocks}\"{week}"));
        let html = html.replace(MODULES, &modules.join("\n"));
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
    serve_files(DASHBOARD_ASSETS.iter().chain(&DOCS_ASSETS)).route("/docs/", get(to_docs))
}
