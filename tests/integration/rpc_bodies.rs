//! The bodies of `POST /rpc/{chain}` byte by byte: where each ends, and that nothing in one or behind
//! one is taken for a request that nobody sent.

use crate::raw::Connection;
use crate::read_node::{ReadNode, Say};
use crate::service::Service;

/// 46 (2e) bytes.
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"net_version"}"#;
const HIDDEN: &str = "GET /v1/chains HTTP/1.1\r\nHost: a\r\nX-Request-Id: smuggled\r\n\r\n";

async fn start() -> (ReadNode, Service) {
    let node = ReadNode::start(Say::Result("\"2020\"".into())).await;
    let text = format!(
        "[chains.ronin]\nchain_id = 2020\nblock_time = \"1h\"\nmax_age = \"1day\"\nrpc_urls = [{:?}]\n",
        node.url()
    );
    let more = "[limits]\nrequests_per_second_per_client = 0\nbody_timeout = \"500ms\"\n";
    let service = Service::with_server(more, &text).await;
    (node, service)
}

fn post(headers: &str, body: &str) -> String {
    format!("POST /rpc/ronin HTTP/1.1\r\nHost: a\r\n{headers}\r\n{body}")
}

fn whole(body: &str) -> String {
    post(&format!("Content-Length: {}\r\n", body.len()), body)
}

#[tokio::test]
async fn calls_on_one_connection_are_answered_in_order() {
    let (_node, service) = start().await;
    let mut connection = Connection::open(service.address()).await;
    let other = CALL.replace("\"id\":1", "\"id\":2");
    let notification = r#"{"jsonrpc":"2.0","method":"net_version"}"#;
    connection
        .send([whole(CALL), whole(notification), HIDDEN.to_owned(), whole(&other)].concat())
        .await;
    let mut next = async || connection.next().await.unwrap().expect("an answer");
    assert_eq!(next().await.body, r#"{"jsonrpc":"2.0","id":1,"result":"2020"}"#);
    assert_eq!(next().await.status, 204);
    assert_eq!(next().await.header("x-request-id"), "smuggled");
    assert_eq!(next().await.body, r#"{"jsonrpc":"2.0","id":2,"result":"2020"}"#);
}

#[tokio::test]
async fn a_body_ends_where_it_says_and_what_is_in_it_is_no_request() {
    let (_node, service) = start().await;
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let last = "0\r\n\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    let both = format!("{chunked}Content-Length: {}\r\n", CALL.len());
    for (name, request, statuses) in [
        ("in chunks", post(chunked, &format!("{}{last}", chunk(CALL))), &[200][..]),
        (
            "in chunks of one byte",
            post(
                chunked,
                &CALL
                    .chars()
                    .map(|one| chunk(&one.to_string()))
                    .chain([last.into()])
                    .collect::<String>(),
            ),
            &[200],
        ),
        (
            "chunks and a request behind them",
            post(chunked, &format!("{}{last}{HIDDEN}", chunk(CALL))),
            &[200],
        ),
        ("a request in a chunk", post(chunked, &format!("{}{last}", chunk(HIDDEN))), &[200]),
        (
            "a chunk extension",
            post(chunked, &format!("{:x};a=b\r\n{CALL}\r\n{last}", CALL.len())),
            &[200],
        ),
        (
            "a chunk size that is no number",
            post(chunked, &format!("zz\r\n{CALL}\r\n{last}{HIDDEN}")),
            &[400],
        ),
        (
            "a chunk size over 64 bits",
            post(chunked, &format!("10000000000000000\r\n{CALL}\r\n{last}{HIDDEN}")),
            &[400],
        ),
        (
            "a chunk that is longer than it says",
            post(chunked, &format!("5\r\n{CALL}\r\n{last}{HIDDEN}")),
            &[400],
        ),
        ("chunks without an end", post(chunked, &chunk(CALL)), &[408]),
        ("a chunk that does not come whole", post(chunked, "ff\r\n{"), &[408]),
        ("less than its length", post("Content-Length: 100\r\n", CALL), &[408]),
        ("a length and chunks", post(&both, &format!("{}{last}{HIDDEN}", chunk(CALL))), &[400]),
        ("a request as a body", format!("{}{}", whole(HIDDEN), whole(CALL)), &[200, 200]),
        ("no length", format!("{}{HIDDEN}", post("", "")), &[200, 200]),
    ] {
        let mut connection = Connection::open(service.address()).await;
        connection.send(request).await;
        for status in statuses {
            let answer = connection.next().await.unwrap().unwrap_or_else(|| panic!("{name}"));
            assert_eq!(answer.status, *status, "{name}: {answer:?}");
            let is_sent = name == "no length";
            let is_hidden = answer.header("x-request-id") == "smuggled";
            assert!(is_sent || !is_hidden, "{name}: {answer:?}");
        }
        if statuses.len() == 1 {
            let more = connection.until_closed().await;
            assert!(more.is_empty(), "{name}: {more:?}");
        } else {
            let closing =
                connection.ask("GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
            assert_eq!(closing.status, 200, "{name}");
        }
    }
}

#[tokio::test]
async fn a_body_is_asked_for_where_the_client_waits_for_that() {
    let (_node, service) = start().await;
    let mut connection = Connection::open(service.address()).await;
    let head = format!("Expect: 100-continue\r\nContent-Length: {}\r\n", CALL.len());
    connection.send(post(&head, "")).await;
    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    assert_eq!(connection.bytes(expected.len()).await, expected);
    connection.send(CALL).await;
    let answer = connection.next().await.unwrap().expect("an answer");
    assert_eq!(answer.body, r#"{"jsonrpc":"2.0","id":1,"result":"2020"}"#);

    // Nobody waits for a body that is too large as announced.
    let mut connection = Connection::open(service.address()).await;
    let answer =
        connection.ask(post("Expect: 100-continue\r\nContent-Length: 300000\r\n", "")).await;
    assert_eq!((answer.outcome(), answer.closes()), ((413, "payload_too_large".into()), true));
}
