//! Tests of the concurrency limits and timeouts of the verification routes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::{Harness, RawClient, Step, get, post, response};
use crate::test_server::wait_until;

#[tokio::test]
async fn a_client_has_a_quarter_of_the_permits_and_all_have_max_in_flight() {
    let script = vec![Step::ReadRequest, Step::Wait, Step::Write(response("200 OK", "", "{}"))];
    let harness = Harness::with_settings("max_in_flight = 8", "", script).await;
    let address = harness.service.address();
    let mut waiting = Vec::new();
    for client in 2..=5 {
        for _ in 0..2 {
            waiting.push(request_from(client, address));
            harness.upstream.request(waiting.len() - 1).await;
        }
        if client == 2 {
            assert_eq!(request_from(client, address).await.unwrap(), 429);
        }
    }
    for request in
        [post("/verification", "", &vec![b'x'; 100_000]), get("/verification/chains", "").into()]
    {
        let response = harness.request(request).await;
        assert_eq!(response.outcome(), (503, "overloaded".into()));
        assert_ne!(response.header("retry-after"), "");
    }
    assert_eq!(harness.upstream.connection_count(), 8);
    assert_eq!((harness.count("overloaded").await, harness.count("client_limit").await), (2, 1));
    // Other routes are not limited.
    assert_eq!(harness.request(get("/v1/chains", "")).await.status(), 200);
    assert_eq!(harness.request(get("/verification/nothing", "")).await.status(), 404);
    harness.upstream.release(8);
    for answered in waiting {
        assert_eq!(answered.await.unwrap(), 200);
    }
    harness.assert_recovers("after the overload").await;
    let is_served = async || request_from(2, address).await.unwrap() == 200;
    wait_until("the client's permit is free", is_served).await;
}

/// Sends a request from the loopback address that ends in `client`, and returns its status.
fn request_from(client: u8, service: SocketAddr) -> JoinHandle<u16> {
    tokio::spawn(async move {
        let source = Ipv4Addr::new(127, 0, 0, client);
        let mut connection = RawClient::connect_from(source, service).await;
        connection.request(post("/verification", "", b"{}")).await.status()
    })
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
