//! Descriptions of the bodies of JSON-RPC.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use serde_json::Value;
use utoipa::openapi::schema::{AllOfBuilder, ArrayBuilder, SchemaType};
use utoipa::openapi::{Object, ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::request::RpcError;
use crate::api::openapi::schema_ref;

#[derive(ToSchema)]
enum JsonRpcVersion {
    #[schema(rename = "2.0")]
    V2,
}

/// An `RpcCall` or a list of them. Any other body gets status 200 with a JSON-RPC error, so this schema allows it.
#[derive(ToSchema)]
pub(crate) struct RpcRequest(Value);

/// A JSON-RPC 2.0 call. Without `id` it is a notification, which is ignored.
#[derive(ToSchema)]
pub(crate) struct RpcCall {
    #[schema(inline)]
    jsonrpc: JsonRpcVersion,
    #[schema(schema_with = rpc_id, required = false)]
    id: Value,
    method: String,
    #[schema(schema_with = rpc_params, required = false)]
    params: Value,
}

/// A response for a call, or a list of them for a batch.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = RpcResponse)]
pub(crate) enum RpcResponseBody {
    Single(RpcOutcome),
    Batch(Vec<RpcBatchOutcome>),
}

/// An outcome in a batch. It has a name of its own, because some generators cannot tell a type from a list of it.
pub(crate) struct RpcBatchOutcome;

impl ToSchema for RpcBatchOutcome {}

impl PartialSchema for RpcBatchOutcome {
    fn schema() -> RefOr<Schema> {
        let outcome = AllOfBuilder::new().item(schema_ref::<RpcOutcome>());
        outcome.description(Some("A response in a batch.")).into()
    }
}

/// The outcome of a call: `result` or `error`.
#[derive(ToSchema)]
pub(crate) struct RpcOutcome {
    #[schema(inline)]
    jsonrpc: JsonRpcVersion,
    #[schema(schema_with = rpc_id)]
    id: Value,
    #[schema(required = false)]
    result: Value,
    #[schema(nullable = false)]
    error: Option<RpcError>,
}

fn rpc_id() -> Object {
    let types = SchemaType::from_iter([Type::String, Type::Number, Type::Null]);
    ObjectBuilder::new().schema_type(types).description(Some("The id of the call.")).build()
}

fn rpc_params() -> Schema {
    let types = SchemaType::from_iter([Type::Array, Type::Object, Type::Null]);
    ArrayBuilder::new()
        .schema_type(types)
        .items(ObjectBuilder::new().schema_type(SchemaType::AnyValue))
        .into()
}
