//! What an upstream may do to a request, and what that comes to.

use std::time::Duration;

use crate::message::chunked;
use crate::upstream::{Step, answer, answering};
use Expected::{Broken, Passes, Unreachable};

/// Something that an upstream does.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) script: Vec<Step>,
    pub(super) expected: Expected,
}

/// What a client is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// 502, long before the deadline.
    Unreachable,
    /// The same, counted as what is no answer.
    Invalid,
    /// 504, at the deadline.
    Late,
    /// The beginning of an answer that breaks off at once.
    Broken,
    /// The same at the deadline.
    Cut,
    /// What the upstream said.
    Passes(u16, &'static str),
}

impl Expected {
    /// What the request is counted as, and whether the answer was cut then.
    pub(super) fn counted(self) -> (&'static str, u64) {
        match self {
            Unreachable => ("broken", 0),
            Self::Invalid => ("invalid", 0),
            Self::Late => ("timeout", 0),
            Broken | Self::Cut => ("answered", 1),
            Passes(..) => ("answered", 0),
        }
    }

    pub(super) fn is_at_the_deadline(self) -> bool {
        matches!(self, Self::Late | Self::Cut)
    }
}

/// Faults that a GET can meet.
pub(super) fn faults() -> Vec<Fault> {
    [no_answer(), bad_heads(), short_bodies(), long_bodies(), answers()].concat()
}

fn fault(name: &'static str, expected: Expected, script: impl Into<Vec<Step>>) -> Fault {
    Fault { name, script: script.into(), expected }
}

fn said(text: impl Into<Vec<u8>>) -> Step {
    Step::Say(text.into())
}

pub(super) fn no_answer() -> Vec<Fault> {
    use Step::{Close, Drip, Request, Reset, Wait};
    let slowly = |text: &str| Drip(Duration::from_millis(30), text.as_bytes().to_vec());
    vec![
        fault("it never answers", Expected::Late, [Request]),
        fault("it does not even read", Expected::Late, [Wait]),
        fault(
            "its status line drips",
            Expected::Late,
            [Request, slowly("HTTP/1.1 200 Okay, in a while")],
        ),
        fault(
            "its headers drip",
            Expected::Late,
            [Request, slowly("HTTP/1.1 200 OK\r\nX-A: 1\r\nX-B: 2\r\nContent-Length: 0\r\n\r\n")],
        ),
        fault(
            "it stalls in its headers",
            Expected::Late,
            [Request, said("HTTP/1.1 200 OK\r\nX-A: ")],
        ),
        fault("it closes at once", Unreachable, [Close]),
        fault("it closes before its answer", Unreachable, [Request, Close]),
        fault("it resets at once", Unreachable, [Reset]),
        fault("it resets before its answer", Unreachable, [Request, Reset]),
        fault("it closes in its status line", Unreachable, [Request, said("HTTP/1.1 20"), Close]),
        fault(
            "it closes in its headers",
            Unreachable,
            [Request, said("HTTP/1.1 200 OK\r\nContent-Type: te"), Close],
        ),
        fault(
            "it resets in its headers",
            Unreachable,
            [Request, said("HTTP/1.1 200 OK\r\nContent-Type: te"), Reset],
        ),
        fault(
            "it says to go on and then nothing",
            Expected::Late,
            [Request, said("HTTP/1.1 100 Continue\r\n\r\n")],
        ),
        fault(
            "it says to go on and closes",
            Unreachable,
            [Request, said("HTTP/1.1 100 Continue\r\n\r\n"), Close],
        ),
        fault(
            "it gives hints for ever",
            Expected::Late,
            [Request, Step::Endlessly(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_vec())],
        ),
    ]
}

