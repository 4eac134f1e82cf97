//! Tests of upstream faults: each request ends, and the next one works.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde::Deserialize;

use super::{
    ConnectionEnd, Harness, Message, MockUpstream, RawClient, Step, TIMEOUT, chunked, exchange,
    get, get_and_post, healthy, post, respond_with, response,
};
use crate::fixtures;
use crate::raw_client::free_port;

/// Upstream timeout for faults that last until the timeout.
const UPSTREAM_TIMEOUT: Duration = Duration::from_millis(1500);

/// Misbehaviour of an upstream.
#[derive(Debug, Deserialize)]
pub(super) struct Fault {
    pub(super) name: String,
    expected: Expected,
    pub(super) script: Vec<Step>,
}

/// Expected response to the client.
#[derive(Debug, PartialEq, Eq, Deserialize)]
enum Expected {
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
    Passes(u16, String),
}

impl Expected {
    /// Returns the outcome in the request metric, and the number by which the count of truncated responses grows.
    fn counted(&self) -> (&'static str, u64) {
        match self {
            Self::Unreachable => ("connection_closed", 0),
            Self::Invalid => ("invalid", 0),
            Self::Late => ("timeout", 0),
            Self::Broken | Self::Cut => ("ok", 1),
            Self::Passes(..) => ("ok", 0),
        }
    }

    fn is_at_deadline(&self) -> bool {
        matches!(self, Self::Late | Self::Cut)
    }

    /// Asserts that the client received this response.
    fn check(&self, name: &str, message: Option<&Message>, end: ConnectionEnd) {
        if matches!(self, Self::Broken | Self::Cut) {
            assert_ne!(end, ConnectionEnd::Complete, "{name}");
            // The connection may be cut off before any byte of the response.
            assert!(message.is_none_or(|response| response.status() == 200), "{name}");
            return;
        }
        assert_eq!(end, ConnectionEnd::Complete, "{name}: {message:#?}");
        let response = message.unwrap();
        if let Self::Passes(status, body) = self {
            let found = (response.status(), response.text());
            assert_eq!(found, (*status, body.as_str()), "{name}: {response:#?}");
            assert!(!response.has_header("location"), "{name}");
        } else {
            let problem = match self {
                Self::Late => (504, "upstream_timeout".into()),
                Self::Invalid => (502, "upstream_invalid".into()),
                _ => (502, "upstream_unreachable".into()),
            };
            assert_eq!(response.outcome(), problem, "{name}");
        }
        assert_eq!(response.header("access-control-allow-origin"), "*", "{name}");
    }
}

/// Returns all faults that apply to a GET request, by the name of their group.
pub(super) fn faults() -> BTreeMap<String, Vec<Fault>> {
    fixtures::json("tests/fixtures/upstream-faults/verification.json")
}

/// Plays the faults one after the other.
async fn play(faults: Vec<Fault>, timeout: Duration) {
    // With a single permit, a leaked one fails the next request.
    let more = format!("timeout = \"{}ms\"\nmax_in_flight = 1", timeout.as_millis());
    let harness = Harness::with_settings(&more, "", healthy()).await;
    for fault in faults {
        for request in get_and_post("/verification/health", "/verification") {
            play_fault(&harness, &fault, &request, timeout).await;
        }
    }
}

async fn play_fault(harness: &Harness, fault: &Fault, request: &[u8], timeout: Duration) {
    let Fault { name, expected, script } = fault;
    let (outcome, cut) = expected.counted();
    let before = (harness.count(outcome).await, harness.count("truncated").await);
    harness.upstream.set_script(script.clone());
    let number = harness.upstream.connection_count();
    let started = Instant::now();
    let (message, end) = exchange(harness.service.address(), request).await;
    let took = started.elapsed();
    expected.check(name, message.as_ref(), end);
    // Those that end at once run with a timeout of a minute.
    let is_at_deadline = took >= timeout;
    assert_eq!(is_at_deadline, expected.is_at_deadline(), "{name}: after {took:?}");
    // The upstream gets one request: no retry, and its connection is closed.
    if !matches!(script.last(), Some(Step::Close | Step::Reset | Step::Wait)) {
        harness.upstream.wait_for_close(number).await;
    }
    assert_eq!(harness.upstream.connection_count(), number + 1, "{name}");
    harness.upstream.release(1);
    harness.assert_recovers(name).await;
    let recovered = u64::from(outcome == "ok");
    let after = (harness.count(outcome).await, harness.count("truncated").await);
    assert_eq!(after, (before.0 + 1 + recovered, before.1 + cut), "{name}");
}

