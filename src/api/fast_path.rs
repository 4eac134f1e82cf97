//! `GET` and `HEAD /v1/{chain}/gas-suggestion`, ahead of the router. Nearly all requests are for this route, and the
//! router with its layers takes several times as long as the response itself.

use std::sync::{Arc, PoisonError, RwLock};

use axum::http::header::ACCESS_CONTROL_EXPOSE_HEADERS;
use axum::http::{HeaderMap, HeaderValue, Method, Request};
use axum::response::{IntoResponse, Response};

use super::freshness::Freshness;
use super::problem::Problem;
use super::request_id::X_REQUEST_ID;
use super::suggestion::{self, FreshnessCounters};
use crate::metrics::Metrics;
use crate::store::{ChainStore, ServableSnapshot, Snapshot, StoredChain};

/// Shortcut for the suggestion route of all chains.
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
    /// Headers of the last response. Within a second nearly all responses have the same headers, and copying a map
    /// takes a fraction of the time of filling one.
    last_headers: RwLock<Option<CachedHeaders>>,
}

/// Response headers and the values that they depend on.
#[derive(Debug)]
struct CachedHeaders {
    snapshot: Arc<Snapshot>,
    freshness: Freshness,
    headers: HeaderMap,
}

impl FastPath {
    /// Prepares the shortcut for the chains of `store`, with routes below `base_path`.
    pub(super) fn new(base_path: &str, store: &ChainStore, metrics: &Metrics) -> Self {
        let fast_chain = |chain: &StoredChain| FastChain {
            chain: chain.clone(),
            freshness_counters: FreshnessCounters::new(chain, metrics),
            last_headers: RwLock::new(None),
        };
        let chains = store.chains().iter().map(fast_chain).collect();
        Self { prefix: format!("{base_path}/v1/"), store: store.clone(), chains }
    }

    /// Returns the response, or `None` for any other request. The router has the same route and responds the same.
    pub(super) fn respond<B>(&self, request: &Request<B>) -> Option<Response> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        let path = request.uri().path().strip_prefix(self.prefix.as_str())?;
        let name = path.strip_suffix("/gas-suggestion")?;
        let fast_chain = self.chains.get(self.store.index_of(name)?)?;
        let result = fast_chain.chain.servable_snapshot();
        fast_chain.freshness_counters.record(&fast_chain.chain, &result);
        Some(match result {
            Ok(current) => {
                let headers = fast_chain.headers(&current);
                suggestion::conditional_response(&current.snapshot, headers, request.headers())
            }
            Err(reason) => Problem::unavailable(&fast_chain.chain, reason).into_response(),
        })
    }
}

impl FastChain {
    fn headers(&self, current: &ServableSnapshot) -> HeaderMap {
        let snapshot = &current.snapshot;
        let freshness = Freshness::from_snapshot(&self.chain, current);
        let last_headers = self.last_headers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached_headers) =
            last_headers.as_ref().filter(|head| head.is_for(snapshot, freshness))
        {
            return cached_headers.headers.clone();
        }
        drop(last_headers);
        let mut headers = suggestion::suggestion_headers(snapshot, freshness);
        // Reserves places for what the layers add to every response, so that a copied map does not have to grow.
        headers.insert(X_REQUEST_ID, HeaderValue::from_static(""));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(""));
        let entry =
            CachedHeaders { snapshot: Arc::clone(snapshot), freshness, headers: headers.clone() };
        *self.last_headers.write().unwrap_or_else(PoisonError::into_inner) = Some(entry);
        headers
    }
}

impl CachedHeaders {
    fn is_for(&self, snapshot: &Arc<Snapshot>, freshness: Freshness) -> bool {
        Arc::ptr_eq(&self.snapshot, snapshot) && self.freshness == freshness
    }
}
