//! Request ids, shared by a request, its response and its log lines.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id accepted from a client.
const MAX_ID_BYTES: usize = 64;

/// Generates ids that no other generator generates: a random part and a counter.
#[derive(Debug)]
pub(crate) struct RequestIdGenerator {
    prefix: String,
    next_number: AtomicU64,
}

impl RequestIdGenerator {
    pub(crate) fn new() -> Self {
        let process_hash = RandomState::new().hash_one(std::process::id());
        Self { prefix: format!("{process_hash:016x}-"), next_number: AtomicU64::new(0) }
    }

    /// Returns the client's id, or a generated one if it is missing or unsafe to log.
    pub(crate) fn for_request(&self, request_headers: &HeaderMap) -> HeaderValue {
        let client_id = request_headers.get(&X_REQUEST_ID).filter(|id| is_valid(id)).cloned();
        client_id.unwrap_or_else(|| self.generate())
    }

    fn generate(&self) -> HeaderValue {
        let mut count = itoa::Buffer::new();
        let count = count.format(self.next_number.fetch_add(1, Ordering::Relaxed));
        HeaderValue::try_from([self.prefix.as_str(), count].concat())
            .expect("letters, digits and a dash are a header value")
    }
}

fn is_valid(id: &HeaderValue) -> bool {
    let is_allowed_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:".contains(byte);
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.as_bytes().iter().all(is_allowed_byte)
}
