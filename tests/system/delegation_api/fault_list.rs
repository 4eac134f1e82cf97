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
    Unreachable,
    Invalid,
    /// A 504 at the API timeout.
    Timeout,
    /// The API's response: status, `Retry-After`, body.
    Forwarded(u16, &'static str, String),
}

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

#[derive(Deserialize)]
struct Tables {
    late_responses: Vec<(String, Vec<Step>)>,
    broken_connections: Vec<(String, Vec<Step>)>,
    invalid_lists: Vec<(String, Vec<Step>)>,
    /// JSON of types that do not fit the look-up.
    wrong_types: Vec<(LookUpKind, Vec<String>)>,
    /// Status, whether the chain can help, and body.
    api_errors: Vec<(String, bool, String)>,
    /// The look-up, the body and its bytes on the wire.
    unusual_responses: Vec<(String, LookUpKind, Bytes, Vec<Step>)>,
}

fn tables() -> Tables {
    fixtures::json("tests/fixtures/upstream-faults/delegation.json")
}

const JSON: &str = "Content-Type: application/json\r\n";
const HTML: &str = "<html>\r\n<h1>It works!</h1>\r\n</html>";

impl Fault {
    fn new(name: String, expected: ExpectedResponse, script: Vec<Step>) -> Self {
        Self { name, kind: LookUpKind::All, script, expected, falls_back: true }
    }

    fn invalid(name: String, kind: LookUpKind, script: Vec<Step>) -> Self {
        Self { kind, ..Self::new(name, ExpectedResponse::Invalid, script) }
    }
}

/// Returns all faults. Late responses come last, because the service pauses requests to an API that responds late.
pub(super) fn faults(redirect_target: &str) -> Vec<Fault> {
    let faults = [
        broken_connections(),
        invalid_responses(redirect_target),
        api_errors(),
        unusual_responses(),
        late_responses(),
    ];
    faults.concat()
}

/// Responses that do not complete before the timeout.
fn late_responses() -> Vec<Fault> {
    let fault = |(name, script)| Fault::new(name, ExpectedResponse::Timeout, script);
    tables().late_responses.into_iter().map(fault).collect()
}

/// Connections that end before the response is complete.
fn broken_connections() -> Vec<Fault> {
    let fault = |(name, script)| Fault::new(name, ExpectedResponse::Unreachable, script);
    tables().broken_connections.into_iter().map(fault).collect()
}

/// Responses that no delegation API gives.
fn invalid_responses(redirect_target: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for status in ["200 OK", "400 Bad Request", "404 Not Found", "500 Oops", "503 Busy"] {
        for (body, content_type) in
            [(HTML, "text/html"), ("", "text/html"), ("", "application/json")]
        {
            let headers = format!("Content-Type: {content_type}\r\n");
            let name = format!("{status} with {} bytes of {content_type}", body.len());
            let script = respond_with(response(status, &headers, body));
            faults.push(Fault::invalid(name, LookUpKind::All, script));
        }
    }
    for (kind, bodies) in tables().wrong_types {
        for body in bodies {
            let name = format!("{body:?} for {kind:?}");
            faults.push(Fault::invalid(name, kind, respond_with(response("200 OK", JSON, body))));
        }
    }
    for (name, script) in tables().invalid_lists {
        faults.push(Fault::invalid(name, LookUpKind::List, script));
    }
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        for body in ["", "[]", "{}"] {
            let headers = format!("{JSON}Location: {redirect_target}/registry/v2/x\r\n");
            let name = format!("{status} with {body:?}");
            let script = respond_with(response(status, &headers, body));
            faults.push(Fault::invalid(name, LookUpKind::List, script));
        }
    }
    faults
}

/// Errors that the API reports.
fn api_errors() -> Vec<Fault> {
    let mut faults = Vec::new();
    for (status, falls_back, body) in tables().api_errors {
        for (header, retry_after) in [("", ""), ("Retry-After: 7\r\n", "7")] {
            let code = status[..3].parse().unwrap();
            let expected = ExpectedResponse::Forwarded(code, retry_after, body.clone());
            let script = respond_with(response(&status, &format!("{JSON}{header}"), &body));
            let fault = Fault::new(format!("{status}: {body} {retry_after}"), expected, script);
            faults.push(Fault { falls_back, ..fault });
        }
    }
    faults
}

/// Unusual responses that are valid.
fn unusual_responses() -> Vec<Fault> {
    let fault = |(name, kind, body, script): (_, _, Bytes, _)| {
        let body = String::from_utf8(body.into()).unwrap();
        let expected = ExpectedResponse::Forwarded(200, "", body);
        Fault { kind, falls_back: false, ..Fault::new(name, expected, script) }
    };
    tables().unusual_responses.into_iter().map(fault).collect()
}