pub(super) fn bad_heads() -> Vec<Fault> {
    let says =
        |name, text: &str| fault(name, Unreachable, [Step::Request, said(text), Step::Close]);
    vec![
        says("it says garbage", "\x00\x01garbage\r\n\r\n"),
        says("it speaks HTTP/0.9", "<html><body>It works!</body></html>"),
        says("it speaks HTTP/2", "\x00\x00\x12\x04\x00\x00\x00\x00\x00"),
        says("it speaks TLS", "\x15\x03\x01\x00\x02\x02\x28"),
        says("it speaks HTTP/3.0", "HTTP/3.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
        says("its status is no number", "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n"),
        says("its header has no name", "HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 0\r\n\r\n"),
        says("its length is no number", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
        says("its length is below 0", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        says(
            "its length is too large",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        ),
        says(
            "it has two lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        ),
        says(
            "its size of a chunk is none",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        ),
        says(
            "its headers are too many",
            &format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(200)),
        ),
        fault(
            "its headers never end",
            Unreachable,
            [
                Step::Request,
                said("HTTP/1.1 200 OK\r\n"),
                Step::Endlessly(format!("A: {}\r\n", "b".repeat(8000)).into_bytes()),
            ],
        ),
        fault(
            "it changes to another protocol",
            Expected::Invalid,
            [
                Step::Request,
                said(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
                ),
            ],
        ),
    ]
}

pub(super) fn short_bodies() -> Vec<Fault> {
    use Step::{Close, Drip, Request, Reset};
    let length = || said("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345");
    let chunks = || said("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n");
    let open = || said("HTTP/1.1 200 OK\r\n\r\n12345");
    let slowly = |text: &str| Drip(Duration::from_millis(100), text.as_bytes().to_vec());
    vec![
        fault("it closes before its length", Unreachable, [Request, length(), Close]),
        fault("it resets before its length", Unreachable, [Request, length(), Reset]),
        fault("it stalls before its length", Expected::Late, [Request, length()]),
        fault("it drips its body", Expected::Late, [Request, length(), slowly("67890")]),
        fault("it closes before its last chunk", Unreachable, [Request, chunks(), Close]),
        fault("it closes in a chunk", Unreachable, [Request, chunks(), said("5\r\n67"), Close]),
        fault("it resets before its last chunk", Unreachable, [Request, chunks(), Reset]),
        fault("it stalls before its last chunk", Expected::Late, [Request, chunks()]),
        fault("its second chunk is none", Unreachable, [Request, chunks(), said("zz\r\n"), Close]),
        fault("it resets where it should close", Unreachable, [Request, open(), Reset]),
        fault("it does not close", Expected::Late, [Request, open()]),
        fault(
            "it drips a little for ever",
            Expected::Late,
            [Request, chunks(), Step::Endlessly(b"1\r\nx\r\n".to_vec())],
        ),
    ]
}

pub(super) fn long_bodies() -> Vec<Fault> {
    use Step::{Close, Endlessly, Request, Reset};
    let part = vec![b'x'; 40 * 1024];
    let text = |head: &str| said([head.as_bytes(), &part].concat());
    let length = || text("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
    let chunks = || text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n");
    let open = || text("HTTP/1.1 200 OK\r\n\r\n");
    vec![
        fault("it closes in a long body", Broken, [Request, length(), Close]),
        fault("it resets in a long body", Broken, [Request, length(), Reset]),
        fault("it stalls in a long body", Expected::Cut, [Request, length()]),
        fault("it closes in a long chunk", Broken, [Request, chunks(), Close]),
        fault("it resets in a long chunk", Broken, [Request, chunks(), Reset]),
        fault("it stalls in a long chunk", Expected::Cut, [Request, chunks()]),
        fault("it resets where it should close a long body", Broken, [Request, open(), Reset]),
        fault("it does not close a long body", Expected::Cut, [Request, open()]),
        fault(
            "its answer never ends",
            Expected::Cut,
            [
                Request,
                said("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
                Endlessly(chunked(&part, 5000).strip_suffix(b"0\r\n\r\n").unwrap().to_vec()),
            ],
        ),
        fault(
            "its answer never ends, without chunks",
            Expected::Cut,
            [Request, said("HTTP/1.1 200 OK\r\n\r\n"), Endlessly(part.clone())],
        ),
        fault(
            "it drips at the end of a long body",
            Expected::Cut,
            [Request, length(), Endlessly(b"x".to_vec())],
        ),
    ]
}

/// What is odd, but an answer.
pub(super) fn answers() -> Vec<Fault> {
    let html = "<html>\r\n<h1>Bad Gateway</h1>\r\n</html>";
    let json =
        "{\"error\":\"The deployed and recompiled bytecode don't match.\",\"message\":\"x\"}";
    let says = |name, status: &'static str, body: &'static str| {
        let expected = Passes(status[..3].parse().unwrap(), body);
        fault(name, expected, answering(answer(status, "Content-Type: text/html\r\n", body)))
    };
    vec![
        says("it is a page", "200 OK", html),
        says("it is another's 502", "502 Bad Gateway", html),
        says("it is another's 504", "504 Gateway Time-out", html),
        says("it fails of the contract", "500 Internal Server Error", json),
        says("it knows no such route", "404 Not Found", html),
        says("it knows no such contract", "404 Not Found", "{\"match\":null}"),
        says("it has a partial match", "409 Conflict", json),
        says("it is busy", "429 Too Many Requests", json),
        says("it is a redirect", "302 Found", html),
        says("its status is its own", "299 Odd", json),
        says("its status is beyond all", "999 Odd", json),
        says("it has nothing to say", "400 Bad Request", ""),
        fault(
            "it closes after its answer",
            Passes(200, "{}"),
            [Step::Request, said(answer("200 OK", "", "{}")), Step::Close],
        ),
        fault(
            "it closes where it may",
            Passes(200, "12345"),
            [Step::Request, said("HTTP/1.0 200 OK\r\n\r\n12345"), Step::Close],
        ),
        fault(
            "it answers before it was asked",
            Passes(200, "{}"),
            [said(answer("200 OK", "", "{}"))],
        ),
        fault(
            "it says more than it announced",
            Passes(200, "{}"),
            [Step::Request, said([answer("200 OK", "", "{}"), b"more".to_vec()].concat())],
        ),
        fault(
            "it says to go on first",
            Passes(200, "{}"),
            [
                Step::Request,
                said("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"),
                said(answer("200 OK", "", "{}")),
            ],
        ),
        fault(
            "its lines end in LF alone",
            Passes(200, "{}"),
            [Step::Request, said("HTTP/1.1 200 OK\nContent-Length: 2\n\n{}")],
        ),
    ]
}
