//! Client of the REST API. It respects the API's limits and checks the shape of its responses.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use axum::http::header::{ACCEPT, CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Response, StatusCode};
use bytes::Bytes;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::LookupError;
use super::budget::RateBudget;
use super::lookup::{DelegationLookup, LookupKind};
use super::refused_keys::RefusedKeys;
use super::registry::Direction;
use super::section::{DelegationSection, DelegationSource};
use crate::config::Upstream;
use crate::extras::proxy::{Proxy, ProxyError, ProxyRequest, UpstreamBody};
use crate::http::client_limits::ClientHandle;
use crate::nodes::circuit_breaker::{Availability, CircuitBreaker};
use crate::nodes::json;
use crate::observe::clock;
use crate::observe::http_client;
use crate::observe::log_on_change::LogOnChange;
use crate::observe::memory_budget::{MemoryBudget, ReservedBuffer};
use crate::observe::metrics::Metrics;
use crate::observe::redaction::{Redactor, redact_value};

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

/// A response of the API.
#[derive(Debug, Clone)]
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    /// JSON.
    pub(crate) body: Bytes,
    pub(crate) retry_after: Option<Duration>,
    /// Time of receipt.
    pub(crate) received_at: Instant,
    /// How long it may be cached after receipt.
    pub(crate) fresh_for: Duration,
}

const INVALID_RESPONSE: LookupError = LookupError::Api(ProxyError::InvalidResponse);

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
        let new_budget = || RateBudget::new(config.timeout, metrics);
        // After a timeout the API is skipped for a while. Then one request at a time probes it.
        let new_breaker =
            || CircuitBreaker::new(Self::SKIPPED_FOR, Self::SKIPPED_FOR, config.timeout);
        let url = config.api_url.clone();
        Ok(Self {
            proxy: Proxy::new(
                "delegation",
                url,
                upstream,
                config.timeout,
                config.max_in_flight,
                metrics,
            )?,
            budget: api_key.is_none().then(new_budget),
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
                Err(error) if never_reached_api(error) => RateBudget::UNSENT,
                Err(ProxyError::Timeout) => RateBudget::UNANSWERED,
                _ => RateBudget::ENDED,
            });
        }
        let response = response.map_err(LookupError::Api)?;
        if let Some(key) = caller.key.as_ref().filter(|_| refuses_key(response.status())) {
            self.refused_keys.record(key, clock::now());
        }
        if let Some(budget) = budget.filter(|_| response.status() == StatusCode::TOO_MANY_REQUESTS)
        {
            let retry_after = http_client::retry_after(response.headers());
            budget.start_cool_down(RateBudget::cool_down_for(retry_after));
        }
        let mut response = self.parse_response(response, &lookup.kind).await?;
        if caller.key.is_some() && response.status == StatusCode::TOO_MANY_REQUESTS {
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
            _ => retry_after,
        };
        let (received_at, fresh_for) = (clock::now(), self.cache_ttl);
        Ok(ApiResponse { status, body, retry_after, received_at, fresh_for })
    }
}

/// Reads the whole body. A response of more than `max_bytes` is invalid. Its bytes are charged to `memory` until their last slice
/// is dropped.
///
/// # Errors
///
/// Returns why the body is incomplete.
async fn collect(
    mut upstream_body: UpstreamBody,
    max_bytes: usize,
    memory: &MemoryBudget,
) -> Result<Bytes, ProxyError> {
    let mut body = ReservedBuffer::new(max_bytes, memory);
    while let Some(frame) = upstream_body.frame().await {
        // The frames contain data only.
        let chunk = frame?.into_data().unwrap_or_default();
        if body.len().saturating_add(chunk.len()) > max_bytes {
            return Err(ProxyError::InvalidResponse);
        }
        body.try_extend(&chunk).map_err(|_| ProxyError::Overloaded)?;
    }
    Ok(body.into_bytes())
}

/// Returns true if `json` contains a secret of the redactor, also escaped. JSON that serde cannot parse (for example `1e999`) is
/// only searched as raw bytes.
fn contains_secret(redactor: &Redactor, json: &[u8]) -> bool {
    let Some(finder) = &redactor.matcher else { return true };
    // Parsing takes many times the memory, so it is done only when needed.
    let has_escapes = json.iter().any(|byte| b"\\%".contains(byte));
    finder.is_match(json)
        || has_escapes
            && serde_json::from_slice(json).is_ok_and(|mut value| redact_value(finder, &mut value))
}

