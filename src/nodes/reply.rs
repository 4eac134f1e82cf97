//! JSON-RPC 2.0 requests and replies as bytes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::present;
use super::{BodySnippet, Error};
use crate::observe::memory_budget::Reservation;

/// HTTP status of a node that limits the rate.
pub(crate) const TOO_MANY_REQUESTS: u16 = 429;

/// A call.
#[derive(Debug, Serialize)]
pub(crate) struct Request<'a, P: ?Sized> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
}

impl<'a, P: ?Sized> Request<'a, P> {
    pub(crate) fn new(id: u64, method: &'a str, params: &'a P) -> Self {
        Self { jsonrpc: "2.0", id, method, params }
    }
}

#[derive(Deserialize)]
struct RawReply<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    /// A null is a valid result.
    #[serde(default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// Outcome in the body of a reply.
enum ReplyContent<'a> {
    Result(&'a RawValue),
    Error(&'a RawValue),
}

/// A node's error object. Some nodes send a bare string, or the code as a string; then there is no code.
#[derive(Deserialize, Default)]
struct NodeError<'a> {
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
}

/// A node's response to a read, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeResponse {
    /// The `result`.
    Result(Bytes),
    /// The node's own `error` object, with an integer code and a message.
    Error(Bytes),
}

/// Parses the `result` of the reply to the call `id`. It must not be null.
///
/// The body takes precedence over the HTTP `status`: nodes send JSON-RPC errors with any status, and results with error
/// statuses. An error beside a result takes precedence.
///
/// # Errors
///
/// Returns the node's error, or why the body is not a valid reply.
pub fn parse_reply(body: &[u8], status: u16, id: u64) -> Result<Box<RawValue>, Error> {
    let parse = |body: &[u8]| match parse_content(body, status, id)? {
        ReplyContent::Result(result) if result.get() == "null" => {
            Err(Error::InvalidReply("no result"))
        }
        ReplyContent::Result(result) => Ok(result.to_owned()),
        ReplyContent::Error(error) => Err(NodeError::parse(error).classify()),
    };
    let outcome = parse(body).or_else(|error| match replace_bare_numbers(body, &error) {
        Some(json) => parse(&json),
        None => Err(error),
    });
    apply_status(status, outcome)
}

