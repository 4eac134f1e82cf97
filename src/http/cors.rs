//! CORS: which web pages may read responses.
//!
//! Without credentials a list of request headers protects nothing, and tracing libraries add headers of their own. So a
//! preflight allows the headers that it names.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tower::{Layer, Service, service_fn};
use tower_http::cors::{AllowHeaders, AllowOrigin, Any, CorsLayer};

use super::headers::{X_DOUBT, X_NEWEST_BLOCK, X_STALE};
use super::request_id::X_REQUEST_ID;
use crate::config;

/// Response headers that web pages may read, besides those that browsers always allow.
#[derive(Debug, Clone)]
pub(crate) struct ExposedHeaders(pub(crate) Vec<HeaderName>);

impl Default for ExposedHeaders {
    fn default() -> Self {
        Self(vec![
            header::ETAG,
            header::AGE,
            header::RETRY_AFTER,
            X_NEWEST_BLOCK,
            X_STALE,
            X_DOUBT,
            X_REQUEST_ID,
        ])
    }
}

impl ExposedHeaders {
    /// Returns the names as the layer writes them.
    pub(crate) fn to_value(&self) -> HeaderValue {
        let names: Vec<_> = self.0.iter().map(HeaderName::as_str).collect();
        HeaderValue::try_from(names.join(",")).expect("names of headers are a header value")
    }
}

const PREFLIGHT_MAX_AGE: Duration = Duration::from_hours(24);

/// Returns the layer that answers preflight requests and adds CORS headers to every response.
pub(crate) fn layer(config: &config::Cors, exposed: &ExposedHeaders) -> CorsLayer {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::HEAD, Method::POST])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(exposed.0.clone())
        .max_age(PREFLIGHT_MAX_AGE);
    if config.allows_any() {
        // Without `Vary: Origin`, caches keep one response for all origins.
        layer.allow_origin(Any).vary([])
    } else {
        let allowed = config.origins().unwrap_or_default();
        let is_allowed = move |origin: &HeaderValue| {
            origin.to_str().is_ok_and(|origin| allowed.iter().any(|known| known.matches(origin)))
        };
        let predicate = AllowOrigin::predicate(move |origin, _| is_allowed(origin));
        layer.allow_origin(predicate).vary([header::ORIGIN])
    }
}

/// Returns true if a browser asks whether a page may send a request. Any other OPTIONS is an ordinary request.
pub(crate) fn is_preflight(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Completes the answer of the routes to a preflight with these headers. On a known path it is the permission, else the
/// error, which the page may read.
pub(crate) async fn answer_preflight(
    layer: &CorsLayer,
    headers: HeaderMap,
    answer: Response,
) -> Response {
    let is_known = answer.status() == StatusCode::METHOD_NOT_ALLOWED;
    // The layer itself answers OPTIONS, and adds headers to the answers to other methods.
    let method = if is_known { Method::OPTIONS } else { Method::GET };
    pass(layer, method, headers, answer).await
}

/// Adds the headers with which web pages of any origin may read the response, as the layer would. The layer takes a tenth of
/// the time of a short response.
pub(crate) fn allow_any_origin(headers: &mut HeaderMap, exposed: &HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed.clone());
}

/// Adds the CORS headers of the answer to a request with these headers.
pub(crate) async fn add_headers(
    layer: &CorsLayer,
    headers: HeaderMap,
    answer: Response,
) -> Response {
    pass(layer, Method::GET, headers, answer).await
}

async fn pass(layer: &CorsLayer, method: Method, headers: HeaderMap, answer: Response) -> Response {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = method;
    *request.headers_mut() = headers;
    let mut answer = Some(answer);
    let inner = service_fn(move |_: Request<Body>| {
        let answer = answer.take();
        async move { Ok::<_, Infallible>(answer.unwrap_or_default()) }
    });
    let Ok(response) = layer.layer(inner).call(request).await;
    response
}

/// Returns the answer to an OPTIONS that is no preflight: 204 with the methods of a known path.
pub(crate) fn answer_options(answer: Response) -> Response {
    let allow = answer.headers().get(header::ALLOW).and_then(|allow| allow.to_str().ok());
    match (answer.status(), allow) {
        (StatusCode::METHOD_NOT_ALLOWED, Some(allow)) => {
            let allow = format!("{allow},OPTIONS");
            (StatusCode::NO_CONTENT, [(header::ALLOW, allow)]).into_response()
        }
        _ => answer,
    }
}
