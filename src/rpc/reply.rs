//! JSON-RPC 2.0 requests and replies as bytes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Error, Excerpt};
use crate::json::present;
use crate::memory::Hold;

/// The HTTP status of a node that is asked too often.
pub(super) const TOO_MANY_REQUESTS: u16 = 429;

/// One call.
#[derive(Debug, Serialize)]
pub(super) struct Request<'a, P: ?Sized> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
}

impl<'a, P: ?Sized> Request<'a, P> {
    pub(super) fn new(id: u64, method: &'a str, params: &'a P) -> Self {
        Self { jsonrpc: "2.0", id, method, params }
    }
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    /// A null is a result.
    #[serde(default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// What a reply says, as it stands in the body.
enum Said<'a> {
    Result(&'a RawValue),
    Error(&'a RawValue),
}

/// A node's error object. Some nodes send a bare string, or a code as a string: then there is no
/// code to go by.
#[derive(Deserialize, Default)]
struct NodeError<'a> {
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
}

/// A node's answer to a read: JSON, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The `result`.
    Result(Bytes),
    /// The node's own `error` object, which has a whole number as its code and a text.
    Error(Bytes),
}

/// The `result` in `body`, which must answer the call `id` and be no null.
///
/// The body decides before the HTTP `status`: nodes send JSON-RPC errors with any status, and
/// results with some that are no success. An error beside a result wins.
///
/// # Errors
///
/// The node's error, or why the body is no answer.
pub fn read_reply(body: &[u8], status: u16, id: u64) -> Result<Box<RawValue>, Error> {
    let read = |body: &[u8]| match said(body, status, id)? {
        Said::Result(result) if result.get() == "null" => Err(Error::InvalidReply("no result")),
        Said::Result(result) => Ok(result.to_owned()),
        Said::Error(error) => Err(NodeError::of(error).classify()),
    };
    let outcome = read(body).or_else(|error| match without_bare_numbers(body, &error) {
        Some(json) => read(&json),
        None => Err(error),
    });
    with_status(status, outcome)
}

/// What `body` answers to the call `id`, nulls and errors about what was asked for included.
///
/// # Errors
///
/// What says more of the node than of the call, such as a rate limit or a missing method, or why
/// the body is no answer.
pub(super) fn read_answer(body: &Bytes, status: u16, id: u64) -> Result<Answer, Error> {
    let read = |body: &Bytes| {
        let part = |json: &RawValue| {
            let json = json.get().as_bytes();
            // A small part does not keep a large reply in memory.
            let is_kept = json.len() > Hold::FREE_BYTES || body.len() <= 2 * Hold::FREE_BYTES;
            if is_kept { body.slice_ref(json) } else { Bytes::copy_from_slice(json) }
        };
        match said(body, status, id)? {
            Said::Result(result) => Ok(Answer::Result(part(result))),
            Said::Error(object) => {
                let error = NodeError::of(object);
                if error.is_about_the_rate() {
                    return Err(Error::RateLimited(None));
                }
                if error.code() == Some(NodeError::METHOD_NOT_FOUND) {
                    return Err(Error::Unsupported);
                }
                if !error.is_well_formed() {
                    return Err(Error::InvalidReply("an error without a code and a message"));
                }
                Ok(Answer::Error(part(object)))
            }
        }
    };
    let outcome = read(body).or_else(|error| match without_bare_numbers(body, &error) {
        // What the reply holds in memory, this does, in about the same size.
        Some(json) => read(&Bytes::from_owner(Rewritten { json, _reply: body.clone() })),
        None => Err(error),
    });
    with_status(status, outcome)
}

/// A reply in other words.
struct Rewritten {
    json: Vec<u8>,
    _reply: Bytes,
}

impl AsRef<[u8]> for Rewritten {
    fn as_ref(&self) -> &[u8] {
        &self.json
    }
}

/// With 429 nothing else needs to be right.
fn with_status<T>(status: u16, outcome: Result<T, Error>) -> Result<T, Error> {
    if status == TOO_MANY_REQUESTS {
        outcome.map_err(|_| Error::RateLimited(None))
    } else {
        outcome
    }
}

fn said(body: &[u8], status: u16, id: u64) -> Result<Said<'_>, Error> {
    let reply: Reply = match serde_json::from_slice(body) {
        // A derived reader would also take an array of the members in order.
        Ok(reply) if body.trim_ascii_start().starts_with(b"{") => reply,
        Ok(_) => return Err(Error::InvalidReply("not a JSON-RPC reply")),
        Err(_) if !(200..300).contains(&status) => {
            return Err(Error::Status(status, Excerpt::default()));
        }
        Err(error) if error.is_data() => return Err(Error::InvalidReply("not a JSON-RPC reply")),
        Err(_) => return Err(Error::NotJson(Excerpt::default())),
    };
    if reply.result.is_none() && reply.error.is_none() && !(200..300).contains(&status) {
        return Err(Error::Status(status, Excerpt::default()));
    }
    let is_ours = reply.id.is_some_and(|given| given.get() == id.to_string());
    if let Some(error) = reply.error {
        // An error may carry a null id: the node could not read the request's.
        if reply.id.is_some() && !is_ours {
            return Err(Error::InvalidReply("the id is another call's"));
        }
        return Ok(Said::Error(error));
    }
    if !is_ours {
        return Err(Error::InvalidReply("the id is another call's"));
    }
    reply.result.map(Said::Result).ok_or(Error::InvalidReply("no result"))
}

