//! The HTTP interface: every route and every layer, on this page.
//!
//! Handlers of fees read the [`Book`] and nothing else: no request for them ever causes an upstream
//! call. Calls of `/rpc/{chain}` go through [`Reads`], which bounds them, contract verification through a
//! [`Proxy`], look-ups of delegations through [`Delegations`].

mod admission;
mod chains;
mod chart;
mod cors;
mod delegation;
mod described;
mod extract;
mod freshness;
mod health;
mod history;
mod hot;
mod intake;
mod ledger;
mod market;
mod metrics;
mod openapi;
mod pages;
mod problem;
mod request_id;
mod rpc;
mod stream;
mod suggestion;
mod verification;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::HttpBody;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, FutureExt, Ready, ready};
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::{RequestBodyTimeoutLayer, TimeoutLayer};

pub use health::Health;

use crate::book::Book;
use crate::clients::Visitor;
use crate::config::Config;
use crate::delegation::Delegations;
use crate::metrics::Metrics;
use crate::proxy::Proxy;
use crate::reads::Reads;
use admission::Admission;
use chart::Charts;
use cors::Cors;
use hot::HotPath;
use ledger::{Entry, Ledger, Route};
use problem::Problem;
use request_id::RequestIds;
use stream::Streams;
use suggestion::Suggestions;
use verification::Verification;

/// One listener's routes within their layers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    routes: Router,
    hot_path: Option<HotPath>,
    admission: Admission,
    cors: Cors,
    ids: RequestIds,
    ledger: Ledger,
}

/// Everything that the public listener answers.
#[must_use]
pub fn public(
    config: &Config,
    book: &Book,
    reads: &Reads,
    to_verification: Option<Proxy>,
    delegations: Option<Delegations>,
    health: Health,
    metrics: &Metrics,
) -> App {
    let max_body = config.verification.max_body;
    let (form, pass_on) = if let Some(proxy) = to_verification {
        let state = Verification { proxy, max_body };
        (pages::verify(), any(verification::pass_on).with_state(state))
    } else {
        let off = any(verification::switched_off);
        (Router::new().route("/verify", off.clone()), off)
    };
    let (lookups, transactions) = of_delegations(delegations);
    let streams = Streams::new(book, &config.limits, health.stop(), metrics);
    let streams = Router::new()
        .route("/v1/gas-suggestions/stream", get(stream::of_all))
        .route("/v1/{chain}/gas-suggestion/stream", get(stream::of_chain))
        .with_state(streams);
    let suggestions = Router::new()
        .route(Ledger::SUGGESTION, get(suggestion::of_chain))
        .with_state(Suggestions::new(book, metrics));
    let charts = Router::new()
        .route("/v1/{chain}/fee-history.svg", get(chart::of_chain))
        .with_state(Charts::new(book, metrics));
    let quick = Router::new()
        .route("/v1/chains", get(chains::list))
        .route("/v1/gas-suggestions", get(suggestion::all))
        .route("/v1/{chain}/fee-market", get(market::of_chain))
        .route("/v1/{chain}/fee-history", get(history::of_chain))
        .with_state(book.clone())
        .merge(suggestions)
        .merge(streams)
        .merge(charts)
        .merge(Router::new().route("/rpc/{chain}", post(rpc::call)).with_state(reads.clone()))
        .merge(transactions)
        .merge(form)
        .merge(pages::dashboard_parts())
        .merge(pages::docs())
        .route("/openapi.json", openapi::route(&openapi::document(config)))
        .fallback(verification::not_found)
        .layer(deadline(config));
    // These have deadlines of their own: a verification compiles, a look-up may ask two in turn.
    let slow = Router::new()
        .route("/verification", pass_on.clone())
        .route("/verification/", pass_on.clone())
        .route("/verification/{*path}", pass_on)
        .merge(lookups);
    let routes = quick.merge(slow);
    let base_path = &config.server.base_path;
    let routes = match base_path.as_str() {
        "" => routes.route("/", pages::dashboard()).merge(probes(health)),
        path => {
            let below = routes.route("/", pages::to_dashboard(path)).merge(probes(health.clone()));
            let page = Router::new().route(&format!("{path}/"), pages::dashboard());
            Router::new().nest(path, below).merge(page).merge(probes(health))
        }
    };
    let hot_path = HotPath::new(base_path, book, metrics);
    App::new("public", routes, Some(hot_path), config, metrics)
}

/// Who may act for whom, and transactions that change it.
fn of_delegations(delegations: Option<Delegations>) -> (Router, Router) {
    let list = "/registry/v2/{address}";
    let prepare = "/v1/{chain}/delegations/transactions";
    if let Some(delegations) = delegations {
        let lookups = Router::new()
            .route(list, get(delegation::list))
            .route("/registry/v2/check/all", get(delegation::check_all))
            .route("/registry/v2/check/contract", get(delegation::check_contract))
            .route("/registry/v2/check/erc721", get(delegation::check_erc721))
            .route("/registry/v2/check/erc20", get(delegation::check_erc20))
            .route("/registry/v2/check/erc1155", get(delegation::check_erc1155));
        let transactions = Router::new().route(prepare, post(delegation::transaction::prepare));
        (lookups.with_state(delegations.clone()), transactions.with_state(delegations))
    } else {
        let off = any(delegation::switched_off);
        let lookups =
            Router::new().route(list, off.clone()).route("/registry/v2/check/{scope}", off.clone());
        (lookups, Router::new().route(prepare, off))
    }
}

