//! JSON-RPC 2.0 requests and replies as bytes.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::Error;

/// HTTP status of a node that limits the rate.
const TOO_MANY_REQUESTS: u16 = 429;

/// Status of a reply, with what its headers say of a retry.
#[derive(Debug, Clone, Copy)]
pub struct HttpStatus {
    /// The status code.
    pub code: u16,
    /// True if there is a `Retry-After`.
    pub asks_to_wait: bool,
}

impl HttpStatus {
    /// Returns true if the status says by itself that the node limits the rate.
    pub(crate) fn is_rate_limit(self) -> bool {
        self.code == TOO_MANY_REQUESTS
    }

    fn is_success(self) -> bool {
        (200..300).contains(&self.code)
    }
}

impl From<u16> for HttpStatus {
    fn from(code: u16) -> Self {
        Self { code, asks_to_wait: false }
    }
}

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

/// Deserialises a member, null included, as `Some`. With `#[serde(default)]`, only an absent member is `None`.
///
/// # Errors
///
/// Those of the deserializer.
pub(crate) fn present<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(input).map(Some)
}

/// Outcome in the body of a reply.
pub(crate) enum ReplyContent<'a> {
    Result(&'a RawValue),
    Error(&'a RawValue),
}

/// A node's error object. Some nodes send a bare string, or the code as a string; then there is no code.
#[derive(Deserialize, Default)]
pub(crate) struct NodeError<'a> {
    #[serde(borrow)]
    pub(crate) code: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
}

/// Parses the `result` of the reply to the call `id` of a poll. It must not be null.
///
/// The body takes precedence over the HTTP `status`: nodes send JSON-RPC errors with any status, and results with error
/// statuses. An error beside a result takes precedence. The text of an error may say that the node limits the rate: no
/// client chooses what polls ask.
///
/// # Errors
///
/// Returns the node's error, or why the body is not a valid reply.
pub fn parse_reply(
    body: &[u8],
    status: impl Into<HttpStatus>,
    id: u64,
) -> Result<Box<RawValue>, Error> {
    let status = status.into();
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
    apply_status(status, outcome).map_err(|error| match error {
        Error::Status(..) | Error::Node(..) if is_limit_by_status(status, body) => {
            Error::RateLimited(None)
        }
        error => error,
    })
}

/// Returns true if a body that is no reply, or its status, says that the node limits the rate.
fn is_limit_by_status(status: HttpStatus, body: &[u8]) -> bool {
    const PAYMENT_REQUIRED: u16 = 402;
    const FORBIDDEN: u16 = 403;
    const UNAVAILABLE: u16 = 503;
    match status.code {
        PAYMENT_REQUIRED | FORBIDDEN => names_rate_limit(&String::from_utf8_lossy(body)),
        UNAVAILABLE => status.asks_to_wait,
        _ => false,
    }
}

/// Returns true if a text says that the node limits the rate.
pub(crate) fn names_rate_limit(text: &str) -> bool {
    const PHRASES: [&str; 12] = [
        "rate limit",
        "rate-limit",
        "ratelimit",
        "too many requests",
        "request limit",
        "request count",
        "per second",
        "capacity",
        "quota",
        "daily limit",
        "monthly limit",
        "credits",
    ];
    let text = text.to_ascii_lowercase();
    PHRASES.iter().any(|phrase| text.contains(phrase))
}

/// A 429 takes precedence over any body.
pub(crate) fn apply_status<T>(status: HttpStatus, outcome: Result<T, Error>) -> Result<T, Error> {
    if status.is_rate_limit() { outcome.map_err(|_| Error::RateLimited(None)) } else { outcome }
}

/// Returns the message of the error in a reply.
pub(crate) fn error_message(body: &[u8]) -> Option<String> {
    let reply: RawReply = serde_json::from_slice(single_reply(body)).ok()?;
    serde_json::from_str(NodeError::parse(reply.error?).message?.get()).ok()
}

/// Returns the only element of an array, as some gateways answer a single call, or else the body itself.
fn single_reply(body: &[u8]) -> &[u8] {
    serde_json::from_slice(body).map_or(body, |[reply]: [&RawValue; 1]| reply.get().as_bytes())
}

/// Finds the result or the error of the call `id` in a reply.
///
/// # Errors
///
/// Returns why the body is not a reply to this call.
pub(crate) fn parse_content(
    body: &[u8],
    status: HttpStatus,
    id: u64,
) -> Result<ReplyContent<'_>, Error> {
    let body = single_reply(body);
    let reply: RawReply = match serde_json::from_slice(body) {
        // A derived deserializer would also accept an array of the members in order.
        Ok(reply) if body.trim_ascii_start().starts_with(b"{") => reply,
        Ok(_) => return Err(Error::InvalidReply("not a JSON-RPC reply")),
        Err(_) if !status.is_success() => {
            return Err(Error::Status(status.code, String::new()));
        }
        Err(error) if error.is_data() => return Err(Error::InvalidReply("not a JSON-RPC reply")),
        Err(_) => return Err(Error::NotJson(String::new())),
    };
    if reply.result.is_none() && reply.error.is_none() && !status.is_success() {
        return Err(Error::Status(status.code, String::new()));
    }
    let has_matching_id = reply.id.is_some_and(|given| is_same_id(given.get(), id));
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

/// Returns true if `given` is the id of the call as a number, also as `1.0`, or as a string, as some nodes write it. Over
/// HTTP/1.1 it cannot belong to another call.
fn is_same_id(given: &str, id: u64) -> bool {
    let text = given.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(given);
    text.strip_suffix(".0").unwrap_or(text) == id.to_string()
}

impl<'a> NodeError<'a> {
    /// Codes of rate limits: EIP-1474, three providers, and HTTP.
    pub(crate) const RATE_LIMIT_CODES: [i64; 5] = [-32005, -32007, -32016, -32029, 429];
    /// JSON-RPC: method not found; EIP-1474: method not supported.
    const UNSUPPORTED_CODES: [i64; 2] = [Self::METHOD_NOT_FOUND, -32004];
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

    pub(crate) fn parse(error: &'a RawValue) -> Self {
        match error.get().as_bytes().first() {
            Some(b'{') => serde_json::from_str(error.get()).unwrap_or_default(),
            Some(b'"') => Self { code: None, message: Some(error) },
            _ => Self::default(),
        }
    }

    pub(crate) fn code(&self) -> Option<i64> {
        self.code?.get().trim_matches('"').parse().ok()
    }

    /// Returns the message in JSON.
    pub(crate) fn message(&self) -> &str {
        self.message.map_or("", RawValue::get)
    }

    fn classify(&self) -> Error {
        match self.code() {
            Some(code) if Self::RATE_LIMIT_CODES.contains(&code) => Error::RateLimited(None),
            _ if names_rate_limit(self.message()) => Error::RateLimited(None),
            Some(code) if Self::UNSUPPORTED_CODES.contains(&code) => Error::Unsupported,
            // geth and Hiero return this message for a block that does not exist yet. It has no code of its own.
            _ if self.message().to_ascii_lowercase().contains("beyond head") => Error::BeyondHead,
            code => Error::Node(code, String::new()),
        }
    }
}

/// Returns `body` with bare `NaN` and `Infinity` replaced by `null`. Some encoders write them for the ratio of empty
/// blocks. `None`: the body is invalid for another reason.
pub(crate) fn replace_bare_numbers(body: &[u8], error: &Error) -> Option<Vec<u8>> {
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
