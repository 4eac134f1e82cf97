//! Strong entity tags.

use axum::http::HeaderValue;
use ring::digest;

/// Returns the tag of `body` as a header: 64 bits of its SHA-256, so processes that serve the same bytes have the same tag.
pub(crate) fn for_body(body: &[u8]) -> HeaderValue {
    let digest = sha256(body);
    let first_bytes = digest.first_chunk().expect("32 bytes have a first 8");
    let tag = format!("\"{:016x}\"", u64::from_be_bytes(*first_bytes));
    HeaderValue::try_from(tag).expect("quoted hex digits are a header value")
}

/// Returns the SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, bytes);
    *digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}
