//! Request ids, shared by a request, its response and its log lines.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use thread_local::ThreadLocal;

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id accepted from a client.
const MAX_ID_BYTES: usize = 64;

/// Ids of requests: those of clients, or generated ones.
#[derive(Debug, Default)]
pub(crate) struct RequestIds {
    generators: ThreadLocal<Generator>,
}

/// Generates ids that no other generator generates: a random part and a number.
#[derive(Debug)]
struct Generator {
    prefix: String,
    next_number: Cell<u64>,
}

impl RequestIds {
    /// Returns the client's id, or a generated one if it is missing or unsafe to log.
    pub(crate) fn for_request(&self, request_headers: &HeaderMap) -> HeaderValue {
        match request_headers.get(&X_REQUEST_ID) {
            Some(id) if is_valid(id) => id.clone(),
            _ => self.generators.get_or_default().generate(),
        }
    }
}

impl Default for Generator {
    fn default() -> Self {
        let random = RandomState::new().hash_one(std::process::id());
        Self { prefix: format!("{random:016x}-"), next_number: Cell::new(0) }
    }
}

impl Generator {
    fn generate(&self) -> HeaderValue {
        let number = self.next_number.get();
        self.next_number.set(number.wrapping_add(1));
        let id = [self.prefix.as_str(), itoa::Buffer::new().format(number)].concat();
        HeaderValue::try_from(id).expect("letters, digits and a dash are a header value")
    }
}

fn is_valid(id: &HeaderValue) -> bool {
    let mut bytes = id.as_bytes().iter();
    (1..=MAX_ID_BYTES).contains(&id.len())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(byte))
}