#[tokio::test]
async fn each_fault_has_its_response_and_the_next_request_works() {
    let (late, at_once): (Vec<_>, Vec<_>) =
        faults().into_values().flatten().partition(|fault| fault.expected.is_at_deadline());
    let (mut late, mut playing) = (late.into_iter().peekable(), Vec::new());
    while late.peek().is_some() {
        playing.push(play(late.by_ref().take(2).collect(), UPSTREAM_TIMEOUT));
    }
    tokio::join!(join_all(playing), play(at_once, TIMEOUT));
}

#[tokio::test]
async fn down_upstream_is_an_immediate_502_and_retried_next_time() {
    let port = free_port();
    let url = format!("url = \"http://127.0.0.1:{port}/server\"");
    // The service uses `url`. The upstream of the harness stays unused.
    let harness = Harness::with_upstream(MockUpstream::start(healthy()).await, "", &url, "").await;
    for request in get_and_post("/verification/health", "/verification") {
        let response = harness.request(request).await;
        assert_eq!(response.outcome(), (502, "upstream_unreachable".into()));
    }
    assert_eq!(harness.count("unreachable").await, 2);
    let up = MockUpstream::start_at(port, healthy()).await;
    assert_eq!(harness.request(get("/verification/health", "")).await.status(), 200);
    drop(up);
    assert_eq!(harness.request(get("/verification/health", "")).await.status(), 502);
}

#[tokio::test]
async fn early_response_is_forwarded_and_ends_the_upstream_request() {
    let harness = Harness::with_settings("", "body_timeout = \"1h\"", healthy()).await;
    let refusal = response("413 Payload Too Large", "Connection: close\r\n", "too much");
    let body = vec![b'x'; 8 * 1024 * 1024];
    for (name, then) in [("reads on", None), ("closes", Some(Step::Close))] {
        let mut script = vec![Step::ReadHeaders, Step::Write(refusal.clone())];
        script.extend(then);
        harness.upstream.set_script(script);
        for _ in 0..10 {
            let request = post("/verification", "", &body);
            let (message, end) = exchange(harness.service.address(), &request).await;
            assert_eq!(end, ConnectionEnd::Complete, "{name}");
            let response = message.unwrap();
            match response.outcome() {
                (413, code) if code.is_empty() => assert_eq!(response.text(), "too much", "{name}"),
                // Writing to a closed connection resets it, which can discard the response.
                (502, code) if name == "closes" => assert_eq!(code, "upstream_unreachable"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
    // The upstream keeps reading, and the client sends no more.
    harness.upstream.set_script(vec![Step::ReadHeaders, Step::Write(refusal)]);
    let number = harness.upstream.connection_count();
    let head = "POST /verification HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    let mut client = RawClient::connect(harness.service.address()).await;
    client.send(head).await;
    client.read_bytes_until(b"too much", 1).await;
    harness.upstream.wait_for_close(number).await;
}

#[tokio::test]
async fn http_1_0_client_sees_truncation_as_a_reset() {
    let more = format!("timeout = \"{}ms\"", UPSTREAM_TIMEOUT.as_millis());
    let request = "GET /verification/health HTTP/1.0\r\nHost: a\r\n\r\n";
    join_all(faults().remove("long_bodies").unwrap().into_iter().map(async |fault| {
        let harness = Harness::with_settings(&more, "", fault.script).await;
        let (_, end) = exchange(harness.service.address(), request.as_bytes()).await;
        assert_eq!(end, ConnectionEnd::Reset, "{}", fault.name);
    }))
    .await;
    let harness = Harness::start(healthy()).await;
    // A complete response ends with a normal close of the connection.
    let body = "x".repeat(100_000);
    let chunks = chunked(body.as_bytes(), 7000);
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    harness.upstream.set_script(respond_with([&head[..], &chunks].concat()));
    let (message, end) = exchange(harness.service.address(), request.as_bytes()).await;
    assert_eq!((message.unwrap().text(), end), (body.as_str(), ConnectionEnd::Closed));
}
