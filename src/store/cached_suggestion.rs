//! A suggestion in its served form.

use axum::http::HeaderValue;
use bytes::Bytes;

use crate::etag;
use crate::fees::Suggestion;
use crate::wire::SuggestionBody;

/// A suggestion at one newest block, serialised once, with its entity tag.
#[derive(Debug, Clone)]
pub struct CachedSuggestion {
    newest_block: u64,
    suggestion: Suggestion,
    body: Bytes,
    etag: HeaderValue,
}

impl CachedSuggestion {
    pub(super) fn new(chain_name: &str, newest_block: u64, suggestion: Suggestion) -> Self {
        let body = serde_json::to_vec(&SuggestionBody::new(chain_name, &suggestion))
            .expect("a struct of strings serialises");
        let etag = etag::for_body(&body);
        Self { newest_block, suggestion, body: body.into(), etag }
    }

    /// Returns the same suggestion at another newest block, without serialising again.
    pub(super) fn at_block(&self, newest_block: u64) -> Self {
        Self { newest_block, ..self.clone() }
    }

    /// Number of the newest block that it was computed from.
    #[must_use]
    pub fn newest_block(&self) -> u64 {
        self.newest_block
    }

    /// Suggestion in the body.
    #[must_use]
    pub fn suggestion(&self) -> &Suggestion {
        &self.suggestion
    }

    /// The JSON body with the five members of the HTTP contract.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The strong entity tag of [`body`](Self::body), with its quotes.
    #[must_use]
    pub fn etag(&self) -> &HeaderValue {
        &self.etag
    }
}
