//! CORS: which web pages may read responses.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

use super::delegation::X_DELEGATION_SOURCE;
use super::freshness::{X_NEWEST_BLOCK, X_STALE};
use super::request_id::X_REQUEST_ID;
use crate::config;
use crate::delegation::X_API_KEY;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const ALLOWED_HEADERS: [HeaderName; 8] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    header::AUTHORIZATION,
    X_API_KEY,
    header::IF_NONE_MATCH,
    header::CACHE_CONTROL,
    LAST_EVENT_ID,
    X_REQUEST_ID,
];

const EXPOSED_HEADERS: [HeaderName; 7] = [
    header::ETAG,
    header::AGE,
    header::RETRY_AFTER,
    X_NEWEST_BLOCK,
    X_STALE,
    X_DELEGATION_SOURCE,
    X_REQUEST_ID,
];

const PREFLIGHT_MAX_AGE: Duration = Duration::from_hours(24);

/// CORS policy, as a layer for routes and as headers for responses that bypass the layer.
#[derive(Debug)]
pub(super) struct CorsPolicy {
    /// `None`: any origin.
    allowed_origins: Option<Vec<HeaderValue>>,
    exposed_headers: HeaderValue,
}

impl CorsPolicy {
    pub(super) fn new(config: &config::Cors) -> Self {
        let allowed_origins = (!config.allows_any()).then(|| config.origins().unwrap_or_default());
        let exposed_names = EXPOSED_HEADERS.each_ref().map(HeaderName::as_str).join(",");
        let exposed_headers =
            HeaderValue::try_from(exposed_names).expect("header names are a header value");
        Self { allowed_origins, exposed_headers }
    }

    /// Returns a layer that answers preflight requests and adds the headers of
    /// [`write_static_headers`](Self::write_static_headers) and [`write_allow_origin`](Self::write_allow_origin) to
    /// every response.
    pub(super) fn layer(&self) -> CorsLayer {
        let layer = CorsLayer::new()
            .allow_methods([Method::GET, Method::HEAD, Method::POST])
            .allow_headers(ALLOWED_HEADERS)
            .expose_headers(EXPOSED_HEADERS)
            .max_age(PREFLIGHT_MAX_AGE);
        match &self.allowed_origins {
            // Without `Vary: Origin`, caches keep one response for all origins.
            None => layer.allow_origin(Any).vary([]),
            Some(allowed_origins) => layer
                .allow_origin(AllowOrigin::list(allowed_origins.clone()))
                .vary([header::ORIGIN]),
        }
    }

    /// Writes the CORS headers that every response has.
    pub(super) fn write_static_headers(&self, response_headers: &mut HeaderMap) {
        response_headers
            .insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, self.exposed_headers.clone());
        match self.allowed_origins {
            None => {
                let any = HeaderValue::from_static("*");
                response_headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any)
            }
            Some(_) => response_headers.insert(header::VARY, HeaderValue::from_static("origin")),
        };
    }

    /// Writes the header that allows the requesting page to read the response, if only some origins may.
    pub(super) fn write_allow_origin(
        &self,
        request_headers: &HeaderMap,
        response_headers: &mut HeaderMap,
    ) {
        let Some(allowed_origins) = &self.allowed_origins else { return };
        if let Some(origin) =
            request_headers.get(header::ORIGIN).filter(|origin| allowed_origins.contains(origin))
        {
            response_headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        }
    }
}
