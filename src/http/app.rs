//! `App` holds what a listener needs to answer a request: the layers, the fast path and the routes.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::HttpBody;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, ready};
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::CorsLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;

use super::access_log;
use super::access_log::{AccessLog, RequestContext};
use super::client_limits::ConnectedPeer;
use super::cors;
use super::cors::ExposedHeaders;
use super::problem::Problem;
use super::request_checks::{AdminHosts, CostlyRoutes, RequestChecks};
use super::response_body;
use super::response_body::BodyLimits;
use super::vary;
use crate::config::{self, Config};
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Metrics;

/// Routes of one listener with their layers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    layers: Arc<AppLayers>,
    per_thread: Arc<PerThread>,
}

#[derive(Debug)]
struct AppLayers {
    /// `None`: no web page of another origin may read responses.
    cors: Option<(config::Cors, ExposedHeaders)>,
    request_checks: RequestChecks,
    routes: Router,
}

/// Each thread has its own log, and its own values that responses of the fast path share. A shared value is counted when a
/// response takes and drops it, and processors that count at the same place delay each other.
#[derive(Debug)]
struct PerThread {
    access_log: AccessLog,
    cors: Option<Cors>,
    fast_path: Option<Box<dyn FastPath>>,
}

#[derive(Debug)]
struct Cors {
    layer: CorsLayer,
    /// Names of the headers that web pages may read, if those of any origin may. Then no layer is needed.
    exposed_to_all: Option<HeaderValue>,
}

impl Cors {
    fn new(config: &config::Cors, exposed: &ExposedHeaders) -> Self {
        let exposed_to_all = config.allows_any().then(|| exposed.to_value());
        Self { layer: cors::layer(config, exposed), exposed_to_all }
    }
}

/// How a request goes on after the checks.
enum Step<'a> {
    /// The fast path has responded.
    Responded(Response),
    Admitted(&'a ConnectedPeer),
    Refused(Problem),
}

/// Answers requests for one route before the router.
pub(crate) trait FastPath: Debug + Send + Sync {
    /// Returns the response to a request that arrived now, without CORS headers, or `None` for any other request.
    fn respond(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        now: Instant,
    ) -> Option<Response>;

    /// Returns one for another thread, which shares no cached response with this one.
    fn for_thread(&self) -> Box<dyn FastPath>;
}

/// The senders whose requests a listener accepts.
#[derive(Debug)]
pub(crate) enum Audience {
    /// All senders, with web pages of the configured origins.
    Public(ExposedHeaders, CostlyRoutes),
    /// Requests for these hosts.
    Admin(AdminHosts),
}

impl App {
    /// Puts the layers around the routes of a listener.
    pub(crate) fn new(
        listener: &'static str,
        routes: Router,
        fast_path: Option<Box<dyn FastPath>>,
        audience: Audience,
        config: &Config,
        memory: &MemoryBudget,
        metrics: &Metrics,
    ) -> Self {
        let body_timeout = timeout_or_never(config.limits.body_timeout);
        let body_limits = BodyLimits::new(memory);
        let layers = ServiceBuilder::new()
            .layer(middleware::from_fn(access_log::record_matched_path))
            .layer(CatchPanicLayer::new())
            .layer(middleware::from_fn_with_state(body_limits, response_body::limit_body))
            .layer(RequestBodyTimeoutLayer::new(body_timeout));
        let base_path = &config.server.base_path;
        let rate_limited = metrics.requests_rate_limited_total.clone();
        let (cors, costly_routes, admin_hosts) = match audience {
            Audience::Public(headers, costly) => {
                (Some((config.cors.clone(), headers)), costly, None)
            }
            Audience::Admin(hosts) => (None, CostlyRoutes::default(), Some(hosts)),
        };
        let access_log = AccessLog::new(listener, base_path, fast_path.is_some(), metrics);
        let of_thread = cors.as_ref().map(|(config, headers)| Cors::new(config, headers));
        Self {
            layers: Arc::new(AppLayers {
                cors,
                request_checks: RequestChecks::new(
                    base_path,
                    costly_routes,
                    admin_hosts,
                    rate_limited,
                ),
                routes: routes.layer(layers),
            }),
            per_thread: Arc::new(PerThread { access_log, cors: of_thread, fast_path }),
        }
    }

    /// Returns the same routes for another serving thread.
    pub(crate) fn for_thread(&self) -> Self {
        let fast_path = self.per_thread.fast_path.as_ref().map(|it| it.for_thread());
        let cors = self.layers.cors.as_ref();
        let cors = cors.map(|(config, headers)| Cors::new(config, headers));
        let access_log = self.per_thread.access_log.for_thread();
        let per_thread = PerThread { access_log, cors, fast_path };
        Self { layers: Arc::clone(&self.layers), per_thread: Arc::new(per_thread) }
    }

    /// Handles a request without a connection, so no per-client limit applies. Needs a Tokio runtime with time.
    /// Dropping the future cancels the request.
    pub async fn respond<B>(&self, request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        self.handle(request, Ok(&ConnectedPeer::unlimited())).await
    }

