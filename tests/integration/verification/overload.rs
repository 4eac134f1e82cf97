//! Tests of the concurrency limits and timeouts of the verification routes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

use super::{Harness, get, healthy, post};
use crate::mock_upstream::{Step, response};
use crate::raw_client::TIMEOUT;

#[tokio::test]
async fn request_above_max_in_flight_is_refused_and_not_sent() {
    let script = vec![Step::ReadRequest, Step::Wait, Step::Write(response("200 OK", "", "{}"))];
    let harness = Harness::with_settings("max_in_flight = 2", "", script).await;
    let address = harness.service.address();
    let waiting: Vec<_> =
        ["127.0.0.2", "127.0.0.3"].map(|client| request_from(client, address)).into();
    harness.upstream.request(0).await;
    harness.upstream.request(1).await;
    for request in
        [post("/verification", "", &vec![b'x'; 100_000]), get("/verification/chains", "").into()]
    {
        let sent_at = Instant::now();
        let response = harness.request(request).await;
        assert_eq!(response.outcome(), (503, "overloaded".into()));
        assert_ne!(response.header("retry-after"), "");
        assert!(sent_at.elapsed() < Duration::from_secs(5), "{:?}", sent_at.elapsed());
    }
    assert_eq!(harness.upstream.connection_count(), 2);
    assert_eq!(harness.count("overloaded").await, 2);
    // Other routes are not limited.
    assert_eq!(harness.request(get("/v1/chains", "")).await.status(), 200);
    assert_eq!(harness.request(get("/verification/nothing", "")).await.status(), 404);
    harness.upstream.release(2);
    for answered in waiting {
        assert_eq!(answered.await.unwrap(), 200);
    }
    harness.upstream.set_script(healthy());
    assert_eq!(harness.request_when_free(get("/verification/chains", "")).await.status(), 200);
}

/// Sends a request from this client address and returns its status.
fn request_from(client: &'static str, service: SocketAddr) -> JoinHandle<u16> {
    tokio::spawn(async move {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{client}:0").parse().unwrap()).unwrap();
        let mut stream = socket.connect(service).await.unwrap();
        stream.write_all(&post("/verification", "Connection: close\r\n", b"{}")).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response.split(' ').nth(1).unwrap().parse().unwrap()
    })
}

#[tokio::test]
async fn one_client_gets_a_quarter_of_the_permits() {
    let script = vec![Step::ReadRequest, Step::Wait, Step::Write(response("200 OK", "", "{}"))];
    let harness = Harness::with_settings("max_in_flight = 8", "", script).await;
    let address = harness.service.address();
    let waiting = ["127.0.0.2", "127.0.0.2"].map(|client| request_from(client, address));
    harness.upstream.request(0).await;
    harness.upstream.request(1).await;
    assert_eq!(request_from("127.0.0.2", address).await.unwrap(), 429);
    assert_eq!(harness.count("client_limit").await, 1);
    assert_eq!(harness.upstream.connection_count(), 2);
    let other = request_from("127.0.0.3", address);
    harness.upstream.request(2).await;
    harness.upstream.release(3);
    for answered in waiting.into_iter().chain([other]) {
        assert_eq!(answered.await.unwrap(), 200);
    }
    harness.upstream.set_script(healthy());
    let again = async || request_from("127.0.0.2", address).await.unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while again().await != 200 {
        assert!(Instant::now() < deadline, "the client's permit does not become free");
    }
}

#[tokio::test]
async fn verification_may_outlast_the_request_timeout() {
    let body = response("200 OK", "Content-Type: application/json\r\n", "{}");
    let script = vec![Step::ReadRequest, Step::Drip(10, body)];
    let harness = Harness::with_settings("", "request_timeout = \"200ms\"", script).await;
    let sent_at = Instant::now();
    assert_eq!(harness.request(post("/verification", "", b"{}")).await.status(), 200);
    assert!(sent_at.elapsed() > Duration::from_millis(400), "{:?}", sent_at.elapsed());
    // Other routes keep their timeout.
    let stalled = "POST /rpc/a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
    let sent_at = Instant::now();
    let response = harness.request(stalled).await;
    assert_eq!(response.outcome(), (408, "request_timeout".into()));
    assert!(sent_at.elapsed() < Duration::from_secs(5), "{:?}", sent_at.elapsed());
}
