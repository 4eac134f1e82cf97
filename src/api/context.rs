//! What every exchange carries: a request id, and a problem body where it failed.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

use super::problem::Problem;

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is taken over from a client.
const MAX_ID_BYTES: usize = 64;

/// Makes ids that no other process makes: a random half and a counter.
#[derive(Debug, Clone)]
pub(super) struct RequestIds {
    process: u64,
    next: Arc<AtomicU64>,
}

impl RequestIds {
    pub(super) fn new() -> Self {
        let process = RandomState::new().hash_one(std::process::id());
        Self { process, next: Arc::default() }
    }

    fn make(&self) -> HeaderValue {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:016x}{count:016x}", self.process);
        HeaderValue::try_from(id).expect("hex digits are a header value")
    }
}

/// Gives the exchange the client's request id, or one of ours when that is absent or unfit to be
/// repeated in a log, and turns every error into a problem body, the framework's own included.
pub(super) async fn carry(
    State(ids): State<RequestIds>,
    mut request: Request,
    next: Next,
) -> Response {
    let given = request.headers().get(&X_REQUEST_ID).filter(|id| is_plain(id)).cloned();
    let id = given.unwrap_or_else(|| ids.make());
    request.headers_mut().insert(X_REQUEST_ID, id.clone());
    let mut response = next.run(request).await;
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        write_problem(&mut response, id.to_str().unwrap_or_default());
    }
    response.headers_mut().insert(X_REQUEST_ID, id);
    response
}

fn is_plain(id: &HeaderValue) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:".contains(byte);
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.as_bytes().iter().all(plain)
}

fn write_problem(response: &mut Response, request_id: &str) {
    let status = response.status();
    let problem = response
        .extensions_mut()
        .remove::<Problem>()
        .unwrap_or_else(|| Problem::of_framework(status));
    *response.body_mut() = Body::from(problem.body(request_id));
    response.headers_mut().remove(header::CONTENT_LENGTH);
    problem.write_headers(response.headers_mut());
}
