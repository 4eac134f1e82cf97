//! `GET` and `HEAD /v1/{chain}/gas-suggestion`, ahead of the router. Nearly all requests are for this route, and the
//! router with its layers takes several times as long as the response itself.

use std::cell::RefCell;
use std::time::Instant;

use axum::body::Body;
use axum::http::header::{self, ACCESS_CONTROL_EXPOSE_HEADERS, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use thread_local::ThreadLocal;

use super::freshness::{Freshness, JSON, MAX_HEADERS};
use super::problems;
use super::suggestion::FreshnessCounters;
use crate::http::app::FastPath;
use crate::http::conditional::matches_tag;
use crate::http::cors;
use crate::http::headers::X_NEWEST_BLOCK;
use crate::http::request_id::X_REQUEST_ID;
use crate::observe::metrics::{Metrics, RequestCounter};
use crate::store::{ChainStore, ServableSnapshot, StoredChain};

/// Shortcut for the suggestion route of all chains.
#[derive(Debug)]
pub(crate) struct SuggestionFastPath {
    /// Path before `{chain}`.
    prefix: String,
    store: ChainStore,
    /// In the order of `store`.
    chains: Vec<FastChain>,
}

#[derive(Debug)]
struct FastChain {
    chain: StoredChain,
    freshness_counters: FreshnessCounters,
    /// Names of the headers that web pages may read, if those of any origin may; else the layer of CORS adds its headers.
    exposed_to_all: Option<HeaderValue>,
    /// The last response of each thread. Within a second nearly all responses are the same, and copying one takes a
    /// fraction of the time of building one. Copies share counts of their values, and processors that count at the same
    /// place delay each other.
    last_response: ThreadLocal<RefCell<Option<CachedResponse>>>,
}

/// A response, and up to which revision of the chain and which moment a request gets it again.
#[derive(Debug)]
struct CachedResponse {
    headers: HeaderMap,
    body: Bytes,
    counter: RequestCounter,
    revision: u64,
    until: Instant,
}

impl SuggestionFastPath {
    /// Prepares the shortcut for the chains of `store`, with routes below `base_path`.
    pub(crate) fn new(
        base_path: &str,
        store: &ChainStore,
        exposed_to_all: Option<&HeaderValue>,
        metrics: &Metrics,
    ) -> Self {
        let fast_chain = |chain: &StoredChain| FastChain {
            chain: chain.clone(),
            freshness_counters: FreshnessCounters::new(chain, metrics),
            exposed_to_all: exposed_to_all.cloned(),
            last_response: ThreadLocal::new(),
        };
        let chains = store.chains().iter().map(fast_chain).collect();
        Self { prefix: format!("{base_path}/v1/"), store: store.clone(), chains }
    }
}

impl FastPath for SuggestionFastPath {
    // The router has the same route and responds the same.
    fn respond(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        now: Instant,
    ) -> Option<Response> {
        // The router serves other methods, and requests with a query, which the route ignores.
        if !matches!(*method, Method::GET | Method::HEAD) || uri.query().is_some() {
            return None;
        }
        let path = uri.path().strip_prefix(self.prefix.as_str())?;
        let name = path.strip_suffix("/gas-suggestion")?;
        let fast_chain = self.chains.get(self.store.index_of(name)?)?;
        if let Some((own_headers, body)) = fast_chain.unchanged_response(now) {
            return Some(conditional_response(own_headers, body, headers));
        }
        let revision = fast_chain.chain.revision();
        let result = fast_chain.chain.servable_snapshot();
        let counter = fast_chain.freshness_counters.counter(&result);
        counter.increment();
        Some(match result {
            Ok(current) => {
                let until = now.checked_add(Freshness::unchanged_for(&fast_chain.chain, &current));
                let (own_headers, body) = fast_chain.headers_and_body(&current);
                fast_chain.last_response.get_or_default().replace(Some(CachedResponse {
                    headers: own_headers.clone(),
                    body: body.clone(),
                    counter: counter.clone(),
                    revision,
                    until: until.unwrap_or(now),
                }));
                conditional_response(own_headers, body, headers)
            }
            Err(reason) => {
                let mut response = problems::unavailable(&fast_chain.chain, reason).into_response();
                fast_chain.add_cors_headers(response.headers_mut());
                response
            }
        })
    }
}

/// Builds the response with these headers; 304 if `If-None-Match` contains their entity tag. The layers of the router do
/// the same for the other routes.
fn conditional_response(
    mut headers: HeaderMap,
    body: Bytes,
    request_headers: &HeaderMap,
) -> Response {
    let conditions = request_headers.get_all(header::IF_NONE_MATCH).iter();
    let is_not_modified = headers.get(header::ETAG).is_some_and(|tag| matches_tag(tag, conditions));
    let mut response = Response::new(Body::empty());
    if is_not_modified {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        headers.remove(header::CONTENT_TYPE);
    } else {
        *response.body_mut() = Body::from(body);
    }
    *response.headers_mut() = headers;
    response
}

impl FastChain {
    fn add_cors_headers(&self, headers: &mut HeaderMap) {
        if let Some(exposed) = &self.exposed_to_all {
            cors::allow_any_origin(headers, &copy(exposed));
        }
    }

    /// Returns and counts the last response if the same request would get it again.
    fn unchanged_response(&self, now: Instant) -> Option<(HeaderMap, Bytes)> {
        let last_response = self.last_response.get()?.borrow();
        let cached = last_response.as_ref()?;
        let is_unchanged = now < cached.until && cached.revision == self.chain.revision();
        is_unchanged.then(|| {
            cached.counter.increment();
            (cached.headers.clone(), cached.body.clone())
        })
    }

    /// Returns the response for the snapshot.
    fn headers_and_body(&self, current: &ServableSnapshot) -> (HeaderMap, Bytes) {
        let snapshot = &current.snapshot;
        let mut headers = HeaderMap::with_capacity(MAX_HEADERS);
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::ETAG, copy(&snapshot.etag));
        headers.insert(X_NEWEST_BLOCK, snapshot.newest_block.into());
        let freshness = Freshness::from_snapshot(&self.chain, current);
        freshness.write_headers(&mut headers, &snapshot.doubts);
        // Reserves places for what the layers add to every response, so that a copied map does not have to grow.
        headers.insert(X_REQUEST_ID, HeaderValue::from_static(""));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(""));
        self.add_cors_headers(&mut headers);
        (headers, Bytes::copy_from_slice(&snapshot.body))
    }
}

/// Returns a copy that shares no count with the value of another thread.
fn copy(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).expect("a copy of a header value is one")
}
