//! `POST /rpc/{chain}`: JSON-RPC 2.0, single or batch.
//!
//! JSON-RPC responses have HTTP status 200, errors included. A request with notifications only gets 204. Notifications
//! are ignored: every allowed method is a read, which is useless without a response.

mod openapi;
mod request;
mod response;
mod section;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use futures_util::stream::{self, StreamExt};
use serde_json::value::RawValue;
use utoipa::OpenApi;
use utoipa::openapi::RefOr;

use crate::api::extractors::ChainParam;
use crate::api::routes::{routes, with_schemas};
use crate::assembly::{Assembly, Extra};
use crate::extras::reads::{Caller, ChainReads, NodeResponse, Reads};
use crate::http::chunked_body::Charged;
use crate::http::client_limits::ClientHandle;
use crate::http::problem::Problem;
use crate::http::request_body;
use crate::observe::memory_budget::{MemoryBudget, MemoryExhausted};
use openapi::{RpcCall, RpcRequest, RpcResponseBody};
use request::{RequestObject, RpcError, RpcPayload};
use response::RpcResponseBuilder;
use section::{READ_KEYS, Rpc};

pub(crate) const EXTRA: Extra =
    Extra { name: "rpc", sections: &[Rpc::SECTION, READ_KEYS], command: None, join };

/// State of the route. Cheap to clone.
#[derive(Debug, Clone)]
struct RpcState {
    reads: Reads,
    config: Rpc,
}

/// Adds the route, and offers [`Reads`] to other extras.
fn join(assembly: &mut Assembly) -> anyhow::Result<()> {
    let config: Rpc = assembly.config.section();
    let state = RpcState { reads: Reads::offer(assembly, config.limits()), config };
    let is_on = state.reads.chains().iter().any(|chain| chain.keys.json_rpc);
    // ethers does not follow a redirect, so a slash at the end is the same route.
    let with_slash = Router::new().route(PATH_WITH_SLASH, post(call_rpc)).with_state(state.clone());
    let mut route = with_schemas::<Schemas, _>().routes(routes!(call_rpc));
    for item in route.get_openapi_mut().paths.paths.values_mut() {
        if let Some(RefOr::T(body)) = item.post.as_mut().and_then(|post| post.request_body.as_mut())
        {
            // A missing body gets the same error as any other invalid one.
            body.required = None;
        }
    }
    let route = route.with_state(state);
    let routes = &mut assembly.routes;
    routes.hidden.push(with_slash);
    if is_on {
        routes.timed.push(route);
        routes.costly.extend([PATH, PATH_WITH_SLASH]);
    } else {
        // The route says which key of the chain switches it on.
        routes.hidden.push(route.into());
    }
    Ok(())
}

#[derive(OpenApi)]
#[openapi(components(schemas(RpcCall)))]
struct Schemas;

const TAG: &str = "JSON-RPC";
const PATH: &str = "/rpc/{chain}";
const PATH_WITH_SLASH: &str = "/rpc/{chain}/";

/// Calls of one batch that run concurrently. Limits a batch's share of the chain's concurrent calls.
const BATCH_CONCURRENCY: usize = 16;

/// Read the state of one chain
///
/// Accepts one JSON-RPC 2.0 call, or a batch. The responses of a batch are in its order.
#[utoipa::path(
    post,
    path = PATH,
    operation_id = "callRpc",
    tag = TAG,
    params(ChainParam),
    request_body(content = RpcRequest, content_type = "application/json"),
    responses(
        (status = 200,
            description = "A JSON-RPC response, also for errors; for a batch a list of responses.",
            body = RpcResponseBody),
        (status = 204, description = "All calls were notifications."),
    )
)]
async fn call_rpc(
    State(RpcState { reads, config: rpc }): State<RpcState>,
    chain: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let name = chain.map_or_else(|_| String::new(), |Path(name)| name);
    let chain = reads.chain(&name).ok_or_else(|| {
        let keys = reads.chains().iter().map(|chain| chain.chain().config().key.as_str());
        Problem::unknown_chain(&name, keys)
    })?;
    let config = chain.chain().config();
    if !chain.keys.json_rpc {
        let switch = format!("set chains.{}.json_rpc = true", config.key);
        return Err(Problem::switched_off("JSON-RPC", &switch));
    }
    let client = ClientHandle::from_request(&request);
    let body = request_body::read_body(request, rpc.max_body, reads.memory()).await?;
    // One deadline for the whole batch, because the client waits for all of it.
    let caller = Caller { client: &client, deadline: reads.deadline(), is_clients_call: true };
    let payload = RpcPayload::parse(&body);
    let calls = if let Ok(RpcPayload::Batch(members)) = &payload { members.len() } else { 1 };
    client.charge_request(calls).map_err(Problem::rate_limited)?;
    let response = match payload {
        Err(error) => RpcResponseBuilder::from_error(None, &error),
        Ok(RpcPayload::Single(member)) => execute_member(chain, member, caller).await,
        Ok(RpcPayload::Batch(members)) => {
            if members.len() > rpc.max_batch.get() {
                let error = RpcError::batch_too_long(rpc.max_batch.get(), members.len());
                let rejected = reject_batch(&members, &error, reads.memory());
                return Ok(rejected?.into_response());
            }
            let responses: Vec<_> =
                members.into_iter().map(|member| execute_member(chain, member, caller)).collect();
            let concurrency = BATCH_CONCURRENCY.min(rpc.limits().max_in_flight_per_client());
            let mut responses = stream::iter(responses).buffered(concurrency);
            let mut batch = RpcResponseBuilder::for_batch(reads.memory());
            while let Some(response) = responses.next().await {
                batch.append(response)?;
            }
            batch
        }
    };
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
