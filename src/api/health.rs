//! `GET /livez` and `GET /readyz`.

use axum::Json;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::http::problem::{Problem, ProblemCode};
use crate::store::ChainStore;

/// State of the readiness probe.
#[derive(Debug, Clone)]
pub struct ReadinessState {
    store: ChainStore,
    shutdown: CancellationToken,
}

impl ReadinessState {
    /// Creates a state that is ready once every chain of `store` was polled and one of them has data, until `shutdown`
    /// is cancelled.
    #[must_use]
    pub fn new(store: ChainStore, shutdown: CancellationToken) -> Self {
        Self { store, shutdown }
    }
}

#[derive(Serialize, ToSchema)]
struct HealthBody {
    #[schema(inline)]
    status: HealthStatus,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum HealthStatus {
    Live,
    Ready,
}

/// Liveness: the process responds
///
/// Also at the root, whatever the base path is.
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "getLiveness",
    tag = "Operation",
    responses(
        (status = 200, description = "The check succeeded.", body = HealthBody,
            headers(("Cache-Control"))),
    )
)]
pub(crate) async fn get_liveness() -> Response {
    HealthStatus::Live.into_response()
}

/// Readiness: there is data to serve, and the service is not shutting down
///
/// Also at the root, whatever the base path is.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "getReadiness",
    tag = "Operation",
    responses(
        (status = 200, description = "The check succeeded.", body = HealthBody,
            headers(("Cache-Control"))),
    )
)]
pub(crate) async fn get_readiness(
    State(health): State<ReadinessState>,
) -> Result<Response, Problem> {
    if health.shutdown.is_cancelled() {
        return Err(Problem::new(ProblemCode::NotReady, "the service is shutting down"));
    }
    if !health.store.has_any_data() {
        return Err(Problem::new(ProblemCode::NotReady, "no chain has been read yet"));
    }
    // Without this check a new instance would get requests for chains that it can serve a moment later.
    if !health.store.all_first_polls_done() {
        return Err(Problem::new(ProblemCode::NotReady, "not every chain has been polled yet"));
    }
    Ok(HealthStatus::Ready.into_response())
}

impl IntoResponse for HealthStatus {
    fn into_response(self) -> Response {
        ([(CACHE_CONTROL, "no-store")], Json(HealthBody { status: self })).into_response()
    }
}
