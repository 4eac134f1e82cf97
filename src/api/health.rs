//! `GET /livez` and `GET /readyz`.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tokio_util::sync::CancellationToken;

use super::openapi_components::{CommonErrors, HealthResponse, NotReady, tag};
use super::problem::{Problem, ProblemCode};
use crate::store::ChainStore;

/// True if traffic should come here.
#[derive(Debug, Clone)]
pub struct ReadinessState {
    store: ChainStore,
    shutdown: CancellationToken,
}

impl ReadinessState {
    /// Ready once every chain of `book` was polled and any was read, until `stop`.
    #[must_use]
    pub fn new(store: ChainStore, shutdown: CancellationToken) -> Self {
        Self { store, shutdown }
    }

    /// Cancelled when the service is about to stop.
    pub(super) fn shutdown_token(&self) -> CancellationToken {
        self.shutdown.clone()
    }
}

/// True if the process answers
///
/// It is answered at the root too, whatever the base path is.
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "getLiveness",
    tag = tag::OPERATION,
    responses(CommonErrors, HealthResponse)
)]
pub(super) async fn get_liveness() -> Response {
    status_response("live")
}

/// True if there is something to serve, and the service is not about to stop
///
/// It is answered at the root too, whatever the base path is.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "getReadiness",
    tag = tag::OPERATION,
    responses(CommonErrors, HealthResponse, NotReady)
)]
pub(super) async fn get_readiness(
    State(health): State<ReadinessState>,
) -> Result<Response, Problem> {
    if health.shutdown.is_cancelled() {
        return Err(Problem::new(ProblemCode::NotReady, "the service is shutting down"));
    }
    if !health.store.has_any_data() {
        return Err(Problem::new(ProblemCode::NotReady, "no chain has been read yet"));
    }
    // Else a new instance would get requests for chains that it can answer a moment later.
    if !health.store.all_first_polls_done() {
        return Err(Problem::new(ProblemCode::NotReady, "not every chain has been polled yet"));
    }
    Ok(status_response("ready"))
}

fn status_response(status: &'static str) -> Response {
    let body = format!("{{\"status\":\"{status}\"}}");
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}
