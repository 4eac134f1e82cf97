//! Upstream faults and the expected result of each.

use std::time::Duration;

use crate::http_message::chunked;
use crate::mock_upstream::{Step, respond_with, response};
use Expected::{Broken, Passes, Unreachable};

/// Misbehaviour of an upstream.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) script: Vec<Step>,
    pub(super) expected: Expected,
}

/// Expected response to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// 502, long before the upstream timeout.
    Unreachable,
    /// 502, counted as an invalid response.
    Invalid,
    /// 504, at the upstream timeout.
    Late,
    /// A response that is cut off at once.
    Broken,
    /// A response that is cut off at the upstream timeout.
    Cut,
    /// The upstream's status and body.
    Passes(u16, &'static str),
}

impl Expected {
    /// Returns the outcome in the request metric, and the number by which the count of truncated responses grows.
    pub(super) fn counted(self) -> (&'static str, u64) {
        match self {
            Unreachable => ("connection_closed", 0),
            Self::Invalid => ("invalid", 0),
            Self::Late => ("timeout", 0),
            Broken | Self::Cut => ("ok", 1),
            Passes(..) => ("ok", 0),
        }
    }

    pub(super) fn is_at_deadline(self) -> bool {
        matches!(self, Self::Late | Self::Cut)
    }
}

/// Returns all faults that apply to a GET request.
pub(super) fn faults() -> Vec<Fault> {
    [missing_responses(), bad_heads(), short_bodies(), long_bodies(), unusual_responses()].concat()
}

fn fault(name: &'static str, expected: Expected, script: impl Into<Vec<Step>>) -> Fault {
    Fault { name, script: script.into(), expected }
}

fn write(text: impl Into<Vec<u8>>) -> Step {
    Step::Write(text.into())
}

pub(super) fn missing_responses() -> Vec<Fault> {
    use Step::{Close, Drip, ReadRequest, Reset, Wait};
    let slowly = |text: &str| Drip(Duration::from_millis(30), text.as_bytes().to_vec());
    vec![
        fault("it never responds", Expected::Late, [ReadRequest]),
        fault("it does not read", Expected::Late, [Wait]),
        fault(
            "its status line drips",
            Expected::Late,
            [ReadRequest, slowly("HTTP/1.1 200 Okay, in a while")],
        ),
        fault(
            "its headers drip",
            Expected::Late,
            [
                ReadRequest,
                slowly("HTTP/1.1 200 OK\r\nX-A: 1\r\nX-B: 2\r\nContent-Length: 0\r\n\r\n"),
            ],
        ),
        fault(
            "it stalls in its headers",
            Expected::Late,
            [ReadRequest, write("HTTP/1.1 200 OK\r\nX-A: ")],
        ),
        fault("it closes at once", Unreachable, [Close]),
        fault("it closes before its response", Unreachable, [ReadRequest, Close]),
        fault("it resets before its response", Unreachable, [ReadRequest, Reset]),
        fault(
            "it closes in its status line",
            Unreachable,
            [ReadRequest, write("HTTP/1.1 20"), Close],
        ),
        fault(
            "it closes in its headers",
            Unreachable,
            [ReadRequest, write("HTTP/1.1 200 OK\r\nContent-Type: te"), Close],
        ),
        fault(
            "it resets in its headers",
            Unreachable,
            [ReadRequest, write("HTTP/1.1 200 OK\r\nContent-Type: te"), Reset],
        ),
        fault(
            "it sends 100 and nothing else",
            Expected::Late,
            [ReadRequest, write("HTTP/1.1 100 Continue\r\n\r\n")],
        ),
        fault(
            "it sends 100 and closes",
            Unreachable,
            [ReadRequest, write("HTTP/1.1 100 Continue\r\n\r\n"), Close],
        ),
        fault(
            "it sends 103 for ever",
            Expected::Late,
            [
                ReadRequest,
                Step::WriteForever(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_vec()),
            ],
        ),
    ]
}

