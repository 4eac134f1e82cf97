//! Tests of the concurrency limits and timeouts of the verification routes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::{Harness, RawClient, Step, get, healthy, post, response};
use crate::test_server::wait_until;

#[tokio::test]
async fn request_above_max_in_flight_is_refused_and_not_sent() {
    let script = vec![Step::ReadRequest, Step::Wait, Step::Write(response("200 OK", "", "{}"))];
    let harness = Harness::with_settings("max_in_flight = 2", "", script).await;
    let address = harness.service.address();
    let waiting = [2, 3].map(|client| request_from(client, address));
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
    harness.assert_recovers("after the overload").await;
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
async fn one_client_gets_a_quarter_of_the_permits() {
    let script = vec![Step::ReadRequest, Step::Wait, Step::Write(response("200 OK", "", "{}"))];
    let harness = Harness::with_settings("max_in_flight = 8", "", script).await;
    let address = harness.service.address();
    let waiting = [2, 2].map(|client| request_from(client, address));
    harness.upstream.request(0).await;
    harness.upstream.request(1).await;
    assert_eq!(request_from(2, address).await.unwrap(), 429);
    assert_eq!(harness.count("client_limit").await, 1);
    assert_eq!(harness.upstream.connection_count(), 2);
    let other = request_from(3, address);
    harness.upstream.request(2).await;
    harness.upstream.release(3);
    for answered in waiting.into_iter().chain([other]) {
        assert_eq!(answered.await.unwrap(), 200);
    }
    harness.upstream.set_script(healthy());
    let is_served = async || request_from(2, address).await.unwrap() == 200;
    wait_until("the client's permit is free", is_served).await;
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
