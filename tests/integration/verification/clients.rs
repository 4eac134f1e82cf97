//! Clients that stop, go away, send too much or read too little.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{End, Seen, Stage, every_byte, exchange, get, post, post_chunked, well};
use crate::message::{Kind, Message, chunked};
use crate::raw::PATIENCE;
use crate::upstream::{Step, Upstream, answer};

const LENGTH: &str = "Content-Length: 10\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

/// Beginnings of bodies: how each is delimited, what comes of it, and what that says.
const BEGINNINGS: [(&str, &str, &str); 6] = [
    (LENGTH, "", ""),
    (LENGTH, "12345", "12345"),
    (CHUNKED, "", ""),
    (CHUNKED, "5\r\n12345\r\n", "12345"),
    (CHUNKED, "a\r\n12345", "12345"),
    (CHUNKED, "5\r\n12345\r\n0\r\n", "12345"),
];

fn beginning(framing: &str, part: &str) -> String {
    format!("POST /verification/verify HTTP/1.1\r\nHost: a\r\n{framing}\r\n{part}")
}

#[tokio::test]
async fn a_body_that_stalls_is_a_408_and_never_a_whole_request_upstream() {
    let stage = Stage::with("", "body_timeout = \"300ms\"", well()).await;
    for (number, (framing, part, said)) in BEGINNINGS.into_iter().enumerate() {
        let asked = Instant::now();
        let answer = stage.ask(beginning(framing, part)).await;
        assert_eq!(answer.outcome(), (408, "request_timeout".into()), "{part:?}");
        assert!(asked.elapsed() >= Duration::from_millis(300), "{part:?}");
        assert_eq!(answer.header("connection"), "close");
        let seen = stage.upstream.ended(number).await;
        assert!(!seen.is_whole(), "{part:?}");
        assert_eq!(seen.request().text(), said, "{part:?}");
    }
    assert_eq!(stage.count("interrupted").await, 6);
}

#[tokio::test]
async fn a_client_that_makes_a_request_miss_its_deadline_is_told_that_it_was_the_client() {
    let stage = Stage::with("timeout = \"300ms\"", "", well()).await;
    for (number, (framing, part, _)) in BEGINNINGS.into_iter().enumerate() {
        let answer = stage.ask(beginning(framing, part)).await;
        assert_eq!(answer.outcome(), (408, "request_timeout".into()), "{part:?}");
        assert!(!stage.upstream.ended(number).await.is_whole(), "{part:?}");
    }
    assert_eq!(stage.count("timeout").await, 6);
}

#[tokio::test]
async fn an_upstream_that_does_not_take_a_body_makes_it_miss_its_deadline_by_itself() {
    let upstream = Upstream::narrow(vec![Step::Wait]);
    let stage = Stage::before(upstream, "", "timeout = \"400ms\"", "").await;
    let body = vec![b'x'; 25 * 1024 * 1024];
    for request in [
        post("/verification", "", &body),
        post_chunked("/verification", "", &chunked(&body, 64 * 1024)),
    ] {
        let (message, _) = exchange(stage.service.address(), &request).await;
        let outcome = message.expect("an answer").outcome();
        assert_eq!(outcome, (504, "upstream_timeout".into()));
    }
}

