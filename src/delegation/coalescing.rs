//! Coalesces identical requests to the API and caches the responses.
//!
//! A shared request is a task. It continues when the client that started it disconnects: the others wait no longer than
//! one request, nothing is sent twice, and the rate limit counts the request until it ends. Dropping the
//! [`CoalescingClient`] ends the tasks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{FutureExt, Shared};
use moka::future::Cache;
use opentelemetry::Context;
use opentelemetry::context::FutureExt as _;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::api_client::{ApiClient, ApiError, ApiRequest, ApiResponse, Caller};
use super::lookup::DelegationLookup;
use crate::metrics::Metrics;
use crate::proxy::ProxyError;

/// The API behind a cache, with one request in flight per look-up.
#[derive(Debug)]
pub(super) struct CoalescingClient {
    api: Arc<ApiClient>,
    /// By cache key of the request.
    cache: Cache<String, ApiResponse>,
    in_flight: Arc<InFlightRequests>,
    tasks: Mutex<JoinSet<()>>,
}

/// Pending response of each request in flight, by cache key.
type InFlightRequests = Mutex<HashMap<String, PendingResponse>>;

type PendingResponse = Shared<oneshot::Receiver<Result<ApiResponse, ApiError>>>;

/// Policy of a caller while the circuit of the API is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitPolicy {
    /// Wait: there is no fallback.
    Always,
    /// Do not wait: the chain is the fallback.
    UnlessCircuitOpen,
}

/// Source of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseSource {
    /// The cache.
    Cache,
    /// An identical request that was in flight.
    Coalesced,
    Api,
}

impl CoalescingClient {
    /// Maximum total size of the cached responses.
    const MAX_CACHE_BYTES: u64 = 32 * 1024 * 1024;

    /// Caches each response of `api` for `cache_ttl`.
    pub(super) fn new(api: ApiClient, cache_ttl: Duration, metrics: &Metrics) -> Self {
        let cache = Cache::builder()
            .weigher(|cache_key: &String, response: &ApiResponse| response.cache_weight(cache_key))
            .max_capacity(Self::MAX_CACHE_BYTES)
            .time_to_live(cache_ttl)
            .build();
        let measured = cache.clone();
        metrics.register_cache("delegations", move || {
            [measured.entry_count(), measured.weighted_size()]
        });
        Self {
            api: Arc::new(api),
            cache,
            in_flight: Arc::default(),
            tasks: Mutex::new(JoinSet::new()),
        }
    }

    /// Returns the task that synchronises the rate limit with other replicas, if there are any.
    pub(super) fn sync_budget(&self) -> Option<impl Future<Output = Infallible> + Send + use<>> {
        self.api.sync_budget()
    }

    /// Returns the API's response to `lookup`. Dropping the future does not cancel a shared request, but cancels one
    /// with a client's own key.
    ///
    /// # Errors
    ///
    /// Fails if the API returned no delegations, or its circuit is open.
    pub(super) async fn send(
        &self,
        lookup: &DelegationLookup,
        caller: &Caller,
        wait_policy: WaitPolicy,
    ) -> Result<(ApiResponse, ResponseSource), ApiError> {
        let request = ApiRequest::new(lookup, caller);
        let is_admitted = || wait_policy == WaitPolicy::Always || self.api.try_admit_request();
        if caller.key.is_some() {
            if !is_admitted() {
                return Err(ApiError::CircuitOpen);
            }
            // Not shared: the response may depend on the key, or be an error about it.
            let response = self.api.send(&request).await?;
            return Ok((
                ApiResponse { fresh_for: Duration::ZERO, ..response },
                ResponseSource::Api,
            ));
        }
        let cache_key = request.cache_key();
        loop {
            if let Some(response) = self.cache.get(&cache_key).await {
                return Ok((response, ResponseSource::Cache));
            }
            if !is_admitted() {
                return Err(ApiError::CircuitOpen);
            }
            let (pending, source) = self.join_or_start(&cache_key, &request);
            // The task was dropped without an outcome, because the service is stopping.
            match pending.await.unwrap_or(Err(ApiError::Failed(ProxyError::ConnectionLost))) {
                Ok(response) => return Ok((response, source)),
                // Another client, which is at its limit, started the request. Try again as this client.
                Err(ApiError::Failed(ProxyError::TooManyPerClient))
                    if source == ResponseSource::Coalesced => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the pending response of an identical request, or starts a new one.
    fn join_or_start(
        &self,
        cache_key: &str,
        request: &ApiRequest,
    ) -> (PendingResponse, ResponseSource) {
        let (sender, receiver) = oneshot::channel();
        let pending = receiver.shared();
        // If the task cannot be spawned, `guard` is dropped at once, which locks the map. So the lock must not be held
        // then.
        match lock_in_flight(&self.in_flight).entry(cache_key.to_owned()) {
            Entry::Occupied(existing) => {
                return (existing.get().clone(), ResponseSource::Coalesced);
            }
            Entry::Vacant(entry) => entry.insert(pending.clone()),
        };
        let guard = InFlightGuard {
            in_flight: Arc::clone(&self.in_flight),
            cache_key: cache_key.to_owned(),
        };
        let (api, cache, request) = (Arc::clone(&self.api), self.cache.clone(), request.clone());
        let task = async move {
            // `try_get_with` finds a response that was cached after this caller had looked.
            let outcome = cache.try_get_with(guard.cache_key.clone(), api.send(&request)).await;
            drop(guard);
            // All callers may have disconnected.
            let _ = sender.send(outcome.map_err(|error| ApiError::clone(&error)));
        };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task.with_context(Context::current()));
        (pending, ResponseSource::Api)
    }
}

fn lock_in_flight(
    in_flight: &InFlightRequests,
) -> MutexGuard<'_, HashMap<String, PendingResponse>> {
    in_flight.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Entry of a request in flight. Dropping it removes the entry, whatever the outcome.
struct InFlightGuard {
    in_flight: Arc<InFlightRequests>,
    cache_key: String,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        lock_in_flight(&self.in_flight).remove(&self.cache_key);
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;

    use super::super::lookup::{LookupBlock, LookupKind};
    use super::*;
    use crate::client_limits::ClientHandle;
    use crate::config;
    use crate::memory_budget::MemoryBudget;
    use crate::metrics::Metrics;

    #[test]
    fn request_during_shutdown_leaves_no_in_flight_entry() {
        let config = config::Delegation {
            api_url: "http://127.0.0.1:9".parse().unwrap(),
            ..config::Delegation::default()
        };
        let api = ApiClient::new(&config, &MemoryBudget::new(0), None, &Metrics::new()).unwrap();
        let client = Arc::new(CoalescingClient::new(api, Duration::ZERO, &Metrics::new()));
        let question = LookupKind::List { address: Address::ZERO, direction: None };
        let lookup = DelegationLookup { chain_id: 1, kind: question, block: LookupBlock::Latest };
        let request =
            ApiRequest::new(&lookup, &Caller { key: None, client: ClientHandle::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle().clone();
        runtime.shutdown_background();
        let (sender, outcome) = std::sync::mpsc::channel();
        let shared_client = Arc::clone(&client);
        std::thread::spawn(move || {
            // Tasks that are spawned here never run.
            let _guard = handle.enter();
            let (pending, _) = shared_client.join_or_start("anything", &request);
            sender.send(pending.now_or_never()).unwrap();
        });
        let outcome = outcome.recv_timeout(Duration::from_secs(20)).expect("it does not hang");
        assert!(matches!(outcome, Some(Err(_))), "{outcome:?}");
        assert!(lock_in_flight(&client.in_flight).is_empty());
    }
}
