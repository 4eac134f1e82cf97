//! What an API may do to a look-up, and what that comes to.

use std::time::Duration;

use super::{CONTRACT, HOT, NO_DELEGATIONS, TRUE, address};
use crate::message::chunked;
use crate::upstream::{Step, answer, answering};

/// Something that an API does.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) name: String,
    pub(super) question: Question,
    pub(super) script: Vec<Step>,
    /// What comes of it where the API alone answers.
    pub(super) told: Told,
    /// Whether the chain answers in its place where that may.
    pub(super) is_taken_over: bool,
}

/// What a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    Unreachable,
    Invalid,
    /// At the deadline.
    Late,
    /// What the API said: status, `Retry-After`, body.
    Passes(u16, &'static str, String),
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    All,
    Contract,
    Amount,
    List,
}

impl Question {
    /// The path of a look-up unlike those with other numbers.
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

    /// What the contract returns, and what is told of that.
    pub(super) fn of_chain(self) -> (&'static str, &'static str) {
        match self {
            Self::All | Self::Contract => (TRUE, "true"),
            Self::Amount => (TRUE, "\"1\""),
            Self::List => (NO_DELEGATIONS, "[]"),
        }
    }

    /// What an API that is well says, which is never what the chain says.
    pub(super) fn of_api(self) -> &'static str {
        match self {
            Self::All | Self::Contract => "false",
            Self::Amount => "55",
            Self::List => "[{\"type\":\"ALL\"}]",
        }
    }
}

const JSON: &str = "Content-Type: application/json\r\n";
const HTML: &str = "<html>\r\n<h1>It works!</h1>\r\n</html>";

fn fault(name: impl Into<String>, told: Told, script: impl Into<Vec<Step>>) -> Fault {
    let (name, script) = (name.into(), script.into());
    Fault { name, question: Question::All, script, told, is_taken_over: true }
}

fn said(text: impl Into<Vec<u8>>) -> Step {
    Step::Say(text.into())
}

