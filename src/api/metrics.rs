//! `GET /metrics`, on the admin listener only.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::observe::metrics::Metrics;

/// Returns all metrics, in the Prometheus text format.
pub(crate) async fn get_metrics(State(metrics): State<Metrics>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, metrics.render()).into_response()
}
