//! `GET /livez` and `GET /readyz`.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tokio_util::sync::CancellationToken;

use super::described::{Alive, NotReady, OfEveryRoute, tag};
use super::problem::{Code, Problem};
use crate::book::Book;

/// Whether traffic should come here.
#[derive(Debug, Clone)]
pub struct Health {
    book: Book,
    stop: CancellationToken,
}

impl Health {
    /// Ready once every chain of `book` was polled and any was read, until `stop`.
    #[must_use]
    pub fn new(book: Book, stop: CancellationToken) -> Self {
        Self { book, stop }
    }

    /// Cancelled when the service is about to stop.
    pub(super) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }
}

/// Whether the process answers
///
/// It is answered at the root too, whatever the base path is.
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "getLiveness",
    tag = tag::OPERATION,
    responses(OfEveryRoute, Alive)
)]
pub(super) async fn live() -> Response {
    ok("live")
}

/// Whether there is something to serve, and the service is not about to stop
///
/// It is answered at the root too, whatever the base path is.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "getReadiness",
    tag = tag::OPERATION,
    responses(OfEveryRoute, Alive, NotReady)
)]
pub(super) async fn ready(State(health): State<Health>) -> Result<Response, Problem> {
    if health.stop.is_cancelled() {
        return Err(Problem::new(Code::NotReady, "the service is stopping"));
    }
    if !health.book.has_read_any() {
        return Err(Problem::new(Code::NotReady, "no chain was read yet"));
    }
    // Else a new instance would get requests for chains that it can answer a moment later.
    if !health.book.has_polled_all() {
        return Err(Problem::new(Code::NotReady, "not every chain was polled yet"));
    }
    Ok(ok("ready"))
}

fn ok(status: &'static str) -> Response {
    let body = format!("{{\"status\":\"{status}\"}}");
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}