pub(super) fn bad_heads() -> Vec<Fault> {
    let responds =
        |name, text: &str| fault(name, Unreachable, [Step::ReadRequest, write(text), Step::Close]);
    vec![
        responds("it sends garbage", "\x00\x01garbage\r\n\r\n"),
        responds("it speaks HTTP/0.9", "<html><body>It works!</body></html>"),
        responds("it speaks HTTP/2", "\x00\x00\x12\x04\x00\x00\x00\x00\x00"),
        responds("it speaks TLS", "\x15\x03\x01\x00\x02\x02\x28"),
        responds("it speaks HTTP/3.0", "HTTP/3.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
        responds("its status is not a number", "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n"),
        responds("its header has no name", "HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 0\r\n\r\n"),
        responds("its length is not a number", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
        responds("its length is negative", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        responds(
            "its length is too large",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        ),
        responds(
            "it has two lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        ),
        responds(
            "its chunk size is not a number",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        ),
        responds(
            "it has too many headers",
            &format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(200)),
        ),
        fault(
            "its headers never end",
            Unreachable,
            [
                Step::ReadRequest,
                write("HTTP/1.1 200 OK\r\n"),
                Step::WriteForever(format!("A: {}\r\n", "b".repeat(8000)).into_bytes()),
            ],
        ),
        fault(
            "it switches protocols",
            Expected::Invalid,
            [
                Step::ReadRequest,
                write(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
                ),
            ],
        ),
    ]
}

pub(super) fn short_bodies() -> Vec<Fault> {
    use Step::{Close, Drip, ReadRequest, Reset};
    let length = || write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345");
    let chunks = || write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n");
    let open = || write("HTTP/1.1 200 OK\r\n\r\n12345");
    let slowly = |text: &str| Drip(Duration::from_secs(1), text.as_bytes().to_vec());
    vec![
        fault("it closes before its length", Unreachable, [ReadRequest, length(), Close]),
        fault("it resets before its length", Unreachable, [ReadRequest, length(), Reset]),
        fault("it stalls before its length", Expected::Late, [ReadRequest, length()]),
        fault("it drips its body", Expected::Late, [ReadRequest, length(), slowly("67890")]),
        fault("it closes before its last chunk", Unreachable, [ReadRequest, chunks(), Close]),
        fault(
            "it closes in a chunk",
            Unreachable,
            [ReadRequest, chunks(), write("5\r\n67"), Close],
        ),
        fault("it resets before its last chunk", Unreachable, [ReadRequest, chunks(), Reset]),
        fault("it stalls before its last chunk", Expected::Late, [ReadRequest, chunks()]),
        fault(
            "its second chunk size is not a number",
            Unreachable,
            [ReadRequest, chunks(), write("zz\r\n"), Close],
        ),
        fault("it resets instead of closing", Unreachable, [ReadRequest, open(), Reset]),
        fault("it does not close", Expected::Late, [ReadRequest, open()]),
        fault(
            "it drips a little for ever",
            Expected::Late,
            [ReadRequest, chunks(), Step::WriteForever(b"1\r\nx\r\n".to_vec())],
        ),
    ]
}

pub(super) fn long_bodies() -> Vec<Fault> {
    use Step::{Close, ReadRequest, Reset, WriteForever};
    let part = vec![b'x'; 40 * 1024];
    let text = |head: &str| write([head.as_bytes(), &part].concat());
    let length = || text("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
    let chunks = || text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n");
    let open = || text("HTTP/1.1 200 OK\r\n\r\n");
    vec![
        fault("it closes in a long body", Broken, [ReadRequest, length(), Close]),
        fault("it resets in a long body", Broken, [ReadRequest, length(), Reset]),
        fault("it stalls in a long body", Expected::Cut, [ReadRequest, length()]),
        fault("it closes in a long chunk", Broken, [ReadRequest, chunks(), Close]),
        fault("it resets in a long chunk", Broken, [ReadRequest, chunks(), Reset]),
        fault("it stalls in a long chunk", Expected::Cut, [ReadRequest, chunks()]),
        fault(
            "it resets instead of closing after a long body",
            Broken,
            [ReadRequest, open(), Reset],
        ),
        fault("it does not close after a long body", Expected::Cut, [ReadRequest, open()]),
        fault(
            "its chunked body never ends",
            Expected::Cut,
            [
                ReadRequest,
                write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
                WriteForever(chunked(&part, 5000).strip_suffix(b"0\r\n\r\n").unwrap().to_vec()),
            ],
        ),
        fault(
            "its unframed body never ends",
            Expected::Cut,
            [ReadRequest, write("HTTP/1.1 200 OK\r\n\r\n"), WriteForever(part.clone())],
        ),
        fault(
            "it drips at the end of a long body",
            Expected::Cut,
            [ReadRequest, length(), WriteForever(b"x".to_vec())],
        ),
    ]
}

/// Returns unusual but valid responses.
pub(super) fn unusual_responses() -> Vec<Fault> {
    let html = "<html>\r\n<h1>Bad Gateway</h1>\r\n</html>";
    let json =
        "{\"error\":\"The deployed and recompiled bytecode don't match.\",\"message\":\"x\"}";
    let responds = |name, status: &'static str, body: &'static str| {
        let expected = Passes(status[..3].parse().unwrap(), body);
        fault(name, expected, respond_with(response(status, "Content-Type: text/html\r\n", body)))
    };
    vec![
        responds("it is an HTML page", "200 OK", html),
        responds("it is a gateway's 502", "502 Bad Gateway", html),
        responds("it is a gateway's 504", "504 Gateway Time-out", html),
        responds("the contract does not match", "500 Internal Server Error", json),
        responds("the route is unknown", "404 Not Found", html),
        responds("the contract is unknown", "404 Not Found", "{\"match\":null}"),
        responds("the match is partial", "409 Conflict", json),
        responds("it is busy", "429 Too Many Requests", json),
        responds("it is a redirect", "302 Found", html),
        responds("its status is unregistered", "299 Odd", json),
        responds("its status is 999", "999 Odd", json),
        responds("its body is empty", "400 Bad Request", ""),
        fault(
            "it closes after its response",
            Passes(200, "{}"),
            [Step::ReadRequest, write(response("200 OK", "", "{}")), Step::Close],
        ),
        fault(
            "the end of the connection ends its body",
            Passes(200, "12345"),
            [Step::ReadRequest, write("HTTP/1.0 200 OK\r\n\r\n12345"), Step::Close],
        ),
        fault(
            "it sends more than its length",
            Passes(200, "{}"),
            [Step::ReadRequest, write([response("200 OK", "", "{}"), b"more".to_vec()].concat())],
        ),
        fault(
            "it sends 100 and 103 first",
            Passes(200, "{}"),
            [
                Step::ReadRequest,
                write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"),
                write(response("200 OK", "", "{}")),
            ],
        ),
        fault(
            "its lines end in LF alone",
            Passes(200, "{}"),
            [Step::ReadRequest, write("HTTP/1.1 200 OK\nContent-Length: 2\n\n{}")],
        ),
    ]
}
