//! Faults of an API, with the expected response of the service.

use std::time::Duration;

use crate::delegation_service::{CONTRACT, HOT, NO_DELEGATIONS, TRUE, address};
use crate::http_message::chunked;
use crate::mock_upstream::{Step, respond_with, response};

/// A script for the API, and its expected effect.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) name: String,
    pub(super) kind: LookUpKind,
    pub(super) script: Vec<Step>,
    /// Expected response when the API is the only source.
    pub(super) expected: ExpectedResponse,
    /// True if the chain serves the look-up when it is the fallback.
    pub(super) falls_back: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExpectedResponse {
    Unreachable,
    Invalid,
    /// A 504 at the API timeout.
    Timeout,
    /// The API's response: status, `Retry-After`, body.
    Forwarded(u16, &'static str, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookUpKind {
    All,
    Contract,
    Amount,
    List,
}

impl LookUpKind {
    /// Returns the path of a look-up that is unique to `number`.
    pub(super) fn path(self, number: usize) -> String {
        let vault = address(100_000 + number);
        match self {
            Self::All => format!("/registry/v2/check/all?from={vault}&to={HOT}"),
            Self::Contract => {
                format!("/registry/v2/check/contract?from={vault}&to={HOT}&contract={CONTRACT}")
            }
            Self::Amount => {
                format!("/registry/v2/check/erc20?from={vault}&to={HOT}&contract={CONTRACT}")
            }
            Self::List => format!("/registry/v2/{vault}"),
        }
    }

    /// Returns the contract's result and the body that the service makes of it.
    pub(super) fn chain_reply(self) -> (&'static str, &'static str) {
        match self {
            Self::All | Self::Contract => (TRUE, "true"),
            Self::Amount => (TRUE, "\"1\""),
            Self::List => (NO_DELEGATIONS, "[]"),
        }
    }

    /// Returns the body of a healthy API, which always differs from the chain's.
    pub(super) fn api_body(self) -> &'static str {
        match self {
            Self::All | Self::Contract => "false",
            Self::Amount => "55",
            Self::List => "[{\"type\":\"ALL\"}]",
        }
    }
}

const JSON: &str = "Content-Type: application/json\r\n";
const HTML: &str = "<html>\r\n<h1>It works!</h1>\r\n</html>";

fn fault(
    name: impl Into<String>,
    expected: ExpectedResponse,
    script: impl Into<Vec<Step>>,
) -> Fault {
    let (name, script) = (name.into(), script.into());
    Fault { name, kind: LookUpKind::All, script, expected, falls_back: true }
}

fn write_bytes(text: impl Into<Vec<u8>>) -> Step {
    Step::Write(text.into())
}

