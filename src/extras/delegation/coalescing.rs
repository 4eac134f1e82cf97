//! Coalesces identical requests to the API and caches the responses.
//!
//! The task of the first caller sends the request. It continues when its client disconnects: the others wait no longer
//! than one request, nothing is sent twice, and the rate limit counts the request until it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use moka::future::Cache;
use opentelemetry::Context;
use opentelemetry::context::FutureExt as _;

use super::api_client::{ApiClient, Caller};
use super::api_response::ApiResponse;
use super::lookup::DelegationLookup;
use super::{LookupError, LookupOutcome};
use crate::extras::proxy::ProxyError;
use crate::nodes::Exhausted;
use crate::observe::metrics::Metrics;

/// The API behind a cache, with one request in flight per look-up.
#[derive(Debug)]
pub(crate) struct CoalescingClient {
    api: Arc<ApiClient>,
    /// By cache key of the request.
    cache: Cache<String, ApiResponse>,
}

impl CoalescingClient {
    /// Maximum total size of the cached responses.
    const MAX_CACHE_BYTES: u64 = 32 * 1024 * 1024;

    /// Caches each response of `api` for `cache_ttl`.
    pub(crate) fn new(api: ApiClient, cache_ttl: Duration, metrics: &Metrics) -> Self {
        let cache = Cache::builder()
            .weigher(|cache_key: &String, response: &ApiResponse| response.cache_weight(cache_key))
            .max_capacity(Self::MAX_CACHE_BYTES)
            .time_to_live(cache_ttl)
            .build();
        let measured = cache.clone();
        metrics.register_cache("delegations", move || {
            [measured.entry_count(), measured.weighted_size()]
        });
        Self { api: Arc::new(api), cache }
    }

    /// Returns the API's response to `lookup`, and whether it was cached, coalesced, or only for this caller. Dropping
    /// the future does not cancel a shared request, but cancels one with a client's own key.
    ///
    /// # Errors
    ///
    /// Fails if the API returned no delegations, or its circuit is open.
    pub(crate) async fn send(
        &self,
        lookup: &DelegationLookup,
        caller: &Caller,
    ) -> Result<(ApiResponse, LookupOutcome), LookupError> {
        if caller.key.is_some() {
            self.api.admit_request(caller)?;
            // Not shared: the response may depend on the key, or be an error about it.
            let response = self.api.send(lookup, caller).await?;
            let response = ApiResponse { fresh_for: Duration::ZERO, ..response };
            return Ok((response, LookupOutcome::Api));
        }
        let cache_key = lookup.cache_key();
        loop {
            if let Some(response) = self.cache.get(&cache_key).await {
                return Ok((response, LookupOutcome::Cached));
            }
            self.api.admit_request(caller)?;
            match self.send_or_join(&cache_key, lookup, caller).await {
                // Another client, which is at its limit, started the request. Try again as this client.
                (
                    Err(
                        LookupError::Api(ProxyError::TooManyPerClient)
                        | LookupError::BudgetExhausted(Exhausted { is_share: true, .. }),
                    ),
                    LookupOutcome::Coalesced,
                ) => {}
                (result, outcome) => return result.map(|response| (response, outcome)),
            }
        }
    }

    /// Sends the request, or waits for an identical one in flight.
    async fn send_or_join(
        &self,
        cache_key: &str,
        lookup: &DelegationLookup,
        caller: &Caller,
    ) -> (Result<ApiResponse, LookupError>, LookupOutcome) {
        let is_sender = Arc::new(AtomicBool::new(false));
        let (api, lookup, caller) = (Arc::clone(&self.api), lookup.clone(), caller.clone());
        let started = Arc::clone(&is_sender);
        let send = async move {
            started.store(true, Ordering::Relaxed);
            api.send(&lookup, &caller).await
        };
        let (cache, cache_key) = (self.cache.clone(), cache_key.to_owned());
        let task = async move { cache.try_get_with(cache_key, send).await };
        // The task is cancelled when the service stops.
        let result = tokio::spawn(task.with_context(Context::current())).await.map_or_else(
            |_| Err(LookupError::Api(ProxyError::ConnectionLost)),
            |result| result.map_err(|error| LookupError::clone(&error)),
        );
        let is_sender = is_sender.load(Ordering::Relaxed);
        (result, if is_sender { LookupOutcome::Api } else { LookupOutcome::Coalesced })
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;
    use futures_util::FutureExt as _;

    use super::*;
    use crate::config::Upstream;
    use crate::extras::delegation::lookup::{LookupBlock, LookupKind};
    use crate::extras::delegation::section::DelegationSection;
    use crate::http::client_limits::ClientHandle;
    use crate::observe::memory_budget::MemoryBudget;

    #[test]
    fn request_during_shutdown_fails_at_once() {
        let config = DelegationSection {
            api_url: "http://127.0.0.1:9".parse().unwrap(),
            ..DelegationSection::default()
        };
        let memory = MemoryBudget::new(0);
        let api = ApiClient::new(&config, &Upstream::default(), &memory, &Metrics::new()).unwrap();
        let client = CoalescingClient::new(api, Duration::ZERO, &Metrics::new());
        let kind = LookupKind::List { address: Address::ZERO, direction: None };
        let lookup = DelegationLookup { chain_id: 1, kind, block: LookupBlock::Latest };
        let caller = Caller { key: None, client: ClientHandle::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle().clone();
        runtime.shutdown_background();
        // Tasks that are spawned here never run.
        let _guard = handle.enter();
        let sent = client.send_or_join("anything", &lookup, &caller).now_or_never();
        let (result, _) = sent.expect("it does not wait");
        let lost = |error| matches!(error, LookupError::Api(ProxyError::ConnectionLost));
        assert!(result.is_err_and(lost));
    }
}
