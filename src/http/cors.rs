//! CORS: which web pages may read responses.

use std::time::Duration;

use axum::http::{HeaderName, Method, header};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

use super::headers::{X_DOUBT, X_NEWEST_BLOCK, X_STALE};
use super::request_id::X_REQUEST_ID;
use crate::config;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Sent by MetaMask.
const X_CLIENT_ID: HeaderName = HeaderName::from_static("x-client-id");

/// Headers of requests and responses besides those that browsers always allow.
#[derive(Debug, Clone)]
pub(crate) struct CorsHeaders {
    /// Request headers that web pages may send.
    pub(crate) allowed: Vec<HeaderName>,
    /// Response headers that web pages may read.
    pub(crate) exposed: Vec<HeaderName>,
}

impl Default for CorsHeaders {
    fn default() -> Self {
        Self {
            allowed: vec![
                header::CONTENT_TYPE,
                header::ACCEPT,
                header::AUTHORIZATION,
                header::IF_NONE_MATCH,
                header::CACHE_CONTROL,
                LAST_EVENT_ID,
                X_REQUEST_ID,
                X_CLIENT_ID,
            ],
            exposed: vec![
                header::ETAG,
                header::AGE,
                header::RETRY_AFTER,
                X_NEWEST_BLOCK,
                X_STALE,
                X_DOUBT,
                X_REQUEST_ID,
            ],
        }
    }
}

const PREFLIGHT_MAX_AGE: Duration = Duration::from_hours(24);

/// Returns the layer that answers preflight requests and adds CORS headers to every response.
pub(crate) fn layer(config: &config::Cors, headers: &CorsHeaders) -> CorsLayer {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::HEAD, Method::POST])
        .allow_headers(headers.allowed.clone())
        .expose_headers(headers.exposed.clone())
        .max_age(PREFLIGHT_MAX_AGE);
    if config.allows_any() {
        // Without `Vary: Origin`, caches keep one response for all origins.
        layer.allow_origin(Any).vary([])
    } else {
        let allowed_origins = config.origins().unwrap_or_default();
        layer.allow_origin(AllowOrigin::list(allowed_origins)).vary([header::ORIGIN])
    }
}
