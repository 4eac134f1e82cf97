//! Entity tags: what a client has, it need not get again.

use axum::http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};

/// The strong tag of `body`: 64 bits of its SHA-256, so that replicas that serve the same bytes
/// serve the same tag.
pub(crate) fn for_body(body: &[u8]) -> HeaderValue {
    let digest: [u8; 32] = Sha256::digest(body).into();
    let first_bytes = digest.first_chunk().expect("32 bytes have a first 8");
    let tag = u64::from_be_bytes(*first_bytes);
    HeaderValue::try_from(format!("\"{tag:016x}\"")).expect("quoted hex digits are a header value")
}

/// Returns true if the `If-None-Match` of `request` names `tag`, weakly or not (RFC 9110, section 13.1.2). What
/// is no entity tag there is passed over.
pub(crate) fn matches(tag: &HeaderValue, request_headers: &HeaderMap) -> bool {
    // A foreign tag may have a comma in it, but no part of that has the quotes of a whole tag.
    let is_same_tag = |entry: &[u8]| {
        let entry = entry.trim_ascii();
        entry.strip_prefix(b"W/").unwrap_or(entry) == tag.as_bytes()
    };
    let conditions = request_headers.get_all(header::IF_NONE_MATCH).iter();
    conditions.map(HeaderValue::as_bytes).any(|condition| {
        condition == b"*" || condition.split(|byte| *byte == b',').any(is_same_tag)
    })
}
