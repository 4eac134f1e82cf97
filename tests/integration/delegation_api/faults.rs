//! API faults: each look-up ends, the next one works, and the chain serves as the fallback.

use std::time::{Duration, Instant};

use super::fault_list::{ExpectedResponse, Fault, LATE, LookUpKind, faults};
use crate::delegation_service::{Harness, assert_rate_limited, source};
use crate::http_message::Message;
use crate::mock_node::Reply;
use crate::mock_upstream::{MockUpstream, Step, respond_with, response};
use crate::raw_client::free_port;

/// API timeout for faults that exceed it.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Delay that a busy machine may add.
const TOLERANCE: Duration = Duration::from_secs(5);

fn healthy_script(kind: LookUpKind) -> Vec<Step> {
    let [.., from_api] = kind.replies();
    respond_with(response("200 OK", "Content-Type: application/json\r\n", from_api))
}

/// Asserts that `response` is the one expected after `fault`.
fn assert_expected(fault: &Fault, response: &Message) {
    let name = &fault.name;
    let problem = match &fault.expected {
        ExpectedResponse::Problem(status, code) => (*status, (*code).to_owned()),
        ExpectedResponse::Forwarded(status, retry_after, body) => {
            assert_eq!((response.status(), source(response)), (*status, "api"), "{name}");
            assert_eq!(response.text(), body, "{name}");
            assert_eq!(response.header("content-type"), "application/json", "{name}");
            assert_eq!(response.header("retry-after"), *retry_after, "{name}");
            let lifetime = if *status == 200 { "public, max-age=5" } else { "no-store" };
            assert_eq!(response.header("cache-control"), lifetime, "{name}");
            return;
        }
    };
    assert_eq!(response.outcome(), problem, "{name}: {response:#?}");
    for header in ["x-delegation-source", "location"] {
        assert!(!response.has_header(header), "{name}");
    }
}

fn assert_from_chain(fault: &Fault, response: &Message) {
    let [_, expected, _] = fault.kind.replies();
    let found = (response.status(), response.text(), source(response));
    assert_eq!(found, (200, expected, "chain"), "{}: {response:#?}", fault.name);
    assert_eq!(response.header("cache-control"), "no-store", "{}", fault.name);
    assert!(!response.has_header("age") && !response.has_header("retry-after"), "{}", fault.name);
}

fn is_late(fault: &Fault) -> bool {
    fault.expected == LATE
}

/// Plays the faults one after the other. Those that reach the timeout get a new service each, because the service pauses
/// requests to an API that timed out.
async fn play_with_source(sources: &str, faults: &[Fault]) {
    let upstream = MockUpstream::start(Vec::new()).await;
    let timeout = if faults.iter().any(is_late) { TIMEOUT } else { Duration::from_secs(30) };
    // With a single slot, the next look-up fails if a fault leaks the slot.
    let timeout_ms = timeout.as_millis();
    let more =
        format!("timeout = \"{timeout_ms}ms\"\napi_key = \"of-the-service\"\nmax_in_flight = 1");
    let url = upstream.url();
    let start = || Harness::start(&url, sources, &more);
    let mut harness = start().await;
    for (number, fault) in faults.iter().enumerate() {
        let name = &fault.name;
        if is_late(fault) {
            harness = start().await;
        }
        let [result, _, from_api] = fault.kind.replies();
        harness.node.set_read_reply(Reply::RawResult(result.into()));
        upstream.set_script(fault.script.clone());
        let (before, reads) = (upstream.connection_count(), harness.reads());
        let started = Instant::now();
        let response = harness.get(&fault.kind.path(number)).await;
        let took = started.elapsed();
        let is_from_chain = sources == "api-then-chain" && fault.falls_back;
        if is_from_chain {
            assert_from_chain(fault, &response);
            assert!(harness.reads() > reads, "{name}");
        } else {
            assert_expected(fault, &response);
            assert_eq!(harness.reads(), reads, "{name}");
        }
        if is_late(fault) {
            assert!(took >= timeout, "{name}: after {took:?}");
        }
        assert!(took < TIMEOUT + TOLERANCE, "{name}: after {took:?}");
        assert_eq!(upstream.connection_count(), before + 1, "{name}");
        upstream.release(1);
        // The next look-up is not affected, except that the service pauses requests to a silent API.
        upstream.set_script(healthy_script(fault.kind));
        let response = harness.get(&fault.kind.path(number + 1000)).await;
        if is_late(fault) && is_from_chain {
            assert_from_chain(fault, &response);
            assert_eq!(upstream.connection_count(), before + 1, "{name}");
        } else {
            let found = (response.status(), response.text(), source(&response));
            assert_eq!(found, (200, from_api, "api"), "{name}: {response:#?}");
            let request = upstream.request(before + 1).await;
            assert_eq!(request.header("x-api-key"), "of-the-service", "{name}");
        }
    }
}

/// A late API gives a 504. A broken connection or an invalid response gives a 502. Errors of the API are forwarded unless
/// the chain can help, and unusual valid responses always are.
#[tokio::test]
async fn each_api_fault_has_its_response_or_falls_back_to_the_chain() {
    let other = MockUpstream::start(healthy_script(LookUpKind::List)).await;
    let (late, at_once): (Vec<_>, Vec<_>) = faults(&other.url()).into_iter().partition(is_late);
    assert!(late.len() > 3 && at_once.len() > 80, "{} {}", late.len(), at_once.len());
    tokio::join!(
        play_with_source("api", &late),
        play_with_source("api-then-chain", &late),
        play_with_source("api", &at_once),
        play_with_source("api-then-chain", &at_once),
    );
    assert_eq!(other.connection_count(), 0);
}

#[tokio::test]
async fn unreachable_api_gives_502_or_falls_back_and_uses_no_slot() {
    for sources in ["api", "api-then-chain"] {
        let port = free_port();
        let harness = Harness::start(&format!("http://127.0.0.1:{port}"), sources, "").await;
        let down = async |number| {
            let started = Instant::now();
            let response = harness.get(&LookUpKind::All.path(number)).await;
            assert!(started.elapsed() < TOLERANCE, "{:?}", started.elapsed());
            if sources == "api" {
                assert_eq!(response.outcome(), (502, "upstream_unreachable".into()));
            } else {
                assert_eq!((response.text(), source(&response)), ("true", "chain"));
            }
        };
        for number in 0..40 {
            down(number).await;
        }
        if sources == "api" {
            let problem = harness.get(&LookUpKind::All.path(0)).await.problem();
            assert_eq!(problem["detail"], "cannot connect to the delegation API");
        }
        let up = MockUpstream::start_at(port, healthy_script(LookUpKind::All)).await;
        let response = harness.get(&LookUpKind::All.path(40)).await;
        assert_eq!((response.text(), source(&response)), ("false", "api"));
        drop(up);
        // The response is cached.
        let response = harness.get(&LookUpKind::All.path(40)).await;
        assert_eq!((response.text(), source(&response)), ("false", "api"));
        down(41).await;
        if sources == "api" {
            // Requests that fail once they were sent use the other slots.
            let closing = MockUpstream::start_at(port, vec![Step::ReadRequest, Step::Close]).await;
            for number in 42..66 {
                down(number).await;
            }
            assert_rate_limited(&harness.get(&LookUpKind::All.path(66)).await);
            assert_eq!(closing.connection_count(), 24);
        }
    }
}
