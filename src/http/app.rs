//! `App` holds what a listener needs to answer a request: the layers, the fast path and the routes.

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::HttpBody;
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tower::{BoxError, Layer, Service, ServiceBuilder, service_fn};
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
    access_log: AccessLog,
    /// `None`: no web page of another origin may read responses.
    cors: Option<(config::Cors, ExposedHeaders)>,
    request_checks: RequestChecks,
    routes: Router,
}

/// The values that responses of the fast path share. Each is counted when a response takes and drops it, and processors
/// that count at the same place delay each other.
#[derive(Debug)]
struct PerThread {
    cors: Option<CorsLayer>,
    fast_path: Option<Box<dyn FastPath>>,
}

/// Answers requests for one route before the router.
pub(crate) trait FastPath: Debug + Send + Sync {
    /// Returns the response, or `None` for any other request.
    fn respond(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response>;

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
        let cors_layer = cors.as_ref().map(|(config, headers)| cors::layer(config, headers));
        Self {
            layers: Arc::new(AppLayers {
                access_log: AccessLog::new(listener, base_path, fast_path.is_some(), metrics),
                cors,
                request_checks: RequestChecks::new(
                    base_path,
                    costly_routes,
                    admin_hosts,
                    rate_limited,
                ),
                routes: routes.layer(layers),
            }),
            per_thread: Arc::new(PerThread { cors: cors_layer, fast_path }),
        }
    }

    /// Returns the same routes for another serving thread.
    pub(crate) fn for_thread(&self) -> Self {
        let fast_path = self.per_thread.fast_path.as_ref().map(|it| it.for_thread());
        let cors = self.layers.cors.as_ref();
        let cors = cors.map(|(config, headers)| cors::layer(config, headers));
        let per_thread = PerThread { cors, fast_path };
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
    pub(crate) async fn handle<B>(
        &self,
        request: Request<B>,
        peer: Result<&ConnectedPeer, StatusCode>,
    ) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let access_log = &self.layers.access_log;
        let context = access_log.start(&request);
        let Ok(mut response) = match &self.per_thread.cors {
            _ if *request.method() == Method::OPTIONS => {
                Ok(self.answer_options(request, peer, &context).await)
            }
            Some(cors) => {
                let admit = service_fn(|request| self.admit(request, peer, &context));
                cors.layer(admit).call(request).await
            }
            None => self.admit(request, peer, &context).await,
        };
        // The fast path has no reason of its own to vary.
        if !context.is_suggestion_route() {
            vary::join_lines(response.headers_mut());
        }
        access_log.finish(context, response)
    }

    /// Answers OPTIONS by what the routes say of the path: it is known if they refuse the method.
    async fn answer_options<B>(
        &self,
        mut request: Request<B>,
        peer: Result<&ConnectedPeer, StatusCode>,
        context: &RequestContext,
    ) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let headers = request.headers().clone();
        let cors = self.per_thread.cors.as_ref();
        let preflight = cors.filter(|_| cors::is_preflight(&headers));
        // Health checks of load balancers ask by OPTIONS, and mean the state.
        if preflight.is_none() && self.layers.request_checks.is_probe(request.uri()) {
            *request.method_mut() = Method::GET;
        }
        let Ok(answer) = self.admit(request, peer, context).await;
        match (preflight, cors) {
            (Some(cors), _) => cors::answer_preflight(cors, headers, answer).await,
            (None, Some(cors)) => {
                cors::add_headers(cors, headers, cors::answer_options(answer)).await
            }
            (None, None) => cors::answer_options(answer),
        }
    }

    async fn admit<B>(
        &self,
        mut request: Request<B>,
        peer: Result<&ConnectedPeer, StatusCode>,
        context: &RequestContext,
    ) -> Result<Response, Infallible>
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let admitted = peer.map_err(Problem::from_status).and_then(|peer| {
            self.layers.request_checks.check(&request, peer)?;
            Ok(peer)
        });
        let peer = match admitted {
            Ok(peer) => peer,
            Err(problem) => return Ok(problem.into_response()),
        };
        if let Some(fast_path) = &self.per_thread.fast_path
            && let Some(response) =
                fast_path.respond(request.method(), request.uri(), request.headers())
        {
            context.set_suggestion_route();
            return Ok(response);
        }
        // The handler charges the client: a batch costs one unit per call, and long requests have a limit of their own.
        let client = peer.client_for(request.headers());
        request.extensions_mut().insert(client);
        context.span.instrument(self.layers.routes.clone().call(request)).await
    }
}

/// Returns the timeout, or a year if it is switched off with 0.
pub(crate) fn timeout_or_never(configured: Duration) -> Duration {
    const NEVER: Duration = Duration::from_hours(24 * 365);
    if configured.is_zero() { NEVER } else { configured }
}