impl<'a> NodeError<'a> {
    /// What providers answer over their limits: EIP-1474, three providers' own, and HTTP's.
    const RATE_LIMITED: [i64; 5] = [-32005, -32007, -32016, -32029, 429];
    /// JSON-RPC: no such method; EIP-1474: not supported.
    const UNSUPPORTED: [i64; 2] = [Self::METHOD_NOT_FOUND, -32004];
    const METHOD_NOT_FOUND: i64 = -32601;

    fn of(error: &'a RawValue) -> Self {
        let is_object = error.get().starts_with('{');
        is_object.then(|| serde_json::from_str(error.get()).ok()).flatten().unwrap_or_default()
    }

    fn code(&self) -> Option<i64> {
        self.code.and_then(|code| code.get().parse().ok())
    }

    /// Whether it is an error by the letter of JSON-RPC.
    fn is_well_formed(&self) -> bool {
        self.code().is_some() && self.message.is_some_and(|text| text.get().starts_with('"'))
    }

    /// Whether a code that stands for a rate limit, but with some nodes for too many results or for a
    /// call that takes too long, means the former: a client must not be able to have a node left
    /// alone.
    fn is_about_the_rate(&self) -> bool {
        const WORDS: [&str; 9] = [
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
        let is_limit = self.code().is_some_and(|code| Self::RATE_LIMITED.contains(&code));
        let message = self.message.map(|message| message.get().to_ascii_lowercase());
        is_limit && message.is_some_and(|text| WORDS.iter().any(|word| text.contains(word)))
    }

    fn classify(&self) -> Error {
        let code = self.code();
        let message = self.message.map(|message| message.get().to_ascii_lowercase());
        match code {
            Some(code) if Self::RATE_LIMITED.contains(&code) => Error::RateLimited(None),
            Some(code) if Self::UNSUPPORTED.contains(&code) => Error::Unsupported,
            // What geth and hiero say of a block that is not there yet; it has no code of its own.
            _ if message.is_some_and(|text| text.contains("beyond head")) => Error::BeyondHead,
            code => Error::Node(code),
        }
    }
}

/// A body that is no JSON for this `error` with the bare `NaN` and `Infinity` turned into `null`, which
/// some encoders write for a ratio of empty blocks; `None`: that is not what is wrong with it.
fn without_bare_numbers(body: &[u8], error: &Error) -> Option<Vec<u8>> {
    const BARE: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    if !matches!(error, Error::NotJson(_) | Error::Status(..)) {
        return None;
    }
    let (mut json, mut rest) = (Vec::with_capacity(body.len()), body);
    let (mut in_string, mut escaped, mut is_other) = (false, false, false);
    while let Some((&byte, tail)) = rest.split_first() {
        let bare = BARE.iter().find_map(|token| rest.strip_prefix(*token));
        if let (false, Some(tail)) = (in_string, bare) {
            json.extend_from_slice(b"null");
            (rest, is_other) = (tail, true);
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
    is_other.then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(body: &str) -> Result<String, &'static str> {
        read_reply(body.as_bytes(), 200, 7)
            .map(|result| result.get().to_owned())
            .map_err(|error| error.reason())
    }

    #[test]
    fn takes_the_result_of_its_own_call_only() {
        assert_eq!(
            outcome(r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#),
            Ok(r#"{"a":1}"#.into())
        );
        assert_eq!(outcome(r#"{"id":7,"result":1,"error":null}"#), Ok("1".into()));
        for body in [
            r#"{"id":8,"result":1}"#,
            r#"{"id":"7","result":1}"#,
            r#"{"id":null,"result":1}"#,
            r#"{"result":1}"#,
            r#"{"id":7}"#,
            r#"{"id":7,"result":null}"#,
            r#"{"id":7,"id":7,"result":1}"#,
            r#"[{"id":7,"result":1}]"#,
            "[7,1,null]",
            r#"{"id":8,"error":{"code":-32000}}"#,
        ] {
            assert_eq!(outcome(body), Err("invalid_reply"), "{body}");
        }
    }

    #[test]
    fn an_error_wins_over_a_result_and_may_be_of_any_form() {
        for body in [
            r#"{"id":7,"result":1,"error":{"code":-32000,"message":"x"}}"#,
            r#"{"id":null,"error":{"code":-32000}}"#,
            r#"{"error":"slow down"}"#,
            r#"{"id":7,"error":{"code":"-32000"}}"#,
        ] {
            assert_eq!(outcome(body), Err("node_error"), "{body}");
        }
    }

    #[test]
    fn some_errors_say_what_to_do_next() {
        let of_error = |error: &str| outcome(&format!("{{\"id\":7,\"error\":{error}}}"));
        for code in [-32005, -32007, -32016, -32029, 429] {
            let error = format!("{{\"code\":{code},\"message\":\"limit\"}}");
            assert_eq!(of_error(&error), Err("rate_limited"));
        }
        assert_eq!(of_error(r#"{"code":-32601,"message":"no such method"}"#), Err("unsupported"));
        let beyond = r#"{"code":-32000,"message":"request Beyond head block: 7"}"#;
        assert_eq!(of_error(beyond), Err("beyond_head"));
        assert_eq!(of_error(r#"{"code":-32602,"message":7}"#), Err("node_error"));
        for body in [r#"{"id":7,"error":{"code":1}}"#, r#"{"id":0,"result":1}"#, "{}", "<html>"] {
            let error = read_reply(body.as_bytes(), 429, 7).unwrap_err();
            assert_eq!(error.reason(), "rate_limited", "{body}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_a_reason_to_panic(
            noise: Vec<u8>,
            text in "[\\[\\]{}\",:0-9idresultNaInfinity\\\\ -]{0,80}",
            status: u16,
        ) {
            let wrapped = format!("{{\"id\":7,\"result\":{text}}}");
            for body in [noise.as_slice(), text.as_bytes(), wrapped.as_bytes()] {
                // Whatever is taken for a result is JSON.
                if let Ok(result) = read_reply(body, status, 7) {
                    serde_json::from_str::<serde::de::IgnoredAny>(result.get()).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_read_takes_nulls_and_the_nodes_own_errors_for_answers() {
        let answer =
            |body: &str| match read_answer(&Bytes::copy_from_slice(body.as_bytes()), 200, 7) {
                Ok(Answer::Result(json)) => format!("result {}", String::from_utf8_lossy(&json)),
                Ok(Answer::Error(json)) => format!("error {}", String::from_utf8_lossy(&json)),
                Err(error) => error.reason().to_owned(),
            };
        assert_eq!(answer(r#"{"id":7,"result": null}"#), "result null");
        assert_eq!(answer(r#"{"id":7,"result":[NaN, "NaN"]}"#), r#"result [null, "NaN"]"#);
        let of_error = |error: &str| answer(&format!("{{\"id\":7,\"error\":{error}}}"));
        for error in [
            r#"{ "code":3,"message":"execution reverted","data":"0x" }"#,
            r#"{"code":-32602,"message":""}"#,
            r#"{"code":-32000,"message":"beyond head"}"#,
            r#"{"code":-32005,"message":"query returned more than 10000 results"}"#,
            r#"{"code":-32005,"message":"limit exceeded"}"#,
            r#"{"code":-32016,"message":"eth_call request was canceled due to enabled timeout."}"#,
            r#"{"code":-32005,"message":"generate fewer results in separate requests"}"#,
            r#"{"code":-32004,"message":"not supported"}"#,
        ] {
            assert_eq!(of_error(error), format!("error {error}"));
        }
        for code in NodeError::RATE_LIMITED {
            let error = format!("{{\"code\":{code},\"message\":\"over Rate limit\"}}");
            assert_eq!(of_error(&error), "rate_limited");
        }
        assert_eq!(of_error(r#"{"code":-32601,"message":"no"}"#), "unsupported");
        for error in ["\"no\"", "{}", r#"{"code":"3","message":""}"#, r#"{"code":3,"message":1}"#] {
            assert_eq!(of_error(error), "invalid_reply", "{error}");
        }
        assert_eq!(answer(r#"{"id":7}"#), "invalid_reply");
        assert_eq!(answer(r#"{"id":8,"result":1}"#), "invalid_reply");
    }

    #[test]
    fn the_body_decides_before_the_status() {
        let result = br#"{"id":7,"result":1}"#;
        let reason = |body: &[u8], status| read_reply(body, status, 7).unwrap_err().reason();
        assert!(read_reply(result, 500, 7).is_ok());
        assert_eq!(reason(b"<html>", 502), "http_status");
        assert_eq!(reason(br#"{"message":"no"}"#, 503), "http_status");
        assert_eq!(reason(b"", 429), "rate_limited");
        assert_eq!(reason(b"<html>", 200), "not_json");
        assert_eq!(reason(b"\xff\xfe", 200), "not_json");
        assert_eq!(reason(b"", 200), "not_json");
    }

    #[test]
    fn a_bare_nan_is_a_null_and_one_in_a_string_is_text() {
        assert_eq!(
            outcome(r#"{"id":7,"result":[NaN,-Infinity,"NaN \" Infinity\\",Infinity]}"#),
            Ok(r#"[null,null,"NaN \" Infinity\\",null]"#.into())
        );
        assert_eq!(outcome(r#"{"id":7,"result":[N]}"#), Err("not_json"));
    }
}
