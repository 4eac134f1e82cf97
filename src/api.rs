//! The HTTP interface: every route and every layer.
//!
//! Fee handlers read only the [`ChainStore`], so a fee request never causes an upstream call. `/rpc/{chain}` calls go
//! through [`Reads`], which limits them. Contract verification goes through a [`Proxy`], delegation look-ups through
//! [`Delegations`].
//!
//! `fast_path` serves `GET /v1/{chain}/gas-suggestion` before the router, with the functions that the routed handler
//! uses. A test compares both; `benches/serving.sh` compares the result with an empty hyper service.
//!
//! Every response with an error status, axum's own included, becomes `application/problem+json` in `problem`. Only the
//! errors of verification and delegation upstreams are forwarded unchanged.

pub(crate) mod app;
pub(crate) mod callers_fee;
pub(crate) mod chains;
pub(crate) mod etag;
pub(crate) mod fast_path;
pub(crate) mod fee_history;
pub(crate) mod fee_market;
pub(crate) mod freshness;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod nearest;
pub(crate) mod openapi;
pub(crate) mod route_table;
pub(crate) mod stream;
pub(crate) mod suggestion;
pub(crate) mod wire;

use crate::extras::chart::badge_route as badge;
use crate::extras::chart::routes as fee_history_chart;
use crate::extras::compat::routes as compat;
use crate::extras::delegation::routes as delegation;
use crate::extras::pages;
use crate::extras::rpc;
use crate::extras::score::routes as score;
use crate::extras::trend::routes as fee_trend;
use crate::extras::verification;
use axum::Router;
use axum::http::StatusCode;
use axum::middleware;
use axum::routing::{any, get};
use tower_http::timeout::TimeoutLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use app::App;
pub use health::ReadinessState;

use crate::config::{Config, DelegationSource};
use crate::extras::chart::routes::ChartRenderer;
use crate::extras::delegation::Delegations;
use crate::extras::pages::DashboardPage;
use crate::extras::rpc::reads::Reads;
use crate::extras::trend::routes::TrendSerializer;
use crate::extras::verification::VerificationState;
use crate::extras::verification::proxy::Proxy;
use crate::http::request_checks::AdminHosts;
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Metrics;
use crate::store::ChainStore;
use app::timeout_or_never;
use fast_path::FastPath;
use fee_history::HistorySerializer;
use openapi::SerializedDocument;
use route_table::RouteTable;
use stream::SuggestionStreams;
use suggestion::SuggestionState;

/// Memory of responses to probes and scrapes.
const ADMIN_MEMORY_BYTES: usize = 16 * 1024 * 1024;

