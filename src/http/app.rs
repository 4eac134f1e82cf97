//! The life of a request, from a connection to its response. [`App::handle`] is all of it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::HttpBody;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, ready};
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;

use super::access_log;
use super::access_log::{AccessLog, RequestContext};
use super::client_limits::ConnectedPeer;
use super::cors;
use super::cors::Cors;
use super::problem;
use super::problem::Problem;
use super::request_checks::RequestChecks;
use super::request_id::X_REQUEST_ID;
use super::response_body;
use super::response_body::BodyLimits;
use super::vary;
use crate::config::Config;
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Metrics;

/// Routes of one listener, with what a request passes before and after them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    access_log: AccessLog,
    request_checks: RequestChecks,
    public: Option<PublicParts>,
    routes: Router,
}

/// Parts of the public listener alone. Without them, no web page of another origin may read responses.
#[derive(Debug)]
pub(crate) struct PublicParts {
    pub(crate) fast_path: Box<dyn FastPath>,
    pub(crate) cors: Cors,
}

/// Answers requests for one route before the router.
pub(crate) trait FastPath: Debug + Send + Sync {
    /// Returns the response to a request that arrived now, or `None` for any other request. It has the headers of CORS if
    /// pages of any origin may read it.
    fn respond(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        now: Instant,
    ) -> Option<Response>;
}

impl App {
    /// Puts together what the requests of a listener pass.
    pub(crate) fn new(
        listener: &'static str,
        routes: Router,
        request_checks: RequestChecks,
        public: Option<PublicParts>,
        config: &Config,
        memory: &MemoryBudget,
        metrics: &Metrics,
    ) -> Self {
        let base_path = &config.server.base_path;
        let body_timeout = timeout_or_never(config.limits.body_timeout);
        let layers = ServiceBuilder::new()
            // Outside of the next one, so that the log has the route of a handler that panics.
            .layer(middleware::from_fn(access_log::record_matched_path))
            .layer(CatchPanicLayer::new())
            .layer(middleware::from_fn_with_state(
                BodyLimits::new(memory),
                response_body::limit_body,
            ))
            .layer(RequestBodyTimeoutLayer::new(body_timeout));
        Self(Arc::new(Parts {
            access_log: AccessLog::new(listener, base_path, public.is_some(), metrics),
            request_checks,
            public,
            routes: routes.layer(layers),
        }))
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
        let Self(parts) = self;
        let mut context = RequestContext::new(&request);
        let admitted = peer.map_err(Problem::from_status).and_then(|peer| {
            parts.request_checks.check(&request, peer, context.started_at)?;
            Ok(peer)
        });
        if admitted.is_ok()
            && let Some(response) = parts.fast_response(&request, &mut context)
        {
            return Either::Left(ready(parts.finish(context, response)));
        }
        Either::Right(parts.call_routes(request, admitted, context).boxed())
    }
}

impl Parts {
    fn fast_response<B>(
        &self,
        request: &Request<B>,
        context: &mut RequestContext,
    ) -> Option<Response> {
        let PublicParts { fast_path, cors } = self.public.as_ref()?;
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let mut response = fast_path.respond(method, uri, headers, context.started_at)?;
        context.route = Some(access_log::SUGGESTION_ROUTE);
        if cors.exposed_to_all().is_none() {
            cors.add_headers(headers, response.headers_mut());
        }
        Some(response)
    }

    /// Handles a request that the fast path does not answer.
    async fn call_routes<B>(
        &self,
        mut request: Request<B>,
        admitted: Result<&ConnectedPeer, Problem>,
        context: RequestContext,
    ) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let headers = request.headers().clone();
        let is_options = *request.method() == Method::OPTIONS;
        let is_preflight = is_options && self.public.is_some() && cors::is_preflight(&headers);
        // Health checks of load balancers ask by OPTIONS, and mean the state.
        if is_options && !is_preflight && self.request_checks.is_probe(request.uri()) {
            *request.method_mut() = Method::GET;
        }
        let mut response = match admitted {
            Ok(peer) => {
                // The handler charges the client: a batch costs one unit per call, and long requests have a limit of their
                // own.
                request.extensions_mut().insert(peer.client_for(&headers));
                let response = self.routes.clone().call(request);
                let Ok(response) = context.span.instrument(response).await;
                response
            }
            Err(problem) => problem.into_response(),
        };
        // The routes refuse OPTIONS, but only of a path that they know.
        let is_known = response.status() == StatusCode::METHOD_NOT_ALLOWED;
        if is_options && !is_preflight {
            response = cors::answer_options(response);
        }
        match &self.public {
            Some(PublicParts { cors, .. }) if is_preflight && is_known => {
                response = cors.answer_preflight(&headers);
            }
            Some(PublicParts { cors, .. }) => cors.add_headers(&headers, response.headers_mut()),
            None => {}
        }
        vary::join_lines(response.headers_mut());
        self.finish(context, response)
    }

    /// Adds what every response has, and what every error has, and logs the response.
    fn finish(&self, mut context: RequestContext, mut response: Response) -> Response {
        let status = response.status();
        if status.is_client_error() || status.is_server_error() {
            problem::write_problem(&mut response, &context.request_id, context.span.trace_id());
        }
        self.access_log.record(&mut context, &mut response);
        let headers = response.headers_mut();
        headers.insert(X_REQUEST_ID, context.request_id);
        // A browser never takes the data of a response for a script or a page.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }
}

/// Returns the timeout, or a year if it is switched off with 0.
pub(crate) fn timeout_or_never(configured: Duration) -> Duration {
    const NEVER: Duration = Duration::from_hours(24 * 365);
    if configured.is_zero() { NEVER } else { configured }
}
