//! Tests of clients that stall, disconnect, send too much or read too slowly.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{
    Harness, MockUpstream, RawClient, ReceivedConnection, Step, TIMEOUT, every_byte, exchange, get,
    get_and_post, healthy, post, post_whole_and_chunked, response,
};
use crate::http_message::{Kind, Message};

const LENGTH: &str = "Content-Length: 10\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

/// Incomplete bodies: framing header, bytes sent, and the body bytes that they carry.
const PARTIAL_BODIES: [(&str, &str, &str); 6] = [
    (LENGTH, "", ""),
    (LENGTH, "12345", "12345"),
    (CHUNKED, "", ""),
    (CHUNKED, "5\r\n12345\r\n", "12345"),
    (CHUNKED, "a\r\n12345", "12345"),
    (CHUNKED, "5\r\n12345\r\n0\r\n", "12345"),
];

fn partial_request(framing: &str, part: &str) -> String {
    format!("POST /verification/verify HTTP/1.1\r\nHost: a\r\n{framing}\r\n{part}")
}

#[tokio::test]
async fn stalled_body_is_a_408_and_never_a_whole_upstream_request() {
    // The limit of a client's body ends the request, or the upstream's timeout, of which the client is the cause.
    for (verification, limits, outcome) in [
        ("", "body_timeout = \"300ms\"", "request_aborted"),
        ("timeout = \"300ms\"", "", "timeout"),
    ] {
        join_all(PARTIAL_BODIES.map(async |(framing, part, body)| {
            let harness = Harness::with_settings(verification, limits, healthy()).await;
            let sent_at = Instant::now();
            let response = harness.request(partial_request(framing, part)).await;
            let context = format!("{outcome} {part:?}");
            assert_eq!(response.outcome(), (408, "request_timeout".into()), "{context}");
            assert!(sent_at.elapsed() >= Duration::from_millis(300), "{context}");
            if outcome == "request_aborted" {
                assert_eq!(response.header("connection"), "close", "{context}");
            }
            let seen = harness.upstream.wait_for_close(0).await;
            assert!(!seen.is_complete(), "{context}");
            assert_eq!(seen.request().text(), body, "{context}");
            assert_eq!(harness.count(outcome).await, 1);
        }))
        .await;
    }
}

#[tokio::test]
async fn upstream_that_does_not_read_the_body_is_a_504() {
    let upstream = MockUpstream::with_small_receive_buffer(vec![Step::Wait]);
    let harness = Harness::with_upstream(upstream, "", "timeout = \"1s\"", "").await;
    let body = vec![b'x'; 25 * 1024 * 1024];
    for request in post_whole_and_chunked("/verification", &body, 64 * 1024) {
        let (message, _) = exchange(harness.service.address(), &request).await;
        let outcome = message.expect("a response").outcome();
        assert_eq!(outcome, (504, "upstream_timeout".into()));
    }
}

/// Sends `request` and leaves once the upstream has what `has_arrived` waits for, with a reset or without.
async fn leave(
    harness: &Harness,
    request: &[u8],
    is_reset: bool,
    has_arrived: impl Fn(&ReceivedConnection) -> bool,
) -> ReceivedConnection {
    let number = harness.upstream.connection_count();
    let mut client = TcpStream::connect(harness.service.address()).await.unwrap();
    client.write_all(request).await.unwrap();
    harness.upstream.wait_for_connection(number, has_arrived).await;
    if is_reset {
        client.set_zero_linger().unwrap();
    }
    drop(client);
    harness.upstream.wait_for_close(number).await
}

