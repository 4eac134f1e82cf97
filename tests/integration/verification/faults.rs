//! Tests of upstream faults: each request ends, the next one works, and other requests are not affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::fault_list::Expected::{self, Broken, Passes, Unreachable};
use super::fault_list::{Fault, faults};
use super::{ConnectionEnd, Harness, exchange, get, healthy, post};
use crate::http_message::{Message, chunked};
use crate::mock_upstream::{MockUpstream, Step, respond_with, response};
use crate::raw_client::{TIMEOUT, free_port};
use crate::test_server::TestServer;

/// Upstream timeout for faults that last until the timeout.
const UPSTREAM_TIMEOUT: Duration = Duration::from_millis(400);
/// Delay allowed for a busy machine.
const TOLERANCE: Duration = Duration::from_secs(5);

/// Asserts that the client received the expected response of the fault.
fn check(fault: &Fault, message: Option<&Message>, end: ConnectionEnd) {
    let name = &fault.name;
    match &fault.expected {
        Broken | Expected::Cut => {
            assert_ne!(end, ConnectionEnd::Complete, "{name}");
            // The connection may be cut off before any byte of the response.
            assert!(message.is_none_or(|response| response.status() == 200), "{name}");
            return;
        }
        _ => assert_eq!(end, ConnectionEnd::Complete, "{name}: {message:#?}"),
    }
    let response = message.unwrap();
    let (status, code) = response.outcome();
    match &fault.expected {
        Unreachable => assert_eq!((status, code.as_str()), (502, "upstream_unreachable"), "{name}"),
        Expected::Invalid => {
            assert_eq!((status, code.as_str()), (502, "upstream_invalid"), "{name}");
        }
        Expected::Late => assert_eq!((status, code.as_str()), (504, "upstream_timeout"), "{name}"),
        Passes(expected, body) => {
            assert_eq!(
                (status, response.text()),
                (*expected, body.as_str()),
                "{name}: {response:#?}"
            );
            assert!(!response.has_header("location"), "{name}");
        }
        Broken | Expected::Cut => unreachable!("checked above"),
    }
    assert_eq!(response.header("access-control-allow-origin"), "*", "{name}");
}

/// Plays the faults of this group. Those that end at once run with a long upstream timeout.
async fn play(group: &str) {
    let (late, at_once): (Vec<_>, Vec<_>) = faults()
        .remove(group)
        .unwrap()
        .into_iter()
        .partition(|fault| fault.expected.is_at_deadline());
    tokio::join!(play_with(late, UPSTREAM_TIMEOUT), play_with(at_once, TIMEOUT));
}

/// Plays the faults one after the other. The service allows one request in flight, so a leaked permit fails the next.
async fn play_with(faults: Vec<Fault>, timeout: Duration) {
    if faults.is_empty() {
        return;
    }
    let more = format!("timeout = \"{}ms\"\nmax_in_flight = 1", timeout.as_millis());
    let harness = Harness::with_settings(&more, "", healthy()).await;
    let reader = BackgroundReader::start(&harness.service).await;
    for fault in faults {
        for request in
            [get("/verification/health", "").into_bytes(), post("/verification", "", b"{}")]
        {
            let (outcome, cut) = fault.expected.counted();
            let before = (harness.count(outcome).await, harness.count("truncated").await);
            harness.upstream.set_script(fault.script.clone());
            let number = harness.upstream.connection_count();
            let started = Instant::now();
            let (message, end) = exchange(harness.service.address(), &request).await;
            let took = started.elapsed();
            check(&fault, message.as_ref(), end);
            let name = &fault.name;
            if fault.expected.is_at_deadline() {
                assert!(took >= timeout, "{name}: after {took:?}");
                assert!(took < timeout + TOLERANCE, "{name}: after {took:?}");
            } else {
                assert!(took < TOLERANCE, "{name}: after {took:?}");
            }
            // The upstream gets one request: no retry, and its connection is closed.
            if !matches!(fault.script.last(), Some(Step::Close | Step::Reset | Step::Wait)) {
                harness.upstream.wait_for_close(number).await;
            }
            assert_eq!(harness.upstream.connection_count(), number + 1, "{name}");
            harness.upstream.release(1);
            harness.upstream.set_script(healthy());
            let response = harness.request_when_free(get("/verification/health", "")).await;
            assert_eq!((response.status(), response.text()), (200, "{\"result\":[]}"), "{name}");
            let recovered = u64::from(outcome == "ok");
            let after = (harness.count(outcome).await, harness.count("truncated").await);
            assert_eq!(after, (before.0 + 1 + recovered, before.1 + cut), "{name}");
        }
    }
    reader.end().await;
}