    /// Handles a request of `peer`; `Err`: of a connection that was refused with this status. Every response has a
    /// request id; every error has a problem body.
    ///
    /// Nearly all requests end here, on the fast path. The future of the others is large, so it has a box of its own: a
    /// connection keeps room for its future, and touches all of it with every request.
    pub(crate) fn handle<'a, B>(
        &'a self,
        request: Request<B>,
        peer: Result<&'a ConnectedPeer, StatusCode>,
    ) -> impl Future<Output = Response> + Send + use<'a, B>
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let access_log = &self.per_thread.access_log;
        let mut context = access_log.start(&request);
        if *request.method() == Method::OPTIONS {
            return Either::Right(self.answer_options(request, peer, context).boxed());
        }
        let step = match self.check(&request, peer, &context) {
            Ok(peer) => match self.fast_response(&request, &mut context) {
                Some(response) => Step::Responded(response),
                None => Step::Admitted(peer),
            },
            Err(problem) => Step::Refused(problem),
        };
        let exposed_to_all =
            self.per_thread.cors.as_ref().and_then(|cors| cors.exposed_to_all.as_ref());
        match (step, exposed_to_all) {
            (Step::Responded(mut response), Some(exposed)) => {
                cors::allow_any_origin(response.headers_mut(), exposed);
                Either::Left(ready(access_log.finish(context, response)))
            }
            (step, _) => Either::Right(self.respond_at(step, request, context).boxed()),
        }
    }

    fn fast_response<B>(
        &self,
        request: &Request<B>,
        context: &mut RequestContext,
    ) -> Option<Response> {
        let fast_path = self.per_thread.fast_path.as_ref()?;
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let response = fast_path.respond(method, uri, headers, context.started_at())?;
        context.set_suggestion_route();
        Some(response)
    }

    async fn respond_at<B>(
        &self,
        step: Step<'_>,
        request: Request<B>,
        context: RequestContext,
    ) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let headers = request.headers().clone();
        let mut response = match step {
            Step::Responded(response) => response,
            Step::Admitted(peer) => self.dispatch(request, peer, &context).await,
            Step::Refused(problem) => problem.into_response(),
        };
        if let Some(cors) = &self.per_thread.cors {
            match &cors.exposed_to_all {
                Some(exposed) => cors::allow_any_origin(response.headers_mut(), exposed),
                None => response = cors::add_headers(&cors.layer, headers, response).await,
            }
        }
        vary::join_lines(response.headers_mut());
        self.per_thread.access_log.finish(context, response)
    }

    /// Answers OPTIONS by what the routes say of the path: it is known if they refuse the method.
    async fn answer_options<B>(
        &self,
        mut request: Request<B>,
        peer: Result<&ConnectedPeer, StatusCode>,
        context: RequestContext,
    ) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let headers = request.headers().clone();
        let cors = self.per_thread.cors.as_ref().map(|cors| &cors.layer);
        let preflight = cors.filter(|_| cors::is_preflight(&headers));
        // Health checks of load balancers ask by OPTIONS, and mean the state.
        if preflight.is_none() && self.layers.request_checks.is_probe(request.uri()) {
            *request.method_mut() = Method::GET;
        }
        let answer = match self.check(&request, peer, &context) {
            Ok(peer) => self.dispatch(request, peer, &context).await,
            Err(problem) => problem.into_response(),
        };
        let mut response = match (preflight, cors) {
            (Some(cors), _) => cors::answer_preflight(cors, headers, answer).await,
            (None, Some(cors)) => {
                cors::add_headers(cors, headers, cors::answer_options(answer)).await
            }
            (None, None) => cors::answer_options(answer),
        };
        vary::join_lines(response.headers_mut());
        self.per_thread.access_log.finish(context, response)
    }

    fn check<'a, B>(
        &self,
        request: &Request<B>,
        peer: Result<&'a ConnectedPeer, StatusCode>,
        context: &RequestContext,
    ) -> Result<&'a ConnectedPeer, Problem> {
        let peer = peer.map_err(Problem::from_status)?;
        self.layers.request_checks.check(request, peer, context.started_at())?;
        Ok(peer)
    }

    async fn dispatch<B>(
        &self,
        mut request: Request<B>,
        peer: &ConnectedPeer,
        context: &RequestContext,
    ) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        // The handler charges the client: a batch costs one unit per call, and long requests have a limit of their own.
        let client = peer.client_for(request.headers());
        request.extensions_mut().insert(client);
        let Ok(response) = context.span.instrument(self.layers.routes.clone().call(request)).await;
        response
    }
}

/// Returns the timeout, or a year if it is switched off with 0.
pub(crate) fn timeout_or_never(configured: Duration) -> Duration {
    const NEVER: Duration = Duration::from_hours(24 * 365);
    if configured.is_zero() { NEVER } else { configured }
}
