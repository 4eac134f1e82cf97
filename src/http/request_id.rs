//! Request ids, shared by a request, its response and its log lines.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id accepted from a client.
const MAX_ID_BYTES: usize = 64;

thread_local! {
    /// Random part of the ids that this thread generates, which no other thread has.
    static PREFIX: String = format!("{:016x}-", RandomState::new().hash_one(std::process::id()));
    /// Number of the next id.
    static NEXT_NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Returns the client's id, or a generated one if it is missing or unsafe to log.
pub(super) fn for_request(request_headers: &HeaderMap) -> HeaderValue {
    match request_headers.get(&X_REQUEST_ID) {
        Some(id) if is_valid(id) => id.clone(),
        _ => generate(),
    }
}

fn generate() -> HeaderValue {
    let number = NEXT_NUMBER.replace(NEXT_NUMBER.get().wrapping_add(1));
    let id = PREFIX.with(|prefix| [prefix, itoa::Buffer::new().format(number)].concat());
    HeaderValue::try_from(id).expect("letters, digits and a dash are a header value")
}

fn is_valid(id: &HeaderValue) -> bool {
    let mut bytes = id.as_bytes().iter();
    (1..=MAX_ID_BYTES).contains(&id.len())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(byte))
}
