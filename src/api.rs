//! The HTTP interface: every route and every layer, on this page.
//!
//! Handlers read the [`Book`] and nothing else: no request ever causes an upstream call.

mod chains;
mod cors;
mod extract;
mod freshness;
mod health;
mod history;
mod hot;
mod market;
mod problem;
mod request_id;
mod suggestion;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::HttpBody;
use axum::http::{HeaderValue, Request};
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, FutureExt, Ready, ready};
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::catch_panic::CatchPanicLayer;

pub use health::Health;

use crate::book::Book;
use crate::config::Config;
use cors::Cors;
use hot::HotPath;
use request_id::{RequestIds, X_REQUEST_ID};

/// One listener's routes within their layers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    routes: Router,
    hot_path: Option<HotPath>,
    cors: Cors,
    ids: RequestIds,
}

/// Everything that the public listener answers.
#[must_use]
pub fn public(config: &Config, book: &Book, health: Health) -> App {
    let routes = Router::new()
        .route("/v1/chains", get(chains::list))
        .route("/v1/gas-suggestions", get(suggestion::all))
        .route("/v1/{chain}/gas-suggestion", get(suggestion::of_chain))
        .route("/v1/{chain}/fee-market", get(market::of_chain))
        .route("/v1/{chain}/fee-history", get(history::of_chain))
        .with_state(book.clone());
    let base_path = &config.server.base_path;
    let routes = match base_path.as_str() {
        "" => routes.merge(probes(health)),
        path => {
            Router::new().nest(path, routes.merge(probes(health.clone()))).merge(probes(health))
        }
    };
    App::new(routes, Some(HotPath::new(base_path, book)), config)
}

/// Everything that the admin listener answers.
#[must_use]
pub fn admin(config: &Config, health: Health) -> App {
    App::new(probes(health), None, config)
}

/// What an orchestrator asks.
fn probes(health: Health) -> Router {
    Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .with_state(health)
}

/// The future of a response: at hand for the hot route, boxed for the others.
type Answer =
    Either<Ready<Result<Response, Infallible>>, BoxFuture<'static, Result<Response, Infallible>>>;

impl App {
    fn new(routes: Router, hot_path: Option<HotPath>, config: &Config) -> Self {
        let cors = Cors::new(&config.cors);
        // The first layer is the outermost: a panic's answer has CORS headers too.
        let layers = ServiceBuilder::new().layer(cors.layer()).layer(CatchPanicLayer::new());
        let routes = routes.layer(layers);
        Self { shared: Arc::new(Shared { routes, hot_path, cors, ids: RequestIds::new() }) }
    }

    /// Answers one request; every answer has a request id, every error a problem body.
    pub(crate) fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let Shared { routes, hot_path, cors, ids } = &*self.shared;
        let id = ids.of(request.headers());
        let hot = hot_path.as_ref().and_then(|hot_path| hot_path.answer(&request, cors));
        if let Some(response) = hot {
            return Either::Left(ready(Ok(conclude(response, id))));
        }
        let answer = routes.clone().call(request);
        Either::Right(answer.map(|answer| answer.map(|response| conclude(response, id))).boxed())
    }
}

/// Gives a response its request id and, where it is an error, its problem body.
fn conclude(mut response: Response, id: HeaderValue) -> Response {
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        problem::write(&mut response, &id);
    }
    response.headers_mut().insert(X_REQUEST_ID, id);
    response
}
