//! `POST /rpc/{chain}`: JSON-RPC 2.0, single or batch.
//!
//! Every JSON-RPC answer has HTTP status 200, errors included; a request of notifications alone has
//! 204. Nothing is done for a notification: all that is allowed by itself are reads.

mod delivery;
mod envelope;

use std::time::Instant;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use serde_json::value::RawValue;

use super::described::{OfEveryRoute, OfRequestBodies, RpcAnswer, RpcRequest, UnknownChain, tag};
use super::extract::OfChain;
use super::intake;
use super::problem::Problem;
use crate::clients::Purse;
use crate::reads::{Answer, ChainReads, Reads};
use delivery::Delivery;
use envelope::{Asked, Envelope, RpcError};

/// Members of one batch that are worked on at a time: one batch does not take all of a chain's
/// calls.
const BATCH_WIDTH: usize = 16;

/// Read the state of one chain
///
/// Answers one JSON-RPC 2.0 call, or a batch of them in its order.
#[utoipa::path(
    post,
    path = "/rpc/{chain}",
    operation_id = "callRpc",
    tag = tag::RPC,
    params(OfChain),
    request_body(content = RpcRequest, content_type = "application/json"),
    responses(OfEveryRoute, OfRequestBodies, RpcAnswer, UnknownChain)
)]
pub(super) async fn call(
    State(reads): State<Reads>,
    chain: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let chain = chain.ok().and_then(|Path(name)| reads.chain(&name));
    let chain = chain.ok_or_else(Problem::unknown_chain)?;
    let purse = Purse::of(&request);
    let body = intake::read(request, reads.limits().max_body, reads.memory()).await?;
    let max_batch = reads.limits().max_batch.get();
    // Also for what a batch leaves for later: its client waits for all of it.
    let until = reads.deadline();
    let delivery = match Envelope::of(&body, max_batch) {
        Err(error) => Delivery::of_error(None, &error),
        Ok(Envelope::Single(member)) => answer(chain, member, until).await,
        Ok(Envelope::Batch(members)) => {
            // The request itself has been paid for.
            purse.spend(members.len().saturating_sub(1)).map_err(Problem::rate_limited)?;
            let answers: Vec<_> =
                members.into_iter().map(|member| answer(chain, member, until)).collect();
            let mut answers = stream::iter(answers).buffered(BATCH_WIDTH);
            let mut batch = Delivery::batch(reads.memory());
            while let Some(one) = answers.next().await {
                batch.append(one).map_err(|_| Problem::overloaded())?;
            }
            batch
        }
    };
    Ok(delivery.into_response())
}

/// What there is to say to one member.
async fn answer(chain: &ChainReads, member: &RawValue, until: Instant) -> Delivery {
    match Asked::of(member) {
        Ok(Asked::Notification) => Delivery::default(),
        Ok(Asked::Call { id, method, params }) => {
            match chain.answer(&method, params, until).await {
                Ok(Answer::Result(result)) => Delivery::of(Some(id), "result", result),
                Ok(Answer::Error(error)) => Delivery::of(Some(id), "error", error),
                Err(refusal) => Delivery::of_error(Some(id), &RpcError::of_refusal(&refusal)),
            }
        }
        Err((id, error)) => Delivery::of_error(id, &error),
    }
}

impl IntoResponse for Delivery {
    fn into_response(self) -> Response {
        match self.into_body() {
            Some(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            None => StatusCode::NO_CONTENT.into_response(),
        }
    }
}
