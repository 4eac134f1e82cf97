//! Client of the REST API. It respects the API's limits.

use std::time::Duration;

use axum::http::header::{ACCEPT, CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Response, StatusCode};
use parking_lot::Mutex;
use serde_json::value::RawValue;

use super::LookupError;
use super::api_response::{
    ApiResponse, INVALID_RESPONSE, collect, contains_secret, has_expected_type,
};
use super::budget::RateBudget;
use super::lookup::{DelegationLookup, LookupKind};
use super::refused_keys::RefusedKeys;
use super::section::{DelegationSection, DelegationSource};
use crate::config::Upstream;
use crate::extras::proxy::{MAX_RETRY_AFTER, Proxy, ProxyError, ProxyRequest, UpstreamBody};
use crate::http::client_limits::ClientHandle;
use crate::nodes::circuit_breaker::{Availability, CircuitBreaker};
use crate::observe::clock;
use crate::observe::http_client;
use crate::observe::log_on_change::LogOnChange;
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::metrics::Metrics;
use crate::observe::redaction::Redactor;

/// Header of the API key.
pub(crate) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Client of the API.
#[derive(Debug)]
pub(crate) struct ApiClient {
    proxy: Proxy,
    api_key: Option<HeaderValue>,
    /// `None`: a key is configured, to which the public rate limit does not apply.
    budget: Option<RateBudget>,
    refused_keys: RefusedKeys,
    cache_ttl: Duration,
    /// `None`: there is no fallback, so each request is sent.
    circuit_breaker: Option<Mutex<CircuitBreaker>>,
    /// Removes secrets from errors.
    redactor: Redactor,
    /// Finds the configured key in responses. No response may contain it.
    key_detector: Redactor,
    memory: MemoryBudget,
    /// Logs when responses become invalid or valid.
    validity_log: LogOnChange,
}

/// Client that a look-up is for.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The client's own `X-API-KEY`.
    pub(crate) key: Option<HeaderValue>,
    pub(crate) client: ClientHandle,
}

impl ApiClient {
    /// Enough for a wallet with about 2,500 delegations.
    const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
    const MAX_ERROR_BYTES: usize = 64 * 1024;
    /// A shorter key may occur in a response by chance.
    const MIN_DETECTABLE_KEY_BYTES: usize = 8;
    /// Time for which the API is skipped after a timeout, if the chain is the fallback.
    const SKIPPED_FOR: Duration = Duration::from_secs(10);

    /// Creates the client of the configured API.
    ///
    /// # Errors
    ///
    /// Fails if the TLS backend cannot start.
    pub(crate) fn new(
        config: &DelegationSection,
        upstream: &Upstream,
        memory: &MemoryBudget,
        metrics: &Metrics,
    ) -> Result<Self, reqwest::Error> {
        let api_key = config.key_header();
        let has_fallback = config.source == DelegationSource::ApiThenChain;
        let (url, timeout) = (config.api_url.clone(), config.timeout);
        // After a timeout the API is skipped for a while. Then one request at a time probes it.
        let new_breaker = || CircuitBreaker::new(Self::SKIPPED_FOR, Self::SKIPPED_FOR, timeout);
        Ok(Self {
            proxy: Proxy::new("delegation", url, upstream, timeout, config.max_in_flight, metrics)?,
            budget: api_key.is_none().then(|| RateBudget::new(timeout, metrics)),
            refused_keys: RefusedKeys::new(),
            key_detector: Redactor::new(
                config.encoded_key_variants(Self::MIN_DETECTABLE_KEY_BYTES),
            ),
            api_key,
            cache_ttl: config.cache_ttl,
            circuit_breaker: has_fallback.then(new_breaker).map(Mutex::new),
            redactor: Redactor::new(config.secrets()),
            memory: memory.clone(),
            validity_log: LogOnChange::default(),
        })
    }

    /// Checks that the circuit is closed, or that this request may probe the API. One with a client's own key never
    /// probes it, because its outcome may be that of the key.
    ///
    /// # Errors
    ///
    /// Fails like a request that times out.
    pub(crate) fn admit_request(&self, caller: &Caller) -> Result<(), LookupError> {
        let admit = |breaker: &Mutex<CircuitBreaker>| {
            let (mut breaker, now) = (breaker.lock(), clock::now());
            if caller.key.is_some() { breaker.availability(now) } else { breaker.try_admit(now) }
        };
        match self.circuit_breaker.as_ref().map(admit) {
            None | Some(Availability::Healthy) => Ok(()),
            Some(_) => Err(LookupError::Api(ProxyError::Timeout)),
        }
    }