/// The OpenAPI document of what the public listener answers, for people and programs to read.
///
/// # Errors
///
/// Those of the writer of JSON, which has none for it.
pub fn document(config: &Config) -> serde_json::Result<String> {
    openapi::document(config).to_pretty_json()
}

/// Everything that the admin listener answers.
#[must_use]
pub fn admin(config: &Config, health: Health, metrics: &Metrics) -> App {
    let exposed = Router::new().route("/metrics", get(metrics::expose)).with_state(metrics.clone());
    let routes = probes(health).merge(exposed).layer(deadline(config));
    App::new("admin", routes, None, config, metrics)
}

/// For how long a request may go without an answer.
fn deadline(config: &Config) -> TimeoutLayer {
    let timeout = limit(config.limits.request_timeout);
    TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, timeout)
}

/// What an orchestrator asks.
fn probes(health: Health) -> Router {
    Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .with_state(health)
}

/// Travels in a response's extensions: what of the body the client has not let go out by then is not
/// sent any more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndBy(pub(crate) Instant);

/// Travels in a response's extensions: its body ends when the service does, and what of it the client does
/// not take then is not waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endless;

/// The future of a response: at hand for the hot route, boxed for the others.
type Answer =
    Either<Ready<Result<Response, Infallible>>, BoxFuture<'static, Result<Response, Infallible>>>;

impl App {
    fn new(
        listener: &'static str,
        routes: Router,
        hot_path: Option<HotPath>,
        config: &Config,
        metrics: &Metrics,
    ) -> Self {
        let cors = Cors::new(&config.cors);
        let limits = &config.limits;
        // The first layer is the outermost: a panic's answer has CORS headers too.
        let layers = ServiceBuilder::new()
            .layer(middleware::from_fn(ledger::tell_route))
            .layer(cors.layer())
            .layer(CatchPanicLayer::new())
            .layer(RequestBodyTimeoutLayer::new(limit(limits.body_timeout)));
        let routes = routes.layer(layers);
        let base_path = &config.server.base_path;
        let admission = Admission::new(base_path, metrics.rate_limited());
        let ledger = Ledger::new(listener, base_path, hot_path.is_some(), metrics);
        let ids = RequestIds::new();
        Self { shared: Arc::new(Shared { routes, hot_path, admission, cors, ids, ledger }) }
    }

    /// Answers one request without a connection: no limit per client applies. Needs a tokio runtime
    /// with time; dropping the future drops the request.
    pub async fn respond<B>(&self, request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let Ok(response) = self.answer(request, &Visitor::unlimited()).await;
        response
    }

    /// Answers one request of `visitor`; every answer has a request id, every error a problem body.
    pub(crate) fn answer<B>(&self, mut request: Request<B>, visitor: &Visitor) -> Answer
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let Shared { routes, hot_path, admission, cors, ids, ledger } = &*self.shared;
        let entry = Entry::open(&request, ids.of(request.headers()));
        if let Err(problem) = admission.check(&request, visitor) {
            let mut response = problem.into_response();
            cors.write_constant(response.headers_mut());
            cors.write_origin(request.headers(), response.headers_mut());
            return Either::Left(ready(Ok(ledger.close(entry, &Route::None, response))));
        }
        let hot = hot_path.as_ref().and_then(|hot_path| hot_path.answer(&request, cors));
        if let Some(response) = hot {
            return Either::Left(ready(Ok(ledger.close(entry, &Route::Suggestion, response))));
        }
        // One request can have many calls, each of which has its price, or take a long time.
        let purse = visitor.purse(request.headers());
        request.extensions_mut().insert(purse);
        let answer = entry.span.around(routes.clone().call(request));
        let shared = Arc::clone(&self.shared);
        let answer = answer.map(move |Ok(mut response)| {
            let route = response.extensions_mut().remove().unwrap_or(Route::None);
            Ok(shared.ledger.close(entry, &route, response))
        });
        Either::Right(answer.boxed())
    }

    /// The answer to what is no request yet, as far as it can be read.
    pub(crate) fn refusal(&self, status: StatusCode) -> Response {
        let mut response = Problem::of_framework(status).into_response();
        self.shared.cors.write_constant(response.headers_mut());
        let id = self.shared.ids.of(&HeaderMap::new());
        self.shared.ledger.close(Entry::of_nothing(id), &Route::None, response)
    }
}

/// A deadline that may be switched off.
fn limit(configured: Duration) -> Duration {
    const NEVER: Duration = Duration::from_hours(24 * 365);
    if configured.is_zero() { NEVER } else { configured }
}
