//! Whatever the upstream does, each request comes to an end, the next one works, and the others
//! notice nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::fault_list::Expected::{self, Broken, Passes, Unreachable};
use super::fault_list::{Fault, answers, bad_heads, long_bodies, no_answer, short_bodies};
use super::{End, Stage, exchange, get, post, well};
use crate::message::{Message, chunked};
use crate::raw::{PATIENCE, free_port};
use crate::service::Service;
use crate::upstream::{Step, Upstream, answer, answering};

/// The upstream's deadline where it is met.
const TIMEOUT: Duration = Duration::from_millis(400);
/// For how long a machine that is busy with other things may hold up anything.
const SLACK: Duration = Duration::from_secs(5);

/// Asserts that a client was told of the fault what it should be.
fn check(fault: &Fault, message: Option<&Message>, end: End) {
    let name = fault.name;
    match fault.expected {
        Broken | Expected::Cut => {
            assert_ne!(end, End::Whole, "{name}");
            // It may have come to nothing before the break.
            assert!(message.is_none_or(|answer| answer.status() == 200), "{name}");
            return;
        }
        _ => assert_eq!(end, End::Whole, "{name}: {message:#?}"),
    }
    let answer = message.unwrap();
    let (status, code) = answer.outcome();
    match fault.expected {
        Unreachable => assert_eq!((status, code.as_str()), (502, "upstream_unreachable"), "{name}"),
        Expected::Invalid => {
            assert_eq!((status, code.as_str()), (502, "upstream_invalid"), "{name}");
        }
        Expected::Late => assert_eq!((status, code.as_str()), (504, "upstream_timeout"), "{name}"),
        Passes(expected, body) => {
            assert_eq!((status, answer.text()), (expected, body), "{name}: {answer:#?}");
            assert!(!answer.has("location"), "{name}");
        }
        Broken | Expected::Cut => unreachable!("it is checked above"),
    }
    assert_eq!(answer.header("access-control-allow-origin"), "*", "{name}");
}

/// Plays every fault: those that are to be met at once where the deadline is far away.
async fn play(faults: Vec<Fault>) {
    let (late, at_once): (Vec<_>, Vec<_>) =
        faults.into_iter().partition(|fault| fault.expected.is_at_the_deadline());
    tokio::join!(play_with(late, TIMEOUT), play_with(at_once, PATIENCE));
}

/// Plays one after the other where there is one place: whoever kept it would be found.
async fn play_with(faults: Vec<Fault>, timeout: Duration) {
    if faults.is_empty() {
        return;
    }
    let more = format!("timeout = \"{}ms\"\nmax_in_flight = 1", timeout.as_millis());
    let stage = Stage::with(&more, "", well()).await;
    let hot = Hot::start(&stage.service).await;
    for fault in faults {
        for request in [get("/verification/health").into_bytes(), post("/verification", "", b"{}")]
        {
            let (outcome, cut) = fault.expected.counted();
            let before = (stage.count(outcome).await, stage.count("cut").await);
            stage.upstream.play(fault.script.clone());
            let number = stage.upstream.connections();
            let started = Instant::now();
            let (message, end) = exchange(stage.service.address(), &request).await;
            let took = started.elapsed();
            check(&fault, message.as_ref(), end);
            let name = fault.name;
            if fault.expected.is_at_the_deadline() {
                assert!(took >= timeout, "{name}: after {took:?}");
                assert!(took < timeout + SLACK, "{name}: after {took:?}");
            } else {
                assert!(took < SLACK, "{name}: after {took:?}");
            }
            // One request, which is not kept open and not sent again.
            if !matches!(fault.script.last(), Some(Step::Close | Step::Reset | Step::Wait)) {
                stage.upstream.ended(number).await;
            }
            assert_eq!(stage.upstream.connections(), number + 1, "{name}");
            stage.upstream.open(1);
            stage.upstream.play(well());
            let answer = stage.ask_when_free(get("/verification/health")).await;
            assert_eq!((answer.status(), answer.text()), (200, "{\"result\":[]}"), "{name}");
            let wells = u64::from(outcome == "answered");
            let after = (stage.count(outcome).await, stage.count("cut").await);
            assert_eq!(after, (before.0 + 1 + wells, before.1 + cut), "{name}");
        }
    }
    hot.end().await;
}