/// No answer, or none before the deadline.
pub(super) fn late() -> Vec<Fault> {
    use Step::{Drip, Endlessly, Request, Wait};
    let slowly = |text: &str| Drip(Duration::from_millis(100), text.as_bytes().to_vec());
    let body = said("HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n");
    let long = [b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n".to_vec(), vec![b' '; 40_000]];
    [
        ("it is silent", vec![Request]),
        ("it does not even read", vec![Wait]),
        ("its head is slow", vec![Request, slowly("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")]),
        ("its body is slow", vec![Request, body.clone(), slowly(&" ".repeat(40))]),
        ("its body stalls", vec![Request, body]),
        ("its long body stalls", vec![Request, said(long.concat())]),
        (
            "its body never ends",
            vec![
                Request,
                said("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
                Endlessly(b"1\r\n \r\n".to_vec()),
            ],
        ),
    ]
    .map(|(name, script)| fault(name, Told::Late, script))
    .into()
}

/// Connections that end too early.
pub(super) fn broken() -> Vec<Fault> {
    use Step::{Close, Request, Reset};
    let long = [b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n".to_vec(), vec![b' '; 40_000]];
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ntrue\r\n";
    [
        ("it closes at once", vec![Close]),
        ("it closes before its answer", vec![Request, Close]),
        ("it resets before its answer", vec![Request, Reset]),
        ("it closes in its status line", vec![Request, said("HTTP/1.1 20"), Close]),
        ("it closes in its headers", vec![Request, said("HTTP/1.1 200 OK\r\nContent-Ty"), Close]),
        (
            "it closes in its body",
            vec![Request, said("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntrue"), Close],
        ),
        (
            "it resets in its body",
            vec![Request, said("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntrue"), Reset],
        ),
        ("it closes in its long body", vec![Request, said(long.concat()), Close]),
        // It might be all of it, but for the last chunk.
        ("it closes before its last chunk", vec![Request, said(chunks), Close]),
        ("it speaks another protocol", vec![Request, said("\x15\x03\x01\x00\x02\x02\x28"), Close]),
    ]
    .map(|(name, script)| fault(name, Told::Unreachable, script))
    .into()
}

/// Answers that no such API gives.
pub(super) fn no_answers(elsewhere: &str) -> Vec<Fault> {
    let says = |name: String, bytes: Vec<u8>| fault(name, Told::Invalid, answering(bytes));
    let mut faults = Vec::new();
    for status in ["200 OK", "400 Bad Request", "404 Not Found", "500 Oops", "503 Busy"] {
        for (body, kind) in [(HTML, "text/html"), ("", "text/html"), ("", "application/json")] {
            let headers = format!("Content-Type: {kind}\r\n");
            let name = format!("{status} with {} bytes of {kind}", body.len());
            faults.push(says(name, answer(status, &headers, body)));
        }
    }
    faults.extend(wrong_types());
    let large = format!("[{}{{}}]", "{}, ".repeat(300_000));
    for (name, bytes) in [
        ("too large", answer("200 OK", JSON, &large)),
        (
            "too large, in chunks",
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
                chunked(large.as_bytes(), 60_000),
            ]
            .concat(),
        ),
        ("an error that is too large", answer("400 Bad Request", JSON, format!("\"{large}\""))),
        ("compressed", answer("200 OK", &format!("{JSON}Content-Encoding: gzip\r\n"), "[]")),
        (
            "compressed twice",
            answer("200 OK", &format!("{JSON}Content-Encoding: br, gzip\r\n"), "[]"),
        ),
        ("nothing", b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        ("nothing new", b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec()),
        (
            "another protocol",
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
                .to_vec(),
        ),
    ] {
        faults.push(Fault { question: Question::List, ..says(name.into(), bytes) });
    }
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        for body in ["", "[]", "{}"] {
            let headers = format!("{JSON}Location: {elsewhere}/registry/v2/x\r\n");
            let name = format!("{status} with {body:?}");
            faults.push(Fault {
                question: Question::List,
                ..says(name, answer(status, &headers, body))
            });
        }
    }
    faults
}

/// JSON that does not answer what was asked.
fn wrong_types() -> Vec<Fault> {
    let mut faults = Vec::new();
    for (question, bodies) in [
        (
            Question::All,
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
        (Question::Contract, &["null", "1", "0", "\"true\"", "\"0\"", "[]", "{}", "-1"][..]),
        (
            Question::Amount,
            &[
                "null", "-1", "-0", "true", "false", "\"\"", "\"-1\"", "\"0x10\"", "\"1.5\"",
                "\"x\"", "[1]", "{}", "01", "+1", ".5", "1 2", "NaN", "Infinity", "\" 1\"",
                "\"1 \"",
            ][..],
        ),
        (
            Question::List,
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
            let name = format!("{body:?} for {question:?}");
            let fault = fault(name, Told::Invalid, answering(answer("200 OK", JSON, body)));
            faults.push(Fault { question, ..fault });
        }
    }
    faults
}

/// Errors of the API itself.
pub(super) fn errors() -> Vec<Fault> {
    let mut faults = Vec::new();
    for (status, is_taken_over, body) in [
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
        for (retry_after, shown) in [("", ""), ("Retry-After: 7\r\n", "7")] {
            let bytes = answer(status, &format!("{JSON}{retry_after}"), body);
            let told = Told::Passes(status[..3].parse().unwrap(), shown, body.into());
            let fault = fault(format!("{status}: {body} {shown}"), told, answering(bytes));
            faults.push(Fault { is_taken_over, ..fault });
        }
    }
    faults
}

/// What is odd, but an answer.
pub(super) fn odd_answers() -> Vec<Fault> {
    let passes = |name: &str, question: Question, body: &str, bytes: Vec<u8>| Fault {
        question,
        is_taken_over: false,
        ..fault(name, Told::Passes(200, "", body.into()), answering(bytes))
    };
    let large = format!("[{}{{}}]", "{}, ".repeat(250_000));
    let chunks = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        chunked(b"[{\"a\":1}]", 1),
    ];
    vec![
        passes(
            "of another type",
            Question::All,
            "true",
            answer("200 OK", "Content-Type: text/html\r\n", "true"),
        ),
        passes("of no type", Question::All, "true", answer("200 OK", "", "true")),
        passes(
            "not compressed",
            Question::All,
            "true",
            answer("200 OK", "Content-Encoding: identity\r\n", "true"),
        ),
        passes("large", Question::List, &large, answer("200 OK", JSON, &large)),
        passes("byte by byte", Question::List, "[{\"a\":1}]", chunks.concat()),
        passes(
            "behind hints",
            Question::Amount,
            "1",
            [
                b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_vec(),
                answer("200 OK", JSON, "1"),
            ]
            .concat(),
        ),
    ]
}
