//! `GET /v1/{chain}/score`: how the suggestions that were served did.

use axum::extract::State;
use axum::response::Response;

use super::state::Scores;
use super::summary::Score;
use crate::api::extractors::ChainParam;
use crate::api::freshness::{snapshot_response, tagged_json};
use crate::api::problems;
use crate::api::render_cache::{ServedState, json_bytes};
use crate::http::problem::Problem;
use crate::observe::clock;

/// How the suggestions that were served did
///
/// Each suggestion is graded by the blocks that followed it. "Covered" compares its max fee with their base fees.
/// "Outbid" compares its tip with the rewards of the next block. No transaction was sent, so a grade does not say that
/// one was included. A restart begins anew.
#[utoipa::path(
    get,
    path = "/v1/{chain}/score",
    operation_id = "getScore",
    tag = "Gas",
    params(ChainParam),
    responses(
        (status = 200, description = "The score.", body = Score,
            headers(("ETag"), ("Cache-Control"), ("Age"), ("X-Newest-Block"), ("X-Stale"))),
    )
)]
pub(super) async fn get_score(
    State(scores): State<Scores>,
    ChainParam(chain): ChainParam,
) -> Result<Response, Problem> {
    let read = chain.read_together(|_| {
        let current = chain.servable_snapshot()?;
        let state = ServedState::new(&chain, &current);
        let body = scores.bodies.get_or_render(&chain, state, (), || {
            json_bytes(&scores.scorer(&chain).lock().score(clock::now()))
        });
        Ok((current, body))
    });
    let (current, body) = read.map_err(|reason| problems::unavailable(&chain, reason))?;
    Ok(snapshot_response(&chain, &current, tagged_json(body)))
}
