//! Tests of clients that stall, disconnect, send too much or read too slowly.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{
    Harness, MockUpstream, RawClient, ReceivedConnection, Step, TIMEOUT, every_byte, exchange, get,
    get_and_post, healthy, post_whole_and_chunked, response,
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
        ("timeout = \"500ms\"", "", "timeout"),
    ] {
        let harness = Harness::with_settings(verification, limits, healthy()).await;
        for (number, (framing, part, body)) in PARTIAL_BODIES.into_iter().enumerate() {
            let sent_at = Instant::now();
            let response = harness.request(partial_request(framing, part)).await;
            let context = format!("{outcome} {part:?}");
            assert_eq!(response.outcome(), (408, "request_timeout".into()), "{context}");
            assert!(sent_at.elapsed() >= Duration::from_millis(300), "{context}");
            if outcome == "request_aborted" {
                assert_eq!(response.header("connection"), "close", "{context}");
            }
            let seen = harness.upstream.wait_for_close(number).await;
            assert!(!seen.is_complete(), "{context}");
            assert_eq!(seen.request().text(), body, "{context}");
        }
        assert_eq!(harness.count(outcome).await, 6);
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

#[tokio::test]
async fn client_disconnect_in_the_body_aborts_the_upstream_request() {
    let harness = Harness::start(healthy()).await;
    for (number, (framing, part, body)) in PARTIAL_BODIES.into_iter().enumerate() {
        for is_reset in [false, true] {
            let number = number * 2 + usize::from(is_reset);
            let mut client = TcpStream::connect(harness.service.address()).await.unwrap();
            client.write_all(partial_request(framing, part).as_bytes()).await.unwrap();
            let has_arrived = |seen: &ReceivedConnection| {
                Message::parse(Kind::Request, &seen.bytes)
                    .is_some_and(|message| message.body == body.as_bytes())
            };
            harness.upstream.wait_for_connection(number, has_arrived).await;
            if is_reset {
                client.set_zero_linger().unwrap();
            }
            drop(client);
            assert!(!harness.upstream.wait_for_close(number).await.is_complete(), "{part:?}");
        }
    }
}

#[tokio::test]
async fn client_disconnect_while_waiting_aborts_the_upstream_request() {
    let harness = Harness::with_settings("max_in_flight = 1", "", vec![Step::ReadRequest]).await;
    let requests = get_and_post("/verification/health", "/verification");
    for (number, request) in requests.iter().enumerate() {
        let mut client = TcpStream::connect(harness.service.address()).await.unwrap();
        client.write_all(request).await.unwrap();
        harness.upstream.request(number).await;
        drop(client);
        harness.upstream.wait_for_close(number).await;
    }
    harness.assert_recovers("after disconnects").await;
    assert_eq!(harness.count("cancelled").await, 2);
}

#[tokio::test]
async fn early_response_ends_the_upstream_request() {
    // The upstream responds after the request headers and keeps reading.
    let script =
        vec![Step::ReadHeaders, Step::Write(response("413 Payload Too Large", "", "too much"))];
    let harness = Harness::with_settings("", "body_timeout = \"1h\"", script).await;
    let head = "POST /verification HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    let mut client = RawClient::connect(harness.service.address()).await;
    client.send(head).await;
    client.read_bytes_until(b"too much", 1).await;
    harness.upstream.wait_for_close(0).await;
}

#[tokio::test]
async fn client_disconnect_in_a_response_aborts_the_upstream_request() {
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
    for request in post_whole_and_chunked("/verification", &body, 8000) {
        let script = vec![Step::Wait, Step::ReadRequest, Step::Write(response("200 OK", "", "{}"))];
        let upstream = MockUpstream::with_small_receive_buffer(script);
        let harness = Harness::with_upstream(upstream, "", "", "").await;
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(64 * 1024).unwrap();
        let mut client = socket.connect(harness.service.address()).await.unwrap();
        let mut sent = 0;
        // A write that blocks for 700 ms means that all buffers are full.
        while let Ok(written) =
            tokio::time::timeout(Duration::from_millis(700), client.write(&request[sent..])).await
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
}

#[tokio::test]
async fn client_that_sends_a_too_large_body_can_read_the_413() {
    let harness = Harness::start(healthy()).await;
    let body = vec![b'x'; 33 * 1024 * 1024];
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

async fn small_buffer_client(harness: &Harness) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut client = socket.connect(harness.service.address()).await.unwrap();
    client.write_all(get("/verification/files/any/1/0xA", "").as_bytes()).await.unwrap();
    client
}

#[tokio::test]
async fn slow_reader_gets_all_of_a_long_response() {
    let body = every_byte(LONG);
    let script = vec![Step::ReadRequest, Step::Write(response("200 OK", "", &body))];
    let harness = Harness::start(script).await;
    let mut client = small_buffer_client(&harness).await;
    // Other requests are served meanwhile.
    harness.upstream.request(0).await;
    assert_eq!(harness.service.get("/livez").await.status, 200);
    let mut received = Vec::new();
    while !Message::is_complete_in(Kind::Response, &received) {
        let read = tokio::time::timeout(TIMEOUT, client.read_buf(&mut received)).await;
        assert_ne!(read.expect("more").unwrap(), 0, "it closed at {}", received.len());
    }
    assert!(Message::parse(Kind::Response, &received).unwrap().body == body);
}

#[tokio::test]
async fn stalled_reader_is_cut_at_the_write_timeout_and_frees_its_permit() {
    let script = vec![Step::ReadRequest, Step::Write(response("200 OK", "", vec![b'x'; LONG]))];
    let harness =
        Harness::with_settings("max_in_flight = 1", "write_timeout = \"500ms\"", script).await;
    let mut client = small_buffer_client(&harness).await;
    harness.upstream.request(0).await;
    let sent_at = Instant::now();
    harness.assert_recovers("after the cut").await;
    assert!(sent_at.elapsed() < Duration::from_secs(5), "{:?}", sent_at.elapsed());
    harness.upstream.wait_for_close(0).await;
    let mut received = Vec::new();
    let end = tokio::time::timeout(TIMEOUT, client.read_to_end(&mut received)).await;
    drop(end.expect("an end"));
    assert!(received.len() < LONG, "{}", received.len());
    let cut = "gas_suggestion_connection_timeouts_total{listener=\"public\",deadline=\"write\"}";
    assert_eq!(harness.service.count(cut).await, 1);
}
