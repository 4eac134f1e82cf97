//! Faults of an API, with the expected response of the service.

use serde::Deserialize;

use crate::delegation_service::{CONTRACT, HOT, NO_DELEGATIONS, TRUE, address};
use crate::fixtures::{self, Bytes};
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
    /// A problem of the service: status and code.
    Problem(u16, &'static str),
    /// The API's response: status, `Retry-After`, body.
    Forwarded(u16, &'static str, String),
}

const UNREACHABLE: ExpectedResponse = ExpectedResponse::Problem(502, "upstream_unreachable");
const INVALID: ExpectedResponse = ExpectedResponse::Problem(502, "upstream_invalid");
/// At the API timeout.
pub(super) const LATE: ExpectedResponse = ExpectedResponse::Problem(504, "upstream_timeout");

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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
        let parties = format!("from={vault}&to={HOT}");
        let look_up = match self {
            Self::All => format!("check/all?{parties}"),
            Self::Contract => format!("check/contract?{parties}&contract={CONTRACT}"),
            Self::Amount => format!("check/erc20?{parties}&contract={CONTRACT}"),
            Self::List => vault,
        };
        format!("/registry/v2/{look_up}")
    }

    /// Returns the contract's result, the body that the service makes of it, and the body of a healthy API, which always
    /// differs.
    pub(super) fn replies(self) -> [&'static str; 3] {
        match self {
            Self::All | Self::Contract => [TRUE, "true", "false"],
            Self::Amount => [TRUE, "\"1\"", "55"],
            Self::List => [NO_DELEGATIONS, "[]", "[{\"type\":\"ALL\"}]"],
        }
    }
}

#[derive(Deserialize)]
struct Tables {
    /// Responses that do not complete before the timeout.
    late_responses: Vec<(String, Vec<Step>)>,
    /// Connections that end before the response is complete.
    broken_connections: Vec<(String, Vec<Step>)>,
    invalid_lists: Vec<(String, Vec<Step>)>,
    /// JSON of types that do not fit the look-up.
    wrong_types: Vec<(LookUpKind, Vec<String>)>,
    /// Status, whether the chain can help, and body.
    api_errors: Vec<(String, bool, String)>,
    /// Valid responses: the look-up, the body and its bytes on the wire.
    unusual_responses: Vec<(String, LookUpKind, Bytes, Vec<Step>)>,
}

const JSON: &str = "Content-Type: application/json\r\n";
const HTML: &str = "<html>\r\n<h1>It works!</h1>\r\n</html>";

impl Fault {
    fn new(name: String, kind: LookUpKind, expected: ExpectedResponse, script: Vec<Step>) -> Self {
        Self { name, kind, script, expected, falls_back: true }
    }
}

/// Returns all faults. Late responses come last, because the service pauses requests to an API that responds late.
pub(super) fn faults(redirect_target: &str) -> Vec<Fault> {
    let tables: Tables = fixtures::json("tests/fixtures/upstream-faults/delegation.json");
    let mut faults = Vec::new();
    for (name, script) in tables.broken_connections {
        faults.push(Fault::new(name, LookUpKind::All, UNREACHABLE, script));
    }
    let mut invalid = |name, kind, script| faults.push(Fault::new(name, kind, INVALID, script));
    for status in ["200 OK", "400 Bad Request", "404 Not Found", "500 Oops", "503 Busy"] {
        for (body, content_type) in
            [(HTML, "text/html"), ("", "text/html"), ("", "application/json")]
        {
            let name = format!("{status} with {} bytes of {content_type}", body.len());
            let response = response(status, &format!("Content-Type: {content_type}\r\n"), body);
            invalid(name, LookUpKind::All, respond_with(response));
        }
    }
    for (kind, bodies) in tables.wrong_types {
        for body in bodies {
            let name = format!("{body:?} for {kind:?}");
            invalid(name, kind, respond_with(response("200 OK", JSON, body)));
        }
    }
    for (name, script) in tables.invalid_lists {
        invalid(name, LookUpKind::List, script);
    }
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        for body in ["", "[]", "{}"] {
            let headers = format!("{JSON}Location: {redirect_target}/registry/v2/x\r\n");
            let script = respond_with(response(status, &headers, body));
            invalid(format!("{status} with {body:?}"), LookUpKind::List, script);
        }
    }
    for (status, falls_back, body) in tables.api_errors {
        for (header, retry_after) in
            [("", ""), ("Retry-After: 7\r\n", "7"), ("Retry-After: 301\r\n", "")]
        {
            let code = status[..3].parse().unwrap();
            let name = format!("{status}: {body} {retry_after}");
            let script = respond_with(response(&status, &format!("{JSON}{header}"), &body));
            let expected = ExpectedResponse::Forwarded(code, retry_after, body.clone());
            let fault = Fault::new(name, LookUpKind::All, expected, script);
            faults.push(Fault { falls_back, ..fault });
        }
    }
    for (name, kind, body, script) in tables.unusual_responses {
        let body = String::from_utf8(body.into()).unwrap();
        let expected = ExpectedResponse::Forwarded(200, "", body);
        faults.push(Fault { falls_back: false, ..Fault::new(name, kind, expected, script) });
    }
    for (name, script) in tables.late_responses {
        faults.push(Fault::new(name, LookUpKind::All, LATE, script));
    }
    faults
}
