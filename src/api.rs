//! The HTTP interface of the heart: what gas costs, and how the service is.
//!
//! Handlers read only the [`ChainStore`], so a fee request never causes an upstream call. A route is a handler with its
//! description and a line of `heart_routes`; `Routes` are those of the extras.
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
pub(crate) mod hold;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod problems;
pub(crate) mod render_cache;
pub(crate) mod route_table;
pub(crate) mod routes;
pub(crate) mod stream;
pub(crate) mod suggestion;

use axum::Router;
use axum::extract::FromRef;
use axum::http::StatusCode;
use axum::routing::{any, get};
use tower_http::timeout::TimeoutLayer;
use utoipa_axum::router::OpenApiRouter;

pub use crate::http::app::App;
pub use health::ReadinessState;

use self::routes::routes;
use crate::config::{Config, Server};
use crate::http::app::{PublicParts, timeout_or_never};
use crate::http::cors::Cors;
use crate::http::request_checks::{AdminHosts, RequestChecks};
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Metrics;
use crate::store::ChainStore;
use fast_path::SuggestionFastPath;
use openapi::{Description, ServedDocument};
use route_table::{Route, RouteTable};
use routes::{MarketMembers, Routes};
use stream::SuggestionStreams;

/// State of the handlers of the heart. Each extracts what it needs. Cheap to clone.
#[derive(Clone, FromRef)]
pub(crate) struct AppState {
    store: ChainStore,
    metrics: Metrics,
    streams: SuggestionStreams,
    market_members: MarketMembers,
    document: ServedDocument,
    table: RouteTable,
}

/// The routes of this room. A new one is a handler and a line here.
pub(crate) fn heart_routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
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
pub(crate) fn probes() -> OpenApiRouter<ReadinessState> {
    OpenApiRouter::new()
        .routes(routes!(health::get_liveness))
        .routes(routes!(health::get_readiness))
}

/// Describes the routes of the public listener: those of the heart, the probes, and those of the extras.
pub(crate) fn describe(config: &Config, extras: &Routes) -> Description {
    let heart = heart_routes().into_openapi();
    openapi::describe(&config.server.base_path, |path| {
        heart.paths.paths.contains_key(path)
            || Server::PROBE_PATHS.contains(&path)
            || extras.has(path)
    })
}

/// Builds the public listener: the routes of the heart and of the extras, below the base path.
pub(crate) fn public(
    config: &Config,
    store: &ChainStore,
    extras: Routes,
    health: ReadinessState,
    streams: SuggestionStreams,
    memory: &MemoryBudget,
    metrics: &Metrics,
) -> App {
    let Description { json, routes } = describe(config, &extras);
    let table = RouteTable::new(routes, extras.hints);
    let state = AppState {
        store: store.clone(),
        metrics: metrics.clone(),
        streams,
        market_members: extras.market_members,
        document: ServedDocument::new(json),
        table: table.clone(),
    };
    let timed_extras = extras.timed.into_iter().map(Router::from).chain(extras.hidden);
    let timed = timed_extras
        .fold(Router::from(heart_routes().with_state(state)), Router::merge)
        .fallback_service(any(route_table::not_found).with_state(table))
        .layer(timeout_layer(config));
    let untimed_extras = extras.untimed.into_iter().map(Router::from);
    let probes = Router::from(probes().with_state(health));
    let all = untimed_extras.fold(timed.merge(probes.clone()), Router::merge);
    let base_path = config.server.base_path.as_str();
    let mounted = if base_path.is_empty() {
        all
    } else {
        // Probes stay at the root too, whatever the base path is.
        let below = Router::new().nest(base_path, all);
        extras.at_root.into_iter().fold(below.merge(probes), Router::merge)
    };
    let costly_routes = COSTLY_ROUTES.into_iter().chain(extras.costly);
    let checks = RequestChecks::new(base_path, costly_routes, None, metrics);
    let cors = Cors::new(&config.cors, extras.exposed_headers);
    let fast_path = SuggestionFastPath::new(base_path, store, cors.exposed_to_all(), metrics);
    let public = PublicParts { fast_path: Box::new(fast_path), cors };
    App::new("public", mounted, checks, Some(public), config, memory, metrics)
}

/// Builds the admin listener. It has no CORS headers, and accepts only requests for its addresses and names.
pub(crate) fn admin(
    config: &Config,
    health: ReadinessState,
    memory: &MemoryBudget,
    metrics: &Metrics,
) -> App {
    let mut table = openapi::describe("", |path| Server::PROBE_PATHS.contains(&path)).routes;
    table.push(Route {
        method: "GET".to_owned(),
        path: "/metrics".to_owned(),
        summary: "Metrics in the Prometheus text format".to_owned(),
    });
    let index = Router::new()
        .route("/", get(route_table::list_routes))
        .with_state(RouteTable::new(table, Vec::new()));
    let routes = Router::from(probes().with_state(health))
        .route("/metrics", get(metrics::get_metrics).with_state(metrics.clone()))
        .merge(index)
        .layer(timeout_layer(config));
    let hosts = Some(AdminHosts::new(&config.server));
    let base_path = &config.server.base_path;
    let checks = RequestChecks::new(base_path, [], hosts, metrics);
    App::new("admin", routes, checks, None, config, memory, metrics)
}

/// Limits the time from a request to its response headers.
fn timeout_layer(config: &Config) -> TimeoutLayer {
    let timeout = timeout_or_never(config.limits.request_timeout);
    TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, timeout)
}
