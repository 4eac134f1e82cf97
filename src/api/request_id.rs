//! The id that a request, its answer and its log lines have in common.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is taken over from a client.
const MAX_BYTES: usize = 64;

/// Makes ids that no other process makes: a random part and a count.
#[derive(Debug)]
pub(super) struct RequestIds {
    process: String,
    next: AtomicU64,
}

impl RequestIds {
    pub(super) fn new() -> Self {
        let process = RandomState::new().hash_one(std::process::id());
        Self { process: format!("{process:016x}-"), next: AtomicU64::new(0) }
    }

    /// The client's id, or one of ours when that is absent or unfit to be repeated in a log.
    pub(super) fn of(&self, request: &HeaderMap) -> HeaderValue {
        let given = request.get(&X_REQUEST_ID).filter(|id| is_plain(id)).cloned();
        given.unwrap_or_else(|| self.make())
    }

    fn make(&self) -> HeaderValue {
        let mut count = itoa::Buffer::new();
        let count = count.format(self.next.fetch_add(1, Ordering::Relaxed));
        HeaderValue::try_from([self.process.as_str(), count].concat())
            .expect("letters, digits and a dash are a header value")
    }
}

fn is_plain(id: &HeaderValue) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:".contains(byte);
    (1..=MAX_BYTES).contains(&id.len()) && id.as_bytes().iter().all(plain)
}
