//! Strong entity tags.

use axum::http::HeaderValue;
use sha2::{Digest, Sha256};

/// A tag: 64 bits of the body's SHA-256, so replicas that serve the same bytes have the same tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tag(u64);

impl Tag {
    pub(crate) fn for_body(body: &[u8]) -> Self {
        let digest: [u8; 32] = Sha256::digest(body).into();
        let first_bytes = digest.first_chunk().expect("32 bytes have a first 8");
        Self(u64::from_be_bytes(*first_bytes))
    }

    pub(crate) fn header(self) -> HeaderValue {
        let Self(tag) = self;
        HeaderValue::try_from(format!("\"{tag:016x}\""))
            .expect("quoted hex digits are a header value")
    }
}

/// Returns the tag of `body` as a header.
pub(crate) fn for_body(body: &[u8]) -> HeaderValue {
    Tag::for_body(body).header()
}