/// Responses that do not complete before the timeout.
pub(super) fn late_responses() -> Vec<Fault> {
    use Step::{Drip, ReadRequest, Wait, WriteForever};
    let slowly = |text: &str| Drip(Duration::from_millis(100), text.as_bytes().to_vec());
    let body = write_bytes("HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n");
    let long = [b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n".to_vec(), vec![b' '; 40_000]];
    [
        ("no response", vec![ReadRequest]),
        ("request not read", vec![Wait]),
        ("slow headers", vec![ReadRequest, slowly("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")]),
        ("slow body", vec![ReadRequest, body.clone(), slowly(&" ".repeat(40))]),
        ("stalled body", vec![ReadRequest, body]),
        ("stalled long body", vec![ReadRequest, write_bytes(long.concat())]),
        (
            "endless body",
            vec![
                ReadRequest,
                write_bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
                WriteForever(b"1\r\n \r\n".to_vec()),
            ],
        ),
    ]
    .map(|(name, script)| fault(name, ExpectedResponse::Timeout, script))
    .into()
}

/// Connections that end before the response is complete.
pub(super) fn broken_connections() -> Vec<Fault> {
    use Step::{Close, ReadRequest, Reset};
    let long = [b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n".to_vec(), vec![b' '; 40_000]];
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ntrue\r\n";
    [
        ("closed at once", vec![Close]),
        ("closed before the response", vec![ReadRequest, Close]),
        ("reset before the response", vec![ReadRequest, Reset]),
        ("closed in the status line", vec![ReadRequest, write_bytes("HTTP/1.1 20"), Close]),
        (
            "closed in the headers",
            vec![ReadRequest, write_bytes("HTTP/1.1 200 OK\r\nContent-Ty"), Close],
        ),
        (
            "closed in the body",
            vec![
                ReadRequest,
                write_bytes("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntrue"),
                Close,
            ],
        ),
        (
            "reset in the body",
            vec![
                ReadRequest,
                write_bytes("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntrue"),
                Reset,
            ],
        ),
        ("closed in a long body", vec![ReadRequest, write_bytes(long.concat()), Close]),
        // The body is complete except for the last chunk.
        ("closed before the last chunk", vec![ReadRequest, write_bytes(chunks), Close]),
        (
            "TLS alert instead of HTTP",
            vec![ReadRequest, write_bytes("\x15\x03\x01\x00\x02\x02\x28"), Close],
        ),
    ]
    .map(|(name, script)| fault(name, ExpectedResponse::Unreachable, script))
    .into()
}

/// Responses that no delegation API gives.
pub(super) fn invalid_responses(redirect_target: &str) -> Vec<Fault> {
    let invalid =
        |name: String, bytes: Vec<u8>| fault(name, ExpectedResponse::Invalid, respond_with(bytes));
    let mut faults = Vec::new();
    for status in ["200 OK", "400 Bad Request", "404 Not Found", "500 Oops", "503 Busy"] {
        for (body, content_type) in
            [(HTML, "text/html"), ("", "text/html"), ("", "application/json")]
        {
            let headers = format!("Content-Type: {content_type}\r\n");
            let name = format!("{status} with {} bytes of {content_type}", body.len());
            faults.push(invalid(name, response(status, &headers, body)));
        }
    }
    faults.extend(wrong_types());
    let large = format!("[{}{{}}]", "{}, ".repeat(300_000));
    for (name, bytes) in [
        ("too large", response("200 OK", JSON, &large)),
        (
            "too large, in chunks",
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
                chunked(large.as_bytes(), 60_000),
            ]
            .concat(),
        ),
        ("oversized error", response("400 Bad Request", JSON, format!("\"{large}\""))),
        ("compressed", response("200 OK", &format!("{JSON}Content-Encoding: gzip\r\n"), "[]")),
        (
            "compressed twice",
            response("200 OK", &format!("{JSON}Content-Encoding: br, gzip\r\n"), "[]"),
        ),
        ("204", b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        ("304", b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec()),
        (
            "101",
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
                .to_vec(),
        ),
    ] {
        faults.push(Fault { kind: LookUpKind::List, ..invalid(name.into(), bytes) });
    }
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        for body in ["", "[]", "{}"] {
            let headers = format!("{JSON}Location: {redirect_target}/registry/v2/x\r\n");
            let name = format!("{status} with {body:?}");
            faults.push(Fault {
                kind: LookUpKind::List,
                ..invalid(name, response(status, &headers, body))
            });
        }
    }
    faults
}

/// JSON of a type that does not fit the look-up.
fn wrong_types() -> Vec<Fault> {
    let mut faults = Vec::new();
    for (kind, bodies) in [
        (
            LookUpKind::All,
            &[
                "null",
                "0",
                "1",
                "\"true\"",
                "\"false\"",
                "[]",
                "{}",
                "[true]",
                "{\"result\":true}",
                "True",
                "TRUE",
                "truefalse",
                "true true",
                "tru",
                "\u{feff}true",
                "true\0",
            ][..],
        ),
        (LookUpKind::Contract, &["null", "1", "0", "\"true\"", "\"0\"", "[]", "{}", "-1"][..]),
        (
            LookUpKind::Amount,
            &[
                "null", "-1", "-0", "true", "false", "\"\"", "\"-1\"", "\"0x10\"", "\"1.5\"",
                "\"x\"", "[1]", "{}", "01", "+1", ".5", "1 2", "NaN", "Infinity", "\" 1\"",
                "\"1 \"",
            ][..],
        ),
        (
            LookUpKind::List,
            &[
                "null",
                "true",
                "0",
                "\"[]\"",
                "{}",
                "{\"delegations\":[]}",
                "[1]",
                "[null]",
                "[\"x\"]",
                "[[]]",
                "[{},[]]",
                "[{},null]",
                "[{}",
                "[{},]",
                "[{}{}]",
                "[{}]]",
                "{\"error\":\"no\"}",
                "[{\"a\":}]",
            ][..],
        ),
    ] {
        for body in bodies {
            let name = format!("{body:?} for {kind:?}");
            let fault = fault(
                name,
                ExpectedResponse::Invalid,
                respond_with(response("200 OK", JSON, body)),
            );
            faults.push(Fault { kind, ..fault });
        }
    }
    faults
}

/// Errors that the API reports.
pub(super) fn api_errors() -> Vec<Fault> {
    let mut faults = Vec::new();
    for (status, falls_back, body) in [
        ("400 Bad Request", false, "{\"error\":\"Invalid rights\",  \"n\":1.50}\n"),
        ("400 Bad Request", true, "{\"error\":\"Chain 2020 is not supported\"}"),
        ("400 Bad Request", true, "{\"message\":\"unsupported chainId\"}"),
        ("404 Not Found", true, "{\"error\":\"unknown CHAIN\"}"),
        ("422 Unprocessable", false, "[\"a\", \"b\"]"),
        ("401 Unauthorized", false, "{\"error\":\"Invalid API key\"}"),
        ("403 Forbidden", false, "\"no\""),
        ("404 Not Found", false, "{\"error\":\"not found\"}"),
        ("418 I'm a teapot", false, "null"),
        ("500 Oops", true, "{\"error\":\"internal\"}"),
        ("502 Bad Gateway", true, "{\"error\":\"internal\"}"),
        ("503 Busy", true, "{\"error\":\"later\"}"),
        ("504 Late", true, "true"),
    ] {
        for (retry_after, forwarded_retry_after) in [("", ""), ("Retry-After: 7\r\n", "7")] {
            let bytes = response(status, &format!("{JSON}{retry_after}"), body);
            let expected = ExpectedResponse::Forwarded(
                status[..3].parse().unwrap(),
                forwarded_retry_after,
                body.into(),
            );
            let fault = fault(
                format!("{status}: {body} {forwarded_retry_after}"),
                expected,
                respond_with(bytes),
            );
            faults.push(Fault { falls_back, ..fault });
        }
    }
    faults
}

/// Unusual responses that are valid.
pub(super) fn unusual_responses() -> Vec<Fault> {
    let forwarded = |name: &str, kind: LookUpKind, body: &str, bytes: Vec<u8>| Fault {
        kind,
        falls_back: false,
        ..fault(name, ExpectedResponse::Forwarded(200, "", body.into()), respond_with(bytes))
    };
    let large = format!("[{}{{}}]", "{}, ".repeat(250_000));
    let chunks = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        chunked(b"[{\"a\":1}]", 1),
    ];
    vec![
        forwarded(
            "other content type",
            LookUpKind::All,
            "true",
            response("200 OK", "Content-Type: text/html\r\n", "true"),
        ),
        forwarded("no content type", LookUpKind::All, "true", response("200 OK", "", "true")),
        forwarded(
            "identity encoding",
            LookUpKind::All,
            "true",
            response("200 OK", "Content-Encoding: identity\r\n", "true"),
        ),
        forwarded("large", LookUpKind::List, &large, response("200 OK", JSON, &large)),
        forwarded("byte by byte", LookUpKind::List, "[{\"a\":1}]", chunks.concat()),
        forwarded(
            "after early hints",
            LookUpKind::Amount,
            "1",
            [
                b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_vec(),
                response("200 OK", JSON, "1"),
            ]
            .concat(),
        ),
    ]
}
