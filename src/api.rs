//! The HTTP interface of the heart: what gas costs, and how the service is.
//!
//! Handlers read only the [`ChainStore`], so a fee request never causes an upstream call. `PublicRoutes` joins these
//! routes with those of other rooms. Router and OpenAPI document come from one list, so a route is a handler and a line.
//!
//! `fast_path` serves `GET /v1/{chain}/gas-suggestion` before the router, with the functions that the routed handler
//! uses. A test compares both; `benches/serving.sh` compares the result with an empty hyper service.
//!
//! Every response with an error status, axum's own included, becomes `application/problem+json` in `http::problem`.

pub(crate) mod chains;
pub(crate) mod extractors;
pub(crate) mod fast_path;
pub(crate) mod fee_history;
pub(crate) mod fee_market;
pub(crate) mod freshness;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod problems;
pub(crate) mod public_routes;
pub(crate) mod render_cache;
pub(crate) mod route_table;
mod state;
pub(crate) mod stream;
pub(crate) mod suggestion;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{any, get};
use tower_http::timeout::TimeoutLayer;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use crate::http::app::App;
pub use health::ReadinessState;

use crate::config::Config;
use crate::http::app::{Audience, timeout_or_never};
use crate::http::request_checks::{AdminHosts, CostlyRoutes};
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Metrics;
use crate::store::ChainStore;
use fast_path::SuggestionFastPath;
use fee_history::HistorySerializer;
use openapi::{SerializedDocument, SharedDescription};
use public_routes::PublicRoutes;
use route_table::RouteTable;
use state::{AppState, Parts};
use stream::SuggestionStreams;

/// Memory of responses to probes and scrapes.
const ADMIN_MEMORY_BYTES: usize = 16 * 1024 * 1024;

/// The routes of this room. A new one is a handler and a line here.
fn heart_routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(SharedDescription::openapi())
        .routes(routes!(suggestion::get_suggestion))
        .routes(routes!(stream::stream_suggestion))
        .routes(routes!(stream::stream_all_suggestions))
        .routes(routes!(suggestion::list_suggestions))
        .routes(routes!(fee_market::get_fee_market))
        .routes(routes!(fee_market::list_fee_markets))
        .routes(routes!(chains::list_chains))
        .routes(routes!(fee_history::get_fee_history))
        .routes(routes!(openapi::get_document))
        .routes(routes!(route_table::list_routes))
}

/// Routes of the heart whose requests cost more than one unit of the rate limit.
const COSTLY_ROUTES: [&str; 5] = [
    "/v1/chains",
    "/v1/fee-markets",
    "/v1/gas-suggestions",
    "/v1/gas-suggestions/stream",
    "/v1/{chain}/fee-history",
];

/// Liveness and readiness probes.
fn probes() -> OpenApiRouter<ReadinessState> {
    OpenApiRouter::new()
        .routes(routes!(health::get_liveness))
        .routes(routes!(health::get_readiness))
}

/// Builds the routes of the public listener, with those of other rooms.
pub(crate) fn public(
    config: &Config,
    store: &ChainStore,
    mut others: PublicRoutes,
    health: ReadinessState,
    streams: SuggestionStreams,
    memory: &MemoryBudget,
    metrics: &Metrics,
) -> App {
    // A copy of it would take 5 MB.
    let described = std::mem::take(&mut others.description);
    let document = openapi::document(config, described, &others);
    let table = RouteTable::new(&document, &config.server.base_path, &others);
    let state = AppState::new(Parts {
        store: store.clone(),
        metrics: metrics.clone(),
        streams,
        history: HistorySerializer::default(),
        market_members: others.market_members.clone(),
        document: SerializedDocument::new(&document),
        table: table.clone(),
    });
    let timed = Router::from(heart_routes().with_state(state))
        .merge(others.timed)
        .merge(others.undescribed)
        .fallback_service(any(route_table::not_found).with_state(table.clone()))
        .layer(timeout_layer(config));
    let probes = Router::from(probes().with_state(health));
    let routes = timed.merge(others.untimed).merge(probes.clone());
    let base_path = &config.server.base_path;
    let routes = match base_path.as_str() {
        "" => routes,
        path => Router::new().nest(path, routes).merge(others.at_root).merge(probes),
    };
    let exposed_to_all = config.cors.allows_any().then(|| others.exposed_headers.to_value());
    let fast_path = SuggestionFastPath::new(base_path, store, exposed_to_all.as_ref(), metrics);
    let mut costly_routes = CostlyRoutes::default();
    for route in COSTLY_ROUTES.into_iter().chain(others.costly_routes) {
        costly_routes.add(base_path, route);
    }
    let audience = Audience::Public(others.exposed_headers, costly_routes);
    App::new("public", routes, Some(Box::new(fast_path)), audience, config, memory, metrics)
}

/// Returns the OpenAPI document of the public listener's routes, those of other rooms included.
pub(crate) fn document(config: &Config, others: &PublicRoutes) -> OpenApi {
    openapi::document(config, others.description.clone(), others)
}

/// Builds the routes of the admin listener. It has no CORS headers, and accepts only requests for its addresses and names.
pub(crate) fn admin(config: &Config, health: ReadinessState, metrics: &Metrics) -> App {
    let metrics_routes =
        Router::new().route("/metrics", get(metrics::get_metrics)).with_state(metrics.clone());
    let table = RouteTable::new(&probes().into_openapi(), "", &PublicRoutes::default())
        .with_route("/metrics", "Metrics in the Prometheus text format");
    let probes = Router::from(probes().with_state(health));
    let index = Router::new().route("/", get(route_table::list_routes)).with_state(table);
    let routes = probes.merge(metrics_routes).merge(index).layer(timeout_layer(config));
    let audience = Audience::Admin(AdminHosts::new(&config.server));
    // A budget of its own, so that clients of the public listener cannot keep scrapes out.
    let memory = MemoryBudget::new(ADMIN_MEMORY_BYTES);
    App::new("admin", routes, None, audience, config, &memory, metrics)
}

/// Limits the time from a request to its response headers.
fn timeout_layer(config: &Config) -> TimeoutLayer {
    let timeout = timeout_or_never(config.limits.request_timeout);
    TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, timeout)
}
