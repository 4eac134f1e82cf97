//! `POST /rpc/{chain}`: JSON-RPC 2.0, single or batch.
//!
//! JSON-RPC responses have HTTP status 200, errors included. A request with notifications only gets 204. Notifications
//! are ignored: every allowed method is a read, which is useless without a response.

pub mod reads;
mod request;
mod response;
pub(crate) mod section;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use serde_json::value::RawValue;

use crate::api::openapi::components::{
    CommonErrors, PayloadTooLarge, UnknownChain, UnsupportedMediaType,
};
use crate::api::openapi::schemas::{RpcRequest, RpcResponseBody};
use crate::http::chunked_body::Charged;
use crate::http::client_limits::ClientHandle;
use crate::http::extractors::ChainParam;
use crate::http::problem::Problem;
use crate::http::request_body;
use crate::observe::memory_budget::{MemoryBudget, MemoryExhausted};
use reads::{Caller, ChainReads, NodeResponse, Reads};
use request::{RequestObject, RpcError, RpcPayload};
use response::RpcResponseBuilder;

/// Calls of one batch that run concurrently. Limits a batch's share of the chain's concurrent calls.
const BATCH_CONCURRENCY: usize = 16;

/// Read the state of one chain
///
/// Accepts one JSON-RPC 2.0 call, or a batch. The responses of a batch are in its order.
#[utoipa::path(
    post,
    path = "/rpc/{chain}",
    operation_id = "callRpc",
    tag = "JSON-RPC",
    params(ChainParam),
    request_body(content = RpcRequest, content_type = "application/json"),
    responses(
        CommonErrors, PayloadTooLarge, UnsupportedMediaType, UnknownChain,
        (status = 200,
            description = "A JSON-RPC response, also for errors; for a batch a list of responses.",
            body = inline(RpcResponseBody)),
        (status = 204, description = "All calls were notifications."),
    )
)]
pub(crate) async fn call_rpc(
    State(reads): State<Reads>,
    chain: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let name = chain.map_or_else(|_| String::new(), |Path(name)| name);
    let chain = reads.chain(&name).ok_or_else(|| Problem::unknown_chain(&name, reads.keys()))?;
    let config = chain.chain().config();
    if !config.json_rpc {
        return Err(Problem::json_rpc_off(&config.key));
    }
    let client = ClientHandle::from_request(&request);
    let body = request_body::read_body(request, reads.limits().max_body, reads.memory()).await?;
    // One deadline for the whole batch, because the client waits for all of it.
    let caller = Caller { client: &client, deadline: reads.deadline() };
    let response = match RpcPayload::parse(&body) {
        Err(error) => RpcResponseBuilder::from_error(None, &error),
        Ok(RpcPayload::Single(member)) => execute_member(chain, member, caller).await,
        Ok(RpcPayload::Batch(members)) => {
            // The first call is already paid for by the request.
            client.check_rate(members.len().saturating_sub(1)).map_err(Problem::rate_limited)?;
            let max_batch = reads.limits().max_batch.get();
            if members.len() > max_batch {
                let error = RpcError::batch_too_long(max_batch, members.len());
                let rejected = reject_batch(&members, &error, reads.memory());
                return Ok(rejected.map_err(|_| Problem::overloaded())?.into_response());
            }
            let responses: Vec<_> =
                members.into_iter().map(|member| execute_member(chain, member, caller)).collect();
            let concurrency = BATCH_CONCURRENCY.min(reads.limits().max_in_flight_per_client());
            let mut responses = stream::iter(responses).buffered(concurrency);
            let mut batch = RpcResponseBuilder::for_batch(reads.memory());
            while let Some(response) = responses.next().await {
                batch.append(response).map_err(|_| Problem::overloaded())?;
            }
            batch
        }
    };
    client.charge_response(response.size());
    Ok(response.into_response())
}

/// Responds to a batch with `error` for each id: some clients fail on a single error. Members without a readable id get
/// no response, to limit its size. If no response remains, `error` is the only one, except after notifications only.
fn reject_batch(
    members: &[&RawValue],
    error: &RpcError,
    memory: &MemoryBudget,
) -> Result<RpcResponseBuilder, MemoryExhausted> {
    let mut ids = Vec::new();
    let mut has_unreadable_id = false;
    for member in members {
        match RequestObject::parse(member) {
            Ok(RequestObject::Call { id, .. }) | Err((Some(id), _)) => ids.push(id),
            Ok(RequestObject::Notification) => {}
            Err((None, _)) => has_unreadable_id = true,
        }
    }
    match (ids.is_empty(), has_unreadable_id) {
        (false, _) => RpcResponseBuilder::for_rejected_batch(&ids, error, memory),
        (true, true) => Ok(RpcResponseBuilder::from_error(None, error)),
        (true, false) => Ok(RpcResponseBuilder::default()),
    }
}

/// Executes one member of the request. Returns an empty response for a notification.
async fn execute_member(
    chain: &ChainReads,
    member: &RawValue,
    caller: Caller<'_>,
) -> RpcResponseBuilder {
    match RequestObject::parse(member) {
        Ok(RequestObject::Notification) => RpcResponseBuilder::default(),
        Ok(RequestObject::Call { id, method, params }) => {
            match chain.call(&method, params, caller).await {
                Ok(NodeResponse::Result(result)) => {
                    RpcResponseBuilder::for_call(Some(id), "result", result)
                }
                Ok(NodeResponse::Error(error)) => {
                    RpcResponseBuilder::for_call(Some(id), "error", error)
                }
                Err(rejection) => {
                    RpcResponseBuilder::from_error(Some(id), &RpcError::from_rejection(&rejection))
                }
            }
        }
        Err((id, error)) => RpcResponseBuilder::from_error(id, &error),
    }
}

impl IntoResponse for RpcResponseBuilder {
    fn into_response(self) -> Response {
        match self.into_body() {
            Some(body) => ([(header::CONTENT_TYPE, "application/json")], Extension(Charged), body)
                .into_response(),
            None => StatusCode::NO_CONTENT.into_response(),
        }
    }
}
