//! `GET` and `HEAD /v1/{chain}/gas-suggestion`, ahead of the router. Nearly all requests are for this route, and the
//! router with its layers takes several times as long as the response itself.

use std::sync::{Arc, PoisonError, RwLock};

use axum::http::header::ACCESS_CONTROL_EXPOSE_HEADERS;
use axum::http::{HeaderMap, HeaderValue, Method, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::freshness::Freshness;
use super::problem::Problem;
use super::request_id::X_REQUEST_ID;
use super::suggestion::{self, FreshnessCounters};
use crate::metrics::Metrics;
use crate::store::{ChainStore, ServableSnapshot, Snapshot, StoredChain};

/// Shortcut for the suggestion route of all chains. Each serving thread has its own.
#[derive(Debug)]
pub(super) struct FastPath {
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
    /// The last response. Within a second nearly all responses are the same, and copying one takes a fraction of the
    /// time of building one.
    last_response: RwLock<Option<CachedResponse>>,
}

/// A response and the values that it depends on.
#[derive(Debug)]
struct CachedResponse {
    snapshot: Arc<Snapshot>,
    freshness: Freshness,
    headers: HeaderMap,
    body: Bytes,
}

impl FastPath {
    /// Prepares the shortcut for the chains of `store`, with routes below `base_path`.
    pub(super) fn new(base_path: &str, store: &ChainStore, metrics: &Metrics) -> Self {
        let fast_chain = |chain: &StoredChain| FastChain {
            chain: chain.clone(),
            freshness_counters: FreshnessCounters::new(chain, metrics),
            last_response: RwLock::new(None),
        };
        let chains = store.chains().iter().map(fast_chain).collect();
        Self { prefix: format!("{base_path}/v1/"), store: store.clone(), chains }
    }

    /// Returns a shortcut that shares no cached response with this one.
    pub(super) fn for_thread(&self) -> Self {
        let fast_chain = |FastChain { chain, freshness_counters, .. }: &FastChain| FastChain {
            chain: chain.clone(),
            freshness_counters: freshness_counters.clone(),
            last_response: RwLock::new(None),
        };
        let chains = self.chains.iter().map(fast_chain).collect();
        Self { prefix: self.prefix.clone(), store: self.store.clone(), chains }
    }

    /// Returns the response, or `None` for any other request. The router has the same route and responds the same.
    pub(super) fn respond<B>(&self, request: &Request<B>) -> Option<Response> {
        // The route has no query parameters, so any is an error, which the router's layers make.
        if !matches!(*request.method(), Method::GET | Method::HEAD)
            || request.uri().query().is_some()
        {
            return None;
        }
        let path = request.uri().path().strip_prefix(self.prefix.as_str())?;
        let name = path.strip_suffix("/gas-suggestion")?;
        let fast_chain = self.chains.get(self.store.index_of(name)?)?;
        let result = fast_chain.chain.servable_snapshot();
        fast_chain.freshness_counters.record(&result);
        Some(match result {
            Ok(current) => {
                let (headers, body) = fast_chain.headers_and_body(&current);
                suggestion::conditional_response(headers, body, request.headers())
            }
            Err(reason) => Problem::unavailable(&fast_chain.chain, reason).into_response(),
        })
    }
}

impl FastChain {
    fn headers_and_body(&self, current: &ServableSnapshot) -> (HeaderMap, Bytes) {
        let snapshot = &current.snapshot;
        let freshness = Freshness::from_snapshot(&self.chain, current);
        let last_response = self.last_response.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = last_response.as_ref().filter(|last| last.is_for(snapshot, freshness))
        {
            return (cached.headers.clone(), cached.body.clone());
        }
        drop(last_response);
        let etag = HeaderValue::from_bytes(snapshot.etag.as_bytes());
        let etag = etag.expect("a copy of a header value is one");
        let mut headers = suggestion::headers_with(snapshot, &etag, freshness);
        // Reserves places for what the layers add to every response, so that a copied map does not have to grow.
        headers.insert(X_REQUEST_ID, HeaderValue::from_static(""));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(""));
        let body = Bytes::copy_from_slice(&snapshot.body);
        let entry = CachedResponse {
            snapshot: Arc::clone(snapshot),
            freshness,
            headers: headers.clone(),
            body: body.clone(),
        };
        *self.last_response.write().unwrap_or_else(PoisonError::into_inner) = Some(entry);
        (headers, body)
    }
}

impl CachedResponse {
    fn is_for(&self, snapshot: &Arc<Snapshot>, freshness: Freshness) -> bool {
        Arc::ptr_eq(&self.snapshot, snapshot) && self.freshness == freshness
    }
}