#[tokio::test]
async fn client_that_disconnects_aborts_the_upstream_request() {
    // In the body.
    let harness = Harness::start(healthy()).await;
    for (framing, part, body) in PARTIAL_BODIES {
        for is_reset in [false, true] {
            let has_arrived = |seen: &ReceivedConnection| {
                Message::parse(Kind::Request, &seen.bytes)
                    .is_some_and(|message| message.body == body.as_bytes())
            };
            let request = partial_request(framing, part);
            let seen = leave(&harness, request.as_bytes(), is_reset, has_arrived).await;
            assert!(!seen.is_complete(), "{part:?}");
        }
    }
    // While it waits.
    let harness = Harness::with_settings("max_in_flight = 1", "", vec![Step::ReadRequest]).await;
    for request in get_and_post("/verification/health", "/verification") {
        leave(&harness, &request, false, ReceivedConnection::is_complete).await;
    }
    harness.assert_recovers("after disconnects").await;
    assert_eq!(harness.count("cancelled").await, 2);
    // In the response.
    let endless = vec![
        Step::ReadRequest,
        Step::Write(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
        Step::WriteForever(vec![b'x'; 64 * 1024]),
    ];
    let harness = Harness::with_settings("max_in_flight = 1", "", endless).await;
    let mut client = RawClient::connect(harness.service.address()).await;
    client.send(get("/verification/health", "")).await;
    client.read_bytes(100_000).await;
    drop(client);
    harness.upstream.wait_for_close(0).await;
    harness.assert_recovers("after the disconnect").await;
}

#[tokio::test]
async fn back_pressure_from_the_upstream_reaches_the_client() {
    const BODY: usize = 25 * 1024 * 1024;
    /// Upper bound of the bytes that the service and the sockets of both connections buffer. The sockets take nearly all
    /// of it: Linux lets them grow to several MiB each.
    const MAX_BUFFERED: usize = 16 * 1024 * 1024;
    let body = every_byte(BODY);
    let request = post("/verification", "", &body);
    let script = vec![Step::Wait, Step::ReadRequest, Step::Write(response("200 OK", "", "{}"))];
    let upstream = MockUpstream::with_small_receive_buffer(script);
    let harness = Harness::with_upstream(upstream, "", "", "").await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(64 * 1024).unwrap();
    let mut client = socket.connect(harness.service.address()).await.unwrap();
    let mut sent = 0;
    // A write that blocks for 300 ms means that all buffers are full.
    while let Ok(written) =
        tokio::time::timeout(Duration::from_millis(300), client.write(&request[sent..])).await
    {
        sent += written.unwrap();
    }
    assert!(sent > 64 * 1024 && sent < MAX_BUFFERED, "{sent} bytes");
    harness.upstream.release(1);
    client.write_all(&request[sent..]).await.unwrap();
    assert!(harness.upstream.request(0).await.body == body);
    let mut response = [0; 15];
    client.read_exact(&mut response).await.unwrap();
    assert_eq!(&response, b"HTTP/1.1 200 OK");
}

#[tokio::test]
async fn client_that_sends_a_too_large_body_can_read_the_413() {
    let harness = Harness::with_settings("max_body = \"1 MiB\"", "", healthy()).await;
    // More than the sockets hold.
    let body = vec![b'x'; 16 * 1024 * 1024];
    for request in post_whole_and_chunked("/verification", &body, 64 * 1024) {
        // Like many clients, it sends the whole request before it reads anything.
        let mut client = RawClient::connect(harness.service.address()).await;
        let sent = tokio::time::timeout(TIMEOUT, client.try_send(&request)).await;
        sent.expect("the service reads the request").unwrap();
        let responses = client.read_until_closed().await;
        let outcomes: Vec<_> = responses.iter().map(Message::outcome).collect();
        assert_eq!(outcomes, [(413, "payload_too_large".into())]);
    }
}

/// Size of a response that does not fit into the socket buffers.
const LONG: usize = 20 * 1024 * 1024;

#[tokio::test]
async fn slow_reader_gets_all_of_a_long_response_and_a_stalled_one_is_cut() {
    let body = every_byte(LONG);
    let script = vec![Step::ReadRequest, Step::Write(response("200 OK", "", &body))];
    for write_timeout in ["10s", "300ms"] {
        let limits = format!("write_timeout = \"{write_timeout}\"");
        let harness = Harness::with_settings("max_in_flight = 1", &limits, script.clone()).await;
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        let mut client = socket.connect(harness.service.address()).await.unwrap();
        client.write_all(get("/verification/files/any/1/0xA", "").as_bytes()).await.unwrap();
        harness.upstream.request(0).await;
        // Other requests are served meanwhile.
        assert_eq!(harness.service.get("/livez").await.status, 200);
        let is_stalled = write_timeout == "300ms";
        if is_stalled {
            harness.assert_recovers("after the cut").await;
            harness.upstream.wait_for_close(0).await;
        }
        let mut received = Vec::new();
        while !Message::is_complete_in(Kind::Response, &received) {
            let read = tokio::time::timeout(TIMEOUT, client.read_buf(&mut received)).await;
            if matches!(read.expect("more, or an end"), Ok(0) | Err(_)) {
                break;
            }
        }
        let is_whole = Message::parse(Kind::Response, &received).is_some_and(|it| it.body == body);
        assert_eq!(is_whole, !is_stalled, "{} bytes", received.len());
        let cut =
            "gas_suggestion_connection_timeouts_total{listener=\"public\",deadline=\"write\"}";
        assert_eq!(harness.service.count(cut).await, u64::from(is_stalled));
    }
}
