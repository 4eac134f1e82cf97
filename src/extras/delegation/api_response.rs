//! A response of the API: how it is read, what it must be, and what it says.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bytes::Bytes;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::LookupError;
use super::lookup::LookupKind;
use super::registry::Direction;
use crate::extras::proxy::{ProxyError, UpstreamBody};
use crate::extras::reads::json;
use crate::observe::memory_budget::{MemoryBudget, ReservedBuffer};
use crate::observe::redaction::{Redactor, redact_value};

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

pub(super) const INVALID_RESPONSE: LookupError = LookupError::Api(ProxyError::InvalidResponse);

/// Reads the whole body. A response of more than `max_bytes` is invalid. Its bytes are charged to `memory` until their last slice
/// is dropped.
///
/// # Errors
///
/// Returns why the body is incomplete.
pub(super) async fn collect(
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
pub(super) fn contains_secret(redactor: &Redactor, json: &[u8]) -> bool {
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

/// Returns true if `json` has the type of a response to this look-up.
pub(super) fn has_expected_type(kind: &LookupKind, json: &RawValue) -> bool {
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
