//! More requests than there are places for, and the deadlines of other routes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

use super::{Stage, get, post, well};
use crate::raw::PATIENCE;
use crate::upstream::{Step, answer};

#[tokio::test]
async fn a_request_more_than_may_be_under_way_is_refused_at_once_and_not_sent() {
    let script = vec![Step::Request, Step::Wait, Step::Say(answer("200 OK", "", "{}"))];
    let stage = Stage::with("max_in_flight = 2", "", script).await;
    let address = stage.service.address();
    let waiting: Vec<_> = ["127.0.0.2", "127.0.0.3"].map(|client| ask_from(client, address)).into();
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
        assert_eq!(answered.await.unwrap(), 200);
    }
    stage.upstream.play(well());
    assert_eq!(stage.ask_when_free(get("/verification/chains")).await.status(), 200);
}

/// A request of the client with this address.
fn ask_from(client: &'static str, service: SocketAddr) -> JoinHandle<u16> {
    tokio::spawn(async move {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{client}:0").parse().unwrap()).unwrap();
        let mut stream = socket.connect(service).await.unwrap();
        stream.write_all(&post("/verification", "Connection: close\r\n", b"{}")).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    })
}

#[tokio::test]
async fn one_client_takes_a_quarter_of_the_places_and_leaves_the_others() {
    let script = vec![Step::Request, Step::Wait, Step::Say(answer("200 OK", "", "{}"))];
    let stage = Stage::with("max_in_flight = 8", "", script).await;
    let address = stage.service.address();
    let waiting = ["127.0.0.2", "127.0.0.2"].map(|client| ask_from(client, address));
    stage.upstream.request(0).await;
    stage.upstream.request(1).await;
    assert_eq!(ask_from("127.0.0.2", address).await.unwrap(), 429);
    assert_eq!(stage.count("too_many_of_client").await, 1);
    assert_eq!(stage.upstream.connections(), 2);
    let other = ask_from("127.0.0.3", address);
    stage.upstream.request(2).await;
    stage.upstream.open(3);
    for answered in waiting.into_iter().chain([other]) {
        assert_eq!(answered.await.unwrap(), 200);
    }
    stage.upstream.play(well());
    let again = async || ask_from("127.0.0.2", address).await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    while again().await != 200 {
        assert!(Instant::now() < deadline, "the client gets no place back");
    }
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