    /// Sends one request, and records whether the API responds at all. What becomes of a request with a client's own key is not recorded: a client could turn all others away from the API with one.
    ///
    /// # Errors
    ///
    /// Fails if the API returned no delegations.
    pub(crate) async fn send(
        &self,
        lookup: &DelegationLookup,
        caller: &Caller,
    ) -> Result<ApiResponse, LookupError> {
        const SLOW_FAILURE: Duration = Duration::from_secs(1);
        let started_at = clock::now();
        let result = self.send_once(lookup, caller).await;
        let breaker = self.circuit_breaker.as_ref().filter(|_| caller.key.is_none());
        let Some(breaker) = breaker else { return result };
        let mut breaker = breaker.lock();
        match &result {
            Ok(_)
            | Err(LookupError::Api(ProxyError::InvalidResponse) | LookupError::ErrorResponse(_)) => {
                breaker.record_success();
            }
            Err(
                LookupError::Api(ProxyError::Overloaded | ProxyError::TooManyPerClient)
                | LookupError::BudgetExhausted(_)
                | LookupError::KeyRefused(_),
            ) => breaker.last_probe = None,
            Err(error) => {
                let is_timeout = matches!(error, LookupError::Api(ProxyError::Timeout));
                if is_timeout || clock::elapsed(started_at) >= SLOW_FAILURE {
                    breaker.record_timeout(clock::now());
                }
            }
        }
        result
    }

    async fn send_once(
        &self,
        lookup: &DelegationLookup,
        caller: &Caller,
    ) -> Result<ApiResponse, LookupError> {
        let (path, query) = lookup.path_and_query();
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(key) = caller.key.as_ref().or(self.api_key.as_ref()) {
            headers.insert(X_API_KEY, key.clone());
        }
        if let Some(key) = &caller.key {
            self.refused_keys.check(key, clock::now()).map_err(LookupError::KeyRefused)?;
        }
        let budget = self.budget.as_ref().filter(|_| caller.key.is_none());
        let permit = budget.map(|budget| budget.acquire(caller.client.key())).transpose();
        let permit = permit.map_err(LookupError::BudgetExhausted)?;
        let segments: Vec<&str> = path.split('/').collect();
        let proxy_request = ProxyRequest {
            method: Method::GET,
            segments: &segments,
            query: Some(&query),
            headers: &headers,
            credentials: &[X_API_KEY],
            client: caller.client.clone(),
        };
        let response = self.proxy.forward(&proxy_request, None).await;
        if let Some(permit) = permit {
            permit.end(match &response {
                // The API certainly did not receive it.
                Err(
                    ProxyError::Unreachable | ProxyError::Overloaded | ProxyError::TooManyPerClient,
                ) => RateBudget::UNSENT,
                Err(ProxyError::Timeout) => RateBudget::UNANSWERED,
                _ => RateBudget::ENDED,
            });
        }
        let response = response.map_err(LookupError::Api)?;
        let is_limited = response.status() == StatusCode::TOO_MANY_REQUESTS;
        let refuses_key = is_limited
            || [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&response.status());
        if let Some(key) = caller.key.as_ref().filter(|_| refuses_key) {
            self.refused_keys.record(key, clock::now());
        }
        if let Some(budget) = budget.filter(|_| is_limited) {
            let retry_after = http_client::retry_after(response.headers());
            budget.start_cool_down(RateBudget::cool_down_for(retry_after));
        }
        let mut response = self.parse_response(response, &lookup.kind).await?;
        if caller.key.is_some() && is_limited {
            // The key is not sent again before.
            response.retry_after = response.retry_after.max(Some(RefusedKeys::REFUSED_FOR));
        }
        if response.status.is_success() {
            Ok(response)
        } else {
            Err(LookupError::ErrorResponse(response))
        }
    }

    /// Parses and checks a response.
    async fn parse_response(
        &self,
        response: Response<UpstreamBody>,
        kind: &LookupKind,
    ) -> Result<ApiResponse, LookupError> {
        let (parts, body) = response.into_parts();
        let status = parts.status;
        let max_bytes =
            if status.is_success() { Self::MAX_RESPONSE_BYTES } else { Self::MAX_ERROR_BYTES };
        let body = collect(body, max_bytes, &self.memory).await.map_err(LookupError::Api)?;
        let is_error = status.is_client_error() || status.is_server_error();
        let json = serde_json::from_slice::<&RawValue>(&body).ok();
        let is_valid = json.is_some_and(|json| {
            is_error
                || status.is_success()
                    && has_expected_type(kind, json)
                    && !(self.api_key.is_some() && contains_secret(&self.key_detector, &body))
        });
        // It was not asked for.
        let is_compressed = parts.headers.get(CONTENT_ENCODING).is_some_and(|it| it != "identity");
        if !is_valid || is_compressed {
            if self.validity_log.changed_to(Err("invalid")) {
                let status = status.as_u16();
                tracing::warn!(status, "delegation API returned an invalid response");
            }
            return Err(INVALID_RESPONSE);
        }
        if self.validity_log.changed_to(Ok(())) {
            tracing::debug!("delegation API returned a valid response");
        }
        // A success is forwarded unchanged: redaction would change its meaning.
        let body = if is_error {
            self.redactor.redact_json(&body, &self.memory).map_err(|_| INVALID_RESPONSE)?
        } else {
            body
        };
        let retry_after = http_client::retry_after(&parts.headers).filter(|_| is_error);
        let retry_after = match status {
            StatusCode::TOO_MANY_REQUESTS => Some(RateBudget::cool_down_for(retry_after)),
            _ => retry_after.filter(|wait| *wait <= MAX_RETRY_AFTER),
        };
        let (received_at, fresh_for) = (clock::now(), self.cache_ttl);
        Ok(ApiResponse { status, body, retry_after, received_at, fresh_for })
    }
}