impl ApiResponse {
    /// Approximate overhead of a cache entry.
    const ENTRY_BYTES: usize = 512;

    /// Approximate size in bytes.
    pub(crate) fn cache_weight(&self, cache_key: &str) -> u32 {
        let bytes =
            cache_key.len().saturating_add(self.body.len()).saturating_add(Self::ENTRY_BYTES);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Returns true if the API may have rejected the chain. The API's errors are not documented. In a valid request
    /// only the chain can be unknown to it.
    fn rejects_chain(&self) -> bool {
        const REJECTION_STATUSES: [StatusCode; 3] =
            [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::UNPROCESSABLE_ENTITY];
        let text = self.body.to_ascii_lowercase();
        let mentions = |name: &str| text.windows(name.len()).any(|word| word == name.as_bytes());
        REJECTION_STATUSES.contains(&self.status) && (mentions("chain") || mentions("network"))
    }

    /// Returns the response to a look-up of this kind: if it asks for one direction, the list with only those elements,
    /// byte for byte, that lead in this direction.
    ///
    /// # Errors
    ///
    /// Fails if the direction of an element cannot be determined.
    pub(crate) fn filtered(
        self,
        kind: &LookupKind,
        memory: &MemoryBudget,
    ) -> Result<Self, LookupError> {
        #[derive(Deserialize)]
        struct DelegationParties<'a> {
            #[serde(borrow)]
            from: Cow<'a, str>,
            to: Cow<'a, str>,
        }
        let &LookupKind::List { address, direction: Some(direction) } = kind else {
            return Ok(self);
        };
        // The checksum is not validated, because the API wrote the address.
        let parse = |text: &str| crate::config::address::parse(&text.to_ascii_lowercase()).ok();
        let is_wanted = |member: &RawValue| {
            let parties: DelegationParties = serde_json::from_str(member.get()).ok()?;
            let (from, to) = (parse(&parties.from)?, parse(&parties.to)?);
            Some(address == if direction == Direction::Incoming { to } else { from })
        };
        let list: Vec<&RawValue> =
            serde_json::from_slice(&self.body).map_err(|_| INVALID_RESPONSE)?;
        let mut matching = Vec::new();
        for member in list {
            if is_wanted(member).ok_or(INVALID_RESPONSE)? {
                matching.push(member);
            }
        }
        let json = serde_json::to_vec(&matching).map_err(|_| INVALID_RESPONSE)?;
        let body = memory.try_hold(json).map_err(|_| LookupError::Api(ProxyError::Overloaded))?;
        Ok(Self { body, ..self })
    }
}

impl LookupError {
    /// Returns why the chain may answer instead, from a closed list: the API did not respond, or its response says
    /// nothing about the request.
    pub(crate) fn failover_reason(&self) -> Option<&'static str> {
        match self {
            Self::BudgetExhausted(_) => Some("budget_exhausted"),
            Self::KeyRefused(_) => Some("key_refused"),
            Self::Api(_) => Some("failed"),
            Self::ErrorResponse(response) => {
                let is_failure = response.status.is_server_error()
                    || response.status == StatusCode::TOO_MANY_REQUESTS;
                (is_failure || response.rejects_chain()).then_some("refused")
            }
            _ => None,
        }
    }
}

/// Returns true if the API certainly did not receive the request.
fn never_reached_api(failure: &ProxyError) -> bool {
    matches!(
        failure,
        ProxyError::Unreachable | ProxyError::Overloaded | ProxyError::TooManyPerClient
    )
}

/// Returns true if an API that responds with this status refuses the key of the request.
fn refuses_key(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
    )
}

/// Returns true if `json` has the type of a response to this look-up.
fn has_expected_type(kind: &LookupKind, json: &RawValue) -> bool {
    match kind {
        LookupKind::List { .. } => {
            let list = serde_json::from_str::<Vec<&RawValue>>(json.get());
            list.is_ok_and(|list| list.iter().all(|member| member.get().starts_with('{')))
        }
        LookupKind::Check(check) if check.scope.has_amount() => is_amount(json),
        LookupKind::Check(_) => matches!(json.get(), "true" | "false"),
    }
}

/// Returns true for a number in any form or a string of decimal digits.
fn is_amount(json: &RawValue) -> bool {
    json::parse_string(json).map_or_else(
        || json.get().starts_with(|first: char| first.is_ascii_digit()),
        |text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()),
    )
}

#[cfg(test)]
mod tests;
