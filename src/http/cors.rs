//! CORS: which web pages may read responses.
//!
//! Without credentials a list of request headers protects nothing, and tracing libraries add headers of their own. So a
//! preflight allows the headers that it names.
//!
//! tower-http's layer answers every preflight by itself, also one for an unknown path, and is slow beside a short response.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::headers::{X_DOUBT, X_NEWEST_BLOCK, X_STALE};
use super::request_id::X_REQUEST_ID;
use crate::config;
use crate::config::origin::OriginPattern;

/// Response headers that web pages may read, besides those that browsers always allow.
const EXPOSED_HEADERS: [HeaderName; 7] = [
    header::ETAG,
    header::AGE,
    header::RETRY_AFTER,
    X_NEWEST_BLOCK,
    X_STALE,
    X_DOUBT,
    X_REQUEST_ID,
];

/// The web pages that may read the responses of a listener.
#[derive(Debug)]
pub(crate) struct Cors {
    /// `None`: pages of any origin.
    allowed: Option<Vec<OriginPattern>>,
    /// Names of the headers that they may read.
    exposed: HeaderValue,
}

impl Cors {
    /// Lets the pages of the configured origins read responses, and these headers besides the ones of all routes.
    pub(crate) fn new(config: &config::Cors, further_headers: Vec<HeaderName>) -> Self {
        let allowed = (!config.allows_any()).then(|| config.origins().unwrap_or_default());
        let headers: Vec<_> = EXPOSED_HEADERS.into_iter().chain(further_headers).collect();
        let names: Vec<_> = headers.iter().map(HeaderName::as_str).collect();
        let exposed = names.join(",").try_into().expect("names of headers are a header value");
        Self { allowed, exposed }
    }

    /// Returns the names of the headers that pages may read, if those of any origin may, so that all get the same headers.
    pub(crate) fn exposed_to_all(&self) -> Option<&HeaderValue> {
        self.allowed.is_none().then_some(&self.exposed)
    }

    /// Adds the headers of a response to a request with these headers.
    pub(crate) fn add_headers(&self, request: &HeaderMap, headers: &mut HeaderMap) {
        self.allow_origin(request, headers);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, self.exposed.clone());
    }

    /// Returns the answer to a preflight for a known path.
    pub(crate) fn answer_preflight(&self, request: &HeaderMap) -> Response {
        let methods = (header::ACCESS_CONTROL_ALLOW_METHODS, "GET,HEAD,POST");
        let a_day = (header::ACCESS_CONTROL_MAX_AGE, "86400");
        let mut response = [methods, a_day].into_response();
        let headers = response.headers_mut();
        if let Some(names) = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
        self.allow_origin(request, headers);
        response
    }

    fn allow_origin(&self, request: &HeaderMap, headers: &mut HeaderMap) {
        let Some(allowed) = &self.allowed else {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
            return;
        };
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        let Some(origin) = request.get(header::ORIGIN) else { return };
        if origin.to_str().is_ok_and(|origin| allowed.iter().any(|known| known.matches(origin))) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        }
    }
}

const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");

/// Adds the headers with which web pages of any origin may read the response.
pub(crate) fn allow_any_origin(headers: &mut HeaderMap, exposed: &HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed.clone());
}

/// Returns true if a browser asks by OPTIONS whether a page may send a request. Any other OPTIONS is an ordinary request.
pub(crate) fn is_preflight(request: &HeaderMap) -> bool {
    request.contains_key(header::ORIGIN)
        && request.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
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