/// A client that reads the suggestion continuously.
struct BackgroundReader {
    is_over: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl BackgroundReader {
    async fn start(service: &TestServer) -> Self {
        let path = "/v1/a/gas-suggestion";
        service.wait_for_ok(path).await;
        let (is_over, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (address, over, count) = (service.address(), Arc::clone(&is_over), Arc::clone(&reads));
        let task = tokio::spawn(async move {
            let mut connection = crate::raw_client::RawClient::connect(address).await;
            let mut ticks = tokio::time::interval(Duration::from_millis(10));
            while !over.load(Ordering::Relaxed) {
                let sent_at = Instant::now();
                let response = connection.request(get(path, "")).await;
                assert_eq!(response.status(), 200, "{response:#?}");
                assert!(sent_at.elapsed() < TOLERANCE, "after {:?}", sent_at.elapsed());
                count.fetch_add(1, Ordering::Relaxed);
                ticks.tick().await;
            }
        });
        Self { is_over, reads, task }
    }

    async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        assert!(self.reads.load(Ordering::Relaxed) > 0);
    }
}

#[tokio::test]
async fn missing_response_is_a_502_or_a_504_at_the_deadline() {
    play("missing_responses").await;
}

#[tokio::test]
async fn malformed_response_head_is_a_502() {
    play("bad_heads").await;
}

#[tokio::test]
async fn short_response_is_sent_whole_or_not_at_all() {
    play("short_bodies").await;
}

#[tokio::test]
async fn truncated_long_response_aborts_the_client_connection() {
    play("long_bodies").await;
}

#[tokio::test]
async fn unusual_but_valid_responses_pass_unchanged() {
    play("unusual_responses").await;
}

#[tokio::test]
async fn down_upstream_is_an_immediate_502_and_retried_next_time() {
    let port = free_port();
    let url = format!("url = \"http://127.0.0.1:{port}/server\"");
    // The service uses `url`. The upstream of the harness stays unused.
    let harness = Harness::with_upstream(MockUpstream::start(healthy()).await, "", &url, "").await;
    for request in [get("/verification/health", "").into_bytes(), post("/verification", "", b"{}")]
    {
        let sent_at = Instant::now();
        let response = harness.request(request).await;
        assert_eq!(response.outcome(), (502, "upstream_unreachable".into()));
        assert!(sent_at.elapsed() < TOLERANCE, "{:?}", sent_at.elapsed());
    }
    assert_eq!(harness.count("unreachable").await, 2);
    let up = MockUpstream::start_at(port, healthy()).await;
    assert_eq!(harness.request(get("/verification/health", "")).await.status(), 200);
    drop(up);
    assert_eq!(harness.request(get("/verification/health", "")).await.status(), 502);
}

#[tokio::test]
async fn early_response_is_forwarded() {
    let harness = Harness::start(healthy()).await;
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
}

#[tokio::test]
async fn http_1_0_client_sees_truncation_as_a_reset() {
    let more = format!("timeout = \"{}ms\"", UPSTREAM_TIMEOUT.as_millis());
    let harness = Harness::with_settings(&more, "", healthy()).await;
    let request = "GET /verification/health HTTP/1.0\r\nHost: a\r\n\r\n";
    for fault in faults().remove("long_bodies").unwrap() {
        harness.upstream.set_script(fault.script);
        let (_, end) = exchange(harness.service.address(), request.as_bytes()).await;
        assert_eq!(end, ConnectionEnd::Reset, "{}", fault.name);
    }
    // A complete response ends with a normal close of the connection.
    let body = "x".repeat(100_000);
    let chunks = chunked(body.as_bytes(), 7000);
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    harness.upstream.set_script(respond_with([&head[..], &chunks].concat()));
    let (message, end) = exchange(harness.service.address(), request.as_bytes()).await;
    assert_eq!((message.unwrap().text(), end), (body.as_str(), ConnectionEnd::Closed));
}
