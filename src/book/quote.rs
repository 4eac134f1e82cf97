//! A suggestion in the form that is served.

use axum::http::HeaderValue;
use bytes::Bytes;
use headers::ETag;
use sha2::{Digest, Sha256};

use crate::fees::Suggestion;
use crate::wire::SuggestionBody;

/// A suggestion as of one newest block, serialised once with the headers that belong to it.
#[derive(Debug, Clone)]
pub struct Quote {
    newest_block: u64,
    suggestion: Suggestion,
    body: Bytes,
    etag: ETag,
    etag_header: HeaderValue,
    newest_block_header: HeaderValue,
}

impl Quote {
    pub(super) fn new(chain_name: &str, newest_block: u64, suggestion: Suggestion) -> Self {
        let body = serde_json::to_vec(&SuggestionBody::new(chain_name, &suggestion))
            .expect("a struct of strings serialises");
        let tag = format!("\"{}\"", hash(&body));
        Self {
            newest_block,
            suggestion,
            body: body.into(),
            etag: tag.parse().expect("quoted hex digits are an entity tag"),
            etag_header: tag.try_into().expect("quoted hex digits are a header value"),
            newest_block_header: newest_block.into(),
        }
    }

    /// The same suggestion as of another newest block: nothing is serialised again.
    pub(super) fn at_block(&self, newest_block: u64) -> Self {
        Self { newest_block, newest_block_header: newest_block.into(), ..self.clone() }
    }

    /// The number of the newest block it was made from.
    #[must_use]
    pub fn newest_block(&self) -> u64 {
        self.newest_block
    }

    /// What the body says.
    #[must_use]
    pub fn suggestion(&self) -> &Suggestion {
        &self.suggestion
    }

    /// The five-member object of the HTTP contract.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The strong entity tag of [`body`](Self::body).
    #[must_use]
    pub fn etag(&self) -> &ETag {
        &self.etag
    }

    /// [`etag`](Self::etag) as a header value.
    #[must_use]
    pub fn etag_header(&self) -> &HeaderValue {
        &self.etag_header
    }

    /// [`newest_block`](Self::newest_block) as a header value.
    #[must_use]
    pub fn newest_block_header(&self) -> &HeaderValue {
        &self.newest_block_header
    }
}

/// 64 bits of the body's SHA-256 in hex: replicas that serve the same bytes serve the same tag.
fn hash(body: &[u8]) -> String {
    let digest: [u8; 32] = Sha256::digest(body).into();
    let head = digest.first_chunk().expect("32 bytes have a first 8");
    format!("{:016x}", u64::from_be_bytes(*head))
}