/// Somebody who reads the suggestion all the time.
struct Hot {
    is_over: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Hot {
    async fn start(service: &Service) -> Self {
        let path = "/v1/a/gas-suggestion";
        service.wait_for(path, |answer| answer.status == 200).await;
        let (is_over, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (address, over, count) = (service.address(), Arc::clone(&is_over), Arc::clone(&reads));
        let task = tokio::spawn(async move {
            let mut connection = crate::raw::Connection::open(address).await;
            let mut ticks = tokio::time::interval(Duration::from_millis(10));
            while !over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let answer = connection.ask(get(path)).await;
                assert_eq!(answer.status, 200, "{answer:#?}");
                assert!(asked.elapsed() < SLACK, "after {:?}", asked.elapsed());
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
async fn an_upstream_that_gives_no_answer_is_a_502_or_at_the_deadline_a_504() {
    play(no_answer()).await;
}

#[tokio::test]
async fn what_is_no_answer_is_a_502() {
    play(bad_heads()).await;
}

#[tokio::test]
async fn a_short_answer_is_sent_whole_or_not_at_all() {
    play(short_bodies()).await;
}

#[tokio::test]
async fn a_long_answer_that_breaks_off_breaks_the_connection_off() {
    play(long_bodies()).await;
}

#[tokio::test]
async fn whatever_is_an_answer_passes_as_it_is() {
    play(answers()).await;
}

#[tokio::test]
async fn an_upstream_that_is_down_is_a_502_at_once_and_asked_again_the_next_time() {
    let port = free_port();
    let url = format!("url = \"http://127.0.0.1:{port}/server\"");
    // What is said of another one is of no use here.
    let stage = Stage::before(Upstream::start(well()).await, "", &url, "").await;
    for request in [get("/verification/health").into_bytes(), post("/verification", "", b"{}")] {
        let asked = Instant::now();
        let answer = stage.ask(request).await;
        assert_eq!(answer.outcome(), (502, "upstream_unreachable".into()));
        assert!(asked.elapsed() < SLACK, "{:?}", asked.elapsed());
    }
    assert_eq!(stage.count("unreachable").await, 2);
    let up = Upstream::at(port, well()).await;
    assert_eq!(stage.ask(get("/verification/health")).await.status(), 200);
    drop(up);
    assert_eq!(stage.ask(get("/verification/health")).await.status(), 502);
}

#[tokio::test]
async fn an_answer_that_comes_before_the_end_of_a_body_is_the_answer() {
    let stage = Stage::start(well()).await;
    let refusal = answer("413 Payload Too Large", "Connection: close\r\n", "too much");
    let body = vec![b'x'; 8 * 1024 * 1024];
    for (name, then) in [("reads on", None), ("closes", Some(Step::Close))] {
        let mut script = vec![Step::Head, Step::Say(refusal.clone())];
        script.extend(then);
        stage.upstream.play(script);
        for _ in 0..10 {
            let request = post("/verification", "", &body);
            let (message, end) = exchange(stage.service.address(), &request).await;
            assert_eq!(end, End::Whole, "{name}");
            let answer = message.unwrap();
            match answer.outcome() {
                (413, code) if code.is_empty() => assert_eq!(answer.text(), "too much", "{name}"),
                // What is written to a connection that is closed resets it, with what it had to say.
                (502, code) if name == "closes" => assert_eq!(code, "upstream_unreachable"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_break_is_none_of_the_ends_that_a_client_of_http_1_0_knows() {
    let more = format!("timeout = \"{}ms\"", TIMEOUT.as_millis());
    let stage = Stage::with(&more, "", well()).await;
    let request = "GET /verification/health HTTP/1.0\r\nHost: a\r\n\r\n";
    for fault in long_bodies() {
        stage.upstream.play(fault.script);
        let (_, end) = exchange(stage.service.address(), request.as_bytes()).await;
        assert_eq!(end, End::Reset, "{}", fault.name);
    }
    // Its end is the end of the connection.
    let body = "x".repeat(100_000);
    let chunks = chunked(body.as_bytes(), 7000);
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    stage.upstream.play(answering([&head[..], &chunks].concat()));
    let (message, end) = exchange(stage.service.address(), request.as_bytes()).await;
    assert_eq!((message.unwrap().text(), end), (body.as_str(), End::Closed));
}