/// Parses `body` as the reply to call `id`, including null results and errors of the call.
///
/// # Errors
///
/// Error that concerns the node rather than the call, such as a rate limit, a missing method or an invalid body.
pub(crate) fn parse_read_reply(body: &Bytes, status: u16, id: u64) -> Result<NodeResponse, Error> {
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
                if error.is_rate_limit() {
                    return Err(Error::RateLimited(None));
                }
                if error.code() == Some(NodeError::METHOD_NOT_FOUND) {
                    return Err(Error::Unsupported);
                }
                if !error.is_well_formed() {
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

/// A 429 takes precedence over any body.
fn apply_status<T>(status: u16, outcome: Result<T, Error>) -> Result<T, Error> {
    if status == TOO_MANY_REQUESTS {
        outcome.map_err(|_| Error::RateLimited(None))
    } else {
        outcome
    }
}

/// Returns the message of the error in a reply.
pub(crate) fn error_message(body: &[u8]) -> Option<String> {
    let reply: RawReply = serde_json::from_slice(body).ok()?;
    serde_json::from_str(NodeError::parse(reply.error?).message?.get()).ok()
}

fn parse_content(body: &[u8], status: u16, id: u64) -> Result<ReplyContent<'_>, Error> {
    let reply: RawReply = match serde_json::from_slice(body) {
        // A derived deserializer would also accept an array of the members in order.
        Ok(reply) if body.trim_ascii_start().starts_with(b"{") => reply,
        Ok(_) => return Err(Error::InvalidReply("not a JSON-RPC reply")),
        Err(_) if !(200..300).contains(&status) => {
            return Err(Error::Status(status, BodySnippet::default()));
        }
        Err(error) if error.is_data() => return Err(Error::InvalidReply("not a JSON-RPC reply")),
        Err(_) => return Err(Error::NotJson(BodySnippet::default())),
    };
    if reply.result.is_none() && reply.error.is_none() && !(200..300).contains(&status) {
        return Err(Error::Status(status, BodySnippet::default()));
    }
    let has_matching_id = reply.id.is_some_and(|given| given.get() == id.to_string());
    if let Some(error) = reply.error {
        // An error may have a null id if the node could not parse the request.
        if reply.id.is_some() && !has_matching_id {
            return Err(Error::InvalidReply("the id does not match the call"));
        }
        return Ok(ReplyContent::Error(error));
    }
    if !has_matching_id {
        return Err(Error::InvalidReply("the id does not match the call"));
    }
    reply.result.map(ReplyContent::Result).ok_or(Error::InvalidReply("no result"))
}

impl<'a> NodeError<'a> {
    /// Codes of rate limits: EIP-1474, three providers, and HTTP.
    const RATE_LIMIT_CODES: [i64; 5] = [-32005, -32007, -32016, -32029, 429];
    /// JSON-RPC: method not found; EIP-1474: method not supported.
    const UNSUPPORTED_CODES: [i64; 2] = [Self::METHOD_NOT_FOUND, -32004];
    const METHOD_NOT_FOUND: i64 = -32601;

    fn parse(error: &'a RawValue) -> Self {
        let is_object = error.get().starts_with('{');
        is_object.then(|| serde_json::from_str(error.get()).ok()).flatten().unwrap_or_default()
    }

    fn code(&self) -> Option<i64> {
        self.code.and_then(|code| code.get().parse().ok())
    }

    /// Returns true if the error is valid JSON-RPC.
    fn is_well_formed(&self) -> bool {
        self.code().is_some() && self.message.is_some_and(|text| text.get().starts_with('"'))
    }

    /// Returns true if the error is a rate limit. Some nodes use the same codes for too many results or slow calls, so
    /// the message decides: a client must not be able to make the service pause a node.
    fn is_rate_limit(&self) -> bool {
        const RATE_LIMIT_PHRASES: [&str; 9] = [
            "rate limit",
            "rate-limit",
            "ratelimit",
            "too many requests",
            "request limit",
            "request count",
            "per second",
            "capacity",
            "quota",
        ];
        let has_rate_limit_code =
            self.code().is_some_and(|code| Self::RATE_LIMIT_CODES.contains(&code));
        let message = self.message.map(|message| message.get().to_ascii_lowercase());
        has_rate_limit_code
            && message.is_some_and(|text| RATE_LIMIT_PHRASES.iter().any(|word| text.contains(word)))
    }

    fn classify(&self) -> Error {
        let code = self.code();
        let message = self.message.map(|message| message.get().to_ascii_lowercase());
        match code {
            Some(code) if Self::RATE_LIMIT_CODES.contains(&code) => Error::RateLimited(None),
            Some(code) if Self::UNSUPPORTED_CODES.contains(&code) => Error::Unsupported,
            // geth and Hiero return this message for a block that does not exist yet. It has no code of its own.
            _ if message.is_some_and(|text| text.contains("beyond head")) => Error::BeyondHead,
            code => Error::Node(code, BodySnippet::default()),
        }
    }
}

/// Returns `body` with bare `NaN` and `Infinity` replaced by `null`. Some encoders write them for the ratio of empty
/// blocks. `None`: the body is invalid for another reason.
fn replace_bare_numbers(body: &[u8], error: &Error) -> Option<Vec<u8>> {
    const BARE_TOKENS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    if !matches!(error, Error::NotJson(_) | Error::Status(..)) {
        return None;
    }
    let (mut json, mut rest) = (Vec::with_capacity(body.len()), body);
    let (mut in_string, mut escaped, mut is_changed) = (false, false, false);
    while let Some((&byte, tail)) = rest.split_first() {
        let bare = BARE_TOKENS.iter().find_map(|token| rest.strip_prefix(*token));
        if let (false, Some(tail)) = (in_string, bare) {
            json.extend_from_slice(b"null");
            (rest, is_changed) = (tail, true);
            continue;
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
        json.push(byte);
        rest = tail;
    }
    is_changed.then_some(json)
}

#[cfg(test)]
mod tests;
