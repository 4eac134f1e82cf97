//! Replies to reads, byte for byte.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::nodes::reply::{
    NodeError, ReplyContent, apply_status, names_rate_limit, parse_content, replace_bare_numbers,
};
use crate::nodes::{Error, HttpStatus};
use crate::observe::memory_budget::Reservation;

/// A node's response to a read, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeResponse {
    /// The `result`.
    Result(Bytes),
    /// The node's own `error` object, with an integer code and a message.
    Error(Bytes),
}

/// Parses `body` as the reply to call `id`, including null results and errors of the call.
///
/// # Errors
///
/// Error that concerns the node rather than the call, such as a rate limit, a missing method or an invalid body.
pub(super) fn parse_reply(
    body: &Bytes,
    status: HttpStatus,
    id: u64,
) -> Result<NodeResponse, Error> {
    let parse = |body: &Bytes| {
        let extract = |json: &RawValue| {
            let json = json.get().as_bytes();
            // A small slice must not keep a large reply in memory.
            let should_slice =
                json.len() > Reservation::FREE_BYTES || body.len() <= 2 * Reservation::FREE_BYTES;
            if should_slice { body.slice_ref(json) } else { Bytes::copy_from_slice(json) }
        };
        match parse_content(body, status, id)? {
            ReplyContent::Result(result) => Ok(NodeResponse::Result(extract(result))),
            ReplyContent::Error(object) => {
                let error = NodeError::parse(object);
                if is_rate_limit(&error) {
                    return Err(Error::RateLimited(None));
                }
                if error.code() == Some(NodeError::METHOD_NOT_FOUND) {
                    return Err(Error::Unsupported);
                }
                if !is_well_formed(&error) {
                    return Err(Error::InvalidReply("an error without a code and a message"));
                }
                Ok(NodeResponse::Error(extract(object)))
            }
        }
    };
    let outcome = parse(body).or_else(|error| match replace_bare_numbers(body, &error) {
        // Keeps the original and its reservation, because the rewritten reply has about the same size.
        Some(json) => parse(&Bytes::from_owner(RewrittenReply { json, _source: body.clone() })),
        None => Err(error),
    });
    apply_status(status, outcome)
}

/// A reply with invalid tokens replaced. Keeps the original's memory reserved.
struct RewrittenReply {
    json: Vec<u8>,
    _source: Bytes,
}

impl AsRef<[u8]> for RewrittenReply {
    fn as_ref(&self) -> &[u8] {
        &self.json
    }
}

/// Returns true if the error is valid JSON-RPC.
fn is_well_formed(error: &NodeError<'_>) -> bool {
    let code = error.code.and_then(|code| code.get().parse::<i64>().ok());
    code.is_some() && error.message().starts_with('"')
}

/// Returns true if the error is a rate limit. Some nodes use the same codes for too many results or slow calls, so the
/// message decides: a client must not be able to make the service pause a node.
fn is_rate_limit(error: &NodeError<'_>) -> bool {
    let has_code = error.code().is_some_and(|code| NodeError::RATE_LIMIT_CODES.contains(&code));
    has_code && names_rate_limit(error.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_accepts_null_results_and_node_errors() {
        let parse_outcome =
            |body: &str| match parse_reply(&Bytes::copy_from_slice(body.as_bytes()), 200.into(), 7)
            {
                Ok(NodeResponse::Result(json)) => {
                    format!("result {}", String::from_utf8_lossy(&json))
                }
                Ok(NodeResponse::Error(json)) => {
                    format!("error {}", String::from_utf8_lossy(&json))
                }
                Err(error) => error.reason().to_owned(),
            };
        assert_eq!(parse_outcome(r#"{"id":7,"result": null}"#), "result null");
        assert_eq!(parse_outcome(r#"{"id":7,"result":[NaN, "NaN"]}"#), r#"result [null, "NaN"]"#);
        let error_outcome = |error: &str| parse_outcome(&format!("{{\"id\":7,\"error\":{error}}}"));
        for error in [
            r#"{ "code":3,"message":"execution reverted","data":"0x" }"#,
            r#"{"code":-32602,"message":""}"#,
            r#"{"code":-32000,"message":"beyond head"}"#,
            r#"{"code":-32005,"message":"query returned more than 10000 results"}"#,
            r#"{"code":-32005,"message":"limit exceeded"}"#,
            // A client chooses the parameters of a read, and nodes repeat them.
            r#"{"code":-32000,"message":"429 Too Many Requests: {}"}"#,
            r#"{"code":-32016,"message":"eth_call request was canceled due to enabled timeout."}"#,
            r#"{"code":-32005,"message":"generate fewer results in separate requests"}"#,
            r#"{"code":-32004,"message":"not supported"}"#,
        ] {
            assert_eq!(error_outcome(error), format!("error {error}"));
        }
        for code in NodeError::RATE_LIMIT_CODES {
            let error = format!("{{\"code\":{code},\"message\":\"over Rate limit\"}}");
            assert_eq!(error_outcome(&error), "rate_limited");
        }
        assert_eq!(error_outcome(r#"{"code":-32601,"message":"no"}"#), "unsupported");
        for error in ["\"no\"", "{}", r#"{"code":"3","message":""}"#, r#"{"code":3,"message":1}"#] {
            assert_eq!(error_outcome(error), "invalid_reply", "{error}");
        }
        assert_eq!(parse_outcome(r#"{"id":7}"#), "invalid_reply");
        assert_eq!(parse_outcome(r#"{"id":8,"result":1}"#), "invalid_reply");
    }
}