#[tokio::test]
async fn a_client_that_goes_away_in_its_body_ends_the_request_upstream() {
    let stage = Stage::start(well()).await;
    for (number, (framing, part, said)) in BEGINNINGS.into_iter().enumerate() {
        for is_reset in [false, true] {
            let number = number * 2 + usize::from(is_reset);
            let mut client = TcpStream::connect(stage.service.address()).await.unwrap();
            client.write_all(beginning(framing, part).as_bytes()).await.unwrap();
            let has_come = |seen: &Seen| {
                Message::of(Kind::Request, &seen.bytes)
                    .is_some_and(|some| some.body == said.as_bytes())
            };
            stage.upstream.until(number, has_come).await;
            if is_reset {
                client.set_zero_linger().unwrap();
            }
            drop(client);
            assert!(!stage.upstream.ended(number).await.is_whole(), "{part:?}");
        }
    }
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_waits_ends_the_request_upstream() {
    let stage = Stage::with("max_in_flight = 1", "", vec![Step::Request]).await;
    for (number, request) in
        [post("/verification", "", b"{}"), get("/verification/health").into_bytes()]
            .iter()
            .enumerate()
    {
        let mut client = TcpStream::connect(stage.service.address()).await.unwrap();
        client.write_all(request).await.unwrap();
        stage.upstream.request(number).await;
        drop(client);
        stage.upstream.ended(number).await;
    }
    stage.upstream.play(well());
    assert_eq!(stage.ask_when_free(get("/verification/health")).await.status(), 200);
    assert_eq!(stage.count("abandoned").await, 2);
}

#[tokio::test]
async fn what_a_client_sends_behind_its_answer_goes_nowhere() {
    // An upstream that has answered and reads on, as if nothing had been said.
    let script = vec![Step::Head, Step::Say(answer("413 Payload Too Large", "", "too much"))];
    let stage = Stage::with("", "body_timeout = \"1h\"\nidle_timeout = \"1h\"", script).await;
    let head = "POST /verification HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    let mut client = TcpStream::connect(stage.service.address()).await.unwrap();
    client.write_all(head.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"too much") {
        assert!(client.read_buf(&mut said).await.unwrap() > 0);
    }
    stage.upstream.ended(0).await;
}

#[tokio::test]
async fn a_client_that_goes_away_in_a_long_answer_ends_the_request_upstream() {
    let endless = vec![
        Step::Request,
        Step::Say(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
        Step::Endlessly(vec![b'x'; 64 * 1024]),
    ];
    let stage = Stage::with("max_in_flight = 1", "", endless).await;
    let mut client = TcpStream::connect(stage.service.address()).await.unwrap();
    client.write_all(get("/verification/health").as_bytes()).await.unwrap();
    client.read_exact(&mut vec![0; 100_000]).await.unwrap();
    drop(client);
    stage.upstream.ended(0).await;
    stage.upstream.play(well());
    assert_eq!(stage.ask_when_free(get("/verification/health")).await.status(), 200);
}

#[tokio::test]
async fn a_client_is_read_only_a_little_ahead_of_an_upstream_that_does_not_read() {
    const BODY: usize = 25 * 1024 * 1024;
    /// What the sockets of both connections and the service hold between them.
    const MOST: usize = 8 * 1024 * 1024;
    for is_chunked in [false, true] {
        let script = vec![Step::Wait, Step::Request, Step::Say(answer("200 OK", "", "{}"))];
        let stage = Stage::before(Upstream::narrow(script), "", "", "").await;
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(64 * 1024).unwrap();
        let mut client = socket.connect(stage.service.address()).await.unwrap();
        let body = every_byte(BODY);
        let request = if is_chunked {
            post_chunked("/verification", "", &chunked(&body, 8000))
        } else {
            post("/verification", "", &body)
        };
        let mut sent = 0;
        // Nothing tells that nothing more will be taken, but that nothing is taken for long.
        while let Ok(written) =
            tokio::time::timeout(Duration::from_millis(700), client.write(&request[sent..])).await
        {
            sent += written.unwrap();
        }
        assert!(sent > 64 * 1024 && sent < MOST, "{sent} bytes");
        stage.upstream.open(1);
        client.write_all(&request[sent..]).await.unwrap();
        assert!(stage.upstream.request(0).await.body == body);
        let mut answer = [0; 15];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }
}

/// A client that sends all that it has before it reads anything, as many do.
async fn send_then_read(
    stage: &Stage,
    request: &[u8],
) -> (std::io::Result<()>, Option<Message>, End) {
    let mut client = TcpStream::connect(stage.service.address()).await.unwrap();
    let sent =
        tokio::time::timeout(PATIENCE, client.write_all(request)).await.expect("it is taken");
    let mut received = Vec::new();
    let read = client.read_to_end(&mut received);
    let read = tokio::time::timeout(PATIENCE, read).await.expect("an end");
    let end = if read.is_ok() { End::Closed } else { End::Reset };
    (sent, Message::of(Kind::Answer, &received), end)
}

#[tokio::test]
async fn a_client_that_sends_all_of_too_large_a_body_gets_to_read_what_is_wrong() {
    let stage = Stage::start(well()).await;
    let body = vec![b'x'; 33 * 1024 * 1024];
    for request in [
        post("/verification", "", &body),
        post_chunked("/verification", "", &chunked(&body, 64 * 1024)),
    ] {
        let (sent, message, end) = send_then_read(&stage, &request).await;
        sent.unwrap();
        assert_eq!(message.unwrap().outcome(), (413, "payload_too_large".into()));
        assert_eq!(end, End::Closed);
    }
}

/// An answer that does not fit into sockets.
const LONG: usize = 20 * 1024 * 1024;

async fn narrow_client(stage: &Stage) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut client = socket.connect(stage.service.address()).await.unwrap();
    client.write_all(get("/verification/files/any/1/0xA").as_bytes()).await.unwrap();
    client
}

#[tokio::test]
async fn a_slow_reader_gets_all_of_a_long_answer() {
    let body = every_byte(LONG);
    let script = vec![Step::Request, Step::Say(answer("200 OK", "", &body))];
    let stage = Stage::start(script).await;
    let mut client = narrow_client(&stage).await;
    // Another's request comes and goes meanwhile.
    stage.upstream.request(0).await;
    assert_eq!(stage.service.get("/livez").await.status, 200);
    let mut received = Vec::new();
    while !Message::ends_in(Kind::Answer, &received) {
        let read = tokio::time::timeout(PATIENCE, client.read_buf(&mut received)).await;
        assert_ne!(read.expect("more").unwrap(), 0, "it closed at {}", received.len());
    }
    assert!(Message::of(Kind::Answer, &received).unwrap().body == body);
}

#[tokio::test]
async fn a_reader_too_slow_for_the_deadline_is_cut_and_keeps_nobody_out() {
    let script = vec![Step::Request, Step::Say(answer("200 OK", "", vec![b'x'; LONG]))];
    let stage = Stage::with("timeout = \"500ms\"\nmax_in_flight = 1", "", script).await;
    let mut client = narrow_client(&stage).await;
    stage.upstream.request(0).await;
    let asked = Instant::now();
    stage.upstream.play(well());
    assert_eq!(stage.ask_when_free(get("/verification/health")).await.status(), 200);
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    stage.upstream.ended(0).await;
    let mut received = Vec::new();
    let end = tokio::time::timeout(PATIENCE, client.read_to_end(&mut received)).await;
    drop(end.expect("an end"));
    assert!(received.len() < LONG, "{}", received.len());
    assert_eq!(stage.count("cut").await, 1);
}
