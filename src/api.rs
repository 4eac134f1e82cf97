//! The HTTP interface: every route and every layer, on this page.
//!
//! Handlers read the [`Book`] and nothing else: no request ever causes an upstream call.

mod chains;
mod context;
mod extract;
mod freshness;
mod health;
mod history;
mod market;
mod problem;
mod suggestion;

use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, Method, header};
use axum::middleware;
use axum::routing::get;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, Any, CorsLayer};
use tower_http::trace::TraceLayer;

pub use health::Health;

use crate::book::Book;
use crate::config::{Config, Cors};
use context::{RequestIds, X_REQUEST_ID};
use freshness::{X_NEWEST_BLOCK, X_STALE};

/// Everything that the public listener answers.
pub fn public(config: &Config, book: Book, health: Health) -> Router {
    let routes = Router::new()
        .route("/v1/chains", get(chains::list))
        .route("/v1/gas-suggestions", get(suggestion::all))
        .route("/v1/{chain}/gas-suggestion", get(suggestion::of_chain))
        .route("/v1/{chain}/fee-market", get(market::of_chain))
        .route("/v1/{chain}/fee-history", get(history::of_chain))
        .with_state(book);
    let app = match config.server.base_path.as_str() {
        "" => routes.merge(probes(health)),
        base_path => Router::new()
            .nest(base_path, routes.merge(probes(health.clone())))
            .merge(probes(health)),
    };
    app.layer(
        ServiceBuilder::new()
            .layer(middleware::from_fn_with_state(RequestIds::new(), context::carry))
            .layer(TraceLayer::new_for_http().on_failure(()))
            .layer(cors(&config.cors))
            .layer(CatchPanicLayer::new()),
    )
}

/// Everything that the admin listener answers.
pub fn admin(health: Health) -> Router {
    probes(health).layer(middleware::from_fn_with_state(RequestIds::new(), context::carry))
}

/// What an orchestrator asks.
fn probes(health: Health) -> Router {
    Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .with_state(health)
}

fn cors(config: &Cors) -> CorsLayer {
    const PREFLIGHT_MAX_AGE: Duration = Duration::from_hours(24);
    let names = |names: &[&'static str]| -> Vec<HeaderName> {
        names.iter().copied().map(HeaderName::from_static).collect()
    };
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::HEAD, Method::POST])
        .allow_headers(
            [
                header::CONTENT_TYPE,
                header::ACCEPT,
                header::AUTHORIZATION,
                header::IF_NONE_MATCH,
                header::CACHE_CONTROL,
                X_REQUEST_ID,
            ]
            .into_iter()
            .chain(names(&["x-api-key", "last-event-id"]))
            .collect::<Vec<_>>(),
        )
        .expose_headers(
            [header::ETAG, header::AGE, header::RETRY_AFTER, X_NEWEST_BLOCK, X_STALE, X_REQUEST_ID]
                .into_iter()
                .chain(names(&["x-delegation-source"]))
                .collect::<Vec<_>>(),
        )
        .max_age(PREFLIGHT_MAX_AGE);
    if config.allows_any() {
        // The answer does not depend on the origin, so caches need not keep one per origin.
        layer.allow_origin(Any).vary([])
    } else {
        let origins = config.origins().unwrap_or_default();
        layer.allow_origin(AllowOrigin::list(origins)).vary([header::ORIGIN])
    }
}
