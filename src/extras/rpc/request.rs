//! JSON-RPC 2.0 requests, and the codes of their errors.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::extras::reads::json::parse_string;
use crate::extras::reads::{ReadError, ReadRejection};
use crate::nodes::reply::present;

/// Body split into its requests, each still raw JSON.
#[derive(Debug)]
pub(crate) enum RpcPayload<'a> {
    Single(&'a RawValue),
    /// Has at least one member.
    Batch(Vec<&'a RawValue>),
}

/// A parsed member.
#[derive(Debug)]
pub(crate) enum RequestObject<'a> {
    Call {
        /// A string, a number or null, byte for byte.
        id: &'a RawValue,
        method: Cow<'a, str>,
        /// An array or an object. `None`: absent or null, which some clients send instead.
        params: Option<&'a RawValue>,
    },
    /// A call without an id. It gets no response.
    Notification,
}

// A JSON-RPC error of the service itself. Its description is also that of nodes' errors.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct RpcError {
    code: i64,
    message: Cow<'static, str>,
    // `retry_after`: seconds after which the same call may succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    data: Option<Value>,
}

impl<'a> RpcPayload<'a> {
    /// Parses `body`.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, RpcError> {
        let not_json = |_| RpcError::new(RpcError::PARSE, "the body is not JSON");
        let json: &RawValue = serde_json::from_slice(body).map_err(not_json)?;
        if !json.get().starts_with('[') {
            return Ok(Self::Single(json));
        }
        let members: Vec<&RawValue> = serde_json::from_str(json.get()).map_err(not_json)?;
        if members.is_empty() {
            return Err(RpcError::invalid_request("the batch is empty"));
        }
        Ok(Self::Batch(members))
    }
}

impl<'a> RequestObject<'a> {
    /// Longest accepted id. Every response repeats the id of its call.
    const MAX_ID_BYTES: usize = 64;

    /// Parses one member.
    ///
    /// # Errors
    ///
    /// Returns the error and the id of the request, if that is valid.
    pub(crate) fn parse(member: &'a RawValue) -> Result<Self, (Option<&'a RawValue>, RpcError)> {
        #[derive(Deserialize)]
        struct RawRequest<'a> {
            #[serde(borrow, default, deserialize_with = "present")]
            jsonrpc: Option<&'a RawValue>,
            #[serde(borrow, default, deserialize_with = "present")]
            id: Option<&'a RawValue>,
            #[serde(borrow, default, deserialize_with = "present")]
            method: Option<&'a RawValue>,
            #[serde(borrow, default, deserialize_with = "present")]
            params: Option<&'a RawValue>,
        }
        // A derived deserializer would also accept an array of the members in order.
        let is_object = member.get().starts_with('{');
        let Some(member) =
            is_object.then(|| serde_json::from_str::<RawRequest>(member.get()).ok()).flatten()
        else {
            let error =
                RpcError::invalid_request("a request must be an object without duplicate members");
            return Err((None, error));
        };
        let id = match member.id {
            Some(id) if !is_id(id) => {
                let message = "id must be a string, a number or null, of at most 64 bytes";
                return Err((None, RpcError::invalid_request(message)));
            }
            id => id,
        };
        let invalid_request = |message: &'static str| Err((id, RpcError::invalid_request(message)));
        if member.jsonrpc.is_none_or(|version| parse_string(version).as_deref() != Some("2.0")) {
            return invalid_request("jsonrpc must be \"2.0\"");
        }
        let Some(method) = member.method.and_then(parse_string) else {
            return invalid_request("method must be a string");
        };
        let params = member.params.filter(|params| params.get() != "null");
        if params.is_some_and(|params| !params.get().starts_with(['[', '{'])) {
            return invalid_request("params must be an array");
        }
        Ok(match id {
            Some(id) => Self::Call { id, method, params },
            None => Self::Notification,
        })
    }
}

fn is_id(json: &RawValue) -> bool {
    let json = json.get();
    let is_scalar = json == "null"
        || json.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit());
    is_scalar && json.len() <= RequestObject::MAX_ID_BYTES
}

impl RpcError {
    const PARSE: i64 = -32700;
    const INVALID_REQUEST: i64 = -32600;
    const METHOD_NOT_FOUND: i64 = -32601;
    const INVALID_PARAMS: i64 = -32602;
    /// EIP-1474: resource unavailable.
    const UNAVAILABLE: i64 = -32002;
    /// EIP-1474: limit exceeded. Clients retry later.
    const LIMIT_EXCEEDED: i64 = -32005;

    fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Self::INVALID_REQUEST, message)
    }

    /// Creates the error of a batch with more than `max_batch` calls.
    pub(crate) fn batch_too_long(max_batch: usize, count: usize) -> Self {
        Self::invalid_request(format!("a batch may have at most {max_batch} calls, not {count}"))
    }

    /// Converts a rejected read into an error. The messages are the service's own, never a node's.
    pub(crate) fn from_rejection(rejection: &ReadRejection) -> Self {
        let (code, retry_after) = match rejection {
            ReadRejection::NotAllowed | ReadRejection::Failed(ReadError::Unsupported) => {
                (Self::METHOD_NOT_FOUND, None)
            }
            ReadRejection::InvalidParams(_) => (Self::INVALID_PARAMS, None),
            ReadRejection::Overloaded
            | ReadRejection::TooManyPerClient
            | ReadRejection::Failed(ReadError::NoMemory) => (Self::LIMIT_EXCEEDED, Some(1)),
            ReadRejection::Failed(ReadError::BudgetExhausted(exhausted)) => {
                (Self::LIMIT_EXCEEDED, Some(exhausted.retry_after()))
            }
            ReadRejection::Failed(ReadError::RateLimited(wait)) => {
                (Self::LIMIT_EXCEEDED, Some(wait.as_secs().saturating_add(1)))
            }
            ReadRejection::Failed(ReadError::TooLarge) => (Self::LIMIT_EXCEEDED, None),
            ReadRejection::NoSuggestion
            | ReadRejection::Failed(ReadError::TimedOut | ReadError::Unavailable) => {
                (Self::UNAVAILABLE, None)
            }
        };
        let data = retry_after.map(|seconds| json!({ "retry_after": seconds }));
        Self { data, ..Self::new(code, rejection.to_string()) }
    }
}