/// Builds the routes of the public listener.
#[must_use]
pub fn public(
    config: &Config,
    store: &ChainStore,
    reads: &Reads,
    verification_proxy: Option<Proxy>,
    delegations: Option<Delegations>,
    health: ReadinessState,
    metrics: &Metrics,
) -> App {
    let max_body = config.verification.max_body;
    let dashboard = DashboardPage::new(verification_proxy.is_some());
    let (form_routes, forward) = if let Some(proxy) = verification_proxy {
        let state = VerificationState { proxy, max_body };
        (verification_form_routes().into(), any(verification::forward).with_state(state))
    } else {
        let problem = verification::switched_off(config.is_demo);
        let disabled = any(async move || problem);
        (Router::new().route("/verify", disabled.clone()), disabled)
    };
    let (lookup_routes, transaction_routes) = if let Some(delegations) = delegations {
        let lookup_routes = lookup_routes().with_state(delegations.clone());
        (Router::from(lookup_routes), transaction_routes().with_state(delegations).into())
    } else {
        let problem = delegation::switched_off(config.is_demo);
        let disabled = any(async move || problem);
        let lookups = Router::new()
            .route("/registry/v2/{address}", disabled.clone())
            .route("/registry/v2/check/{scope}", disabled.clone());
        (lookups, Router::new().route("/v1/{chain}/delegations/transactions", disabled))
    };
    let streams = SuggestionStreams::new(
        store,
        &config.limits,
        reads.memory(),
        health.shutdown_token(),
        metrics,
    );
    let document = openapi::document(config);
    let route_table = RouteTable::new(&document, &config.server.base_path);
    let document = SerializedDocument::new(&document);
    let timed_routes = OpenApiRouter::new()
        .merge(suggestion_routes().with_state(SuggestionState::new(store, metrics)))
        .merge(stream_routes().with_state(streams))
        .merge(fee_routes().with_state(store.clone()))
        .merge(compat::routes(config.compat.formats()).with_state(store.clone()))
        .merge(history_routes().with_state(HistorySerializer::new(store)))
        .merge(trend_routes().with_state(TrendSerializer::new(store, reads.memory(), metrics)))
        .merge(chart_routes().with_state(ChartRenderer::new(store, reads.memory(), metrics)))
        .merge(rpc_routes().with_state(reads.clone()))
        .merge(page_routes().with_state(dashboard.clone()))
        .merge(document_routes().with_state(document))
        .merge(index_routes().with_state(route_table.clone()));
    let timed_routes = Router::from(timed_routes)
        .merge(transaction_routes)
        .merge(form_routes)
        .merge(pages::assets())
        .fallback_service(any(route_table::not_found).with_state(route_table.clone()))
        .layer(timeout_layer(config));
    // These routes have their own deadlines: a verification compiles code, and a look-up may query two sources in turn.
    let long_routes = Router::new()
        .route("/verification", forward.clone())
        .route("/verification/", forward.clone())
        .route("/verification/{*path}", forward)
        .merge(lookup_routes);
    let probes = Router::from(probes().with_state(health));
    let check_query = middleware::from_fn_with_state(route_table, route_table::check_query);
    let routes = timed_routes.merge(long_routes).merge(probes.clone()).route_layer(check_query);
    let base_path = &config.server.base_path;
    let routes = match base_path.as_str() {
        "" => routes,
        path => {
            let page = Router::new()
                .route(&format!("{path}/"), get(pages::dashboard))
                .with_state(dashboard);
            let formats = compat::root_routes(config.compat.formats()).with_state(store.clone());
            Router::new().nest(path, routes).merge(page).merge(probes).merge(formats)
        }
    };
    let fast_path = FastPath::new(base_path, store, config.cors.allows_any(), metrics);
    App::new("public", routes, Some(fast_path), None, config, reads.memory(), metrics)
}

fn suggestion_routes() -> OpenApiRouter<SuggestionState> {
    OpenApiRouter::new().routes(routes!(suggestion::get_suggestion))
}

fn stream_routes() -> OpenApiRouter<SuggestionStreams> {
    OpenApiRouter::new()
        .routes(routes!(stream::stream_suggestion))
        .routes(routes!(stream::stream_all_suggestions))
}

fn fee_routes() -> OpenApiRouter<ChainStore> {
    OpenApiRouter::new()
        .routes(routes!(suggestion::list_suggestions))
        .routes(routes!(fee_market::get_fee_market))
        .routes(routes!(fee_market::list_fee_markets))
        .routes(routes!(callers_fee::get_inclusion))
        .routes(routes!(callers_fee::get_replacement))
        .routes(routes!(score::get_score))
        .routes(routes!(badge::get_badge))
        .routes(routes!(chains::list_chains))
}

fn history_routes() -> OpenApiRouter<HistorySerializer> {
    OpenApiRouter::new().routes(routes!(fee_history::get_fee_history))
}

fn trend_routes() -> OpenApiRouter<TrendSerializer> {
    OpenApiRouter::new().routes(routes!(fee_trend::get_fee_trend))
}

fn chart_routes() -> OpenApiRouter<ChartRenderer> {
    OpenApiRouter::new().routes(routes!(fee_history_chart::get_chart))
}

fn rpc_routes() -> OpenApiRouter<Reads> {
    OpenApiRouter::new().routes(routes!(rpc::call_rpc))
}

fn lookup_routes() -> OpenApiRouter<Delegations> {
    OpenApiRouter::new()
        .routes(routes!(delegation::list_delegations))
        .routes(routes!(delegation::check_all))
        .routes(routes!(delegation::check_contract))
        .routes(routes!(delegation::check_erc721))
        .routes(routes!(delegation::check_erc20))
        .routes(routes!(delegation::check_erc1155))
}

