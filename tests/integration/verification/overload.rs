//! More requests than there are places for, and the deadlines of other routes.

use std::time::{Duration, Instant};

use super::{Stage, exchange, get, post, well};
use crate::upstream::{Step, answer};

#[tokio::test]
async fn a_request_more_than_may_be_under_way_is_refused_at_once_and_not_sent() {
    let script = vec![Step::Request, Step::Wait, Step::Say(answer("200 OK", "", "{}"))];
    let stage = Stage::with("max_in_flight = 2", "", script).await;
    let address = stage.service.address();
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            tokio::spawn(async move { exchange(address, &post("/verification", "", b"{}")).await })
        })
        .collect();
    stage.upstream.request(0).await;
    stage.upstream.request(1).await;
    for request in
        [post("/verification", "", &vec![b'x'; 100_000]), get("/verification/chains").into()]
    {
        let asked = Instant::now();
        let answer = stage.ask(request).await;
        assert_eq!(answer.outcome(), (503, "overloaded".into()));
        assert_ne!(answer.header("retry-after"), "");
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    }
    assert_eq!(stage.upstream.connections(), 2);
    assert_eq!(stage.count("overloaded").await, 2);
    // Others need no place there.
    assert_eq!(stage.ask(get("/v1/chains")).await.status(), 200);
    assert_eq!(stage.ask(get("/verification/nothing")).await.status(), 404);
    stage.upstream.open(2);
    for answered in waiting {
        assert_eq!(answered.await.unwrap().0.unwrap().status(), 200);
    }
    stage.upstream.play(well());
    assert_eq!(stage.ask_when_free(get("/verification/chains")).await.status(), 200);
}

#[tokio::test]
async fn a_verification_may_take_longer_than_other_requests() {
    let slowly = answer("200 OK", "Content-Type: application/json\r\n", "{}");
    let script = vec![Step::Request, Step::Drip(Duration::from_millis(10), slowly)];
    let stage = Stage::with("", "request_timeout = \"200ms\"", script).await;
    let asked = Instant::now();
    assert_eq!(stage.ask(post("/verification", "", b"{}")).await.status(), 200);
    assert!(asked.elapsed() > Duration::from_millis(400), "{:?}", asked.elapsed());
    // The others have their deadline still.
    let stalled = "POST /rpc/a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
    let asked = Instant::now();
    let answer = stage.ask(stalled).await;
    assert_eq!(answer.outcome(), (408, "request_timeout".into()));
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
}