fn transaction_routes() -> OpenApiRouter<Delegations> {
    OpenApiRouter::new().routes(routes!(delegation::transaction::prepare_transaction))
}

fn page_routes() -> OpenApiRouter<DashboardPage> {
    OpenApiRouter::new().routes(routes!(pages::dashboard)).routes(routes!(pages::docs))
}

fn verification_form_routes() -> OpenApiRouter {
    OpenApiRouter::new()
        .routes(routes!(pages::verification_form))
        .merge(pages::form_assets().into())
}

fn document_routes() -> OpenApiRouter<SerializedDocument> {
    OpenApiRouter::new().routes(routes!(openapi::get_document))
}

fn index_routes() -> OpenApiRouter<RouteTable> {
    OpenApiRouter::new().routes(routes!(route_table::list_routes))
}

/// Liveness and readiness probes.
fn probes() -> OpenApiRouter<ReadinessState> {
    OpenApiRouter::new()
        .routes(routes!(health::get_liveness))
        .routes(routes!(health::get_readiness))
}

/// Returns the descriptions of the public listener's routes that `config` enables.
fn described_routes(config: &Config) -> utoipa::openapi::OpenApi {
    let mut document = suggestion_routes().into_openapi();
    document.merge(stream_routes().into_openapi());
    document.merge(fee_routes().into_openapi());
    document.merge(compat::routes(config.compat.formats()).into_openapi());
    document.merge(history_routes().into_openapi());
    document.merge(trend_routes().into_openapi());
    document.merge(chart_routes().into_openapi());
    if config.chains.iter().any(|chain| chain.json_rpc) {
        document.merge(rpc_routes().into_openapi());
    }
    if config.delegation.source != DelegationSource::Off {
        document.merge(lookup_routes().into_openapi());
        document.merge(transaction_routes().into_openapi());
    }
    document.merge(page_routes().into_openapi());
    if config.verification.url.is_some() {
        document.merge(verification_form_routes().into_openapi());
    }
    document.merge(probes().into_openapi());
    document.merge(document_routes().into_openapi());
    document.merge(index_routes().into_openapi());
    document
}

/// Returns the OpenAPI document of the public listener's routes.
///
/// # Errors
///
/// Fails only if JSON serialisation fails, which no document causes.
pub fn document(config: &Config) -> serde_json::Result<String> {
    openapi::document(config).to_pretty_json()
}

/// Returns the OpenAPI document of the public listener's routes for any chain: it does not depend on the configured
/// chains.
///
/// # Errors
///
/// Fails only if JSON serialisation fails, which no document causes.
pub fn generic_document(config: &Config) -> serde_json::Result<String> {
    openapi::generic_document(config).to_pretty_json()
}

/// Builds the routes of the admin listener. It has no CORS headers, and accepts only requests for its addresses and names.
#[must_use]
pub fn admin(config: &Config, health: ReadinessState, metrics: &Metrics) -> App {
    let metrics_routes =
        Router::new().route("/metrics", get(metrics::get_metrics)).with_state(metrics.clone());
    let table = RouteTable::new(&probes().into_openapi(), "")
        .with_route("/metrics", "Metrics in the Prometheus text format");
    let probes = Router::from(probes().with_state(health));
    let index = Router::new().route("/", get(route_table::list_routes)).with_state(table);
    let routes = probes.merge(metrics_routes).merge(index).layer(timeout_layer(config));
    let hosts = AdminHosts::new(&config.server);
    // A budget of its own, so that clients of the public listener cannot keep scrapes out.
    let memory = MemoryBudget::new(ADMIN_MEMORY_BYTES);
    App::new("admin", routes, None, Some(hosts), config, &memory, metrics)
}

/// Limits the time from a request to its response headers.
fn timeout_layer(config: &Config) -> TimeoutLayer {
    let timeout = timeout_or_never(config.limits.request_timeout);
    TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, timeout)
}
